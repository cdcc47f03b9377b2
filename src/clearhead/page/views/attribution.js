// Attribution: a logit as the sum of what every part adds to it, and how much it depends on every token.

import { cells, chip, figure, h, note, num, percent, signedTracks, spell, table } from "../parts/dom.js";
import { panel } from "../parts/panel.js";
import { pythonAnswer } from "../parts/python.js";
import { weighedWords } from "../parts/words.js";
import { answer, app, goalOf, headAt, nameAt, place, reading, tokens, topStack } from "../app.js";
import { bar, picker, placeChooser, proof } from "../parts/controls.js";
import { select, state } from "../state.js";
import { hasStates } from "./states.js";

export const title = "Attribution";
const MANY = 20; // tokens that have a row each; more are a coloured text
const MOST = 30; // bars; the others are added up
const CHEAP = 2e9; // weights × tokens for which integrated gradients, 64 passes back and forth, are computed unasked
const STREAMLESS = "This model has no stream to which every part adds: only a transformer can be taken apart like this.";
export const missing = () => (hasStates(app.model) ? STREAMLESS : app.model.head === "none" ? "This model has no head, so it has no logits to explain." : null);
export const classifies = () => app.model.head === "classifier";
export const askedPlace = () => (classifies() ? 0 : place(topStack()));

export async function draw() {
	const i = askedPlace();
	const [found, likely] = await Promise.all([reading("attribution", answer(i)), reading("prediction", { position: i })]);
	return [goalBar(found.answer, likely), partsPanel(found), await tokensPanel(found.answer)];
}

// Which logit is explained, after which token, and against which other one.
export function goalBar({ position: i, ...now }, likely, ...more) {
	const known = new Map([...likely, { id: now.id, text: now.text }, ...(now.against === null ? [] : [{ id: now.against, text: now.against_text }])].map(
		(one) => [one.id, [one.id, spell(one)]],
	));
	const go = (id, against) => select({ goal: `${i}:${id}:${against ?? ""}` });
	const pickers = [
		picker(classifies() ? "class" : "answer", "answer", [...known.values()], now.id, (id) => go(id, now.against)),
		picker("against", "against", [["", "nothing"], ...[...known.values()].filter(([id]) => id !== now.id)], now.against ?? "", (against) => go(now.id, against)),
		more, proof(),
	];
	return classifies() ? bar("Answer", pickers) : placeChooser(topStack(), i, "After", pickers);
}
export const said = ({ position: i, text, against_text: other }) => [
	`“${spell({ text })}”`, other === null ? "" : ` against “${spell({ text: other })}”`, classifies() ? "" : ` after “${nameAt(topStack(), i)}”`,
].join("");

// A head leads to its weights, a feed-forward to the stream.
function part(name, i) {
	if (!/\.(self|cross)\.\d+$/.test(name)) return name;
	const { one, place: at } = headAt(name);
	return h("button", {
		key: `go ${name}`, title: "Open this head", onclick: () => select({ view: "attention", at: one.name, head: one.heads[at], ...(classifies() ? {} : { q: i, k: "" }) }),
	}, name);
}

function partsPanel(found) {
	const { answer: asked, parts } = found, end = goalOf(asked);
	const order = [...parts].sort((a, b) => Math.abs(b.value) - Math.abs(a.value)), track = signedTracks(parts.map(({ value }) => value));
	const shown = order.slice(0, MOST), rest = order.slice(MOST).reduce((sum, { value }) => sum + value, 0);
	const line = ({ name, value }) => cells([part(name, asked.position), figure(value, `adds:${name}:${end}`), track(value)]);
	return panel({
		title: `What each part adds to the logit of ${said(asked)}`, key: "parts",
		python: () => pythonAnswer(asked, "from clearhead.inspection.attribution.direct import direct_logit_attribution", "print(direct_logit_attribution(module, inputs, goal))"),
		note: "Direct logit attribution: embeddings, every head, every feed-forward and all biases, with the norms as they were in this pass. The largest come first, and the sum is exact. What a part does by way of later ones is not in it.",
		rows: () => [["part", "adds"], ...parts.map(({ name, value }) => [name, value])],
		body: [
			table(["part", "adds", ""], [
				...shown.map(line), parts.length > shown.length ? cells([`${parts.length - shown.length} more`, figure(rest), track(rest)], { class: "rest" }) : null,
				cells(["all together", figure(found.logit, `attributed:${end}`), ""], { class: "on" }),
			].filter(Boolean), "parts"),
		],
	});
}

// Which tokens the answer depends on, by gradients; of a translator also those of the source.
export const methodNow = () => (["gradient", "integrated"].includes(state().method) ? state().method : Object.values(app.pass.tokens).flat().length * app.model.weights < CHEAP ? "integrated" : "gradient");
export async function tokensPanel(asked) {
	const method = methodNow(), end = goalOf(asked), found = await reading("saliency", { ...answer(asked.position, asked), method });
	const stacks = Object.keys(app.pass.tokens).filter((stack) => found.scores[stack]), track = signedTracks(Object.values(found.scores).flat());
	const read = (stack) => (stack === topStack() && app.pass.causal[stack] ? asked.position + 1 : undefined); // what comes later has no part in it
	const cell = (stack, t) => `saliency:${stack}:${t}:${method}:${end}`, score = (stack, t) => found.scores[stack][t];
	const lines = (stack) => tokens(stack).slice(0, read(stack)).map((token, t) => cells([chip(token), figure(score(stack, t), cell(stack, t)), track(score(stack, t))]));
	const word = weighedWords(Object.values(found.scores).flat()), isLong = stacks.some((stack) => tokens(stack).length > MANY);
	const name = (stack) => (stacks.length === 1 ? "token" : stack === "encoder" ? "source" : "target so far");
	const shown = (stack) => (isLong ? h("div", {}, stacks.length > 1 ? h("h3", {}, name(stack)) : null, h(
		"div", { class: "sentence", "data-name": `tokens of the ${stack}` }, tokens(stack).slice(0, read(stack)).map((token, t) => word(spell(token), score(stack, t), cell(stack, t))),
	)) : table([name(stack), "score", ""], lines(stack), `tokens of the ${stack}`));
	const function_ = method === "gradient" ? "gradient_times_input" : "integrated_gradients";
	return panel({
		title: `Which tokens ${said(asked)} depends on`, key: "tokens",
		python: () => pythonAnswer(asked, `from clearhead.inspection.attribution.saliency import ${function_}`, `print(${function_}(module, inputs, goal))`),
		rows: () => [["stack", "token", "score"], ...stacks.flatMap((stack) => tokens(stack).map(({ text }, t) => [stack, text, found.scores[stack][t]]))],
		aside: h("div", { class: "bar" }, picker("by", "method", [["integrated", "integrated gradients"], ["gradient", "gradient × input"]], method, (to) => select({ method: to }))),
		body: [
			h("div", { class: stacks.length > 1 && !isLong ? "pair" : null }, stacks.map(shown)),
			found.error === null ? null : h(
				"p", { class: "note" }, "They add up to what the answer is above that of a text of mean vectors; completeness error ",
				figure(found.error, `complete:${method}:${end}`, found.error < 1e-3 ? num(found.error, 2) : percent(found.error)), ". ", found.advice,
			),
			note("Scores say what the logit would follow if the vectors changed a little, not what a word means."),
		],
	});
}
