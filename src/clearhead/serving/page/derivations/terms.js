// What derivations share: rows of tensors, dot products term by term, and numbers that lead on.

import { cells, chip, figure, h, table } from "../dom.js";
import { tokens } from "../app.js";
import { select } from "../state.js";

export const MANY = 40; // terms that are shown in order; of more, the largest
export const go = (cell) => () => select({ cell });
export const at = (X, i, j) => X.data[i * X.shape.at(-1) + j];
export const rowOf = (X, i) => X.data.subarray(i * X.shape.at(-1), (i + 1) * X.shape.at(-1));
export const dot = (a, b) => { let total = 0; for (let i = 0; i < a.length; i++) total += a[i] * b[i]; return total; };
export const shown = (stack, i) => chip(tokens(stack)[i]);

// a · b, term by term.
export function terms(names, a, b, goA, goB) {
  const products = Array.from(a, (value, i) => ({ i, a: value, b: b[i], p: value * b[i] }));
  const some = products.length > MANY ? [...products].sort(
    (x, y) => Math.abs(y.p) - Math.abs(x.p),
  ).slice(0, 24) : products;
  const rows = some.map(({ i, a: x, b: y, p }) => cells(
    [String(i), { num: figure(x, goA && goA(i)) }, { num: figure(y, goB && goB(i)) }, { num: figure(p) }],
  ));
  if (some.length < products.length) {
    const rest = products.reduce((total, { p }) => total + p, 0) - some.reduce((total, { p }) => total + p, 0);
    rows.push(cells([`and ${products.length - some.length} smaller`, "", "", { num: figure(rest) }]));
  }
  return table(
    ["", ...names.map((text) => ({ text, num: true })), { text: "product", num: true }],
    rows,
    { label: "terms" },
  );
}

export const equals = (...parts) => h(
  "p",
  { class: "result" },
  ...parts.map((part) => (typeof part === "number" ? figure(part) : part)),
);
