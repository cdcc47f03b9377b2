// Where a number comes from: a cell such as "weights:5:2" enters, its formula, operands and result leave.
// Operands are the captured numbers; the result is computed again here, in double precision, and compared.

import { h, num } from "./dom.js";
import { select, state } from "./state.js";
import { heads, out, part, projection, scores, weights } from "./derivations/attention.js";
import { hidden, input, logit, probability, stream } from "./derivations/stream.js";

const KINDS = {
  weights,
  scores,
  dot: scores,
  q: (i, c) => projection("q", i, c),
  k: (i, c) => projection("k", i, c),
  v: (i, c) => projection("v", i, c),
  heads,
  part,
  out,
  x: input,
  stream,
  hidden,
  logit,
  p: probability,
};

export async function derivation() {
  const [kind, i, j, ...rest] = state().cell.split(":");
  const derive = KINDS[kind];
  if (!derive) return null;
  const found = await derive(Number(i), Number(j), ...rest);
  const gap = Math.abs(found.captured - found.again);
  return h(
    "section",
    {
      class: "panel",
      "data-panel": "derivation",
      "data-captured": String(found.captured),
      "data-again": String(found.again),
    },
    h(
      "header",
      {},
      h("div", {}, h("h2", {}, found.title)),
      h(
        "button",
        {
          type: "button",
          onclick: () => select({ cell: "" }),
          "aria-label": "Close the derivation",
          key: "close derivation",
        },
        "×",
      ),
    ),
    found.formula,
    found.say,
    found.more,
    h(
      "p",
      { class: "proof-line" },
      `captured ${num(found.captured, 7)} · computed again here ${num(found.again, 7)} · apart by ${num(gap, 2)}`,
    ),
  );
}
