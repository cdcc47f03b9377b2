// The stream of one token: what each sublayer adds to it, the feed-forward's strongest units, and what the
// model would predict there: the logit lens (N21 to N25, N32).

import { cells, chip, empty, figure, h, num, plural, signedTracks, spell, table, track } from "../parts/dom.js";
import { scaleFor } from "../parts/colour.js";
import { strip } from "../parts/matrix.js";
import { panel } from "../parts/panel.js";
import { pythonPass, pythonSite, quote } from "../parts/python.js";
import { app, attention, chosenStack, nameAt, place, reading, stackOf, tokenAt, topStack } from "../app.js";
import { picker, placeChooser, stackPicker } from "../parts/controls.js";
import { streamSites } from "../derivations/stream.js";
import { select, state } from "../state.js";
import { draw as states, hasStates } from "./states.js";

export const title = "Stream";

export async function draw() {
	if (hasStates(app.model)) return states();
	const stack = chosenStack(), i = place(stack), part = stackOf(stack), isTop = stack === topStack();
	const block = attention().stack === stack ? attention().block : 0, where = `${stack}.${block}.ffn`;
	const [rows, lens, hidden] = await Promise.all([
		reading("stream", { stack, position: i }), isTop ? reading("lens", { position: i }) : [],
		part.blocks ? tokenAt([`${where}.hidden`], i) : null,
	]);
	return [
		placeChooser(stack, i, stackPicker(stack)), await stripsPanel(stack, i), streamPanel(rows, stack, i, part),
		lens.length ? lensPanel(lens, i) : noLens(isTop), hidden ? unitsPanel(hidden[`${where}.hidden`], where, stack, i, part) : null,
	];
}

// The stream itself, from the embedding to the top: a strip after every sublayer, in one colour scale.
async function stripsPanel(stack, i) {
	const names = streamSites(stack), found = await tokenAt(names.map(([where]) => where), i), d = stackOf(stack).d;
	const rows = names.map(([where, label]) => [where, label, Array.from(found[where])]);
	const scale = scaleFor(rows.flatMap(([, , x]) => x), "signed"), [, at, c, on] = state().cell.split(":");
	return panel({
		title: `The stream of ${nameAt(stack, i)}, sublayer by sublayer`, key: "strips",
		python: () => pythonPass(
			"for name, X in trace.items():", `    if name.startswith("${stack}.") and (".residual." in name or name.endswith("embeddings.out")):`,
			`        print(name, X[0, ${i}])`,
		),
		rows: () => [["dimension", ...rows.map(([, label]) => label)], ...rows[0][2].map((_, e) => [e, ...rows.map(([, , x]) => x[e])])],
		note: `${d} numbers, one strip after each sublayer, which adds to what is there: a column that keeps its colour is carried along.`,
		body: h("div", { class: "strips" }, rows.map(([where, label, x]) => [
			h("span", {}, label.slice(stack.length + 1)),
			strip(x, {
				scale, name: `stream after ${label}`, key: `strip ${where}`, isPlain: true,
				chosen: state().cell.startsWith("stream:") && on === where && Number(at) === i ? Number(c) : -1,
				onselect: (e) => select({ cell: `stream:${i}:${e}:${where}` }),
			}),
		])),
	});
}

function streamPanel(rows, stack, i, part) {
	const most = Math.max(...rows.map((row) => Math.max(row.before, row.after, row.added)), 1e-9), names = streamSites(stack);
	const line = (row, k) => cells([
		row.name, figure(row.before, k ? `norm:${i}:${names[k - 1][0]}` : null),
		figure(row.added, `norm:${i}:${k ? `${row.name}.out` : names[0][0]}`), track(row.added / most, "v"),
		figure(row.cosine, `cos:${i}:${row.name}`, num(row.cosine, 2)), figure(row.after, `norm:${i}:${names[k][0]}`),
		track(row.after / most, "o"),
	]);
	return panel({
		title: "What each sublayer adds to the stream", key: "stream",
		python: () => pythonPass(
			"for name, X in trace.items():",
			`    if name.startswith("${stack}.") and (name.endswith(".out") or ".residual." in name):`,
			`        print(name, float(X[0, ${i}].norm()))`,
		),
		note: `Norms of vectors of width ${part.d}. ` +
			(part.placement === "post"
				? "After each addition the stream is normed. "
				: "The stream itself is never normed: sublayers read a normed copy. ") +
			"cos: whether the addition points along the stream.",
		rows: () => [
			["sublayer", "norm before", "norm added", "cosine", "norm after"],
			...rows.map((row) => [row.name, row.before, row.added, row.cosine ?? "", row.after]),
		],
		body: table(["after", "before", "added", "", "cos", "stream", ""], rows.map(line), "stream"),
	});
}

function lensPanel(lens, i) {
	const shown = Math.min(5, lens[0].top.length), rank = (top) => [...top].sort((a, b) => b.p - a.p).slice(0, shown);
	const line = ({ site: name, top }, k) => cells([
		streamSites(topStack())[k][1],
		...rank(top).map((one) => h(
			"span", { class: "word" }, chip(one), figure(one.p, `lens:${i}:${one.id}:${name}`, num(one.p, 3)),
		)),
	]);
	const classifies = app.model.head === "classifier";
	return panel({
		title: "The prediction after every sublayer (logit lens)", key: "lens",
		python: () => pythonPass(
			`for name in (${lens.map((one) => quote(one.site)).join(", ")},):`,
			`    Z = module.head(module.${topStack()}.norm(trace[name]))[0]`,
			`    print(name, (Z if Z.ndim == 1 else Z[${i}]).softmax(-1).topk(${shown}))`,
		),
		note: `The ${classifies ? "classifier" : "language"} head applied to the stream after each sublayer, behind the final norm. ` +
			`The last row is what the model predicts${classifies ? "" : ` after ${spell(app.pass.tokens[topStack()][i])}`}.`,
		rows: () => [
			["site", ...Array.from({ length: shown }, (_, k) => [`token ${k + 1}`, `p ${k + 1}`]).flat()],
			...lens.map(({ site: name, top }) => [name, ...rank(top).flatMap((one) => [one.text, one.p])]),
		],
		body: table(["after", "likeliest", ...Array(shown - 1).fill("")], lens.map(line), "predictions by sublayer"),
	});
}
const noLens = (isTop) => panel({
	title: "The prediction after every sublayer (logit lens)", key: "lens", rows: () => [["none"]],
	body: empty(isTop
		? (app.model.config.labels === "several" ? "Several labels may fit, so there is no one prediction to follow: see Classifier."
			: "This model has no head: it returns vectors and predicts nothing.")
		: "The head reads the decoder. Choose the decoder to see what it would predict after every sublayer."),
});

function unitsPanel(values, where, stack, i, part) {
	const d = values.length;
	const order = [...values.keys()].sort((a, b) => Math.abs(values[b]) - Math.abs(values[a])).slice(0, 16);
	const bar = signedTracks(order.map((c) => values[c])), quiet = values.filter((value) => Math.abs(value) < 1e-3).length;
	const line = (c) => cells([
		`unit ${c}`, figure(values[c], `hidden:${i}:${c}:${where}`), bar(values[c]),
	]);
	const go = (b) => select({ at: `${stack}.${b}.self` });
	return panel({
		title: `Strongest units of ${where}`, key: "units",
		python: () => pythonSite(`${where}.hidden`, undefined, `print(X[${i}])`),
		rows: () => [["unit", "value"], ...order.map((c) => [c, values[c]])],
		note: `Between the two matrices. For this token ${quiet} of ${plural(d, "unit")} are below a thousandth.`,
		body: [
			h("div", { class: "bar" }, picker("Block", "block", [...Array(part.blocks).keys()], where.split(".")[1], go)),
			table(["", "value", ""], order.map(line), "units"),
		],
	});
}
