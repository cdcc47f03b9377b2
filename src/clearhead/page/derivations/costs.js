// Where the numbers about a pass and a generation come from: differences, counts, times and bytes.

import { bytes, count, note } from "../parts/dom.js";
import { app, generated } from "../app.js";
import { listing, total } from "./terms.js";

// How far two ways to the same logits are apart: captured and fast, or with the cache and without.
const furthest = ({ place, captured, fast }, names, said) => ({
	title: [said], formula: "max | z − z′ |", say: [" = |", captured, " − ", fast, "|"],
	captured: Math.abs(captured - fast), again: Math.abs(captured - fast),
	more: note(`At [${place.join(", ")}] of the result, ${names[0]} and ${names[1]}; everywhere else they are closer.`),
});
export const difference = () => furthest(
	app.pass.furthest, ["recorded", "in the normal run"], "Largest difference between the recorded and the normal run",
);
export async function apart(step) {
	const { furthest: most } = (await generated()).steps[step];
	return furthest(most, ["with the cache", "without it"], `Largest difference of a logit at step ${step + 1}`);
}

// What generation costs, with the cache ("with") or without it, at one step or so far.
const range = (from, to) => Array.from({ length: to - from }, (_, k) => from + k);
export const scoresOf = ({ read, computed }, how) => {
	const window = app.pass.window.decoder ?? Infinity;
	return total(range(how === "with" ? read - computed : 0, read).map((i) => Math.min(i + 1, window)));
};
export async function computed(step, how, since) {
	const { steps } = await generated(), now = steps[step], first = how === "with" ? now.read - now.computed : 0;
	const window = app.pass.window.decoder ?? Infinity;
	const rows = since
		? steps.slice(0, step + 1).map((one, k) => [`step ${k + 1}`, [scoresOf(one, how), `computed:${k}:${how}`]])
		: range(first, now.read).map((i) => [`row ${i}`, Math.min(i + 1, window)]);
	const value = since ? total(rows.map((row) => row[1][0])) : scoresOf(now, how);
	return {
		title: [`Scores that one head computes ${how} the cache, ${since ? "so far" : `at step ${step + 1}`}`],
		formula: since ? "∑_{steps} scores" : "∑_{rows i} ( i + 1 )", text: count(value),
		say: [since ? " = the sum over the steps" : " : every new row looks at all keys up to its own"], captured: value,
		again: total(rows.map((row) => [row[1]].flat()[0])), more: listing(["", "scores"], rows),
	};
}
export async function time(step, how, since) {
	const { steps } = await generated(), key = how === "with" ? "seconds" : "seconds_without";
	const rows = steps.slice(since ? 0 : step, step + 1).map((one, k) => [`step ${(since ? 0 : step) + k + 1}`, one[key] * 1000]);
	return measured(`Time ${how} the cache${since ? ", so far" : ""}`, total(rows.map(([, ms]) => ms)), rows);
}
const measured = (title, value, rows) => ({
	title: [title], formula: 't = t_{end} − t_{start}', say: [" ms, measured when it ran, on this machine"],
	captured: value, more: listing(["", "ms"], rows),
});
export function seconds(kind) {
	const ms = app.pass.seconds[kind] * 1000;
	return measured(`Time of the ${kind === "fast" ? "normal" : "recorded"} run`, ms, [[kind, ms]]);
}

export async function cache(step) {
	const { read, cache_bytes: captured } = (await generated()).steps[step];
	const rows = app.model.attentions.filter(({ stack, kind }) => stack === "decoder" && kind === "self").map(
		(one) => [one.name, new Set(one.reads).size, one.d_k, one.d_v, 4 * read * new Set(one.reads).size * (one.d_k + one.d_v)],
	);
	return {
		title: [`Keys and values kept after ${read} tokens`], formula: "∑_{blocks} 4 n h ( d_k + d_v )",
		text: bytes(captured), say: [` = the sum below: 4 bytes a number, ${read} tokens`], captured,
		again: total(rows.map((row) => row[4])), more: listing(["", "heads", "d_k", "d_v", "bytes"], rows),
	};
}
export function kept() {
	const rows = Object.entries(app.pass.sites).map(([name, shape]) => [name, shape.reduce((a, b) => a * b, 1) * 4]);
	return {
		title: ["Tensors kept of this pass"], formula: "∑_{sites} 4 numbers", text: bytes(app.pass.bytes),
		say: [" = the sum below: 4 bytes a number"], captured: app.pass.bytes, again: total(rows.map(([, size]) => size)),
		more: listing(["site", "bytes"], rows),
	};
}
