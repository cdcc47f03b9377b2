// The lessons beside the views: a panel with a step's text, its question and notes, and the list of all lessons.

import { announce, formula, h, num } from "./parts/dom.js";
import { get, isSaved } from "./api.js";
import { DEFAULTS, select, state } from "./state.js";

const find = (id) => document.getElementById(id);
let language = "en", all = null, now = null, isListed = false;
try { language = localStorage.getItem("language") || "en"; } catch { /* private */ }

const path = (rest) => `api/lessons${rest}?language=${language}`;
const word = (key) => all.words[key] ?? key;
const place = () => { const [name, number] = state().lesson.split("."); return { name, number: Number(number) || 1 }; };
const lessonOf = (name) => all.lessons.find((one) => one.name === name);
export const isOpen = () => Boolean(state().lesson) || isListed;

// Chooses a step: the page gets its state, and nothing of what was chosen before.
async function go(name, number) {
	const at = `${name}.${number}`, step = await get(path(`/${name}/${number}`));
	isListed = false;
	const fresh = { ...DEFAULTS, ...step.state, lesson: at }, isThere = state().lesson === at;
	select(fresh);
	if (isThere) await drawLesson(true);
	announce(`${step.lesson}: ${step.title}`);
}
export async function turn(by) {
	if (!state().lesson) return;
	const { name, number } = place(), own = lessonOf(name), usable = all.lessons.filter(({ why }) => why === null);
	if (number + by >= 1 && number + by <= own.steps.length) { await go(name, number + by); return; }
	const next = usable[usable.indexOf(own) + by];
	if (next) await go(next.name, by > 0 ? 1 : next.steps.length);
	else if (by > 0) toggleList();
}
export function toggleList() {
	if (isSaved) return;
	isListed = !isListed;
	drawLesson(true);
	if (isListed) find("lesson").querySelector("button, a")?.focus({ preventScroll: true });
}
function close() {
	isListed = false;
	select({ lesson: "" });
	drawLesson(true);
}

// A link to a step alone gets the step's state; one with a view is as it was when it was copied.
export async function openLink() {
	if (isSaved || !state().lesson || /(^|[#&])(view|text|at)=/.test(location.hash)) return;
	const { name, number } = place();
	await go(name, number);
}

// **bold**, *emphasis*, `code` and $formula$ in a paragraph; a formula alone is a paragraph of its own.
const said = (text) => text.trim().split(/\n\s*\n/).map((part) => h(
	"div", { class: "said" }, part.split(/(\*\*[^*]+\*\*|\*[^*]+\*|`[^`]+`|\$[^$]+\$)/).map((bit) => (
		bit.startsWith("**") ? h("b", {}, bit.slice(2, -2)) : bit.startsWith("*") && bit.length > 1 ? h("em", {}, bit.slice(1, -1)) : bit.startsWith("`") ? h("code", {}, bit.slice(1, -1))
			: bit.startsWith("$") && bit.length > 1 ? formula(bit.slice(1, -1)) : bit
	)),
));

function question({ ask, kind, value, tolerance, options, because }) {
	const verdict = h("p", { class: "verdict", role: "status" });
	const tell = (isRight) => {
		verdict.className = isRight ? "verdict right" : "verdict";
		verdict.replaceChildren(isRight ? `✓ ${word("right")} ${because}` : word("wrong"));
	};
	const shown = kind === "number" ? num(value) : ["yes", "no"].includes(value) ? word(value) : value;
	const reveal = h("button", { key: "reveal", onclick: () => { verdict.replaceChildren(`${shown}. ${because}`); } }, word("show"));
	const field = h("input", { type: "text", inputmode: "decimal", "aria-label": ask, key: "answer" });
	const check = () => tell(field.value.trim() !== "" && Math.abs(Number(field.value.replace(",", ".").replace("−", "-")) - value) <= tolerance + 1e-9);
	const form = kind === "number" ? h(
		"form", { class: "row", onsubmit: (event) => { event.preventDefault(); check(); } },
		field, h("button", { key: "check", onclick: check }, word("check")), reveal,
	) : h("div", { class: "row" }, options.map((one) => h(
		"button", { key: `option ${one}`, onclick: () => tell(one === value) }, ["yes", "no"].includes(one) ? word(one) : h("bdi", {}, one),
	)), reveal);
	return h("section", { class: "question", "aria-label": word("question"), "data-answer": String(value) }, h("p", {}, h("b", {}, ask)), form, verdict);
}

function stepPanel(step, name, number) {
	const own = lessonOf(name), order = all.lessons.indexOf(own) + 1, usable = all.lessons.filter(({ why }) => why === null);
	const isEnd = number === own.steps.length && usable.at(-1) === own, isStart = number === 1 && usable[0] === own;
	return [
		h(
			"header", {}, h("p", { class: "note" }, `${order} · ${own.title}`, step.rows.length ? ` · ${step.rows.join(", ")}` : ""),
			h("button", { key: "lesson list", onclick: toggleList, title: `${word("list")} (L)` }, "☰", h("span", { class: "sr" }, word("list"))),
			h("button", { key: "lesson close", onclick: close, title: word("close") }, "×", h("span", { class: "sr" }, word("close"))),
		),
		h("h2", {}, step.title), said(step.text),
		h("button", { key: "lesson see", class: "see", onclick: () => document.querySelector(".look")?.scrollIntoView({ block: "start" }) }, `↓ ${word("see")}`),
		step.question ? question(step.question) : null,
		step.change ? h("p", { class: "change" }, h("b", {}, word("change")), " ", h("code", {}, step.change)) : null,
		step.notes ? h("details", {}, h("summary", {}, word("notes")), said(step.notes)) : null,
		h(
			"nav", { class: "row", "aria-label": word("progress") },
			h("button", { key: "lesson back", disabled: isStart, onclick: () => turn(-1), title: "P" }, `‹ ${word("back")}`),
			h("span", { class: "dots" }, own.steps.map((title, i) => h(
				"button", { key: `lesson step ${i + 1}`, "aria-current": i + 1 === number ? "step" : null, "aria-label": `${i + 1}: ${title}`, title, onclick: () => go(name, i + 1) },
			))),
			h("button", { key: "lesson on", class: "on", onclick: () => turn(1), title: "N" }, isEnd ? word("list") : `${word("next")} ›`),
		),
	];
}

function listPanel() {
	const here = place().name;
	const line = (one) => h("li", {}, h(
		"button", { key: `lesson ${one.name}`, disabled: one.why !== null, "aria-current": one.name === here ? "true" : null, onclick: () => go(one.name, 1) }, one.title,
	), one.why ? h("small", { class: "note" }, ` ${one.why}`) : null);
	return [
		h(
			"header", {}, h("h2", {}, word("list")),
			all.languages.length > 1 ? h("select", { key: "language", "aria-label": word("language"), onchange: (event) => speak(event.target.value) }, all.languages.map(
				(one) => h("option", { value: one, selected: one === language }, one),
			)) : null,
			h("button", { key: "lesson close", onclick: close, title: word("close") }, "×", h("span", { class: "sr" }, word("close"))),
		),
		h("ol", {}, all.lessons.map(line)),
	];
}
async function speak(chosen) {
	language = chosen;
	try { localStorage.setItem("language", chosen); } catch { /* private */ }
	all = null;
	await drawLesson(true);
}

// The panel, when the step has changed; the outline around what to look at, whenever the view has been drawn.
export async function drawLesson(isNew = false) {
	const box = find("lesson"), at = isListed ? "list" : state().lesson;
	find("desk").classList.toggle("taught", isOpen() && !isSaved);
	box.hidden = !isOpen() || isSaved;
	if (box.hidden) { now = null; outline(); return; }
	all ??= await get(path(""));
	box.lang = language;
	if (isNew || now?.at !== at) {
		try {
			const { name, number } = place(), step = isListed ? null : await get(path(`/${name}/${number}`));
			now = { at, step };
			box.replaceChildren(...[isListed ? listPanel() : stepPanel(step, name, number)].flat(Infinity).filter(Boolean));
			box.scrollTop = 0;
		} catch (error) {
			now = { at, step: null };
			box.replaceChildren(h("p", { class: "notice", role: "alert" }, error.message), ...listPanel());
		}
	}
	outline();
}
function outline() {
	document.querySelectorAll(".look").forEach((one) => one.classList.remove("look"));
	const selector = now?.step?.look;
	if (!selector) return;
	const found = [...document.querySelectorAll(selector)].find((one) => one.getClientRects().length);
	if (!found) return;
	const isFresh = now.looked !== state().lesson;
	found.classList.add("look");
	found.dataset.step = state().lesson;
	now.looked = state().lesson;
	// Where the panel is above the view, its text is read first, and a button leads to what is outlined.
	if (getComputedStyle(find("lesson")).position === "static") { if (isFresh) find("lesson").scrollIntoView({ block: "start", behavior: "instant" }); return; }
	const { top, bottom } = found.getBoundingClientRect();
	if (isFresh && (top < find("frame").offsetHeight || bottom > innerHeight)) found.scrollIntoView({ block: top < 0 || bottom - top > innerHeight / 2 ? "start" : "center", behavior: "instant" });
}
