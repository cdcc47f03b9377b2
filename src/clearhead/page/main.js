// The page: draws the frame, the chosen view, and the derivation beside it, whenever the selection changes.

import { announce, h, note } from "./parts/dom.js";
import { fitAll, isLarge } from "./parts/fit.js";
import { absent, closeMenus } from "./parts/panel.js";
import { get, isSaved, ServiceError } from "./api.js";
import { list, select, settle, state, subscribe } from "./state.js";
import { again, app, ask, opening, readPairs } from "./app.js";
import { derivation } from "./derivation.js";
import * as frame from "./frame.js";
import { listen } from "./keys.js";
import { drawLesson, openLink } from "./lessons.js";
import { drawScrubber } from "./scrubber.js";
import { VIEWS } from "./views.js";
import { hasStates } from "./views/states.js";

const ASKS = ["text", "target", "more", "off", "mute", "moment"]; // changes that make the model run again
const WELCOME = "Every number on this page is this model's own, and every number can be clicked: " +
	"its derivation opens here, down to the terms of a dot product.";
const WELCOME_TO_STATES = "Every number on this page is this model's own. One with a line below it can be clicked: its derivation opens here.";
const find = (id) => document.getElementById(id);
const pending = new Set(ASKS); // what has changed since the page was last drawn
let ticket = 0;

function fail(error) {
	const isOurs = error instanceof ServiceError;
	if (!isOurs) console.error(error);
	const isChanged = list("off").length || list("mute").length;
	find("main").replaceChildren(h(
		"section", { class: "panel error", role: "alert" },
		h("h2", {}, isOurs ? "This cannot be shown" : "The page failed"),
		h("p", {}, isOurs ? error.message : String(error)),
		h(
			"p", { class: "row" }, h("button", { key: "go back", onclick: () => history.back() }, "Back"),
			isChanged ? h("button", { onclick: () => select({ off: "", mute: "" }) }, "Restore the original model") : null,
			isSaved ? null : h("button", { key: "start over", onclick: startOver }, "Start over with the opening text"),
		),
	));
	find("side").replaceChildren();
	pending.add("view");
	done();
}
const startOver = () => { location.hash = `view=${frame.viewName()}`; };
const done = () => {
	find("main").setAttribute("aria-busy", "false");
	document.documentElement.dataset.drawn = String(ticket);
};

// The focus survives a redraw, by the key of its element.
function swap(element, nodes, isNew) {
	const key = document.activeElement?.closest("[data-key]")?.dataset.key;
	const inside = element.contains(document.activeElement), scrolled = isNew ? 0 : element.scrollTop;
	element.replaceChildren(...nodes.filter(Boolean));
	element.scrollTop = scrolled;
	if (inside && key) [
		...element.querySelectorAll("[data-key]"),
	].find((one) => one.dataset.key === key)?.focus({ preventScroll: true });
}

// The derivation beside the view; a view that fills the page makes room for it.
function beside(view, side, isNew) {
	find("desk").classList.toggle("alone", Boolean((view.alone || isLarge() || state().lesson) && !side));
	find("desk").classList.toggle("derives", Boolean(side));
	const welcome = hasStates(app.model) ? WELCOME_TO_STATES : WELCOME;
	swap(find("side"), [side || h("section", { class: "panel empty" }, h("p", {}, welcome), note("Press ? for keys."))], isNew);
	for (const one of document.querySelectorAll("main .n")) one.toggleAttribute("data-on", one.dataset.key === state().cell);
}

// What was pressed stays where it is on the screen, and in sight, however the page around it has changed.
function hold(draws) {
	const subject = () => document.querySelector("main .n[data-on]") || document.activeElement?.closest("main [data-key]");
	const before = subject(), key = before?.dataset.key, top = before?.getBoundingClientRect().top;
	draws();
	const now = subject();
	if (!now || now.dataset.key !== key) return;
	scrollBy({ top: now.getBoundingClientRect().top - top, behavior: "instant" });
	if (getComputedStyle(find("side")).position !== "fixed" || !state().cell) return;
	now.scrollIntoView({ block: "nearest", behavior: "instant" });
}

async function draw(changed) {
	const mine = ++ticket, main = find("main");
	changed.forEach((key) => pending.add(key));
	main.setAttribute("aria-busy", "true");
	frame.drawViews();
	try {
		const asked = ASKS.some((key) => pending.has(key)) ? await ask() : {};
		if (mine !== ticket) return;
		Object.assign(app, asked);
		if (!state().at && !state().head) settle(opening());
		Object.assign(app, await again(readPairs));
		if (mine !== ticket) return;
		frame.drawTexts();
		frame.drawChange();
		drawScrubber();
		const view = VIEWS[frame.viewName()], isSame = pending.size === 1 && pending.has("cell"), why = view.missing?.();
		const body = () => (isSame ? null : why ? absent(view.title, why) : view.draw());
		const [drawn, side] = await again(() => Promise.all([body(), derivation()]));
		if (mine !== ticket) return;
		hold(() => {
			if (!isSame) swap(main, [frame.unknownWords(), ...[drawn].flat(Infinity)]);
			beside(view, side, pending.has("cell"));
			fitAll(document.body);
		});
		if (pending.has("view") && changed.has?.("view")) scrollTo({ top: 0, behavior: "instant" });
		if (side && pending.has("cell")) announce(`Derivation: ${find("side").querySelector("h2").textContent}`);
		if (pending.has("view")) announce(`View: ${view.title}`);
		pending.clear();
		await drawLesson();
		if (mine !== ticket) return;
		document.title = `${view.title} · ${app.model.name} · clearhead`;
		done();
	} catch (error) {
		if (mine === ticket) fail(error);
	}
}

async function start() {
	frame.dress();
	try {
		app.model = await get("api/model");
	} catch (error) {
		fail(error);
		return;
	}
	frame.drawTop(() => draw(["theme"]), fail);
	document.querySelector(".skip").addEventListener("click", (event) => {
		event.preventDefault(); // the address belongs to the selection
		find("main").focus();
	});
	listen();
	addEventListener("pointerdown", (event) => closeMenus(event.target));
	let waiting = null;
	addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(() => { frame.fitTexts(); fitAll(document.body); }, 100); });
	subscribe((changed) => { frame.fillTexts(changed); draw(changed); });
	await openLink().catch(fail);
	draw(["view"]);
}
start();
