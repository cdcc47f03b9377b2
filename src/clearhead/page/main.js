// The frame: text on top, views below it, one at a time, and the derivation beside them.

import { announce, count, empty, figure, h, num, visible } from "./parts/dom.js";
import { get, isSaved, ServiceError } from "./api.js";
import { address, list, select, state, subscribe } from "./state.js";
import { again, app, ask, toggle, topStack } from "./app.js";
import { derivation } from "./derivation.js";
import { isDark } from "./parts/colour.js";
import { savePage } from "./save_page.js";
import * as text from "./views/text.js";
import * as map from "./views/map.js";
import * as embeddings from "./views/embeddings.js";
import * as attention from "./views/attention.js";
import * as heads from "./views/heads.js";
import * as links from "./views/links.js";
import * as residual from "./views/residual.js";
import * as next from "./views/next.js";
import * as generation from "./views/generation.js";
import * as translation from "./views/translation.js";
import * as classifier from "./views/classifier.js";

const VIEWS = { text, map, embeddings, attention, heads, links, residual, next, generation, translation, classifier };
const ASKS = ["text", "target", "more", "off", "mute"]; // changes that make the model run again
const SIZES = [1, 1.15, 1.3, 1.6];
const find = (id) => document.getElementById(id);
const remember = {
	get: (key) => { try { return localStorage.getItem(key); } catch { return null; } },
	set: (key, value) => { try { localStorage.setItem(key, value); } catch { /* private */ } },
};
const pending = new Set(ASKS); // what has changed since the page was last drawn
let ticket = 0, waiting = null;

function setTheme(theme) {
	document.documentElement.dataset.theme = theme;
	remember.set("theme", theme);
}
function setSize(size) {
	document.documentElement.style.setProperty("--size", size);
	remember.set("size", size);
}

function field(key, label, placeholder, value) {
	const box = h(
		"textarea",
		{
			rows: 2,
			key: `field ${key}`,
			spellcheck: "false",
			placeholder,
			maxlength: app.model.limits.characters,
			disabled: isSaved,
			oninput: () => { clearTimeout(waiting); waiting = setTimeout(() => send(key, box), 350); },
			onkeydown: (event) => {
				if (event.key === "Enter" && !event.shiftKey) {
					event.preventDefault();
					clearTimeout(waiting);
					send(key, box);
				}
			},
		},
	);
	box.value = value ?? "";
	return h("label", {}, label, box);
}
function send(key, box) {
	const isOwn = key === "target" && box.value === "";
	select({
		[key]: isOwn ? null : box.value, more: "", q: "", k: "", step: "",
		...(key === "text" && state().target === null ? { target: null } : {}),
	});
}

const tool = (text, label, title, onclick, id) => h("button", { id, title, "aria-label": label, onclick }, text);

function header() {
	const model = app.model, translates = model.shape === "encoder-decoder";
	const depth = model.stacks.map((stack) => `${stack.blocks} ${stack.name} blocks`).join(", ");
	find("top").replaceChildren(
		h(
			"div", { class: "brand" }, h("h1", {}, "clearhead"),
			h("p", {}, `${visible(model.name)}: ${model.shape}, ${depth}, ${count(model.weights)} weights`),
		),
		h(
			"div", { class: "texts" },
			field("text", translates ? "Source" : "Text", "Type a text", state().text ?? model.example),
			translates ? field("target", "Target", "Empty: the model's own translation", state().target) : null,
		),
		h(
			"div",
			{ class: "tools", role: "group", "aria-label": "Page" },
			tool("A+", "Text size", "Larger text, for a projector", () => {
				setSize(SIZES[(SIZES.indexOf(Number(remember.get("size") || 1)) + 1) % SIZES.length]);
				draw(["size"]);
			}),
			tool("◐", "Light or dark", null, () => { setTheme(isDark() ? "light" : "dark"); draw(["theme"]); }),
			isSaved ? null : tool("Save page", null, "The whole page as one file that opens without a server", () => savePage().catch(fail), "save"),
		),
	);
}

function navigation() {
	find("views").replaceChildren(...Object.entries(VIEWS).map(
		([name, view]) => h(
			"a",
			{
				href: address({ view: name }), "aria-current": state().view === name ? "page" : null, key: `view ${name}`,
				onclick: (event) => {
					if (event.ctrlKey || event.metaKey || event.shiftKey) return;
					event.preventDefault();
					select({ view: name });
				},
			},
			view.title,
		),
	));
}

function whatIf() {
	const off = list("off"), muted = list("mute"), end = app.pass.tokens[topStack()].length - 1;
	if (!off.length && !muted.length) return null;
	const said = (prediction, which) => {
		const best = prediction.reduce((a, b) => (b.p > a.p ? b : a));
		return [h("b", {}, visible(best.text)), " (", figure(best.p, `p:${end}:${best.id}${which}`, num(best.p, 3)), ")"];
	};
	const change = app.base.prediction.length
		? [" The model said ", said(app.base.prediction, ":base"), "; now ", said(app.pass.prediction, ""), "."]
		: [];
	const without = [...off.map((part) => `no ${part}`), ...muted.map((name) => `${name} muted`)];
	const undo = (key, value, label) => h("button", { onclick: () => toggle(key, value) }, label);
	return h(
		"div", { class: "whatif", role: "note" }, h("b", {}, "What if"),
		h("span", {}, "not the original model: ", without.join(", "), ".", change),
		off.map((part) => undo("off", part, `undo no ${part}`)),
		muted.map((name) => undo("mute", name, `unmute ${name}`)),
	);
}

function fail(error) {
	const isOurs = error instanceof ServiceError;
	if (!isOurs) console.error(error);
	find("main").replaceChildren(h(
		"section", { class: "panel error", role: "alert" },
		h("h2", {}, isOurs ? "This cannot be shown" : "The page failed"),
		h("p", {}, isOurs ? error.message : String(error)),
		list("off").length || list("mute").length ? h(
			"p", {}, h("button", { onclick: () => select({ off: "", mute: "" }) }, "Back to the original model"),
		) : null,
	));
	find("side").replaceChildren();
	pending.add("view");
	done();
}
const done = () => {
	find("main").setAttribute("aria-busy", "false");
	document.documentElement.dataset.drawn = String(ticket);
};

// The focus survives a redraw, by the key of its element.
function swap(element, ...nodes) {
	const key = document.activeElement?.closest("[data-key]")?.dataset.key;
	const inside = element.contains(document.activeElement);
	const scrolled = element.scrollTop;
	element.replaceChildren(...nodes.filter(Boolean));
	element.scrollTop = scrolled;
	if (inside && key) [
		...element.querySelectorAll("[data-key]"),
	].find((one) => one.dataset.key === key)?.focus({ preventScroll: true });
}

// The derivation beside the view; a view that fills the page makes room for it.
function beside(view, side) {
	find("desk").classList.toggle("alone", Boolean(view.alone && !side));
	const hint = "Click any number, or a field of a matrix, to see where it comes from, down to the terms of its dot product.";
	swap(find("side"), side || h("section", { class: "panel" }, empty(hint)));
	for (const one of document.querySelectorAll("main .n")) one.toggleAttribute("data-on", one.dataset.key === state().cell);
}

async function draw(changed) {
	const mine = ++ticket, main = find("main");
	changed.forEach((key) => pending.add(key));
	main.setAttribute("aria-busy", "true");
	navigation();
	try {
		const asked = ASKS.some((key) => pending.has(key)) ? await ask() : {};
		if (mine !== ticket) return;
		Object.assign(app, asked);
		const view = Object.hasOwn(VIEWS, state().view) ? VIEWS[state().view] : attention, isSame = pending.size === 1 && pending.has("cell");
		const [body, side] = await again(() => Promise.all([isSame ? null : view.draw(), derivation()]));
		if (mine !== ticket) return;
		if (!isSame) swap(main, whatIf(), ...[body].flat(Infinity));
		beside(view, side);
		if (side && pending.has("cell")) announce(`Derivation: ${find("side").querySelector("h2").textContent}`);
		if (pending.has("view")) announce(`View: ${view.title}`);
		pending.clear();
		document.title = `${view.title} · ${app.model.name} · clearhead`;
		done();
	} catch (error) {
		if (mine === ticket) fail(error);
	}
}

async function start() {
	setTheme(remember.get("theme") || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
	setSize(remember.get("size") || 1);
	try {
		app.model = await get("api/model");
	} catch (error) {
		fail(error);
		return;
	}
	header();
	document.querySelector(".skip").addEventListener("click", (event) => {
		event.preventDefault(); // the address belongs to the selection
		find("main").focus();
	});
	addEventListener("keydown", (event) => { if (event.key === "Escape") select({ cell: "" }); });
	subscribe((changed) => {
		for (const key of ["text", "target"]) {
			const box = document.querySelector(`[data-key="field ${key}"]`);
			if (
				box && changed.has(key) && document.activeElement !== box
			) box.value = state()[key] ?? (key === "text" ? app.model.example : "");
		}
		draw(changed);
	});
	draw(["view"]);
}
start();
