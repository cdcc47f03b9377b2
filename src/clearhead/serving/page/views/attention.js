// The attention bench: one head, from q and k of a pair to what it adds to the stream (N9 to N16).

import { figure, formula, frac, h, m, mi, mo, num, root, row, spell, sub, sup } from "../dom.js";
import { scaleFor, scaleOfWeights } from "../colour.js";
import { matrix, strip } from "../matrix.js";
import { panel } from "../panel.js";
import { pythonSite } from "../python.js";
import {
  app, attention, head, headName, headTensors, isVisible, keyToken, query, tokens, toggle, weight,
} from "../app.js";
import { chooser } from "../selection.js";
import { list, select, state } from "../state.js";

export const title = "Attention";
export const hint = "Click any number – a field of a matrix, a number of the equation – to see where it comes " +
  "from, down to the terms of its dot product.";

const dots = ["scaled_dot", "dot"];
function stages() {
  const one = attention(), isDot = dots.includes(one.similarity);
  return [
    { name: "qkv", label: "Q, K, V" },
    isDot ? { name: "dot", label: "Q Kᵀ" } : null,
    { name: "scores", label: isDot ? (one.biased ? "÷ √d_k + bias" : "÷ √d_k") : `${one.similarity} similarity` },
    { name: "mask", label: "mask" },
    { name: "softmax", label: "softmax" },
    { name: "values", label: "× V" },
    { name: "output", label: "W_o" },
    { name: "all", label: "all at once" },
  ].filter(Boolean);
}

export async function draw() {
  const T = await headTensors();
  const names = stages();
  const now = names.find(({ name }) => name === state().stage) || names.find(({ name }) => name === "softmax");
  return [chooser(), pairPanel(T), await stagePanel(T, now, names), switches()];
}

const width = (X) => X.shape.at(-1);
const line = (X, i) => X.data.subarray(i * width(X), (i + 1) * width(X));
const cell = (kind, i, j) => select({ cell: `${kind}:${i}:${j}` });

// q, k, q ∘ k and what becomes of their sum.
function pairPanel(T) {
  const one = attention();
  const i = query();
  const j = keyToken();
  const S = T.scores.data[i * width(T.scores) + j];
  const A = T.weights.data[i * width(T.weights) + j];
  if (!width(T.q)) return panel({
    title: "A pair",
    note: "This similarity looks at positions only: there are no queries and keys.",
    body: [],
    rows: () => [["score", S], ["weight", A]],
  });
  const q = Array.from(line(T.q, i));
  const k = Array.from(line(T.k, j));
  const products = q.map((value, c) => value * k[c]);
  const total = products.reduce((a, b) => a + b, 0);
  const both = scaleFor([...q, ...k], "signed"), scale = app.pass.scales[one.name], hidden = !isVisible(one, i, j);
  const at = (tone, token) => [
    h("b", { class: tone }, tone),
    " of ",
    h("span", { class: "chip" }, h("bdi", {}, spell(token, 14))),
  ];
  const strips = [
    [
      at("q", tokens(one.stack)[i]),
      strip(q, { scale: both, name: "query", colour: "--q", key: "strip q", onselect: (c) => cell("q", i, c) }),
    ],
    [
      at("k", tokens(one.keys)[j]),
      strip(k, { scale: both, name: "key", colour: "--k", key: "strip k", onselect: (c) => cell("k", j, c) }),
    ],
    [
      ["q ∘ k"],
      strip(
        products,
        {
          scale: scaleFor(products, "signed"),
          name: "products",
          key: "strip product",
          onselect: () => cell("scores", i, j),
        },
      ),
    ],
  ];
  const arrow = (text) => h("span", { class: "note" }, text);
  const isDot = dots.includes(one.similarity);
  const equation = h(
    "p",
    { class: "equation", "data-name": "pair" },
    isDot ? [
      arrow("Σ ="),
      figure(total, () => cell("scores", i, j), "the dot product"),
      arrow(`× ${num(scale)}${one.biased ? " + bias" : ""} =`),
    ] : arrow(`${one.similarity} =`),
    h("span", { "data-name": "score" }, figure(S, () => cell("scores", i, j))),
    hidden ? arrow("hidden by the mask: weight") : arrow("→ softmax over the row →"),
    h("b", { class: "o", "data-name": "weight" }, figure(A, () => cell("weights", i, j))),
  );
  return panel({
    title: "One query meets one key",
    key: "pair",
    note: `How much ${spell(tokens(one.stack)[i])} looks at ${spell(tokens(one.keys)[j])} in head ${headName()}.`,
    rows: () => [
      ["dimension", "q", "k", "product"],
      ...q.map((value, c) => [c, value, k[c], products[c]]),
      ["score", "", "", S],
      ["weight", "", "", A],
    ],
    python: () => pythonSite(`${one.name}.q`, head()),
    body: [h("div", { class: "strips" }, strips.flatMap(([name, drawn]) => [h("span", {}, name), drawn])), equation],
  });
}

const FORMULAS = {
  qkv: () => formula(
    mi("Q"),
    "=",
    mi("X"),
    sub("W", "q"),
    mo(","),
    mi("K"),
    "=",
    mi("X"),
    sub("W", "k"),
    mo(","),
    mi("V"),
    "=",
    mi("X"),
    sub("W", "v"),
  ),
  dot: () => formula(mi("Q"), sup("K", "T")),
  scores: () => formula(mi("S"), "=", frac(row(mi("Q"), sup("K", "T")), root(sub("d", "k")))),
  mask: () => formula(sub("S", "ij"), "→", mo("−∞"), m("mtext", " where i may not look at j")),
  softmax: () => formula(mi("A"), "=", mi("softmax"), "(", mi("S"), ")"),
  values: () => formula(mi("H"), "=", mi("A"), mi("V")),
  output: () => formula(mi("out"), "=", mi("H"), sub("W", "o"), m("mtext", " (this head's part)")),
};
const NOTES = {
  qkv: "Each token's input x becomes a query, a key and a value.",
  dot: "Every query meets every key: one matrix product for all tokens at once.",
  scores: "Divided by √d_k, so that wide heads do not saturate the softmax; positions that act as a " +
    "bias are added here.",
  mask: "Where a token may not look, the score becomes −∞ before the softmax.",
  softmax: "exp, then divided by the row's sum: every row sums to 1, and a hidden key gets exactly 0.",
  values: "Each token takes the average of the values, by its weights.",
  output: "The head's output through its columns of W_o: what it adds to the stream. The sublayer adds " +
    "the sum over all heads.",
};

function hidesSome() {
  const one = attention(), n = tokens(one.stack).length;
  return one.kind === "self" && n > 1 && (app.pass.causal[one.stack] || (app.pass.window[one.stack] ?? n) < n);
}

function drawn(name, T, options = {}) {
  const one = attention();
  const rowTokens = tokens(one.stack);
  const keys = tokens(one.keys);
  const n = rowTokens.length;
  const mm = keys.length;
  const i = query();
  const j = keyToken();
  const isHidden = hidesSome() ? (at) => !isVisible(one, Math.floor(at / mm), at % mm) : null;
  const square = {
    rows: n,
    columns: mm,
    rowTokens,
    columnTokens: keys,
    selected: [i, j],
    key: `matrix ${name}`,
    name,
    ...options,
  };
  const choose = (kind) => (a, b, derive) => select({
    q: a,
    k: b,
    ...(derive || state().cell ? { cell: `${kind}:${a}:${b}` } : {}),
  });
  if (name === "dot") {
    const scale = app.pass.scales[one.name], values = product(T, n, mm);
    return matrix({
      ...square,
      values,
      title: "Q Kᵀ",
      onselect: choose("scores"),
      subtitle: `times ${num(scale)} next`,
    });
  }
  if (name === "scores") return matrix({ ...square, values: T.scores.data, title: "S", onselect: choose("scores") });
  if (name === "mask") return matrix({
    ...square,
    values: T.scores.data,
    title: "S, masked",
    isHidden,
    hiddenText: "−∞",
    onselect: choose("scores"),
  });
  if (name === "softmax") return matrix({
    ...square,
    values: T.weights.data,
    title: "A",
    kind: "weights",
    isHidden,
    onselect: choose("weights"),
    tone: "o",
    scale: scaleOfWeights(T.weights.data, mm),
  });
  const wide = (X, title, kind, tone, stack, chosen, colour) => matrix({
    values: X.data,
    rows: X.shape[0],
    columns: X.shape[1],
    rowTokens: tokens(stack),
    title,
    tone,
    rowColour: colour,
    selected: [chosen, -1],
    key: `matrix ${title}`,
    name: title,
    onselect: (a, c, derive) => select({ [kind === "k" || kind === "v" ? "k" : "q"]: a, cell: `${kind}:${a}:${c}` }),
    ...options,
  });
  if (name === "qkv") return h(
    "div",
    { class: "flow" },
    wide(T.q, "Q", "q", "q", one.stack, i, "--q"),
    wide(T.k, "K", "k", "k", one.keys, j, "--k"),
    wide(T.v, "V", "v", "v", one.keys, j, "--v"),
  );
  if (name === "values") return wide(T.heads, "H = A V", "heads", "o", one.stack, i, "--q");
  return wide(options.part, "H W_o", "part", "o", one.stack, i, "--q");
}

const three = (found) => (found.className === "flow" ? [...found.children] : [found]);

// What a stage is made from, small, and then the stage itself.
function withOperands(name, names, T, part) {
  const small = { wide: 240, tall: 300, small: true, plain: true }, now = drawn(name, T, { part });
  const has = (stage) => names.some((one) => one.name === stage);
  const [Q, K, V] = width(T.q) ? three(drawn("qkv", T, small)) : [];
  const operands = {
    dot: () => [Q, K],
    scores: () => (has("dot") ? [drawn("dot", T, small)] : Q ? [Q, K] : []),
    mask: () => [drawn("scores", T, small)],
    softmax: () => [drawn("mask", T, small)],
    values: () => [drawn("softmax", T, small), V || drawn("qkv", T, small).lastChild],
    output: () => [drawn("values", T, small)],
  };
  const from = operands[name]?.() || [];
  return from.length ? h(
    "div",
    { class: "steps" },
    h("div", { class: "operands" }, from),
    h("span", { class: "sign", "aria-hidden": "true" }, "→"),
    now,
  ) : now;
}

function product(T, n, mm) {
  const d = width(T.q), values = new Float32Array(n * mm);
  for (let a = 0; a < n; a++) for (let b = 0; b < mm; b++) {
    let total = 0;
    for (let c = 0; c < d; c++) total += T.q.data[a * d + c] * T.k.data[b * d + c];
    values[a * mm + b] = total;
  }
  return values;
}

// H W_o for the columns of this head: (n, d).
async function ownPart(T) {
  const one = attention(), H = T.heads, d = width(H), n = H.shape[0];
  if (one.projections === "none") return H;
  const W = await weight(`${one.weights}.W_o.weight`, null, [head() * d, (head() + 1) * d]);
  const to = W.shape[0];
  const data = new Float32Array(n * to);
  for (let a = 0; a < n; a++) for (let c = 0; c < to; c++) {
    let total = 0;
    for (let e = 0; e < d; e++) total += H.data[a * d + e] * W.data[c * d + e];
    data[a * to + c] = total;
  }
  return { shape: [n, to], data };
}

async function stagePanel(T, now, names) {
  const index = names.indexOf(now);
  const one = attention();
  const part = ["output", "all"].includes(now.name) ? await ownPart(T) : null;
  const step = (by) => select({ stage: names[(index + by + names.length) % names.length].name });
  const stepper = h(
    "div",
    { class: "stages", role: "group", "aria-label": "Stages" },
    h(
      "button",
      {
        type: "button",
        key: "stage back",
        "aria-label": "Stage before",
        disabled: index === 0,
        onclick: () => step(-1),
      },
      "‹",
    ),
    names.map(({ name, label }) => h(
      "button",
      {
        type: "button",
        key: `stage ${name}`,
        "aria-current": name === now.name ? "step" : null,
        onclick: () => select({ stage: name }),
      },
      label,
    )),
    h(
      "button",
      {
        type: "button",
        key: "stage on",
        "aria-label": "Next stage",
        disabled: index === names.length - 1,
        onclick: () => step(1),
      },
      "›",
    ),
  );
  const isAll = now.name === "all";
  const small = { part, wide: 230, tall: 230, small: true, plain: true };
  const body = isAll ? h(
    "div",
    { class: "flow" },
    names.slice(0, -1).flatMap(({ name }) => three(drawn(name, T, small))),
  ) : withOperands(now.name, names, T, part);
  const source = { softmax: "weights", values: "heads", output: "out", qkv: "q" }[now.name] || "scores";
  const all = [body, ...body.querySelectorAll(".matrix")].filter((one) => one.drawing);
  const own = (isAll ? all.find(
    (one) => one.dataset.name === "softmax",
  ) : now.name === "qkv" ? all[0] : all.at(-1)).drawing;
  const row = (i) => [own.rowTokens[i].text, ...own.values.subarray(i * own.columns, (i + 1) * own.columns)];
  const rows = () => [
    ["query", ...Array.from({ length: own.columns }, (_, j) => (own.columnTokens ? own.columnTokens[j].text : j))],
    ...Array.from({ length: own.rows }, (_, i) => row(i)),
  ];
  return panel({
    title: isAll ? "From queries to the stream" : now.label,
    key: "bench",
    note: now.name === "mask" && !hidesSome()
      ? "No key is hidden from any query here."
      : isAll
      ? "Rows are queries, columns keys; in Q, K, V, H and H W_o columns are dimensions."
      : NOTES[now.name],
    rows,
    drawing: () => own,
    python: () => pythonSite(`${one.name}.${source}`, source === "out" ? undefined : head()),
    body: [stepper, isAll ? null : FORMULAS[now.name](), body],
  });
}

const SWITCHES = [
  [
    "projections",
    "No projections",
    "x·x in place of q·k in every self-attention; each head keeps its own V. Rotary positions, " +
      "which turn q and k, fall away with them (N10).",
  ],
  ["scaling", "No scaling", "scores stay q·k (N12)."],
  ["mask", "No mask", "every token sees the future too (N15)."],
  ["positions", "No positions", "nothing says where a token stands: sets map to sets (N7, N14)."],
];
function switches() {
  const missing = app.model.parts.missing, off = list("off");
  return h(
    "section",
    { class: "panel", "aria-label": "What if" },
    h("h2", {}, "What if …"),
    h(
      "p",
      { class: "note" },
      "The whole model runs again without a part, with the same weights. The page says so until you switch it back.",
    ),
    h(
      "div",
      { class: "grid", style: { "margin-top": "0.6rem" } },
      SWITCHES.map(([part, label, note]) => h(
        "label",
        { class: "switch" },
        h(
          "input",
          {
            type: "checkbox",
            key: `switch ${part}`,
            checked: off.includes(part),
            disabled: part in missing,
            onchange: () => toggle("off", part),
          },
        ),
        h("b", {}, label),
        h("span", { class: "note" }, missing[part] || note),
      )),
    ),
  );
}
