// States: what a recurrence carries from token to token, its gates, and what filters find, by their sites (N41, N44).

import { cells, h, num, signedTracks, spell, table } from "../parts/dom.js";
import { matrix } from "../parts/matrix.js";
import { panel } from "../parts/panel.js";
import { pythonSite } from "../parts/python.js";
import { app, chosenStack, place, site, tokens } from "../app.js";
import { picker, stackPicker } from "../parts/controls.js";
import { select, state } from "../state.js";

// Whether blocks are not made of attention and feed-forward: views of those show states in their place.
export const hasStates = (model) => model.stacks.some(({ sublayers }) => !sublayers.includes("ffn"));
const RANGES = [ // by the end of a site's name
	[/\.(input|forget|output|reset|update|gate)$/, ", each between 0 and 1: how much of something passes"],
	[/\.(state|candidate|signal)$/, ", each between −1 and 1"], [/\.filters$/, ", none below 0: how well a filter fits there"],
];
const STRONGEST = 12; // features listed

// The sites of a stack's blocks that have one vector for each token.
const offered = (stack) => Object.entries(app.pass.sites).filter(
	([name, shape]) => shape.length === 2 && shape[0] === tokens(stack).length && /^\d/.test(name.slice(stack.length + 1))
		&& name.startsWith(`${stack}.`),
).map(([name]) => name);

export async function draw() {
	const stack = chosenStack(), names = offered(stack), first = names.find((one) => one.endsWith(".state")) || names[0];
	const name = names.includes(state().site) ? state().site : first;
	const X = await site(name), [n, d] = X.shape;
	return [
		h(
			"div", { class: "bar" }, stackPicker(stack),
			picker("Tensor", "site", names, name, (key) => select({ site: key })),
		),
		panel({
			title: name, key: "states", python: () => pythonSite(name),
			note: `A row for each token, ${d} numbers wide${RANGES.find(([ends]) => ends.test(name))?.[1] || ""}.`,
			rows: () => [
				["token", ...Array(d).keys()],
				...tokens(stack).map((token, i) => [token.text, ...X.data.subarray(i * d, (i + 1) * d)]),
			],
			body: matrix({
				values: X.data, rows: n, columns: d, rowTokens: tokens(stack), title: name, name: "states",
				key: "matrix states", selected: [place(stack), -1], wide: 980, tall: 520, onselect: (q) => select({ q }),
			}),
		}),
		strongest(stack, name, X),
	];
}

// The features with the largest values, and the token at which each is largest.
function strongest(stack, name, X) {
	const [n, d] = X.shape, at = (i, c) => X.data[i * d + c];
	const peaks = Array.from({ length: d }, (_, c) => {
		const best = Array.from({ length: n }, (_, i) => i).reduce((a, b) => (Math.abs(at(b, c)) > Math.abs(at(a, c)) ? b : a));
		return { c, i: best, value: at(best, c) };
	}).sort((a, b) => Math.abs(b.value) - Math.abs(a.value)).slice(0, STRONGEST);
	const bar = signedTracks(peaks.map(({ value }) => value));
	return panel({
		title: "Where each is strongest", key: "strongest",
		note: `Of all columns those with the largest numbers, each with the token that has it${
			name.endsWith(".filters") ? ": what a filter responds to most" : ""}.`,
		rows: () => [["column", "token", "value"], ...peaks.map(({ c, i, value }) => [c, tokens(stack)[i].text, value])],
		body: table(
			["column", "token", "value", ""],
			peaks.map(({ c, i, value }) => cells([
				String(c), `${i} ${spell(tokens(stack)[i])}`, num(value), bar(value),
			])), "strongest",
		),
	});
}
