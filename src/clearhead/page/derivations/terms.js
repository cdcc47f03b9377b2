// What derivations share: rows of tensors, sums term by term, and numbers with a derivation of their own.

import { cells, chip, figure, h, table } from "../parts/dom.js";
import { isLarge } from "../parts/fit.js";
import { tokens } from "../app.js";

const MANY = 40, FEW = 24, LARGE = 4; // terms that are shown in order; of more, so many of the largest; in large type
export const at = (X, i, j) => X.data[i * X.shape.at(-1) + j];
export const rowOf = (X, i) => X.data.subarray(i * X.shape.at(-1), (i + 1) * X.shape.at(-1));
export const total = (numbers) => { let sum = 0; for (const x of numbers) sum += x; return sum; };
export const dot = (a, b) => { let sum = 0; for (let i = 0; i < a.length; i++) sum += a[i] * b[i]; return sum; };
export const norm = (x) => Math.sqrt(dot(x, x));
export const shown = (stack, i) => chip(tokens(stack)[i]);

// Lines of a name and numbers; a number with a cell, [0.3, "weights:1:2"], has a derivation. The last column adds up.
export function listing(heads, rows, on = -1) {
	const number = (x) => (Array.isArray(x) ? x[0] : x), last = (i) => number(rows[i].at(-1));
	let some = [...rows.keys()];
	if (rows.length > (isLarge() ? LARGE + 1 : MANY)) some = some.sort(
		(a, b) => (b === on) - (a === on) || Math.abs(last(b)) - Math.abs(last(a)),
	).slice(0, isLarge() ? LARGE : FEW);
	const lines = some.map((i) => cells(
		rows[i].map((x, c) => (c ? figure(number(x), Array.isArray(x) ? x[1] : null) : x)),
		{ class: i === on ? "on" : null },
	));
	if (some.length < rows.length) {
		const rest = total(rows.map((_, i) => last(i))) - total(some.map(last));
		lines.push(cells([`${rows.length - some.length} more`, ...heads.slice(2).map(() => ""), figure(rest)], { class: "rest" }));
	}
	return table(heads, lines, "terms");
}

// a · b, term by term; `goA` and `goB` name the cells of their numbers.
export const terms = (names, a, b, goA, goB) => listing(
	["", ...names, "product"], Array.from(a, (x, i) => [String(i), [x, goA?.(i)], [b[i], goB?.(i)], x * b[i]]),
);

// "0.31 = exp(2.1) / 6.6": texts, numbers, and numbers with a cell.
export const equals = (...parts) => h(
	"p", { class: "result" },
	parts.map((part) => (typeof part === "number" ? figure(part) : Array.isArray(part) ? figure(...part) : part)),
);
