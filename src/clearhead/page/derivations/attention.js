// Where the numbers of attention come from: weights, scores, q, k, v, outputs of heads, and what they add.
// A head is named at the end of a cell, "weights:5:2:decoder.0.self.1"; without a name it is the chosen one.

import { h, note, num, plural } from "../parts/dom.js";
import { alike, app, attention, headAt, headTensors, isVisible, nameOf, site, weight, weightRow } from "../app.js";
import { list } from "../state.js";
import { at, dot, listing, norm, rowOf, shown, terms, total } from "./terms.js";

export async function weights(i, j, who) {
	const { one, place, name } = headAt(who), T = await headTensors(one, place), n = T.weights.shape[1];
	const S = Array.from(rowOf(T.scores, i)), seen = S.map((_, key) => isVisible(one, i, key));
	const largest = Math.max(...S.filter((_, key) => seen[key]));
	const shift = Math.abs(largest) > 30 ? largest : 0; // the same shares, and no overflow
	const e = S.map((value, key) => (seen[key] ? Math.exp(value - shift) : 0));
	const keys = [...e.keys()].filter((key) => seen[key]), score = (key) => [S[key], `scores:${i}:${key}:${name}`];
	return {
		title: ["Weight of ", shown(one.stack, i), " on ", shown(one.keys, j)],
		formula: 'A_{ij} = {exp S_{ij}} / {∑_{"visible" j′} exp S_{ij′}}',
		say: seen[j]
			? [" = exp(", score(j), shift ? ` − ${num(shift)}) / ` : ") / ", total(e)]
			: [" : this key is hidden from this query, so its share is exactly 0"],
		captured: at(T.weights, i, j), again: e[j] / total(e),
		more: [
			listing(
				["key", "S", shift ? "exp(S − max)" : "exp S", "A"],
				keys.map((key) => [
					shown(one.keys, key), score(key), e[key],
					[at(T.weights, i, key), key === j ? null : `weights:${i}:${key}:${name}`],
				]),
				keys.indexOf(j),
			),
			note(`The row sums to ${num(total(rowOf(T.weights, i)), 6)}. ${keys.length} of ${plural(n, "key")} ${keys.length === 1 ? "is" : "are"} visible.`),
		],
	};
}

// The mean of a sublayer's heads, or of all sublayers of its kind.
export async function mean(i, j, which) {
	const isAll = which === "all", one = isAll ? attention() : app.model.attentions.find(({ name }) => name === which);
	const parts = isAll
		? alike(one).map(({ name }) => [name, [`${name}.weights`, "mean"], `mean:${i}:${j}:${name}`])
		: one.heads.map((number, p) => [`head ${number}`, [`${which}.weights`, p], `weights:${i}:${j}:${nameOf(one, p)}`]);
	const values = (await Promise.all(parts.map(([, asked]) => site(...asked)))).map((A) => at(A, i, j));
	const captured = isAll ? total(values) / values.length : at(await site(`${which}.weights`, "mean"), i, j);
	return {
		title: ["Mean weight of ", shown(one.stack, i), " on ", shown(one.keys, j)],
		formula: `{1} / {${parts.length}} ∑_{${isAll ? "sublayers" : "heads"}} A_{ij}`,
		say: [" = ", total(values), ` / ${parts.length}`], captured, again: total(values) / values.length,
		more: listing(["", "A"], parts.map(([label, , cell], k) => [label, [values[k], cell]])),
	};
}

// How queries and keys are compared: the value, how it is said, and its formula.
const SIMILARITIES = {
	dot: ({ product, scale }) => [product * scale, [product, " × ", scale], "q_i · k_j"],
	scaled_dot: ({ product, scale, d }) => [
		product * scale, Math.abs(scale - d ** -0.5) < 1e-9 ? [product, ` / √${d}`] : [product, " × ", scale],
		"{q_i · k_j} / √{d_k}",
	],
	cosine: ({ product, scale, q, k }) => [
		(product * scale) / (norm(q) * norm(k)),
		[product, " / (", norm(q), " × ", norm(k), ")", scale === 1 ? "" : ` × ${num(scale)}`],
		"{q_i · k_j} / {‖ q_i ‖ ‖ k_j ‖}",
	],
	gaussian: ({ scale, q, k }) => {
		const gap = Array.from(q, (x, c) => x - k[c]), square = dot(gap, gap);
		return [(-scale / 2) * square, ["−½ × ", square, scale === 1 ? "" : ` × ${num(scale)}`], "− ½ ‖ q_i − k_j ‖^2"];
	},
	distance: ({ scale, i, j }) => [
		(-scale / 2) * (i - j) ** 2, [`−½ × (${i} − ${j})²`, scale === 1 ? "" : ` × ${num(scale)}`], "− ½ {( i − j )}^2",
	],
};
const pairTerms = (q, k, i, j, name) => terms(
	[h("span", { class: "q" }, "q"), h("span", { class: "k" }, "k")], q, k, (c) => `q:${i}:${c}:${name}`,
	(c) => `k:${j}:${c}:${name}`,
);

export async function scores(i, j, who) {
	const { one, place, name } = headAt(who), T = await headTensors(one, place), q = rowOf(T.q, i), k = rowOf(T.k, j);
	const scale = app.pass.scales[one.name], kind = one.similarity, product = dot(q, k), captured = at(T.scores, i, j);
	let value, said, f, rest = kind === "distance" ? null : pairTerms(q, k, i, j, name);
	if (kind === "additive") {
		const v = rowOf(await weight(`${one.weights}.similarity.v`), place), t = Array.from(q, (x, c) => Math.tanh(x + k[c]));
		[value, said, f, rest] = [dot(v, t) * scale, ["v · tanh(q + k)"], "v · tanh ( q_i + k_j )", terms(["v", "tanh(q + k)"], v, t)];
	} else [value, said, f] = SIMILARITIES[kind]({ product, scale, q, k, i, j, d: q.length });
	if (one.biased && !list("off").includes("positions")) {
		const bias = at(await site(`${one.name}.bias`, place), i, j);
		value += bias;
		said = [...said, " + ", bias, ` (${app.model.config.positions})`];
		f += " + b_{ij}";
	}
	return {
		title: ["Score of ", shown(one.stack, i), " for ", shown(one.keys, j)], formula: `S_{ij} = ${f}`,
		say: [" = ", ...said], captured, again: value, more: rest,
	};
}

// q · k before it is scaled.
export async function product(i, j, who) {
	const { one, place, name } = headAt(who), T = await headTensors(one, place), q = rowOf(T.q, i), k = rowOf(T.k, j);
	const value = dot(q, k), scale = app.pass.scales[one.name];
	return {
		title: ["Dot product of ", shown(one.stack, i), " and ", shown(one.keys, j)],
		formula: "q_i · k_j = ∑_c q_{ic} k_{jc}", say: [" = the sum of the products below"], captured: value,
		again: one.similarity === "scaled_dot" && !one.biased ? at(T.scores, i, j) / scale : value,
		more: [pairTerms(q, k, i, j, name), note("Multiplied by the scale, it is the score.")],
	};
}

export async function scale() {
	const one = attention(), captured = app.pass.scales[one.name], d = (await headTensors()).q.shape[1];
	const isRoot = Math.abs(captured - d ** -0.5) < 1e-9;
	return {
		title: [`Scale of the scores of ${one.name}`], formula: isRoot ? "{1} / √{d_k}" : "scale",
		say: [isRoot ? ` = 1 / √${d}` : " : set by the config or a what-if"], captured,
		again: isRoot ? d ** -0.5 : undefined,
	};
}

// One number of q, k or v: a dot product of the sublayer's input with a row of the projection.
const projection = (letter) => async (i, c, who) => {
	const { one, place } = headAt(who), X = (await headTensors(one, place))[letter], d = X.shape[1], off = list("off");
	const isMemory = letter !== "q" && one.kind === "cross", stack = letter === "q" ? one.stack : one.keys;
	const x = rowOf(await site(isMemory ? "encoder.norm" : `${one.name}.x`), i);
	const title = [`${letter}[${c}] of `, shown(stack, i)], captured = at(X, i, c);
	const cell = (e) => (isMemory ? `top:${i}:${e}:encoder` : `x:${i}:${e}:${one.name}`);
	if (one.projections === "none" || (off.includes("projections") && one.kind === "self" && letter !== "v")) return {
		title, formula: `${letter}_i = x_i`, say: [" = ", [x[c], cell(c)], ", x itself: there is no projection"],
		captured, again: x[c],
	};
	const group = letter === "q" ? place : one.reads[place], rows = [group * d, (group + 1) * d];
	const W = await weight(`${one.weights}.W_${letter}.weight`, rows), isRelu = one.projections === "relu";
	const b = one.biases.includes(letter) ? (await weight(`${one.weights}.W_${letter}.bias`, rows)).data : null;
	const raw = Array.from({ length: d }, (_, e) => {
		const z = dot(x, rowOf(W, e)) + (b ? b[e] : 0);
		return isRelu ? Math.max(0, z) : z;
	});
	const notes = [], isNormed = one.query_key_norm && letter !== "v";
	const isTurned = one.rotary && letter !== "v" && !off.includes("positions");
	let ready = raw;
	if (isNormed) {
		const gamma = (await weight(`${one.weights}.norm_${letter}.weight`)).data;
		const size = Math.sqrt(dot(raw, raw) / d + app.model.config.norm_epsilon);
		ready = raw.map((value, e) => (gamma[e] * value) / size);
		notes.push(`Normed: ${num(raw[c])} × ${num(gamma[c])} / ${num(size)} = ${num(ready[c])}.`);
	}
	let again = ready[c];
	if (isTurned) {
		const half = d / 2, pair = c % half, angle = i * one.frequencies[pair], u = ready[pair], w = ready[pair + half];
		again = c < half ? u * Math.cos(angle) - w * Math.sin(angle) : w * Math.cos(angle) + u * Math.sin(angle);
		notes.push(
			`Rotated to position ${i}: the pair (${pair}, ${pair + half}) is (${num(u)}, ${num(w)}), by ${num(angle)} ` +
				`radians: ${c < half ? `${num(u)} cos − ${num(w)} sin` : `${num(w)} cos + ${num(u)} sin`} = ${num(again)}.`,
		);
	}
	const z = `x_i W_${letter}${b ? ` + b_${letter}` : ""}`, plain = isRelu ? `relu ( ${z} )` : z;
	const whole = isNormed ? `norm ( ${plain} )` : plain, how = [isNormed ? "normed" : "", isTurned ? `rotated to position ${i}` : ""];
	const row = terms(["x", h("span", { class: letter }, `W_${letter}`)], x, rowOf(W, c), cell);
	return {
		title, formula: `${letter}_i = ${isTurned ? `R_i ( ${whole} )` : whole}`,
		say: notes.length ? [`: ${num(raw[c])}, ${how.filter(Boolean).join(" and ")}, gives it`] : [" = x · w", b ? ` + ${num(b[c])}` : ""],
		captured, again,
		more: [
			notes.map((one) => note(one)),
			notes.length ? note(`Before that, ${num(raw[c])} = x times row ${c} of W_${letter}${b ? `, + ${num(b[c])}` : ""}:`) : null, row,
		],
	};
};
export const [q, k, v] = ["q", "k", "v"].map(projection);

export async function heads(i, c, who) {
	const { one, place, name } = headAt(who), T = await headTensors(one, place), A = rowOf(T.weights, i);
	const column = Array.from(A, (_, j) => at(T.v, j, c)), seen = [...A.keys()].filter((j) => A[j] > 0);
	const isMuted = list("mute").includes(name);
	return {
		title: [`Output[${c}] of head ${name} for `, shown(one.stack, i)], formula: "h_{ic} = ∑_j A_{ij} v_{jc}",
		say: [isMuted ? " : this head is muted" : " = the values, averaged by the weights"], captured: at(T.heads, i, c),
		again: isMuted ? 0 : dot(A, column),
		more: listing(
			["key", "A", h("span", { class: "v" }, `v[${c}]`), "product"],
			seen.map((j) => [
				shown(one.keys, j), [A[j], `weights:${i}:${j}:${name}`], [column[j], `v:${j}:${c}:${name}`], A[j] * column[j],
			]),
		),
	};
}

// What a head adds to the stream through its columns of W_o.
export async function part(i, c, who) {
	const { one, place, name } = headAt(who), H = rowOf((await headTensors(one, place)).heads, i), d = H.length;
	const all = at(await site(`${one.name}.out`), i, c), cell = (e) => `heads:${i}:${e}:${name}`;
	if (one.projections === "none") return {
		title: ["Output for ", shown(one.stack, i)], formula: "out_i = h_i",
		say: [" = ", [H[c], cell(c)], ", the head itself: there is no W_o"], captured: all, again: H[c],
	};
	const W = (await weight(`${one.weights}.W_o.weight`, [c, c + 1], [place * d, (place + 1) * d])).data;
	const value = dot(H, W);
	return {
		title: [`What head ${name} adds to dimension ${c} of `, shown(one.stack, i)], formula: "out_h = h_i W_o",
		say: [" = h · w_o; ", [all, `out:${i}:${c}:${one.name}`], " with all heads"], captured: value, again: value,
		more: terms(["h", h("span", { class: "o" }, "W_o")], H, W, cell),
	};
}

// What an attention sublayer adds: the sum over its heads.
export async function out(i, c, which = attention().name) {
	const one = app.model.attentions.find(({ name }) => name === which);
	if (one.projections === "none") return part(i, c, nameOf(one, 0));
	const all = await site(`${which}.heads`), [, n, d] = all.shape, captured = at(await site(`${which}.out`), i, c);
	const W = await weightRow(`${one.weights}.W_o.weight`, c);
	const b = one.biases.includes("o") ? (await weightRow(`${one.weights}.W_o.bias`, c))[0] : 0;
	const H = (p) => all.data.subarray((p * n + i) * d, (p * n + i + 1) * d);
	const parts = one.heads.map((_, p) => dot(H(p), W.subarray(p * d, (p + 1) * d)));
	return {
		title: [`Dimension ${c} of what ${which} adds for `, shown(one.stack, i)],
		formula: `out = ∑_{heads} h_i W_o${b ? " + b_o" : ""}`,
		say: [" = the sum over the heads", b ? ` and the bias ${num(b)}` : ""], captured, again: total(parts) + b,
		more: listing(["head", "adds"], one.heads.map((number, p) => [`head ${number}`, [parts[p], `part:${i}:${c}:${nameOf(one, p)}`]])),
	};
}
