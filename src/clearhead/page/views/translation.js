// Translation: the encoder's attention, the decoder's, and the rectangle between them, with its alignment (N17, N29).

import { cells, chart, chip, figure, h, num, plural, scroll, spell, svg, table } from "../parts/dom.js";
import { panel } from "../parts/panel.js";
import { weightsPanel } from "../parts/attention_matrix.js";
import { pythonSite } from "../parts/python.js";
import { answer, app, attention, head, likeliest, nameOf, reading, site, stackOf, tokens } from "../app.js";
import { bar, headButtons, picker, placeChooser, proof } from "../parts/controls.js";
import { select, state } from "../state.js";
import { askedPlace, missing as missingParts, tokensPanel } from "./attribution.js";

export const title = "Translation";
export const alone = true;
const NO_ATTENTION = "This translator has no attention: all that its decoder knows of the source is in its first state.";
export const missing = () => (app.model.shape === "encoder-decoder" ? (app.model.attentions.length ? null : NO_ATTENTION) : "This model has no source and target. Open a translator, such as one trained on builtin:spanish.");

const find = (name) => app.model.attentions.find((one) => one.name === name);
const isMean = () => state().scope !== "head";
const placeIn = (one) => Math.min(head(), one.heads.length - 1);
const cell = (one, i, j) => (isMean() ? `mean:${i}:${j}:${one.name}` : `weights:${i}:${j}:${nameOf(one, placeIn(one))}`);

export async function draw() {
	const b = attention().stack === "decoder" ? attention().block : 0, last = stackOf("encoder").blocks - 1;
	const three = [`encoder.${Math.min(b, last)}.self`, `decoder.${b}.self`, `decoder.${b}.cross`].map(find).filter(Boolean);
	const cross = three.at(-1); // the only one of a recurrent translator
	const all = await Promise.all(three.map((one) => site(`${one.name}.weights`, isMean() ? "mean" : placeIn(one))));
	const blocks = [...Array(stackOf("decoder").blocks).keys()];
	return [
		bar(
			"Selection", picker("Block", "block", blocks, b, (block) => select({ at: `decoder.${block}.cross` })),
			headButtons(
				cross.heads, isMean() ? "mean" : cross.heads[placeIn(cross)],
				(number) => select(number === "mean" ? { scope: "layer" } : { scope: "head", head: number, at: cross.name }),
				["mean"],
			),
			proof(),
		),
		alignmentPanel(cross, all.at(-1)), missingParts() ? null : await wordPanel(), h("div", { class: "pair" }, three.map((one, k) => square(one, all[k]))),
	];
}

const TITLES = {
	"encoder self": "Encoder: the source looks at itself", "decoder self": "Decoder: the target looks back",
	"decoder cross": "Cross: the target looks at the source",
};
const square = (one, A) => weightsPanel({
	one, A, title: TITLES[`${one.stack} ${one.kind}`], key: one.name,
	note: `${isMean() ? `Mean of ${plural(one.heads.length, "head")}` : `Head ${one.heads[placeIn(one)]}`} of ${one.name}${one.kind === "cross" ? "; a row predicts the word after its own" : ""}.`,
	python: () => pythonSite(`${one.name}.weights`, isMean() ? "mean" : placeIn(one)),
	drawn: {
		title: one.name, key: `matrix ${one.name}`,
		selected: attention().name === one.name && state().q !== "" && state().k !== "" ? [Number(state().q), Number(state().k)] : [-1, -1],
		onselect: (q, k, derive) => select({ at: one.name, q, k, cell: derive ? cell(one, q, k) : "" }),
	},
});

// One word that the model predicts: which words of the source and of the target so far its logit depends on.
async function wordPanel() {
	const i = askedPlace(), { answer: asked } = await reading("attribution", answer(i));
	const known = [...tokens("decoder").slice(1), null];
	return [
		placeChooser("decoder", i, "What is predicted after", h("button", { key: "to attribution", onclick: () => select({ view: "attribution", q: i }) }, "What each part adds to it")),
		known[i] && known[i].id !== asked.id ? h("p", { class: "note" }, "The likeliest word here is not the one that follows in the target.") : null,
		await tokensPanel(asked),
	];
}

// For each word that the model predicts, the source token that it looks at most while predicting it.
function alignmentPanel(cross, A) {
	const source = tokens("encoder"), read = tokens("decoder"), m = A.shape[1];
	const last = likeliest();
	const target = [...read.slice(1), last];
	const links = target.map((_, i) => {
		const row = A.data.subarray(i * m, (i + 1) * m), weight = row.reduce((a, b) => Math.max(a, b), 0);
		return { i, j: row.indexOf(weight), weight };
	});
	const wide = (token) => Math.max(34, 8.2 * [...spell(token, 14)].length + 16);
	const places = (list) => {
		let x = 10;
		return list.map((token) => { const middle = x + wide(token) / 2; x += wide(token) + 6; return middle; });
	};
	const xs = places(source), ys = places(target), right = (list, x) => x.at(-1) + wide(list.at(-1)) / 2;
	const width = Math.max(right(source, xs), right(target, ys)) + 10;
	const boxes = (list, x, y, tone) => list.map((one, i) => [
		svg("rect", { x: x[i] - wide(one) / 2, y, width: wide(one), height: 26, rx: 6, class: "box" }),
		svg("text", { x: x[i], y: y + 17, "text-anchor": "middle", class: `mono ${tone}`, "font-size": 13 }, spell(one, 14)),
	]);
	const curves = links.map(({ i, j, weight }) => svg("path", {
		d: `M${ys[i]} 134C${ys[i]} 90 ${xs[j]} 80 ${xs[j]} 36`, fill: "none", stroke: "var(--o)",
		"stroke-width": 1 + 4 * weight, "stroke-opacity": 0.25 + 0.7 * weight,
	}));
	const drawing = chart(
		width, 170, "Alignment of the predicted words and the source",
		curves, boxes(source, xs, 10, "k"), boxes(target, ys, 134, "q"),
	);
	const line = ({ i, j, weight }) => cells([
		chip(target[i]), chip(read[i]), chip(source[j]), figure(weight, cell(cross, i, j), num(weight, 3)),
	]);
	return panel({
		title: "The alignment, read off the cross-attention", key: "alignment",
		python: () => pythonSite(`${cross.name}.weights`, isMean() ? "mean" : placeIn(cross), "print(X.max(-1))"),
		rows: () => [
			["predicted", "after reading", "source", "weight"],
			...links.map(({ i, j, weight }) => [target[i].text, read[i].text, source[j].text, weight]),
		],
		note: "Each word that the model predicts is linked to the source token with the largest weight at that moment.",
		body: [
			scroll("Alignment", drawing),
			h(
				"details", { open: state().cell !== "" }, h("summary", {}, "As a table"),
				table(["predicted", "after reading", "looks most at", "weight"], links.map(line), "alignment"),
			),
		],
	});
}
