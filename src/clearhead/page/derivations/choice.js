// Where predictions come from: logits, probabilities, the rules of sampling, classes, and what the head reads.
// A cell may name another pass at its end, "p:5:17:step3" (see `passOf`).

import { count, note, num, percent, visible } from "../parts/dom.js";
import { app, choice, passOf, reading, rule, site, stackOf, temperatureOf, tokenAt, tokens, topStack, weight, weightRow } from "../app.js";
import { at, dot, listing, rowOf, shown, terms, total } from "./terms.js";
import { gelu, normed } from "./stream.js";

export const classifies = () => app.model.head === "classifier";
const after = (i) => (classifies() ? [] : [" after ", shown(topStack(), i)]);

// Names of what is predicted: classes, or tokens as far as they are known.
export async function named(i, pass = app.pass) {
	if (classifies()) return (id) => visible(app.model.labels[id]);
	const rows = pass === app.pass ? (await choice(i)).rows : await reading("prediction", { position: i }, pass);
	const known = new Map(rows.map(({ id, text }) => [id, text]));
	return (id) => (known.has(id) ? `${visible(known.get(id))} (${id})` : `token ${id}`);
}
async function logits(i, pass = app.pass) {
	return (await tokenAt(["logits"], i, pass)).logits;
}

// exp((z − max) / T), over those that are kept, and their sum.
function shares(Z, temperature = 1, isKept = () => true) {
	const largest = Z.reduce((a, b) => Math.max(a, b), -Infinity);
	const e = Array.from(Z, (z, id) => (isKept(id) ? Math.exp((z - largest) / temperature) : 0));
	return { largest, e, sum: total(e) };
}
export async function probabilities(i, pass) {
	const { e, sum } = shares(await logits(i, pass));
	return e.map((x) => x / sum);
}

// What the head reads where the stream was X: behind the last norm, and pooled or transformed.
async function headInput(X, i, isNormed) {
	const stack = topStack(), { config } = app.model, { norm: kind, final_norm } = stackOf(stack);
	const isPooled = classifies() && config.labels !== "each-word";
	const rows = isPooled || kind === "whole" ? tokens(stack).map((_, k) => k) : [i];
	const ready = await Promise.all(rows.map(async (k) => (
		isNormed || !final_norm ? Array.from(rowOf(X, k)) : (await normed(X, k, stack, `${stack}.norm`)).y
	)));
	if (isPooled) return pool(ready);
	if (!config.head_transform) return ready[rows.indexOf(i)];
	const W = await weight("head.transform.weight"), b = (await weight("head.transform.bias")).data, d = W.shape[0];
	const data = ready.flatMap((x) => Array.from({ length: d }, (_, c) => gelu(dot(x, rowOf(W, c)) + b[c])));
	const Y = { shape: [rows.length, d], data: Float64Array.from(data) };
	return (await normed(Y, rows.indexOf(i), stack, "head.transform_norm")).y;
}
const POOLS = {
	first: (rows) => rows[0], last: (rows) => rows.at(-1),
	mean: (rows) => rows[0].map((_, c) => total(rows.map((x) => x[c])) / rows.length),
	root: (rows) => rows[0].map((_, c) => total(rows.map((x) => x[c])) / Math.sqrt(rows.length)),
	max: (rows) => rows[0].map((_, c) => Math.max(...rows.map((x) => x[c]))),
};
export const pooledOf = (rows) => POOLS[app.model.config.pool](rows);
export const DENSE = { tanh: Math.tanh, relu: (x) => Math.max(0, x) };
async function pool(rows) {
	const dense = app.model.config.pool_dense, x = pooledOf(rows);
	if (dense === "none") return x;
	const W = await weight("head.dense.weight"), b = (await weight("head.dense.bias")).data;
	return x.map((_, c) => DENSE[dense](dot(x, rowOf(W, c)) + b[c]));
}

// One row of the head.
export const rowOfHead = (id) => weightRow(classifies() ? "head.out.weight" : app.model.config.tied ? stackOf(topStack()).table : "head.table.weight", id);
// It on a vector.
async function read(x, id) {
	const { config } = app.model, W = await rowOfHead(id), hasBias = classifies() ? config.class_bias : config.head_bias;
	const b = hasBias ? (await weightRow(classifies() ? "head.out.bias" : "head.bias", id))[0] : 0;
	const scale = classifies() ? 1 : config.head_scale, cap = classifies() ? null : config.soft_cap;
	const plain = dot(x, W) * scale + b;
	return {
		W, z: cap ? cap * Math.tanh(plain / cap) : plain,
		say: [scale === 1 ? "" : ` × ${num(scale)}`, b ? ` + ${num(b)}` : "", cap ? `, capped at ${cap}` : ""].join(""),
	};
}

export async function logit(i, id, which) {
	const pass = await passOf(which), stack = topStack(), isTied = app.model.config.tied && !classifies();
	const own = classifies() ? Array.from((await site("head.pooled", undefined, pass)).data) : null;
	const x = own || (await headInput(await site(`${stack}.norm`, undefined, pass), i, true));
	const captured = (await logits(i, pass))[id], found = await read(x, id), names = await named(i, pass);
	const isPlain = !which && (classifies() || !app.model.config.head_transform);
	return {
		title: [`Logit of ${names(id)}`, ...(which ? [] : after(i))], captured, again: found.z,
		formula: `z_t = x · ${isTied ? "E" : "W"}_t`, say: [` = x · ${isTied ? "e" : "w"}`, found.say],
		more: [
			note(
				classifies()
					? "x is the pooled vector of the text."
					: `x is the vector at the top of the ${stack}${app.model.config.head_transform ? ", behind a dense layer, gelu and a norm" : ""}; ` +
						(isTied ? "e is the token's own embedding: the head is tied to the table." : "w is its row of the head."),
			),
			terms(["x", isTied ? "e" : "w"], x, found.W, isPlain ? (c) => (classifies() ? `pooled:${c}` : `top:${i}:${c}:${stack}`) : null),
		],
	};
}

// A share of all that may be chosen; what is shown of the largest.
async function share({ title, i, id, captured, which, temperature = 1, isKept, f }) {
	const pass = await passOf(which), Z = await logits(i, pass), { e, sum, largest } = shares(Z, temperature, isKept);
	const names = await named(i, pass), end = which ? `:${which}` : "", cell = (t) => [Z[t], `logit:${i}:${t}${end}`];
	const order = [...e.keys()].filter((t) => e[t] > 0).sort((a, b) => e[b] - e[a]);
	const most = [...new Set([id, ...order.slice(0, 12)])].sort((a, b) => e[b] - e[a]);
	const heat = temperature === 1 ? "" : ` / ${num(temperature, 3)}`;
	return {
		title: [title, names(id), ...(which ? [] : after(i))], captured: captured ?? e[id] / sum, again: e[id] / sum,
		formula: f,
		say: e[id] || !isKept
			? [` = exp(${heat && "("}`, cell(id), ` − ${num(largest)})${heat}${heat && ")"} / `, sum]
			: [" : dropped by top-k or top-p"],
		more: [
			listing(["", "z", `exp((z − max)${heat})`], most.map((t) => [names(t), cell(t), e[t]]), most.indexOf(id)),
			note(`The sum runs over ${count(order.length)} of ${count(Z.length)}; the largest logit is subtracted first, which changes no probability.`),
		],
	};
}
const entry = async (i, id, key) => (await choice(i)).rows.find((row) => row.id === id)?.[key];

export async function p(i, id, which) {
	const pass = await passOf(which), found = await reading("prediction", { position: i }, pass);
	const captured = found.find((one) => one.id === id)?.p;
	return share({ title: "Probability of ", i, id, which, captured, f: "P_t = {exp z_t} / {∑_{all} exp z}" });
}
export const calibrated = (id) => share({
	title: "Calibrated: ", i: 0, id, captured: app.pass.calibrated[id].p, temperature: app.pass.temperature,
	f: "{exp ( z_t ÷ T )} / {∑_{all} exp ( z ÷ T )}",
});
export async function heated(i, id) {
	const temperature = (temperatureOf("next") || 1), captured = await entry(i, id, "heated");
	return share({ title: "With temperature: ", i, id, captured, temperature, f: "{exp ( z_t ÷ T )} / {∑_{all} exp ( z ÷ T )}" });
}

// Which tokens top-k and top-p keep: of equals the smaller ids.
function keeper(Z) {
	const temperature = temperatureOf("next"), order = [...Z.keys()].sort((a, b) => Z[b] - Z[a] || a - b);
	if (!temperature) return new Set(order.slice(0, 1));
	const some = order.slice(0, rule("top_k", Z.length)), p = rule("top_p", 1);
	if (p >= 1) return new Set(some);
	const inside = new Set(some), { e, sum } = shares(Z, temperature, (id) => inside.has(id));
	let held = 0;
	return new Set(some.filter((id) => { const isKept = held < p; held += e[id] / sum; return isKept; }));
}
export async function final(i, id) {
	const kept = keeper(await logits(i)), captured = await entry(i, id, "final");
	return share({
		title: "To be drawn: ", i, id, captured, temperature: (temperatureOf("next") || 1),
		isKept: (t) => kept.has(t), f: "{exp ( z_t ÷ T )} / {∑_{kept} exp ( z ÷ T )}",
	});
}

// The drawn number, and the token on whose stretch of the cumulative bar it falls.
export async function drawn(i) {
	const found = await choice(i), Z = await logits(i), kept = keeper(Z), own = found.rows.find(({ id }) => id === found.chosen);
	const { e, sum } = shares(Z, temperatureOf("next"), (id) => kept.has(id)), names = await named(i);
	const start = total(e.slice(0, found.chosen)) / sum, end = start + e[found.chosen] / sum;
	return {
		title: [`The number drawn for seed ${rule("seed", 1)} at step ${i}`], captured: found.drawn,
		formula: 'u = {hash ( "seed:step" )} / {2^{53}}',
		say: [` falls between `, start, " and ", end, `, the stretch of ${names(found.chosen)}`],
		more: [
			listing(["", "from", "to"], found.rows.filter(({ final }) => final > 0).sort((a, b) => a.id - b.id).map(
				(row) => [names(row.id), row.from, row.to],
			), found.rows.filter(({ final }) => final > 0).sort((a, b) => a.id - b.id).indexOf(own)),
			note("The first 53 bits of blake2b of seed and step: the same on every machine."),
		],
	};
}

// Sums over the whole vocabulary.
export async function spread(i) {
	const found = await choice(i), P = await probabilities(i), names = await named(i), term = (p) => (p > 0 ? -p * Math.log(p) : 0);
	return {
		title: ["Entropy of the prediction", ...after(i)], formula: "− ∑_t P_t ln P_t",
		say: [` nats = the sum over all ${count(P.length)} tokens`], captured: found.entropy, again: total(P.map(term)),
		more: listing(["", "P", "−P ln P"], P.map((p, id) => [names(id), [p, `p:${i}:${id}`], term(p)])),
	};
}
export async function mass(i) {
	const found = await choice(i), P = await probabilities(i);
	return {
		title: ["Probability of all tokens shown"], formula: "∑_{shown} P_t", text: percent(found.shown_mass),
		say: [" = the sum below"], captured: found.shown_mass, again: total(found.rows.map(({ id }) => P[id])),
		more: listing(["", "P"], found.rows.map(({ id, text }) => [visible(text), [P[id], `p:${i}:${id}`]])),
	};
}

// The loss of the true next token, and the mean over a text (N33).
export async function loss(i, id) {
	const row = (await reading("loss")).tokens[i], P = await probabilities(i), p = P[id];
	return {
		title: [`Loss of the true next token ${visible(row.text)}`, ...after(i)], formula: "− ln P_t",
		say: [" nats = −ln ", [p, `p:${i}:${id}`]], captured: row.id === id ? row.loss : NaN, again: -Math.log(p),
		more: note("0 if the model was certain of it; ln of the vocabulary's size if it had no idea."),
	};
}
export async function losses() {
	const { tokens: rows, mean } = await reading("loss");
	return {
		title: ["Loss of this text"], formula: "− {1} / {N} ∑_i ln P ( t_{i + 1} )",
		say: [" nats = ", total(rows.map((row) => row.loss)), ` / ${rows.length}`], captured: mean,
		again: total(rows.map((row) => row.loss)) / rows.length,
		more: listing(["true next", "−ln p"], rows.map((row) => [visible(row.text), [row.loss, `loss:${row.position}:${row.id}`]])),
	};
}

// The prediction if the model ended at a site of the stream.
export async function lens(i, id, where) {
	const row = (await reading("lens", { position: i })).find((one) => one.site === where);
	const one = row.top.find((entry) => entry.id === id), x = await headInput(await site(where), i), { W, z, say } = await read(x, id);
	return {
		title: [`Probability of ${visible(one.text)}, read at ${where}`, ...after(i)], captured: one.p,
		again: Math.exp(z - row.log_sum), formula: "P_t = exp ( z_t − ln ∑ exp z )",
		say: [" = exp(", z, " − ", row.log_sum, ")"],
		more: [note(`z = x · w${say}; x is the stream at ${where} as the head reads it.`), terms(["x", "w"], x, W)],
	};
}

// The vectors that leave a stack: behind the last norm, or what the last block of another family gives.
const topSite = (stack) => (`${stack}.norm` in app.pass.sites ? `${stack}.norm` : Object.keys(app.pass.sites).filter(
	(name) => name.startsWith(`${stack}.`) && /\.(state|filters|residual\.0)$/.test(name),
).at(-1));

// One number of the vector that classes are read from.
export async function pooled(c) {
	const { pool: kind, pool_dense: dense } = app.model.config, stack = topStack(), where = topSite(stack), X = await site(where);
	const captured = (await site("head.pooled")).data[c], n = X.shape[0], rows = Array.from({ length: n }, (_, i) => Array.from(rowOf(X, i)));
	const used = kind === "first" ? [0] : kind === "last" ? [n - 1] : [...rows.keys()], x = pooledOf(rows);
	const cell = (i, e) => [at(X, i, e), where === `${stack}.norm` ? `top:${i}:${e}:${stack}` : null];
	const said = { mean: ` = ${num(x[c] * n)} / ${n}`, max: ", the largest of these" };
	if (dense === "none") return {
		title: [`Pooled vector[${c}]`], formula: { mean: "{1} / {n} ∑_i x_i", max: "max_i x_i" }[kind] || "x_i",
		say: [said[kind] || `, that of the ${kind} token`], captured, again: x[c],
		more: listing(["token", "x"], used.map((i) => [shown(stack, i), cell(i, c)])),
	};
	const W = await weightRow("head.dense.weight", c), b = (await weightRow("head.dense.bias", c))[0];
	return {
		title: [`Pooled vector[${c}]`], formula: `${dense} ( W x + b )`,
		say: [` = ${dense}(`, dot(x, W) + b, `), with the bias ${num(b)}`], captured, again: DENSE[dense](dot(x, W) + b),
		more: terms(["x", "w"], x, W, used.length > 1 ? null : (e) => cell(used[0], e)[1]),
	};
}

// What a word contributed to the probability of a class.
export async function effect(k, id) {
	const { whole, words } = await reading("without"), captured = whole[id] - words[k].p[id];
	const [P, R] = [await probabilities(0), await probabilities(0, await passOf(`word${k}`))];
	return {
		title: [`Effect of ${visible(words[k].word).slice(0, 40)} on ${visible(app.model.labels[id])}`],
		formula: 'P_t − P_t "without the word"', say: [" = ", [P[id], `p:0:${id}`], " − ", [R[id], `p:0:${id}:word${k}`]],
		captured, again: P[id] - R[id],
	};
}
