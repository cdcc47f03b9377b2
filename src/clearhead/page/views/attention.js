// The attention bench: one head, from q and k of a pair to what it adds to the stream (N9 to N16).

import { figure, formula, h, note, spell } from "../parts/dom.js";
import { scaleFor } from "../parts/colour.js";
import { matrix, strip } from "../parts/matrix.js";
import { panel } from "../parts/panel.js";
import { weightsMatrix } from "../parts/attention_matrix.js";
import { pythonPass, quote } from "../parts/python.js";
import {
	app, attention, head, headName, headTensors, hidesSome, isVisible, keyToken, look, nameAt, query, tokens, toggle, weight,
} from "../app.js";
import { chooser } from "../parts/controls.js";
import { isSaved } from "../api.js";
import { list, select, state } from "../state.js";
import { draw as states } from "./states.js";

export const title = "Attention";

const dots = ["scaled_dot", "dot"];
function stages() {
	const one = attention(), isDot = dots.includes(one.similarity);
	return [
		{ name: "qkv", label: "Q, K, V" }, isDot ? { name: "dot", label: "Q Kᵀ" } : null,
		{ name: "scores", label: isDot ? (one.biased ? "÷ √d_k + bias" : "÷ √d_k") : `${one.similarity} similarity` },
		{ name: "mask", label: "mask" }, { name: "softmax", label: "softmax" }, { name: "values", label: "× V" },
		{ name: "output", label: "W_o" }, { name: "all", label: "all at once" },
	].filter(Boolean);
}

export async function draw() {
	if (!app.model.attentions.length) return states();
	const T = await headTensors();
	look(T.weights);
	const names = stages();
	const now = names.find(({ name }) => name === state().stage) || names.find(({ name }) => name === "softmax");
	return [chooser(), pairPanel(T), await stagePanel(T, now, names), switches()];
}

const width = (X) => X.shape.at(-1);
const line = (X, i) => X.data.subarray(i * width(X), (i + 1) * width(X));

// q, k, q ∘ k and what becomes of their sum.
function pairPanel(T) {
	const one = attention(), i = query(), j = keyToken(), isDot = dots.includes(one.similarity);
	const S = line(T.scores, i)[j], A = line(T.weights, i)[j], scale = app.pass.scales[one.name];
	if (!width(T.q)) return panel({
		title: "A pair", note: "This similarity looks at positions only: there are no queries and keys.", body: [],
		rows: () => [["score", S], ["weight", A]],
	});
	const q = Array.from(line(T.q, i)), k = Array.from(line(T.k, j)), products = q.map((value, c) => value * k[c]);
	const both = scaleFor([...q, ...k], "signed"), sum = products.reduce((a, b) => a + b, 0);
	const row = (label, values, cell, options) => [
		h("span", {}, label), strip(values, { scale: both, onselect: (c) => select({ cell: cell(c) }), ...options }),
	];
	const of = (tone, token) => [h("b", { class: tone }, tone), " of ", h("span", { class: "chip" }, h("bdi", {}, spell(token, 14)))];
	const step = (...parts) => h("span", {}, parts.flatMap((part) => [part, " "]));
	return panel({
		title: [
			"How much ", h("b", { class: "q" }, nameAt(one.stack, i)), " looks at ", h("b", { class: "k" }, nameAt(one.keys, j)),
		],
		key: "pair",
		rows: () => [
			["dimension", "q", "k", "product"], ...q.map((value, c) => [c, value, k[c], products[c]]), ["score", "", "", S],
			["weight", "", "", A],
		],
		python: () => pythonStage("pair"),
		body: [
			h(
				"div", { class: "strips" },
				row(of("q", tokens(one.stack)[i]), q, (c) => `q:${i}:${c}`, { name: "query", key: "strip q" }),
				row(of("k", tokens(one.keys)[j]), k, (c) => `k:${j}:${c}`, { name: "key", key: "strip k" }),
				row(["q ∘ k"], products, () => `product:${i}:${j}`, { scale: scaleFor(products, "signed"), name: "products", key: "strip product" }),
			),
			h(
				"p", { class: "equation", "data-name": "pair" },
				isDot ? [
					step("q · k =", figure(sum, `product:${i}:${j}`)),
					step(
						"score =", figure(sum, `product:${i}:${j}`), "×", figure(scale, "scale"), one.biased ? "+ bias =" : "=",
						figure(S, `scores:${i}:${j}`),
					),
				] : step(`score, by ${one.similarity} similarity =`, figure(S, `scores:${i}:${j}`)),
				step(
					isVisible(one, i, j) ? "weight, by softmax over the row =" : "hidden by the mask: weight =",
					h("b", { class: "o", "data-name": "weight" }, figure(A, `weights:${i}:${j}`)),
				),
			),
		],
	});
}

const FORMULAS = {
	qkv: "Q = X W_q , K = X W_k , V = X W_v", dot: "Q K^T", scores: "S = {Q K^T} / √{d_k}",
	mask: 'S_{ij} → −∞ "if i may not look at j"', softmax: "A = softmax ( S )", values: "H = A V",
	output: 'out = H W_o "(this head\'s part)"',
};
const NOTES = {
	qkv: "Each token's input x becomes a query, a key and a value: three products with three matrices.",
	dot: "Every query meets every key: one matrix product for all tokens at once.",
	scores: "Divided by √d_k, so that wide heads do not saturate the softmax; positions that act as a " +
		"bias are added here.",
	mask: "The score of a hidden key becomes −∞ before the softmax.",
	softmax: "exp, then divided by the row's sum: every row sums to 1, and a hidden key gets exactly 0.",
	values: "Each token takes the average of the values, by its weights.",
	output: "The head's output through its columns of W_o: what it adds to the stream. The sublayer adds " +
		"the sum over all heads.",
};

function drawn(name, T, options = {}) {
	const one = attention(), rowTokens = tokens(one.stack), columnTokens = tokens(one.keys);
	const n = rowTokens.length, m = columnTokens.length, i = query(), j = keyToken();
	const square = (values, title, kind, more = {}) => ({
		values, rows: n, columns: m, rowTokens, columnTokens, title, selected: [i, j], key: `matrix ${name}`, name,
		onselect: (q, k, derive) => select({ q, k, ...(derive || state().cell ? { cell: `${kind}:${q}:${k}` } : {}) }),
		...more, ...options,
	});
	const isHidden = hidesSome(one) ? (at) => !isVisible(one, Math.floor(at / m), at % m) : null;
	if (name === "dot") return matrix(square(times(T.q, T.k).data, "Q Kᵀ", "product"));
	if (name === "scores") return matrix(square(T.scores.data, "S", "scores"));
	if (name === "mask") return matrix(square(T.scores.data, "S, masked", "scores", { isHidden, hiddenText: "−∞" }));
	if (name === "softmax") return weightsMatrix(one, T.weights, square(T.weights.data, "A", "weights"));
	const wide = (X, title, kind, stack, chosen, colour) => {
		const [own, row, column] = state().cell.split(":"), isOn = own === kind && Number(row) === chosen;
		return matrix({
			values: X.data, rows: X.shape[0], columns: X.shape[1], rowTokens: tokens(stack), title,
			tone: kind.length > 1 ? "o" : kind, rowColour: colour, selected: [chosen, isOn ? Number(column) : -1],
			key: `matrix ${title}`, name: title,
			onselect: (a, c) => select({ [colour === "--q" ? "q" : "k"]: a, cell: `${kind}:${a}:${c}` }), ...options,
		});
	};
	if (name === "qkv") return h(
		"div", { class: "flow" }, wide(T.q, "Q", "q", one.stack, i, "--q"), wide(T.k, "K", "k", one.keys, j, "--k"),
		wide(T.v, "V", "v", one.keys, j, "--v"),
	);
	if (name === "values") return wide(T.heads, "H = A V", "heads", one.stack, i, "--q");
	return wide(options.part, "H W_o", "part", one.stack, i, "--q");
}

const three = (found) => (found.className === "flow" ? [...found.children] : [found]);

// What a stage is made from, small, and then the stage itself.
function withOperands(name, names, T, part) {
	const share = ["dot", "values"].includes(name) ? 0.36 : 0.62, now = drawn(name, T, { part }); // one above the other
	const small = { wide: 300, tall: 300, small: true, plain: true, share };
	const has = (stage) => names.some((one) => one.name === stage);
	const [Q, K, V] = width(T.q) ? three(drawn("qkv", T, small)) : [];
	const operands = {
		dot: () => [Q, K], scores: () => (has("dot") ? [drawn("dot", T, small)] : Q ? [Q, K] : []),
		mask: () => [drawn("scores", T, small)], softmax: () => [drawn("mask", T, small)],
		values: () => [drawn("softmax", T, small), V || drawn("qkv", T, small).lastChild],
		output: () => [drawn("values", T, small)],
	};
	const from = operands[name]?.() || [];
	return from.length ? h(
		"div", { class: "steps" }, h("div", { class: "operands" }, from),
		h("span", { class: "sign", "aria-hidden": "true" }, "→"), now,
	) : now;
}

// X Yᵀ.
function times(X, Y) {
	const [n, m, d] = [X.shape[0], Y.shape[0], width(X)], data = new Float32Array(n * m);
	for (let a = 0; a < n; a++) for (let b = 0; b < m; b++) {
		let total = 0;
		for (let c = 0; c < d; c++) total += X.data[a * d + c] * Y.data[b * d + c];
		data[a * m + b] = total;
	}
	return { shape: [n, m], data };
}

// H W_o for the columns of this head: (n, d).
const columnsOfHead = (d) => [head() * d, (head() + 1) * d];
async function ownPart({ heads: H }) {
	const one = attention();
	return one.projections === "none" ? H : times(H, await weight(`${one.weights}.W_o.weight`, null, columnsOfHead(width(H))));
}

// Python that prints what a stage shows.
function pythonStage(stage) {
	const one = attention(), at = (key, place = head()) => `trace[${quote(`${one.name}.${key}`)}][0, ${place}]`;
	const k = at("k", one.reads[head()]), [from, to] = columnsOfHead(one.d_v);
	const W = one.projections === "none" ? "" : ` @ module.get_parameter(${quote(`${one.weights}.W_o.weight`)})[:, ${from}:${to}].detach().T`;
	const lines = {
		pair: [`print(${at("q")}[${query()}] * ${k}[${keyToken()}])`],
		qkv: [`print(${at("q")}, ${k}, ${at("v", one.reads[head()])})`], dot: [`print(${at("q")} @ ${k}.T)`],
		values: [`print(${at("heads")})`], output: [`print(${at("heads")}${W})`],
		softmax: [`X = ${at("weights")}`, "print(X)"],
	};
	return pythonPass(...(lines[stage] || (stage === "all" ? lines.softmax : [`print(${at("scores")})`])));
}

async function stagePanel(T, now, names) {
	const index = names.indexOf(now), one = attention();
	const part = ["output", "all"].includes(now.name) ? await ownPart(T) : null;
	const go = (at) => select({ stage: names[at].name, cell: state().cell });
	const step = (key, label, text, to) => h(
		"button", { key, "aria-label": label, disabled: !names[to], onclick: () => go(to) }, text,
	);
	const stepper = h(
		"div", { class: "stages", role: "group", "aria-label": "Stages" },
		step("stage back", "Stage before", "‹", index - 1), step("stage on", "Next stage", "›", index + 1),
		names.map(({ name, label }, at) => h(
			"button", { key: `stage ${name}`, "aria-current": at === index ? "step" : null, onclick: () => go(at) }, label,
		)),
	);
	const isAll = now.name === "all";
	const small = { part, wide: 320, tall: 230, small: true, plain: true };
	const body = isAll ? h(
		"div", { class: "flow" }, names.slice(0, -1).flatMap(({ name }) => three(drawn(name, T, small))),
	) : withOperands(now.name, names, T, part);
	const all = [body, ...body.querySelectorAll(".matrix")].filter((one) => one.drawing);
	const own = (isAll ? all.find(
		(one) => one.dataset.name === "softmax",
	) : now.name === "qkv" ? all[0] : all.at(-1)).drawing;
	const row = (i) => [own.rowTokens[i].text, ...own.values.subarray(i * own.columns, (i + 1) * own.columns)];
	const rows = () => [
		["query", ...Array.from({ length: own.columns }, (_, j) => (own.columnTokens ? own.columnTokens[j].text : j))],
		...Array.from({ length: own.rows }, (_, i) => row(i)),
	];
	return panel({
		title: isAll ? "From queries to the stream" : now.label, key: "bench",
		note: now.name === "mask" && !hidesSome(one)
			? "No key is hidden from any query here."
			: isAll
			? "Rows are queries, columns keys; in Q, K, V, H and H W_o columns are dimensions."
			: NOTES[now.name],
		rows, drawing: () => own, python: () => pythonStage(now.name), first: stepper,
		aside: isAll ? null : formula(FORMULAS[now.name]), body,
	});
}

const SWITCHES = [
	[
		"projections", "No projections",
		"self-attention compares x with x; each head keeps its own V. Rotary positions, which rotate q and k, are removed too (N10).",
	],
	["scaling", "No scaling", "scores are not divided by √d_k (N12)."], ["mask", "No mask", "every token sees the future too (N15)."],
	["positions", "No positions", "nothing encodes where a token is; swap two words under Embeddings to see it (N7, N14)."],
];
function switches() {
	const missing = app.model.parts.missing, off = list("off");
	return h(
		"section", { class: "panel", "aria-label": "What if" },
		h(
			"div", { class: "row" }, h("h2", {}, "What if …"),
			h(
				"button", { key: "mute", "aria-pressed": String(list("mute").includes(headName())), disabled: isSaved, onclick: () => toggle("mute", headName()) },
				`Mute head ${headName()}`,
			),
		),
		note("The model runs again without a part, with the same weights. The bar below says what changes."),
		h(
			"div", { class: "grid", style: { "margin-top": "0.6rem" } },
			SWITCHES.map(([part, label, why]) => h(
				"label", { class: "switch" },
				h("input", {
					type: "checkbox", key: `switch ${part}`, checked: off.includes(part), disabled: part in missing || isSaved,
					onchange: () => toggle("off", part),
				}),
				h("b", {}, label), h("span", { class: "note" }, missing[part] || why),
			)),
		),
	);
}
