// Where the numbers of the stream come from: embeddings, norms, what sublayers read and add, hidden units.

import { h, note, num } from "../parts/dom.js";
import { app, attention, reading, site, sites, stackOf, tokenAt, tokens, weight, weightRow } from "../app.js";
import { at, dot, equals, listing, norm, rowOf, shown, terms, total } from "./terms.js";

const before = (place) => {
	const [stack, block, kind] = place.split("."), order = stackOf(stack).sublayers, index = order.indexOf(kind);
	if (index) return `${stack}.${block}.residual.${index - 1}`;
	return Number(block) ? `${stack}.${block - 1}.residual.${order.length - 1}` : `${stack}.embeddings.out`;
};
// The sites of a stack's stream, and what has just been added at each.
export const streamSites = (stack) => {
	const part = stackOf(stack), blocks = [...Array(part.blocks).keys()];
	return [
		[`${stack}.embeddings.out`, `${stack}.embeddings`],
		...blocks.flatMap((b) => part.sublayers.map((kind, k) => [`${stack}.${b}.residual.${k}`, `${stack}.${b}.${kind}`])),
	];
};
const added = (i, c, place) => `${place.endsWith("ffn") ? "ffn" : "out"}:${i}:${c}:${place}`;
export const sumOf = (...Xs) => ({ shape: Xs[0].shape, data: Xs[0].data.map((_, k) => total(Xs.map((X) => X.data[k % X.data.length]))) });

// What a norm makes of token i of X, and how number c of it is said; `name` is that of its weights, if there is one.
export async function normed(X, i, stack, name) {
	const { norm: kind, epsilon } = stackOf(stack), x = rowOf(X, i), over = kind === "whole" ? X.data : x;
	if (kind === "none" || !name) return { y: x, formula: "s", say: (c, cell) => [[x[c], cell], ", the stream itself"] };
	const mean = kind === "rms" ? 0 : total(over) / over.length;
	const variance = total(Array.from(over, (s) => (s - mean) ** 2)) / over.length, root = Math.sqrt(variance + epsilon);
	const gamma = kind === "whole" ? null : (await weight(`${name}.weight`)).data;
	const beta = kind === "layer" && app.model.config.norm_bias ? (await weight(`${name}.bias`)).data : null;
	const where = kind === "whole" ? "all tokens and dimensions (N23)" : `the ${x.length} numbers of this token`;
	return {
		y: Array.from(x, (s, c) => ((gamma ? gamma[c] : 1) * (s - mean)) / root + (beta ? beta[c] : 0)),
		formula: kind === "rms" ? "γ {s} / √{mean s^2 + ε}" : `${gamma ? "γ " : ""}{s − μ} / √{σ^2 + ε}${beta ? " + β" : ""}`,
		say: (c, cell) => [
			...(gamma ? [gamma[c], " × "] : []), "(", [x[c], cell], mean ? ` − ${num(mean)}` : "",
			`) / √(${num(variance)} + ${num(epsilon)})`, beta ? ` + ${num(beta[c])}` : "",
		],
		more: note(`${mean ? `μ = ${num(mean)} and σ²` : "mean s²"} = ${num(variance)} over ${where}.`),
	};
}
// A number behind a norm, or where one could be.
async function behind(title, captured, X, i, c, stack, name, cell) {
	const found = await normed(X, i, stack, name), { formula, more } = found;
	return { title, captured, again: found.y[c], formula: `x = ${formula}`, say: [" = ", ...found.say(c, cell)], more };
}

// What a sublayer reads: the stream behind its norm.
export async function x(i, c, place = attention().name) {
	const [stack, block, kind] = place.split("."), from = before(place), S = await site(from);
	const name = stackOf(stack).placement === "post" ? null : `${stack}.blocks.${block}.add_${kind}.norm`;
	const title = [`Input[${c}] of ${place} for `, shown(stack, i)], captured = at(await site(`${place}.x`), i, c);
	return behind(title, captured, S, i, c, stack, name, `stream:${i}:${c}:${from}`);
}

// The top of a stack: the stream behind the last norm.
export async function top(i, c, stack) {
	const [from] = streamSites(stack).at(-1), captured = at(await site(`${stack}.norm`), i, c), S = await site(from);
	const name = stackOf(stack).final_norm ? `${stack}.norm` : null;
	return behind([`Top[${c}] of the ${stack} for `, shown(stack, i)], captured, S, i, c, stack, name, `stream:${i}:${c}:${from}`);
}

// The stream at a site: what it was, and what the last sublayer has added.
export async function stream(i, c, where) {
	const [stack, block, , index] = where.split(".");
	if (block === "embeddings") return embedded(i, c, stack);
	const { placement, sublayers } = stackOf(stack), place = `${stack}.${block}.${sublayers[index]}`, from = before(place);
	const found = await sites([from, `${place}.out`, where]), [X, F] = [found[from], found[`${place}.out`]];
	const captured = at(found[where], i, c), title = [`Stream[${c}] after ${place} for `, shown(stack, i)];
	const name = `${stack}.blocks.${block}.add_${sublayers[index]}.norm`;
	const was = [at(X, i, c), `stream:${i}:${c}:${from}`], plus = [at(F, i, c), added(i, c, place)];
	if (placement === "post") {
		const found = await behind(title, captured, sumOf(X, F), i, c, stack, name);
		return { ...found, more: [equals("s before the norm = ", was, " + ", plus), found.more] };
	}
	const after = placement === "both" ? await normed(F, i, stack, name.replace("norm", "norm_after")) : null;
	const names = streamSites(stack).slice(0, streamSites(stack).findIndex(([one]) => one === where) + 1);
	const values = Object.values(await tokenAt(names.map(([one]) => one), i)).map((s) => s[c]);
	return {
		title, captured, again: was[0] + (after ? after.y[c] : plus[0]),
		formula: after ? "s = s_{before} + norm ( F )" : "s = s_{before} + F",
		say: [" = ", was, " + ", ...(after ? after.say(c, plus[1]) : [plus])],
		more: listing(["after", "stream", "added"], names.map(([one, label], k) => [
			label, [values[k], one === where ? null : `stream:${i}:${c}:${one}`],
			k ? [values[k] - values[k - 1], after ? null : added(i, c, label)] : values[0],
		])),
	};
}

// A token's vector, its position's and its type's, added: the sum of all tokens, number c of one said, and its norm, if any.
async function summed(stack) {
	const part = stackOf(stack), isAdded = `${stack}.embeddings.positions` in app.pass.sites;
	const E = await site(`${stack}.embeddings.tokens`), P = isAdded ? await site(`${stack}.embeddings.positions`) : null;
	const T = app.model.config.token_types ? await weight(`${stack}.types.weight`, [0, 1]) : null;
	return {
		X: sumOf(...[E, P, T].filter(Boolean)), formula: `e_t${P ? " + p_i" : ""}${T ? " + type" : ""}`,
		say: (i, c) => [
			[at(E, i, c), `e:${i}:${c}:${stack}`], ...(P ? [" + ", [at(P, i, c), `position:${i}:${c}:${stack}`]] : []),
			...(T ? [" + ", T.data[c]] : []),
		],
		name: part.embedding_norm && part.norm !== "none" ? `${stack}.embedding_norm` : null,
	};
}

// What enters the first block: the sum, behind a norm if there is one, and what a convolution adds, if there is one.
async function embedded(i, c, stack) {
	const captured = at(await site(`${stack}.embeddings.out`), i, c), title = [`Embedding[${c}] of `, shown(stack, i)];
	const sum = await summed(stack), said = sum.say(i, c);
	let found = { title, captured, again: at(sum.X, i, c), formula: `x_i = ${sum.formula}`, say: [" = ", ...said] };
	if (sum.name) {
		found = await behind(title, captured, sum.X, i, c, stack, sum.name);
		found.more = [equals("s before the norm = ", ...said), found.more];
	}
	if (!(`${stack}.embeddings.convolution` in app.pass.sites)) return found;
	const plus = at(await site(`${stack}.embeddings.convolution`), i, c);
	return {
		...found, again: found.again + plus, formula: `${found.formula} + f_i`,
		say: [...found.say, " + ", [plus, `filter:${i}:${c}:${stack}`]],
	};
}

// What the convolution before the first block adds: a filter over the sums of a token and its neighbours (N44).
export async function filter(i, c, stack) {
	const name = `${stack}.convolution.filters.0`, captured = at(await site(`${stack}.embeddings.convolution`), i, c);
	const { X, name: norm } = await summed(stack), width = app.model.config.convolution, W = await weightRow(`${name}.weight`, c);
	const b = (await weightRow(`${name}.bias`, c))[0], first = i - (stackOf(stack).causal ? width - 1 : (width - 1) >> 1);
	const places = [...Array(width).keys()].filter((j) => tokens(stack)[first + j]); // the others are outside of the text
	const under = await Promise.all(places.map(async (j) => {
		const { y } = await normed(X, first + j, stack, norm), w = Array.from(y, (_, e) => W[e * width + j]);
		return { at: first + j, y, w, product: dot(y, w) };
	}));
	const z = b + total(under.map(({ product }) => product));
	return {
		title: [`Filter ${c} at `, shown(stack, i)], captured, again: gelu(z), formula: "f_i = gelu ( b + ∑_j w_j · x_{i + j} )",
		say: [" = gelu(", z, ")", ` with the bias ${num(b)}`],
		more: [
			listing(["token", "w · x"], under.map(({ at, product }) => [shown(stack, at), product])),
			under.map(({ at, y, w }) => [h("h3", {}, shown(stack, at)), terms(["x", "w"], y, w)]),
		],
	};
}

// One number of the token table.
export async function e(i, c, stack) {
	const { table, scale } = stackOf(stack), { id } = tokens(stack)[i];
	const captured = at(await site(`${stack}.embeddings.tokens`), i, c), E = (await weightRow(table, id))[c];
	return {
		title: [`Token vector[${c}] of `, shown(stack, i)],
		formula: scale === 1 ? "e_t = E_{t c}" : "e_t = E_{t c} scale",
		say: [" = ", E, scale === 1 ? "" : ` × ${num(scale)}`], captured, again: E * scale,
		more: note(`A weight, learned in training: row ${id} of ${table}, the token's own, column ${c}.`),
	};
}

// One number of a position's vector.
export async function position(i, c, stack) {
	const { d } = stackOf(stack), { config } = app.model, captured = at(await site(`${stack}.embeddings.positions`), i, c);
	const title = [`Position vector[${c}] of place ${i}`];
	if (config.positions === "learned") {
		const at = i + config.position_offset, P = (await weightRow(`${stack}.positions.weight`, at))[c];
		return {
			title, formula: "p_i = P_{i c}", say: [" = ", P], captured, again: P,
			more: note(`A weight, learned in training: row ${at} of ${stack}.positions.weight, column ${c}.`),
		};
	}
	const isPaired = config.sinusoid_layout === "interleaved", half = d / 2;
	const pair = isPaired ? c >> 1 : c % half, isSine = isPaired ? c % 2 === 0 : c < half, wave = isSine ? "sin" : "cos";
	const angle = i * 10_000 ** (-2 * pair / d);
	return {
		title, formula: `p_i = ${wave} {i} / {10000^{2 c′ / d}}`,
		say: [` = ${wave}(${i} / 10000^(${2 * pair} / ${d})) = ${wave}(`, angle, ")"], captured,
		again: isSine ? Math.sin(angle) : Math.cos(angle),
	};
}

// One unit between the two matrices of the feed-forward.
export async function hidden(i, c, place) {
	const [stack, block] = place.split("."), { gated, feedforward: word } = stackOf(stack);
	const name = `${stack}.blocks.${block}.ffn`, captured = at(await site(`${place}.hidden`), i, c);
	const x = rowOf(await site(`${place}.x`), i), hasBias = app.model.config.feedforward_bias, f = ACTIVATIONS[word];
	const row = async (letter) => weightRow(`${name}.${letter}.weight`, c);
	const bias = async (letter) => (hasBias ? (await weightRow(`${name}.${letter}.bias`, c))[0] : 0);
	const cell = (e) => `x:${i}:${e}:${place}`, W = await row("W_1"), z = dot(x, W) + (await bias("W_1"));
	const G = gated ? await row("W_g") : null, g = gated ? dot(x, G) + (await bias("W_g")) : 0;
	return {
		title: [`Unit ${c} of ${place} for `, shown(stack, i)], captured, again: gated ? f(g) * z : f(z),
		formula: gated ? "f ( W_g x ) ∘ W_1 x" : `f ( W_1 x${hasBias ? " + b_1" : ""} )`,
		say: gated
			? [` = ${word}: gate f(`, g, ") × ", z]
			: [` = ${word}(`, z, ")", hasBias ? ` with the bias ${num(await bias("W_1"))}` : ""],
		more: [terms(["x", "w₁"], x, W, cell), gated ? [h("h3", {}, "The gate"), terms(["x", "w_g"], x, G, cell)] : null],
	};
}
const erf = (x) => { // a series: to 1e-8
	if (Math.abs(x) > 4) return Math.sign(x);
	let term = x, sum = x;
	for (let k = 1; k < 90; k++) {
		term *= (-x * x) / k;
		sum += term / (2 * k + 1);
	}
	return (2 / Math.sqrt(Math.PI)) * sum;
};
export const gelu = (x) => (x / 2) * (1 + erf(x / Math.SQRT2));
const tanhGelu = (x) => (x / 2) * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));
const silu = (x) => x / (1 + Math.exp(-x));
const ACTIVATIONS = {
	relu: (x) => Math.max(0, x), gelu, gelu_tanh: tanhGelu, silu, relu2: (x) => Math.max(0, x) ** 2, swiglu: silu,
	geglu: gelu, geglu_tanh: tanhGelu,
};

// What a feed-forward adds.
export async function ffn(i, c, place) {
	const [stack, block] = place.split("."), name = `${stack}.blocks.${block}.ffn.W_2`;
	const H = rowOf(await site(`${place}.hidden`), i), W = await weightRow(`${name}.weight`, c);
	const b = app.model.config.feedforward_bias ? (await weightRow(`${name}.bias`, c))[0] : 0;
	const captured = at(await site(`${place}.out`), i, c);
	return {
		title: [`Dimension ${c} of what ${place} adds for `, shown(stack, i)], formula: `F = W_2 u${b ? " + b_2" : ""}`,
		say: [" = u · w₂", b ? ` + ${num(b)}` : ""], captured, again: dot(H, W) + b,
		more: terms(["unit", "w₂"], H, W, (e) => `hidden:${i}:${e}:${place}`),
	};
}

// Which derivation a number of a site has.
function cellOf(where, i, c) {
	const parts = where.split("."), place = parts.slice(0, -1).join(".");
	if (where.endsWith("embeddings.tokens")) return `e:${i}:${c}:${parts[0]}`;
	if (where.endsWith("embeddings.positions")) return `position:${i}:${c}:${parts[0]}`;
	if (where.endsWith("embeddings.convolution")) return `filter:${i}:${c}:${parts[0]}`;
	if (parts.length === 2) return `top:${i}:${c}:${parts[0]}`;
	return where.endsWith("embeddings.out") || parts.includes("residual") ? `stream:${i}:${c}:${where}` : added(i, c, place);
}

// The length of a vector.
async function length(i, where) {
	const [stack] = where.split("."), x = rowOf(await site(where), i), of = streamSites(stack).find(([one]) => one === where);
	const rows = await reading("stream", { stack, position: i }), row = rows.find(({ name }) => where === `${name}.out`);
	const captured = of ? rows.find(({ name }) => name === of[1]).after : row ? row.added : norm(x);
	return {
		title: [`Norm of ${where} for `, shown(stack, i)], formula: "‖ x ‖ = √{∑_c x_c^2}", say: [" = √", dot(x, x)],
		captured, again: norm(x),
		more: listing(["", "x", "x²"], Array.from(x, (value, c) => [String(c), [value, cellOf(where, i, c)], value * value])),
	};
}

export { length as norm };

// The mean length of the stream over all tokens.
export async function trunk(where) {
	const [stack] = where.split("."), X = await site(where);
	const captured = app.pass.norms[stack][streamSites(stack).findIndex(([one]) => one === where)];
	const sizes = tokens(stack).map((_, i) => norm(rowOf(X, i)));
	return {
		title: [`Mean norm of the stream at ${where}`], formula: "{1} / {n} ∑_i ‖ x_i ‖",
		say: [" = ", total(sizes), ` / ${sizes.length}`], captured, again: total(sizes) / sizes.length,
		more: listing(["token", "norm"], sizes.map((size, i) => [shown(stack, i), [size, `norm:${i}:${where}`]])),
	};
}

// Cosines: of what a sublayer adds and the stream, or of two rows of the token table; and their dot product.
const cosine = (captured, title, names, a, b, cellA, cellB) => ({
	title, formula: "{a · b} / {‖ a ‖ ‖ b ‖}", say: [" = ", dot(a, b), " / (", norm(a), " × ", norm(b), ")"], captured,
	again: dot(a, b) / (norm(a) * norm(b)), more: terms(names, a, b, cellA, cellB),
});
export async function cos(i, place) {
	const [stack] = place.split("."), from = before(place), found = await sites([from, `${place}.out`]);
	const [a, b] = Object.values(found).map((X) => rowOf(X, i));
	const row = (await reading("stream", { stack, position: i })).find(({ name }) => name === place);
	return cosine(
		row.cosine, [`Cosine of the stream and what ${place} adds for `, shown(stack, i)], ["stream", "added"], a, b,
		(c) => cellOf(from, i, c), (c) => added(i, c, place),
	);
}
export async function near(measure, id, other, stack) {
	const found = await reading("neighbours", { stack, id }), one = found[measure].find((row) => row.id === other);
	const row = async (k) => await weightRow(stackOf(stack).table, k), [a, b] = [await row(id), await row(other)];
	const title = [measure === "dot" ? "Dot product" : "Cosine", ` of tokens ${id} and ${other}, ${one.text}`];
	if (measure === "cosine") return cosine(one.value, title, ["a", "b"], a, b);
	return {
		title, formula: "a · b", say: [" = the sum of the products below"], captured: one.value, again: dot(a, b),
		more: terms(["a", "b"], a, b),
	};
}

// The share of the variance that one direction explains.
export async function variance(k, where) {
	const [stack] = where.split("."), X = await site(where), { points, share } = await reading("projection", { site: where });
	const d = X.shape[1], n = points.length, means = Array.from({ length: d }, (_, c) => total(points.map((_, i) => at(X, i, c))) / n);
	const whole = total(Array.from(X.data, (x, e) => (x - means[e % d]) ** 2)), own = total(points.map((point) => point[k] ** 2));
	return {
		title: [`Variance along the ${k ? "second" : "first"} direction of ${where}`],
		formula: "{∑_i p_i^2} / {∑_i ‖ x_i − μ ‖^2}", say: [" = ", own, " / ", whole], captured: share[k],
		again: whole ? own / whole : 0,
		more: listing(["token", "p", "p²"], points.map((point, i) => [shown(stack, i), point[k], point[k] ** 2])),
	};
}
