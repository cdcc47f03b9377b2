// Where attribution comes from: what a part adds to a logit, how a token's score is made, and what patching compares.
// At the end of a cell stands what is explained: the token after which, the answer, and the one that it is against.

import { note, percent } from "../parts/dom.js";
import { answer, app, headAt, passOf, reading, site, stackOf, tokens, topStack, weight, weightRow } from "../app.js";
import { state } from "../state.js";
import { classifies, DENSE, named, pooledOf, rowOfHead } from "./choice.js";
import { gelu, streamSites, sumOf } from "./stream.js";
import { at, dot, listing, rowOf, shown, terms, total } from "./terms.js";

const asking = (i, id, against) => answer(i, { id, against: against === "" ? null : against });
const ending = (i, id, against) => `${i}:${id}:${against}`;
const parted = (i, id, against) => reading("attribution", asking(i, id, against));
async function naming(i, id, against) {
	const names = await named(i);
	return `${names(id)}${against === "" ? "" : ` against ${names(against)}`}`;
}

// The gradient before a norm from that behind it; its mean and its width stay as they were in this pass.
async function back(g, X, t, stack, name) {
	const { norm: kind, epsilon } = stackOf(stack);
	if (kind === "none" || !name) return g;
	const over = Array.from(kind === "whole" ? X.data : rowOf(X, t)), mean = kind === "rms" ? 0 : total(over) / over.length;
	const root = Math.sqrt(total(over.map((s) => (s - mean) ** 2)) / over.length + epsilon);
	const gamma = kind === "whole" ? null : (await weight(`${name}.weight`)).data;
	const scaled = g.map((x, c) => (x * (gamma ? gamma[c] : 1)) / root), centre = kind === "layer" ? total(scaled) / scaled.length : 0;
	return scaled.map((x) => x - centre);
}
// The gradient before f(W x + b), with the gate f(u)/u as it was.
async function dense(g, x, name, f) {
	const W = await weight(`${name}.weight`), b = (await weight(`${name}.bias`)).data;
	const gated = g.map((value, c) => { const u = dot(x, rowOf(W, c)) + b[c]; return u ? (value * f(u)) / u : 0; });
	return Array.from(x, (_, e) => total(gated.map((value, c) => value * at(W, c, e))));
}

// The direction of the logit in the vector of token t at the top.
async function start(t, i, id, against) {
	const stack = topStack(), X = await site(`${stack}.norm`), { config } = app.model;
	const [w, v] = [await rowOfHead(id), against === "" ? null : await rowOfHead(against)];
	let g = Array.from(w, (x, c) => (x - (v ? v[c] : 0)) * (classifies() ? 1 : config.head_scale));
	if (!classifies()) {
		if (t !== i) return g.map(() => 0);
		if (!config.head_transform) return g;
		const x = rowOf(X, i), W = await weight("head.transform.weight"), b = (await weight("head.transform.bias")).data;
		const y = Float64Array.from(b, (value, c) => gelu(dot(x, rowOf(W, c)) + value));
		g = await back(g, { shape: [1, y.length], data: y }, 0, stack, "head.transform_norm");
		return dense(g, x, "head.transform", gelu);
	}
	const rows = tokens(stack).map((_, k) => Array.from(rowOf(X, k))), { pool: kind, pool_dense } = config;
	if (pool_dense !== "none") g = await dense(g, pooledOf(rows), "head.dense", DENSE[pool_dense]);
	const own = (c) => ({ mean: 1 / rows.length, root: rows.length ** -0.5, first: Number(t === 0), last: Number(t === rows.length - 1), max: Number(rows.findIndex((x) => x[c] === pooledOf(rows)[c]) === t) })[kind];
	return g.map((x, c) => x * own(c));
}
// The same where a part adds to the stream of token t: the way down, through the norms.
async function direction(name, t, i, id, against) {
	const stack = topStack(), { placement, final_norm: last } = stackOf(stack), sites = streamSites(stack);
	const place = name.replace(/\.\d+$/, "");
	let g = await back(await start(t, i, id, against), await site(sites.at(-1)[0]), t, stack, last ? `${stack}.norm` : null);
	for (let k = sites.length - 1; k > 0; k--) {
		const [, label] = sites[k], [, block, kind] = label.split("."), norm = `${stack}.blocks.${block}.add_${kind}.norm`, F = await site(`${label}.out`);
		if (placement === "post") g = await back(g, sumOf(await site(sites[k - 1][0]), F), t, stack, norm);
		if (label === place) return placement === "both" ? back(g, F, t, stack, `${norm}_after`) : g;
	}
	const part = stackOf(stack), names = ["tokens", "positions"].map((key) => `${stack}.embeddings.${key}`).filter((one) => one in app.pass.sites);
	if (name.endsWith("convolution") || !part.embedding_norm || part.norm === "none") return g;
	const T = app.model.config.token_types ? [await weight(`${stack}.types.weight`, [0, 1])] : [];
	return back(g, sumOf(...await Promise.all(names.map((one) => site(one))), ...T), t, stack, `${stack}.embedding_norm`);
}
// What a part adds to the stream of token t, without its bias, and the cells of its numbers.
async function addition(name, t) {
	const stack = topStack(), [, block, kind] = name.split(".");
	if (block === "embeddings") {
		const cell = { tokens: "e", positions: "position", convolution: "filter" }[kind];
		const F = kind === "types" ? (await weight(`${stack}.types.weight`, [0, 1])).data : rowOf(await site(name), t);
		return [F, cell ? (c) => `${cell}:${t}:${c}:${stack}` : null];
	}
	const where = `${stack}.blocks.${block}.${kind}`;
	if (kind === "ffn") {
		const F = rowOf(await site(`${name}.out`), t), b = app.model.config.feedforward_bias ? (await weight(`${where}.W_2.bias`)).data : null;
		return [Array.from(F, (x, c) => x - (b ? b[c] : 0)), b ? null : (c) => `ffn:${t}:${c}:${name}`];
	}
	const { one, place } = headAt(name), H = rowOf(await site(`${one.name}.heads`, place), t), d = H.length;
	if (one.projections === "none") return [H, (c) => `heads:${t}:${c}:${name}`];
	const W = await weight(`${where}.W_o.weight`, null, [place * d, (place + 1) * d]);
	return [Array.from({ length: W.shape[0] }, (_, c) => dot(H, rowOf(W, c))), (c) => `part:${t}:${c}:${name}`];
}

export async function adds(name, i, id, against, t) {
	const found = await parted(i, id, against), captured = found.parts.find((one) => one.name === name).value;
	const title = `What ${name} adds to the logit of ${await naming(i, id, against)}`;
	if (name === "biases") {
		const others = found.parts.filter((one) => one.name !== name).map(({ value }) => value);
		return {
			title: [title], formula: "z − ∑_{others} a", say: [" = ", [found.logit, `attributed:${ending(i, id, against)}`], " − ", total(others)],
			captured, again: found.logit - total(others), more: note("The biases of all matrices and norms, and of the head: what is left of the logit without the other parts."),
		};
	}
	const worth = async (k) => dot(await direction(name, k, i, id, against), (await addition(name, k))[0]);
	if (classifies() && t === undefined) {
		const values = await Promise.all(tokens(topStack()).map((_, k) => worth(k)));
		return {
			title: [title], formula: "a = ∑_i g_i · F_i", say: [" = the sum over the tokens"], captured, again: total(values),
			more: listing(["token", "g · F"], values.map((value, k) => [shown(topStack(), k), [value, `adds:${name}:${ending(i, id, against)}:${k}`]])),
		};
	}
	const k = t ?? i, g = await direction(name, k, i, id, against), [F, cell] = await addition(name, k), again = dot(g, F);
	return {
		title: [title, " by ", shown(topStack(), k)], formula: "a = g · F", say: [" = the sum of the products below"], captured: t === undefined ? captured : again, again,
		more: [
			note("F is what the part adds to the stream of this token; g says how the logit follows a change there: the head's row, brought down through the norms, whose mean and width stay as they were."),
			terms(["g", "F"], g, F, null, cell),
		],
	};
}

// The logit as the sum of its parts.
export async function attributed(i, id, against) {
	const found = await parted(i, id, against);
	return {
		title: [`Logit of ${await naming(i, id, against)}`], formula: "z = ∑_{parts} a", say: [app.model.config.soft_cap && !classifies() ? ", before the soft cap," : "", " = the sum of what the parts add"],
		captured: found.logit, again: total(found.parts.map(({ value }) => value)),
		more: listing(["part", "adds"], found.parts.map(({ name, value }) => [name, [value, `adds:${name}:${ending(i, id, against)}`]])),
	};
}

// How a token's score is made: its vector times the gradient.
export async function saliency(stack, t, method, i, id, against) {
	const asked = { ...asking(i, id, against), method }, captured = (await reading("saliency", asked)).scores[stack][t];
	const { x, g } = await reading("terms", { ...asked, stack, token: t }), isMean = method === "integrated";
	return {
		title: ["Score of ", shown(stack, t)], formula: isMean ? "∑_c ( x_c − b_c ) mean ∂ z / ∂ x_c" : "∑_c x_c {∂ z} / {∂ x_c}",
		say: [" = the sum of the products below"], captured, again: dot(x, g),
		more: [
			note(isMean ? "x − b: the token's vector less the mean of all vectors; the gradient of the logit is averaged over the way from b to x." : "x is the token's vector in the table; the gradient is that of the logit."),
			terms([isMean ? "x − b" : "x", "gradient"], x, g),
		],
	};
}
export async function complete(method, i, id, against) {
	const found = await reading("saliency", { ...asking(i, id, against), method }), sum = total(Object.values(found.scores).flat()), gap = found.value - found.baseline;
	return {
		title: ["Completeness error"], formula: "{| ∑ scores − ( z − z_b ) |} / {| z − z_b |}", text: percent(found.error), captured: found.error, again: Math.abs(sum - gap) / Math.max(Math.abs(gap), 1e-12),
		say: [" = |", sum, " − (", found.value, " − ", found.baseline, ")| / |", gap, "|"], more: note(found.advice || "Below 1 %: the scores account for the whole difference."),
	};
}

// The answer in a text, and a patching score.
async function answerIn(which, i, id, against) {
	const pass = await passOf(which), X = await site("logits", undefined, pass, classifies() ? null : [i, i + 1]), z = X.data;
	return { value: z[id] - (against === "" ? 0 : z[against]), z };
}
export async function gap(which, i, id, against) {
	const found = await reading("contrast", { other: state().other, ...asking(i, id, against) }), isOther = which === "other";
	const { value, z } = await answerIn(isOther ? "other" : "", i, id, against), end = isOther ? ":other" : "";
	return {
		title: [`The answer in the ${isOther ? "corrupted" : "clean"} text: ${await naming(i, id, against)}`], formula: against === "" ? "z_t" : "z_t − z_u",
		say: [" = ", [z[id], `logit:${i}:${id}${end}`], ...(against === "" ? [] : [" − ", [z[against], `logit:${i}:${against}${end}`]])],
		captured: isOther ? found.corrupted : found.clean, again: value,
	};
}
export async function patch(place, t, i, id, against) {
	const row = await reading("patching", { other: state().other, ...asking(i, id, against), place });
	const [clean, corrupted] = [(await answerIn("", i, id, against)).value, (await answerIn("other", i, id, against)).value];
	const stack = place.split(".")[0], end = ending(i, id, against);
	return {
		title: [`Patching ${place} at `, shown(stack, t)], formula: "{z_{patched} − z_{corrupted}} / {z_{clean} − z_{corrupted}}", captured: row.scores[t],
		again: (row.outcomes[t] - corrupted) / (clean - corrupted),
		say: [" = (", row.outcomes[t], " − ", [corrupted, `gap:other:${end}`], ") / (", [clean, `gap:clean:${end}`], " − ", [corrupted, `gap:other:${end}`], ")"],
		more: note(`The answer is ${await naming(i, id, against)}. Patched: the model read the corrupted text once more, and ${place} had at this token what it has in the clean text.`),
	};
}
