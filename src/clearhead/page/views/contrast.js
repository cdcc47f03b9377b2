// Two texts: what carries the difference between them, part by part and token by token (activation patching).

import { chip, empty, figure, h, plural } from "../parts/dom.js";
import { fitAll, isLarge, panelWidth } from "../parts/fit.js";
import { matrix } from "../parts/matrix.js";
import { panel } from "../parts/panel.js";
import { pythonAnswer, quote } from "../parts/python.js";
import { again, answer, app, goalOf, isWhatIf, mainStack, nameAt, reading, tokens, topStack } from "../app.js";
import { buttons } from "../parts/controls.js";
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
	const i = askedPlace(), top = textPanel();
	if (other() === app.pass.question.text) return [top, empty("Change a word of the other text: the map shows which part carries the difference.")];
	try {
		const ask = (at) => reading("contrast", { other: other(), ...answer(at) }), first = await ask(i);
		// Until a place is chosen, a translation is explained where it changes.
		const isOpen = state().q === "" && app.model.shape === "encoder-decoder" && first.differs !== i;
		const found = isOpen ? await ask(first.differs) : first, { position } = found.answer;
		const likely = await reading("prediction", { position });
		const kinds = buttons("Parts", "parts", [["sublayers"], ["heads"]], state().parts, (parts) => select({ parts }));
		return [textPanel(found), goalBar(found.answer, likely, kinds), mapPanel(found)];
	} catch (error) {
		if (!(error instanceof ServiceError) || error.isExpired) throw error;
		return [top, h("section", { class: "panel error", role: "alert" }, h("p", {}, error.message))];
	}
}

function textPanel(found) {
	const send = (event) => select({ other: event.target.value, goal: "" }), main = mainStack();
	const box = h("textarea", {
		rows: 1, key: "field other", spellcheck: "false", disabled: isSaved, maxlength: app.model.limits.characters, value: other(), onchange: send,
		onkeydown: (event) => { if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); send(event); } },
	});
	// One text above the other, token above token.
	const twin = (token, t) => {
		const now = found.tokens[main][t], differs = token.id === now.id ? {} : { "data-differs": true };
		return h("span", {}, chip(token, differs), chip(now, differs));
	};
	const end = found ? goalOf(found.answer) : "", isElsewhere = found && !classifies() && found.differs !== found.answer.position;
	return panel({
		title: "The text, and another one of as many tokens", key: "texts", rows: () => [["clean", "corrupted"], ...tokens(main).map(({ text }, t) => [text, found?.tokens[main][t].text ?? ""])],
		body: [
			h("label", { class: "other" }, "Other text (corrupted)", box),
			found ? [
				h("div", { class: "chips twins" }, h("span", { class: "soft" }, h("span", {}, "clean"), h("span", {}, "corrupted")), tokens(main).map(twin)),
				h(
					"p", { class: "note" }, `The logit of ${said(found.answer)}: `, figure(found.clean, `gap:clean:${end}`), " in the clean text and ",
					figure(found.corrupted, `gap:other:${end}`), " in the corrupted one. ",
					isElsewhere ? h("button", { key: "where they differ", onclick: () => select({ q: found.differs, goal: "" }) }, `The predictions differ most after “${nameAt(topStack(), found.differs)}”`) : null,
				),
			] : null,
		],
	});
}

// The map is computed row by row: the page stays usable, and whatever is chosen meanwhile ends the work.
function mapPanel(found) {
	let section = null;
	const mine = turn, places = state().parts === "heads" ? found.heads : found.sublayers, scores = new Map();
	const stackOf = (place) => (place.startsWith("encoder.") ? "encoder" : "decoder"), main = mainStack();
	const stacks = [...new Set(places.map(stackOf))].map((stack) => [stack, places.filter((place) => stackOf(place) === stack)]);
	const names = (stack) => tokens(stack).map((token, t) => (stack === main && found.tokens[main][t].id !== token.id ? { ...token, text: `${token.text}→${found.tokens[main][t].text}` } : token));
	// Beside each other where their fields have room for numbers, and on a projector.
	const isPair = isLarge() || (panelWidth() - 16) / stacks.length - 100 >= 36 * Math.max(...stacks.map(([stack]) => tokens(stack).length));
	const end = goalOf(found.answer), maps = h("div", { class: isPair ? "pair" : null }), progress = h("p", { class: "row note", "data-name": "progress", role: "status" });
	const cell = (place, t) => `patch:${place}:${t}:${end}`;
	const show = () => {
		maps.replaceChildren(...stacks.map(([stack, rows]) => {
			const m = tokens(stack).length, values = Float32Array.from({ length: rows.length * m }, (_, k) => scores.get(rows[Math.floor(k / m)])?.[k % m] ?? NaN);
			return matrix({
				values, rows: rows.length, columns: m, rowTokens: rows.map((text) => ({ text: text.slice(stack.length + 1).replace("embeddings.out", "embeddings") })), columnTokens: names(stack),
				title: `scores of the ${stack}`, name: `patching ${stack}`, key: `matrix patching ${stack}`, share: isPair ? 1 : 1 / stacks.length, isHidden: scores.size < places.length ? (k) => Number.isNaN(values[k]) : null, hiddenLabel: "not computed",
				hiddenText: "not computed", selected: selectedIn(rows), scale: { kind: "signed", largest: 1 }, onselect: (r, t, derive) => { if (derive && scores.has(rows[r])) select({ cell: cell(rows[r], t) }); },
			});
		}));
		fitAll(section?.isConnected ? section.parentElement : maps);
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
	section = panel({
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
