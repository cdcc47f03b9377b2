// Two texts: what carries the difference between them, part by part and token by token (activation patching).

import { chip, empty, figure, h, plural } from "../parts/dom.js";
import { fitAll } from "../parts/fit.js";
import { matrix } from "../parts/matrix.js";
import { panel } from "../parts/panel.js";
import { pythonAnswer, quote } from "../parts/python.js";
import { again, answer, app, goalOf, isWhatIf, mainStack, reading, tokens, topStack } from "../app.js";
import { buttons, placeChooser } from "../parts/controls.js";
import { isSaved, ServiceError } from "../api.js";
import { select, state } from "../state.js";
import { askedPlace, classifies, goalBar, missing as noStream, said } from "./attribution.js";

export const title = "Two texts";
export const missing = noStream;
const EVERY = 250; // milliseconds between two drawings of the map while it is computed
let turn = 0; // of the computation that may go on
let working = Promise.resolve();
export const done = () => working;
const other = () => state().other ?? app.pass.question.text;

export async function draw() {
	turn++;
	const i = askedPlace(), top = [textPanel(), classifies() ? null : placeChooser(topStack(), i)];
	if (other() === app.pass.question.text) return [...top, empty("Change a word of the other text: the map shows which part carries the difference.")];
	try {
		const asked = { other: other(), ...answer(i) }, [found, likely] = await Promise.all([reading("contrast", asked), reading("prediction", { position: i })]);
		const kinds = buttons("Parts", "parts", [["sublayers"], ["heads"]], state().parts, (parts) => select({ parts }));
		return [textPanel(found), top[1], goalBar(found.answer, likely, kinds), mapPanel(found)];
	} catch (error) {
		if (!(error instanceof ServiceError) || error.isExpired) throw error;
		return [...top, h("section", { class: "panel error", role: "alert" }, h("p", {}, error.message))];
	}
}

function textPanel(found) {
	const send = (event) => select({ other: event.target.value, goal: "" }), main = mainStack();
	const box = h("textarea", {
		rows: 1, key: "field other", spellcheck: "false", disabled: isSaved, maxlength: app.model.limits.characters, value: other(), onchange: send,
		onkeydown: (event) => { if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); send(event); } },
	});
	const line = (label, list) => h("div", { class: "chips" }, h("span", { class: "soft" }, label), list.map(
		(token, t) => chip(token, found && token.id !== (list === tokens(main) ? found.tokens[main] : tokens(main))[t].id ? { "data-differs": true } : {}),
	));
	const end = found ? goalOf(found.answer) : "";
	return panel({
		title: "The text, and another one of as many tokens", key: "texts", rows: () => [["clean", "corrupted"], ...tokens(main).map(({ text }, t) => [text, found?.tokens[main][t].text ?? ""])],
		body: [
			h("label", { class: "other" }, "Other text (corrupted)", box),
			found ? [
				line("clean", tokens(main)), line("corrupted", found.tokens[main]),
				h(
					"p", { class: "note" }, `The answer, ${said(found.answer)}: `, figure(found.clean, `gap:clean:${end}`), " in the clean text and ",
					figure(found.corrupted, `gap:other:${end}`), " in the corrupted one.",
				),
			] : null,
		],
	});
}

// The map is computed row by row: the page stays usable, and whatever is chosen meanwhile ends the work.
function mapPanel(found) {
	const mine = turn, places = state().parts === "heads" ? found.heads : found.sublayers, scores = new Map();
	const stackOf = (place) => (place.startsWith("encoder.") ? "encoder" : "decoder"), main = mainStack();
	const stacks = [...new Set(places.map(stackOf))].map((stack) => [stack, places.filter((place) => stackOf(place) === stack)]);
	const names = (stack) => tokens(stack).map((token, t) => (stack === main && found.tokens[main][t].id !== token.id ? { ...token, text: `${token.text}→${found.tokens[main][t].text}` } : token));
	const end = goalOf(found.answer), maps = h("div", {}), progress = h("p", { class: "row", "data-name": "progress", role: "status" });
	const cell = (place, t) => `patch:${place}:${t}:${end}`;
	const show = () => {
		maps.replaceChildren(...stacks.map(([stack, rows]) => {
			const m = tokens(stack).length, values = Float32Array.from({ length: rows.length * m }, (_, k) => scores.get(rows[Math.floor(k / m)])?.[k % m] ?? NaN);
			return matrix({
				values, rows: rows.length, columns: m, rowTokens: rows.map((text) => ({ text: text.slice(stack.length + 1) })), columnTokens: names(stack),
				title: `scores of the ${stack}`, name: `patching ${stack}`, key: `matrix patching ${stack}`, share: 1 / stacks.length, isHidden: scores.size < places.length ? (k) => Number.isNaN(values[k]) : null, hiddenLabel: "not computed",
				hiddenText: "not computed", selected: selectedIn(rows), scale: { kind: "signed", largest: 1 }, onselect: (r, t, derive) => { if (derive && scores.has(rows[r])) select({ cell: cell(rows[r], t) }); },
			});
		}));
		fitAll(maps);
	};
	const selectedIn = (rows) => { const [, place, t] = state().cell.split(":"); return rows.includes(place) && state().cell.startsWith("patch:") ? [rows.indexOf(place), Number(t)] : [-1, -1]; };
	const say = (...parts) => progress.replaceChildren(...parts.filter(Boolean));
	const isOver = () => mine !== turn || state().view !== "contrast";
	const compute = async () => {
		let isStopped = false, drawn = 0;
		const cancel = h("button", { key: "cancel", onclick: () => { isStopped = true; } }, "Cancel"), count = h("span", {});
		say(count, isSaved ? null : cancel);
		for (const place of places) {
			if (isStopped || (isOver() && maps.isConnected)) break;
			if (!scores.has(place)) scores.set(place, (await again(() => reading("patching", { other: other(), ...answer(found.answer.position, found.answer), place }))).scores);
			count.textContent = `${scores.size} of ${plural(places.length, "part")} `;
			if (performance.now() - drawn > EVERY) { show(); drawn = performance.now(); }
		}
		show();
		if (scores.size === places.length) say(`All ${plural(places.length, "part")}.`);
		else say(`Cancelled after ${scores.size} of ${plural(places.length, "part")}. `, h("button", { key: "go on", onclick: start }, "Continue"));
		section.dataset.done = String(scores.size === places.length);
	};
	const start = () => { working = compute().catch((error) => say(error instanceof ServiceError ? error.message : String(error))); };
	const section = panel({
		title: `What carries ${said(found.answer)}`, key: "patching",
		python: () => pythonAnswer(
			found.answer, "from clearhead.inspection.attribution.patching import activation_patching",
			...(isWhatIf() ? [] : [`other = model.inputs(${quote(other())}${app.model.shape === "encoder-decoder" ? `, ${quote(app.pass.question.target ?? app.pass.own_target ?? "")}` : ""})`, "print(activation_patching(module, inputs, other, goal))"]),
		),
		note: "The model reads the corrupted text; one part at one token is given what it had in the clean text. 0: the answer is still that of the corrupted text, 1: it is that of the clean one. A field leads to its numbers.",
		rows: () => [["part", ...Array.from({ length: Math.max(...stacks.map(([stack]) => tokens(stack).length)) }, (_, t) => `token ${t}`)], ...places.map((place) => [place, ...(scores.get(place) ?? [])])],
		body: [progress, maps],
	});
	show();
	start();
	return section;
}
