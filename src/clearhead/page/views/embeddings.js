// Embeddings: each token's vector, its position's, its neighbours, and all of them in two dimensions (N2, N4, N7).

import { cells, chart, chip, figure, h, note, num, percent, signedTracks, spell, svg, table, visible } from "../parts/dom.js";
import { scaleFor } from "../parts/colour.js";
import { matrix, strip } from "../parts/matrix.js";
import { panel } from "../parts/panel.js";
import { pythonPass, pythonSite } from "../parts/python.js";
import {
	app, chosenStack, likeliest, nameAt, place, reading, site, stackOf, SWAPS, swapPass, swappedText, tokens, topStack, wordsOf,
} from "../app.js";
import { picker, placeChooser, stackPicker } from "../parts/controls.js";
import { norm } from "../derivations/terms.js";
import { isSaved } from "../api.js";
import { list, select, state } from "../state.js";
import { hasStates } from "./states.js";

export const title = "Embeddings";
export const alone = true;

export async function draw() {
	const stack = chosenStack(), i = place(stack), { id } = tokens(stack)[i];
	const offered = sitesOf(stack);
	const chosen = offered.find(([name]) => name === state().site) || offered[0];
	const [E, P, C, X, near, flat] = await Promise.all([
		...["tokens", "positions", "convolution", "out"].map((key) => siteIf(`${stack}.embeddings.${key}`)),
		reading("neighbours", { stack, id }), reading("projection", { site: chosen[0] }),
	]);
	return [
		placeChooser(stack, i, stackPicker(stack)), vectorPanel(stack, i, E, P, C, X), await swapPanel(),
		h("div", { class: "pair stacked" }, nearPanel(stack, tokens(stack)[i], near), flatPanel(stack, i, flat, chosen, offered)),
		tablePanel(stack, i, E),
	];
}

const has = (name) => name in app.pass.sites;
const siteIf = (name) => (has(name) ? site(name) : null);
const isSum = (stack) => has(`${stack}.embeddings.positions`) || has(`${stack}.embeddings.convolution`);
const sitesOf = (stack) => [
	["embeddings.tokens", "token vectors"], ["embeddings.positions", "position vectors"],
	["embeddings.convolution", "what the convolution adds"], ...(isSum(stack) ? [["embeddings.out", "their sum"]] : []),
	["norm", "at the top of the stack, in context"],
].map(([key, label]) => [`${stack}.${key}`, label]).filter(([name]) => has(name));
const line = (X, i) => Array.from(X.data.subarray(i * X.shape[1], (i + 1) * X.shape[1]));

function vectorPanel(stack, i, E, P, C, X) {
	const rows = [
		["token", "tokens", E, (c) => `e:${i}:${c}:${stack}`],
		["position", "positions", P, (c) => `position:${i}:${c}:${stack}`],
		["filters", "convolution", C, (c) => `filter:${i}:${c}:${stack}`],
		["sum", "out", isSum(stack) ? X : null, (c) => `stream:${i}:${c}:${stack}.embeddings.out`],
	].filter(([, , Y]) => Y).map(([name, key, Y, cell]) => [name, key, line(Y, i), cell]);
	const scale = scaleFor(rows.flatMap(([, , x]) => x), "signed");
	return panel({
		title: `The vector of ${nameAt(stack, i)}`, key: "vector",
		python: () => pythonSite(`${stack}.embeddings.tokens`, undefined, `print(X[${i}])`),
		rows: () => [
			["dimension", ...rows.map(([name]) => name)], ...rows[0][2].map((_, c) => [c, ...rows.map(([, , x]) => x[c])]),
		],
		note: (P
			? `A row of the table for the token, one for position ${i}, and their sum, where the stream starts: x = E t + P p` +
				`${stackOf(stack).embedding_norm ? ", normed" : ""}.`
			: `A row of the embedding table, ${E.shape[1]} numbers wide. ` + (hasStates(app.model)
				? "There are no positions: order enters as tokens are read." : `Positions (${stackOf(stack).positions}) enter inside attention, not here.`)
		) + (C ? " A convolution over it and its neighbours is added before the first block." : ""),
		body: h("div", { class: "strips" }, rows.flatMap(([name, key, x, cell]) => [
			h("span", {}, h("b", {}, name), " norm ", figure(norm(x), `norm:${i}:${stack}.embeddings.${key}`, num(norm(x), 3))),
			strip(x, { scale, name, key: `strip ${name}`, onselect: (c) => select({ cell: cell(c) }) }),
		])),
	});
}

// Two words change places: what the model says then, and what it says if nothing encodes where a word is (N7, N14).
async function swapPanel() {
	const words = wordsOf(app.pass.question.text), last = words.length - 1, other = swappedText(), given = list("swap").map(Number);
	const first = Math.max(0, last - 2), next = words.findIndex(([word], k) => k > first && word !== words[first][0]);
	const [a, b] = other === null ? [first, Math.max(1, next)] : given, choose = (chosen) => select({ swap: chosen.join(",") });
	const unit = words.every(([word]) => word.length === 1) ? "letter" : "word";
	const options = words.map(([word], k) => [k, `${k} ${[...word].slice(0, 16).join("")}`]);
	const bar = words.length < 2 ? note("Type a text with two words or letters.") : h(
		"div", { class: "bar" }, picker(unit === "word" ? "Word" : "Letter", "swap one", options, a, (k) => choose([Number(k), b])),
		picker("and", "swap other", options, b, (k) => choose([a, Number(k)])),
		h("button", { key: "swap", "aria-pressed": String(other !== null), disabled: isSaved, onclick: () => choose(other === null ? [a, b] : []) }, "Swap them"),
	);
	const lines = [];
	if (other !== null && app.model.head !== "none") for (const [v, [name, off]] of SWAPS.entries()) {
		if (off.every((part) => !(part in app.model.parts.missing))) lines.push([name, await swapped(2 * v), await swapped(2 * v + 1)]);
	}
	const said = ({ best, end, number, own }) => (own !== null ? h("bdi", {}, visible(own)) : h(
		"span", { class: "row" }, app.model.head === "classifier" ? h("b", {}, visible(best.text)) : chip(best),
		figure(best.p, `p:${end}:${best.id}:swap${number}`),
	));
	const isSame = (x, y) => (x.own !== null ? x.own === y.own : x.best.id === y.best.id && Math.abs(x.best.p - y.best.p) < 1e-5);
	return panel({
		title: `Swap two ${unit}s${hasStates(app.model) ? "" : ": what positions are for"}`, key: "swap",
		rows: () => [["", "as written", "p", "swapped", "p"], ...lines.map(([name, x, y]) => [name, x.own ?? x.best.text, x.best.p, y.own ?? y.best.text, y.best.p])],
		note: hasStates(app.model)
			? `A recurrence reads ${unit} after ${unit}, and a filter weighs neighbours by place: order needs no positions.`
			: `Attention sees a set of ${unit}s. Their order comes from positions, and in a decoder from the mask: without both, a swap changes nothing.`,
		body: [bar, lines.length ? [
			h("p", { class: "note" }, h("bdi", {}, visible(other))),
			table(["", "as written", "swapped", ""], lines.map(([name, x, y]) => cells([name, said(x), said(y), isSame(x, y) ? "the same" : "different"])), "swapped"),
		] : null],
	});
}
async function swapped(number) {
	const { prediction, tokens: some, own_target: own, change } = await swapPass(number);
	const end = app.model.head === "classifier" ? 0 : some[topStack()].length - 1;
	return { best: likeliest(prediction), end, number, own: change?.own_after ?? own };
}

function nearPanel(stack, token, near) {
	const side = (name, key) => {
		const bar = signedTracks(near[key].map((one) => one.value));
		const one = ({ id, value, text }) => cells([
			chip({ id, text }), figure(value, `near:${key}:${token.id}:${id}:${stack}`), bar(value),
		]);
		return table(["token", name, ""], near[key].map(one), name);
	};
	return panel({
		title: `Neighbours of ${spell(token)}`, key: "neighbours",
		python: () => pythonPass(
			`E = module.${stack}.tokens.weight.detach()`,
			`for values in (torch.cosine_similarity(E, E[${token.id}][None]), E @ E[${token.id}]):`,
			"    print(values.topk(11))",
		),
		note: "The nearest of the vocabulary. The dot product favours long vectors; the cosine compares directions only.",
		rows: () => [
			["measure", "token", "id", "value"],
			...Object.entries(near).flatMap(([name, list]) => list.map((one) => [name, one.text, one.id, one.value])),
		],
		body: h("div", { class: "pair close" }, side("cosine", "cosine"), side("dot product", "dot")),
	});
}

function flatPanel(stack, chosen, { points, share }, [name, label], offered) {
	const width = 460, height = 340, list = tokens(stack), many = list.length > 80;
	const span = (axis) => { const all = points.map((point) => point[axis]); return [Math.min(...all), Math.max(...all)]; };
	const [xs, ys] = [span(0), span(1)];
	const to = (value, [low, high], size) => 40 + ((value - low) / (high - low || 1)) * (size - 80);
	const marks = points.map((point, i) => {
		const x = to(point[0], xs, width), y = height - to(point[1], ys, height), isOn = i === chosen;
		const side = x > width * 0.75 ? { x: x - 7, "text-anchor": "end" } : { x: x + 7 };
		return [
			svg("circle", { cx: x, cy: y, r: isOn ? 6 : 3.5, fill: isOn ? "var(--o)" : "var(--q)" }),
			many && !isOn ? null : svg("text", { ...side, y: y + 4, class: "mono", "font-size": 12 }, spell(list[i], 12)),
		];
	});
	const hold = (k) => figure(share[k] || 0, `variance:${k}:${name}`, percent(share[k] || 0));
	return panel({
		title: "In two dimensions", key: "projection",
		python: () => pythonSite(
			name, undefined, "U, S, _ = torch.linalg.svd((X - X.mean(0)).double(), full_matrices=False)",
			"print(U[:, :2] * S[:2])",
		),
		rows: () => [["token", "first", "second"], ...points.map(([x, y], i) => [list[i].text, x, y])],
		note: [`${label}: the two directions in which they differ most explain `, hold(0), " and ", hold(1), " of the variance."],
		body: [
			h("div", { class: "bar" }, picker("Vectors", "site", offered, name, (key) => select({ site: key }))),
			chart(
				width, height, `Projection of ${list.length} vectors`,
				svg("rect", { x: 1, y: 1, width: width - 2, height: height - 2, rx: 8, class: "line" }), marks,
			),
		],
	});
}

const tablePanel = (stack, i, E) => panel({
	title: "All token vectors", key: "table", python: () => pythonSite(`${stack}.embeddings.tokens`),
	rows: () => [["token", ...Array(E.shape[1]).keys()], ...tokens(stack).map((token, k) => [token.text, ...line(E, k)])],
	body: matrix({
		values: E.data, rows: E.shape[0], columns: E.shape[1], rowTokens: tokens(stack), title: "E t", name: "embeddings",
		key: "matrix embeddings", selected: [i, -1], wide: 980, tall: 420,
		onselect: (q, c) => select({ q, cell: `e:${q}:${c}:${stack}` }),
	}),
});
