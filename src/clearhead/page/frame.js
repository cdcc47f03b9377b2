// What is always in sight: the texts with the model's own output, the list of views, and what has been changed in the model.

import { chip, count, figure, h, num, plural, spell, visible } from "./parts/dom.js";
import { isDark } from "./parts/colour.js";
import { isSaved } from "./api.js";
import { address, list, select, state } from "./state.js";
import { app, isWhatIf, likeliest, toggle, topStack } from "./app.js";
import { savePage } from "./save_page.js";
import { help } from "./keys.js";
import { toggleList } from "./lessons.js";
import { KEYS, VIEWS } from "./views.js";

const SIZES = [1, 1.25, 1.5];
const find = (id) => document.getElementById(id);
const remember = {
	get: (key) => { try { return localStorage.getItem(key); } catch { return null; } },
	set: (key, value) => { try { localStorage.setItem(key, value); } catch { /* private */ } },
};
let redraw = () => {};

function setTheme(theme) {
	document.documentElement.dataset.theme = theme;
	remember.set("theme", theme);
}
function setSize(size) {
	document.documentElement.style.setProperty("--size", size);
	document.documentElement.toggleAttribute("data-large", Number(size) > 1);
	remember.set("size", size);
}
const sizeNow = () => Math.max(0, SIZES.indexOf(Number(remember.get("size") || 1)));

export function dress() {
	setTheme(remember.get("theme") || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
	setSize(SIZES[sizeNow()]);
	const measure = () => document.documentElement.style.setProperty("--frame", `${find("frame").offsetHeight}px`);
	new ResizeObserver(measure).observe(find("frame"));
	new ResizeObserver(() => document.documentElement.style.setProperty(
		"--changed", `${find("changed").offsetHeight}px`,
	)).observe(find("changed"));
}
export const enlarge = () => { setSize(SIZES[(sizeNow() + 1) % SIZES.length]); redraw(); };
export const darken = () => { setTheme(isDark() ? "light" : "dark"); redraw(); };

// The name of the chosen view; a link may name one that does not exist.
export const viewName = () => (Object.hasOwn(VIEWS, state().view) ? state().view : "attention");

function field(key, label, placeholder, value) {
	let waiting = null;
	const send = () => {
		clearTimeout(waiting);
		box.removeAttribute("data-typed");
		const isOwn = key === "target" && box.value.trim() === "";
		select({ [key]: isOwn ? null : box.value, more: "", q: "", k: "", step: "", swap: "" });
	};
	const box = h(
		"textarea",
		{
			rows: 1, key: `field ${key}`, spellcheck: "false", placeholder, disabled: isSaved,
			maxlength: app.model.limits.characters,
			oninput: () => { box.setAttribute("data-typed", ""); clearTimeout(waiting); waiting = setTimeout(send, 350); },
			onkeydown: (event) => {
				if (event.key !== "Enter" || event.shiftKey) return;
				event.preventDefault();
				send();
			},
		},
	);
	box.value = value ?? "";
	box.title = box.value;
	return h("label", {}, h("span", {}, label), box);
}

// Boxes show what is selected, also after Back, unless somebody is typing there.
function fill(key, value) {
	const box = document.querySelector(`[data-key="field ${key}"]`);
	if (!box || box.hasAttribute("data-typed") || box.value === value) return;
	box.value = value;
	box.title = value;
}
export function fillTexts(changed) {
	for (const key of ["text", "target"]) {
		if (changed.has(key)) document.querySelector(`[data-key="field ${key}"]`)?.removeAttribute("data-typed");
	}
	if (changed.has("text")) fill("text", state().text ?? app.model.example);
}

// A text that is too long for its line takes two smaller ones.
export function fitTexts() {
	for (const box of document.querySelectorAll(".texts textarea")) {
		box.classList.remove("long");
		box.classList.toggle("long", box.scrollWidth > box.clientWidth);
	}
}

const tool = (text, label, title, onclick, id) => h("button", { id, title, "aria-label": label, onclick }, text);

const saves = (fail) => async ({ target: button }) => {
	button.disabled = true;
	button.textContent = "Saving…";
	await savePage().catch(fail);
	button.disabled = false;
	button.textContent = "Save";
};

export function drawTop(redrawn, fail) {
	redraw = redrawn;
	const { model } = app, translates = model.shape === "encoder-decoder";
	const depth = model.stacks.map((stack) => plural(stack.blocks, `${stack.name} block`)).join(", ");
	find("top").replaceChildren(
		h(
			"div", { class: "brand", title: `${visible(model.name)}: ${model.shape}, ${depth}, ${count(model.weights)} weights` },
			h("h1", {}, "clearhead"), h("p", {}, visible(model.name)),
		),
		h(
			"div", { class: "texts" },
			field("text", translates ? "Source" : "Text", "Type a text", state().text ?? model.example),
			translates ? field("target", "Target", "The model's own translation", state().target) : null,
		),
		h("output", { id: "said", "aria-label": "The model's output" }),
		h(
			"div", { class: "tools", role: "group", "aria-label": "Page" },
			isSaved ? null : tool("Lessons", "Lessons", "The lecture, step by step, on this model (L)", toggleList, "lessons"),
			isSaved ? null : tool("Save", "Save page", "The whole page as one file that opens without a server", saves(fail), "save"),
			tool("?", "Keys", "The keys of this page", help), tool("◐", "Light or dark", "Light or dark (D)", darken),
			tool("A+", "Text size", "Larger text, for a projector (+)", enlarge),
		),
	);
}

// The translation in its box, and beside it what the model says next.
export function drawTexts() {
	drawOutput();
	fitTexts(); // beside what the model says, which may be long too
}
function drawOutput() {
	if (app.model.shape === "encoder-decoder") {
		fill("target", state().target ?? app.pass.own_target ?? "");
		const box = document.querySelector('[data-key="field target"]');
		box.previousSibling.textContent = state().target === null ? "Target (the model's own)" : "Target (yours; empty it for the model's)";
	}
	const { prediction, tokens } = app.pass, classifies = app.model.head === "classifier";
	if (!prediction.length) { find("said").replaceChildren("vectors, no prediction"); return; }
	if (classifies && app.model.config.labels !== "one") { find("said").replaceChildren("labels: see Classifier"); return; }
	const best = likeliest(), end = classifies ? 0 : tokens[topStack()].length - 1;
	const isMasked = app.model.shape === "encoder" && !classifies;
	find("said").replaceChildren(
		h("span", {}, classifies ? "class" : isMasked ? "at the end" : "next"), " ",
		classifies ? h("b", {}, visible(best.text)) : chip(best), " ", figure(best.p, `p:${end}:${best.id}`, num(best.p, 3)),
	);
}

export function drawViews() {
	find("views").replaceChildren(...Object.entries(VIEWS).map(([name, view], i) => {
		const why = view.missing?.() || null;
		return h(
			"a",
			{
				href: address({ view: name, cell: "" }), "aria-current": viewName() === name ? "page" : null, key: `view ${name}`,
				"aria-keyshortcuts": KEYS[i], title: why || `Key ${KEYS[i]}`, "data-missing": why !== null,
				onclick: (event) => {
					if (event.ctrlKey || event.metaKey || event.shiftKey) return;
					event.preventDefault();
					select({ view: name });
				},
			},
			view.title, why ? h("span", { class: "sr" }, `, not for this model: ${why}`) : null,
		);
	}));
	document.querySelector("#views [aria-current]").scrollIntoView({ block: "nearest", inline: "nearest", behavior: "instant" });
}

// Words that the vocabulary lacks, and how to write them so that the model knows them.
export function unknownWords() {
	const { unknown_words: unknown, question } = app.pass;
	if (!unknown.length) return null;
	const use = (text, hint, stack) => {
		const key = app.model.shape === "encoder-decoder" && stack === "decoder" ? "target" : "text";
		select({ [key]: (question[key] ?? app.pass.own_target ?? "").replaceAll(text, hint), q: "", k: "" });
	};
	const name = (text) => h("b", {}, h("bdi", {}, visible(text).slice(0, 40)));
	return h(
		"p", { class: "notice", role: "note" }, h("b", {}, "⚠ Unknown to this model: "),
		unknown.slice(0, 8).map(({ text, hint, stack }, i) => [
			i ? "; " : "", name(text),
			hint ? [" (it knows ", name(hint), isSaved ? null : [" ", h("button", { onclick: () => use(text, hint, stack) }, `Write ${visible(hint)}`)], ")"] : "",
		]),
		unknown.length > 8 ? ` and ${unknown.length - 8} more` : "",
		`. It reads ${unknown.length > 1 ? "each of them" : "it"} as the unknown token, whatever the spelling.`,
	);
}

const PARTS = {
	projections: "x compared with x, without W_q and W_k", scaling: "scores not divided by √d_k", mask: "no mask",
	positions: "no positions",
};

// Muted heads, said briefly: a sublayer of which all heads are muted is named once.
function mutedParts() {
	const muted = list("mute"), whole = app.model.attentions.filter(
		({ name, heads }) => heads.length > 1 && heads.every((one) => muted.includes(`${name}.${one}`)),
	);
	const names = (one) => one.heads.map((number) => `${one.name}.${number}`), inWhole = whole.flatMap(names);
	return [
		...whole.map((one) => [`all heads of ${one.name} muted`, `Unmute ${one.name}`, () => select({
			mute: muted.filter((name) => !names(one).includes(name)).join(","),
		})]),
		...muted.filter((name) => !inWhole.includes(name)).map(
			(name) => [`head ${name} muted`, `Unmute ${name}`, () => toggle("mute", name)],
		),
	];
}

// The changed model's own output beside the original's, at the bottom of the window: nothing on the page moves for it.
export function drawChange() {
	const banner = find("changed"), { change } = app.pass;
	banner.hidden = !isWhatIf();
	if (banner.hidden) return;
	const parts = [
		...list("off").map((part) => [PARTS[part] || part, `Restore ${part}`, () => toggle("off", part)]), ...mutedParts(),
	];
	banner.replaceChildren(...[
		h("b", {}, "Changed model:"),
		parts.map(([said, label, undo]) => h("button", { "aria-label": label, title: label, onclick: undo }, said, " ×")),
		change ? [translations(change), prediction(change)] : h("span", {}, "This model predicts nothing; its vectors have changed."),
		h("button", { key: "restore", class: "restore", onclick: () => select({ off: "", mute: "" }) }, "Restore"),
	].flat(Infinity).filter(Boolean));
}
const translations = ({ own_before: was, own_after: is }) => (was === null ? null : h(
	"span", { class: "said" }, "translates ", h("q", { title: was }, visible(was)), was === is
		? " as before" : [" now as ", h("q", { class: "now", title: is }, visible(is) || "nothing")],
));
function prediction({ position: i, before, after }) {
	const classifies = app.model.head === "classifier", list = app.pass.tokens[topStack()];
	const shown = (one, which) => [
		classifies ? h("b", {}, visible(one.text)) : chip(one), " ", figure(one.p, `p:${i}:${one.id}${which}`, num(one.p, 3)),
	];
	return h(
		"span", { class: "said" }, classifies ? "class " : `changes most after ${spell(list[i])}: `, shown(before, ":base"), " → ",
		h("span", { class: "now" }, shown(after, "")),
	);
}
