// The classifier: what the model predicts for the whole text, how it pools, and what each word does to it (N30, N45).

import { cells, chip, empty, figure, h, num, table, track, visible } from "../parts/dom.js";
import { scaleFor } from "../parts/colour.js";
import { strip } from "../parts/matrix.js";
import { weighedWords } from "../parts/words.js";
import { panel } from "../parts/panel.js";
import { pythonPass, pythonSite } from "../parts/python.js";
import { app, likeliest, reading, site, tokens, topStack } from "../app.js";
import { proof } from "../parts/controls.js";
import { select, state } from "../state.js";

export const title = "Classifier";
export const alone = true;
export const missing = () => (app.model.head === "classifier" ? null : "This model has no classes. Open a classifier, such as one trained on builtin:reviews.");

export async function draw() {
	if (app.model.config.labels !== "one") return [labelsPanel(await site("logits"))];
	const [pooled, logits, left] = await Promise.all([site("head.pooled"), site("logits"), reading("without")]);
	return [classPanel(logits), poolPanel(pooled), wordsPanel(left)];
}

function classPanel(logits) {
	const classes = app.pass.prediction, best = likeliest();
	const { calibrated, temperature } = app.pass, isCalibrated = temperature !== 1;
	const sure = (one) => (isCalibrated ? [figure(calibrated[one.id].p, `calibrated:${one.id}`)] : []);
	const line = (one) => cells(
		[
			visible(one.text), figure(logits.data[one.id], `logit:0:${one.id}`), figure(one.p, `p:0:${one.id}`), ...sure(one),
			track(one.p, one === best ? "o" : "q"),
		],
		{ class: one === best ? "on" : null },
	);
	return panel({
		title: `The model predicts: ${visible(best.text)}`, key: "classes",
		note: isCalibrated ? "Calibrated: the logits divided by a temperature that was fitted on the validation data, as classify reports it." : null,
		python: () => pythonPass('print(trace["logits"][0].softmax(-1))'),
		rows: () => [["class", "logit", "probability"], ...classes.map((one) => [one.text, logits.data[one.id], one.p])],
		body: [
			h("div", { class: "bar" }, proof()), table(["class", "logit", "softmax", ...(isCalibrated ? ["calibrated"] : []), ""], classes.map(line), "classes"),
		],
	});
}

// Several labels, each a choice of its own; or a label above each word, read at its first token.
function labelsPanel({ data }) {
	const names = app.model.labels.map(visible), text = app.pass.question.text;
	const sigmoid = (z) => 1 / (1 + Math.exp(-z));
	if (app.model.config.labels === "several") {
		const rows = names.map((name, k) => [name, data[k], sigmoid(data[k])]);
		return panel({
			title: `The labels that fit: ${rows.filter(([, , p]) => p >= 0.5).map(([name]) => name).join(", ") || "none"}`, key: "classes",
			note: "Each label is a choice of its own, p = 1 / (1 + e^−z): the probabilities need not add up to 1.",
			python: () => pythonPass('print(trace["logits"][0].sigmoid())'), rows: () => [["label", "logit", "probability"], ...rows],
			body: table(["label", "logit", "sigmoid", ""], rows.map(([name, z, p]) => cells(
				[name, num(z), num(p, 3), track(p, p >= 0.5 ? "o" : "q")], { class: p >= 0.5 ? "on" : null },
			)), "classes"),
		});
	}
	const best = (i) => {
		const z = Array.from(data.slice(i * names.length, (i + 1) * names.length)), top = z.indexOf(Math.max(...z));
		return [names[top], 1 / z.reduce((sum, one) => sum + Math.exp(one - z[top]), 0)];
	};
	const begins = ({ start, end }) => end > start && (start === 0 || /\s/.test(text[start - 1]) || /\s/.test(text[start]));
	const words = tokens(topStack()).map((token, i) => [token, i]).filter(([token]) => begins(token))
		.map(([{ start }, i]) => [text.slice(start).trim().split(/\s/)[0], ...best(i)]);
	return panel({
		title: "A label for each word", key: "classes", note: "The label is read at the first token of a word; below, its probability.",
		python: () => pythonPass('print(trace["logits"][0].argmax(-1))'), rows: () => [["word", "label", "probability"], ...words],
		body: h("div", { class: "sentence" }, words.map(([word, label, p]) => h(
			"span", { class: "word" }, h("span", {}, label), h("b", {}, h("bdi", {}, word.slice(0, 40))), h("span", {}, num(p, 3)),
		))),
	});
}

const POOLS = {
	first: "the vector of the first token", mean: "the mean of all token vectors", last: "the vector of the last token",
	root: "the sum of all token vectors over the root of their number",
	max: "the largest value of each dimension, whichever token has it",
};
function poolPanel(pooled) {
	const { pool, pool_dense: dense } = app.model.config, list = tokens(topStack());
	const isUsed = (i) => ["mean", "root", "max"].includes(pool) || i === (pool === "first" ? 0 : list.length - 1);
	const chosen = state().cell.startsWith("pooled:") ? Number(state().cell.slice(7)) : -1;
	return panel({
		title: "One vector for the whole text", key: "pooling", python: () => pythonSite("head.pooled"),
		rows: () => [["dimension", "value"], ...Array.from(pooled.data, (value, i) => [i, value])],
		note: `Pooling: ${POOLS[pool]}${dense === "none" ? "" : `, through a dense layer and ${dense}`}. ` +
			"The classes are read from it.",
		body: [
			h("div", { class: "chips" }, list.map((token, i) => chip(token, { style: { opacity: isUsed(i) ? "1" : "0.45" } }))),
			h("p", {}, strip(Array.from(pooled.data), {
				scale: scaleFor(pooled.data, "signed"), name: "pooled vector", key: "strip pooled", chosen,
				onselect: (c) => select({ cell: `pooled:${c}` }),
			})),
		],
	});
}

function wordsPanel(left) {
	const best = left.whole.indexOf(Math.max(...left.whole)), name = visible(left.labels[best]);
	const unit = left.unit, effects = left.words.map((one) => left.whole[best] - one.p[best]);
	const isRepeated = (word) => left.words.filter((one) => one.word === word).length > 1;
	const line = (one, k) => {
		const winner = one.p.indexOf(Math.max(...one.p));
		return cells([
			h("span", {}, h("bdi", {}, visible(one.word).slice(0, 40)), isRepeated(one.word) ? ` (${k + 1})` : ""), figure(one.p[best], `p:0:${best}:word${k}`),
			figure(effects[k], `effect:${k}:${best}`), winner === best ? "" : `the class becomes ${visible(left.labels[winner])}`,
		]);
	};
	const word = weighedWords(effects);
	return panel({
		title: `Without each ${unit}`, key: "words",
		python: () => pythonPass(
			"from clearhead.models.inputs import Inputs", "", `ids = [${tokens(topStack()).map((token) => token.id).join(", ")}]`,
			`for places in [${left.words.map((one) => `[${one.places.join(", ")}]`).join(", ")}]:`,
			"    kept = [id for place, id in enumerate(ids) if place not in places]",
			"    print(module(Inputs(torch.tensor([kept]))).softmax(-1)[0].tolist())",
		),
		rows: () => [["without", ...left.labels], ...left.words.map((one) => [one.word, ...one.p])],
		note: [
			`The probability of ${name} is `, figure(left.whole[best], `p:0:${best}`, num(left.whole[best], 3)),
			`. The model reads the text again without each ${unit}; the effect is what the ${unit} contributed. ` +
			`Blue: it speaks for ${name}; orange: without this ${unit}, class ${name} is likelier.`,
		],
		body: left.words.length ? [
			h("div", { class: "sentence" }, left.words.map((one, k) => word(visible(one.word).slice(0, 40), effects[k], `effect:${k}:${best}`))),
			table(["without", `p(${name})`, "effect", ""], left.words.map(line), "words"),
		] : empty("There are no words to remove."),
	});
}
