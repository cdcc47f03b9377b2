// Where the statistics of heads come from: each is a mean over queries, each query's share a sum over keys.

import { note, percent } from "../parts/dom.js";
import { app, attention, headAt, reading, scopedWeights, site, tokens } from "../app.js";
import { post } from "../api.js";
import { state } from "../state.js";
import { at, listing, shown, total } from "./terms.js";
import { named, probabilities } from "./choice.js";

// For each: the formula of the mean, of one query, and the terms of one query's sum (nothing: it is one weight).
const STATISTICS = {
	entropy: {
		label: "Entropy", each: "− ∑_j A_{ij} ln A_{ij}", heads: ["key", "A", "−A ln A"],
		term: (weight) => [weight > 0 ? -weight * Math.log(weight) : 0],
	},
	distance: {
		label: "Distance", each: "∑_j A_{ij} | i − j |", heads: ["key", "A", "|i − j|", "product"],
		term: (weight, i, j) => [Math.abs(i - j), weight * Math.abs(i - j)],
	},
	first: { label: "First-token share", each: "A_{i0}", keys: (one, i) => (i || one.kind === "cross" ? [0] : []) },
	previous: { label: "Previous-token share", each: "A_{i , i − 1}", keys: (one, i) => (i ? [i - 1] : []) },
	itself: { label: "Own-token share", each: "A_{ii}", keys: (one, i) => [i] },
	same: {
		label: "Same-token share", each: "∑_{same j} A_{ij}",
		keys: (one, i) => indices(one.keys).filter((j) => j !== i && tokens(one.keys)[j].id === tokens(one.keys)[i].id && (j < i || one.stack === "encoder")),
	},
	diagonal: {
		label: "Diagonal share", each: "∑_{| j − i m ÷ n | ≤ 1} A_{ij}",
		keys: (one, i) => indices(one.keys).filter((j) => Math.abs(j - i * (tokens(one.keys).length / tokens(one.stack).length)) <= 1),
	},
};
const indices = (stack) => [...tokens(stack).keys()];

const statistic = (kind) => async (who, i) => {
	const { one, place, name } = headAt(who), A = await site(`${one.name}.weights`, place), own = STATISTICS[kind];
	const [n, m] = A.shape, weight = (q, j) => [at(A, q, j), `weights:${q}:${j}:${name}`];
	const keys = (q) => own.keys?.(one, q) ?? [...Array(m).keys()], term = own.term || (() => []);
	const sum = (q) => total(keys(q).map((j) => (own.term ? own.term(at(A, q, j), q, j).at(-1) : at(A, q, j))));
	if (i !== undefined) return {
		title: [`${own.label} of `, shown(one.stack, i), ` in head ${name}`], formula: own.each,
		say: [" = the sum over the keys"], captured: sum(i), again: sum(i),
		more: listing(own.heads || ["key", "A"], keys(i).map((j) => [shown(one.keys, j), weight(i, j), ...term(at(A, i, j), i, j)])),
	};
	const queries = [...Array(n).keys()].filter((q) => keys(q).length);
	const value = (q) => (own.keys && keys(q).length === 1 ? weight(q, keys(q)[0]) : [sum(q), `${kind}:${name}:${q}`]);
	const values = queries.map(value), captured = (await reading("heads")).find(
		(row) => row.attention === one.name && row.place === place,
	)[kind];
	return {
		title: [`${own.label} of head ${name}`], formula: `{1} / {n} ∑_i ${own.each}`,
		say: [" = ", total(values.map(([x]) => x)), ` / ${queries.length}, the mean over the queries`], captured,
		again: total(values.map(([x]) => x)) / Math.max(1, queries.length),
		more: listing(["query", own.label.toLowerCase()], queries.map((q, k) => [shown(one.stack, q), values[k]])),
	};
};

export const [entropy, distance, first, previous, itself, same, diagonal] = Object.keys(STATISTICS).map(statistic);

// The weight on what followed a token's first occurrence, on random tokens written twice (Olsson et al., 2022).
export async function induction(who) {
	const values = (await reading("induction"))[who], captured = total(values) / values.length;
	return {
		title: [`Induction of head ${who}`], formula: "{1} / {n} ∑_i A_{i , i − n + 1}", say: [" = ", total(values), ` / ${values.length}`], captured, again: captured,
		more: [
			note("Not this text: random tokens R R, each twice. A query of the second R should look at what followed it in the first. Each line is the mean of the same query over eight such texts."),
			listing(["query", "A"], values.map((value, i) => [`token ${i} of the second R`, value])),
		],
	};
}

// KL(before, after) when a head is muted: the model runs again without it.
export async function moved(who, i) {
	const { question } = app.pass, { one, place, name } = headAt(who);
	const muted = await post("api/passes", { ...question, mute: [...question.mute, name] });
	const [P, R] = [await probabilities(i), await probabilities(i, muted)];
	const rows = P.map((p, id) => [id, p, R[id], p > 0 ? p * Math.log(p / R[id]) : 0]);
	const most = rows.sort((a, b) => Math.abs(b[3]) - Math.abs(a[3])).slice(0, 24), names = await named(i);
	const captured = (await reading("effects", { position: i, attention: one.name }))[place].moved;
	return {
		title: [`Effect of muting head ${name}`], formula: "KL = ∑_t P_t ln {P_t} / {P′_t}",
		say: [" nats = the sum over all ", `${P.length}; P′ is the prediction without this head`], captured,
		again: total(rows.map((row) => row[3])),
		more: [
			listing(["", "P", "P′", "P ln(P/P′)"], most.map(([id, p, r, t]) => [names(id), [p, `p:${i}:${id}`], r, t])),
			P.length > 24 ? note(`The ${most.length} largest terms of ${P.length}.`) : null,
		],
	};
}

// The strongest links that together have a share of all weight, at most MOST.
const MOST = 2000;
export function strongest({ shape, data }, share) {
	const mass = total(data), order = [...data.keys()].filter((i) => data[i] > 0).sort((a, b) => data[b] - data[a]);
	const kept = [];
	let held = 0;
	for (const place of order) {
		if (held >= share * mass || kept.length >= MOST) break;
		held += data[place];
		kept.push({ i: Math.floor(place / shape[1]), j: place % shape[1], weight: data[place] });
	}
	return { kept, links: order.length, dropped: mass ? Math.max(0, 1 - held / mass) : 0 };
}

// The share of the weight that is not drawn as links.
export async function dropped() {
	const { A, cell } = await scopedWeights(), one = attention();
	const { kept, dropped: captured } = strongest(A, Number(state().mass) / 100);
	const held = total(kept.map(({ weight }) => weight)), mass = total(A.data);
	return {
		title: ["Weight of the links that are not drawn"], formula: "1 − {∑_{drawn} A_{ij}} / {∑_{ij} A_{ij}}",
		text: percent(captured), say: [" = 1 − ", held, " / ", mass], captured, again: Math.max(0, 1 - held / mass),
		more: listing(["link", "A"], kept.map(({ i, j, weight }) => [
			[shown(one.stack, i), " → ", shown(one.keys, j)], [weight, cell(i, j)],
		])),
	};
}
