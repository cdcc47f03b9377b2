// The stream of one token: what each sublayer adds to it, the feed-forward's strongest units, and what the
// model would say if it ended there (N21 to N25, N32).

import { cells, chip, figure, h, num, spell, table, track } from "../dom.js";
import { panel } from "../panel.js";
import { pythonPass, pythonSite, quote } from "../python.js";
import { app, attention, place, reading, site, stackOf, topStack } from "../app.js";
import { proof, tokenRow } from "../selection.js";
import { select, state } from "../state.js";

export const title = "Residual and FFN";
export const hint = "Click a hidden unit, or a number of the stream, to see where it comes from.";

const chosenStack = () => (state().stack in app.pass.tokens ? state().stack : topStack());

export async function draw() {
  const stack = chosenStack(), i = place(stack), part = stackOf(stack), isTop = stack === topStack();
  const block = attention().stack === stack ? attention().block : 0, where = `${stack}.${block}.ffn`;
  const [rows, lens, hidden] = await Promise.all([
    reading("stream", { stack, position: i }),
    isTop ? reading("lens", { position: i }) : [],
    part.blocks ? site(`${where}.hidden`) : null,
  ]);
  const choose = app.model.stacks.length > 1 ? h(
    "label",
    {},
    "Stack",
    h(
      "select",
      { key: "stack", onchange: (event) => select({ stack: event.target.value, q: "", cell: "" }) },
      app.model.stacks.map(({ name }) => h("option", { value: name, selected: name === stack }, name)),
    ),
  ) : null;
  const bar = h(
    "div",
    { class: "panel bar", role: "group", "aria-label": "Selection" },
    choose,
    tokenRow(stack, i, (q) => select({ q, cell: "" })),
    proof(),
  );
  return [
    bar,
    streamPanel(rows, stack, i, part),
    lens.length ? lensPanel(lens, i) : noLens(isTop),
    hidden ? unitsPanel(hidden, where, stack, i, part) : null,
  ].filter(Boolean);
}

function streamPanel(rows, stack, i, part) {
  const most = Math.max(...rows.map((row) => Math.max(row.before, row.after, row.added)), 1e-9);
  const siteAfter = (name) => {
    const [, block, kind] = name.split(".");
    return kind ? `${stack}.${block}.residual.${part.sublayers.indexOf(kind)}` : `${stack}.embeddings.out`;
  };
  const line = (row) => cells([
    row.name,
    { num: figure(row.before) },
    { num: h("span", { "data-name": `added ${row.name}` }, figure(row.added)) },
    track(row.added / most, "v"),
    { num: row.cosine === null ? "–" : num(row.cosine, 2) },
    { num: figure(
      row.after,
      () => select({ cell: `stream:${i}:0:${siteAfter(row.name)}` }),
      "dimension 0 of the stream",
    ) },
    track(row.after / most, "o"),
  ]);
  return panel({
    title: "What each sublayer adds to the stream",
    key: "stream",
    python: () => pythonPass(
      "for name, X in trace.items():",
      `    if name.startswith("${stack}.") and (name.endswith(".out") or ".residual." in name):`,
      `        print(name, float(X[0, ${i}].norm()))`,
    ),
    note: `Norms of vectors of width ${part.d}. ${part.placement === "post" ? "After each addition the stream is normed." : "The stream itself is never normed: sublayers read a normed copy."} ` +
      "cos: whether the addition points along the stream.",
    rows: () => [
      ["sublayer", "norm before", "norm added", "cosine", "norm after"],
      ...rows.map((row) => [row.name, row.before, row.added, row.cosine ?? "", row.after]),
    ],
    body: table(
      [
        "after",
        { text: "before", num: true },
        { text: "added", num: true },
        "",
        { text: "cos", num: true },
        { text: "stream", num: true },
        "",
      ],
      rows.map(line),
      { label: "stream" },
    ),
  });
}

const after = (name) => {
  const [stack, block, , index] = name.split(".");
  return block === "embeddings" ? `${stack}.embeddings` : `${stack}.${block}.${stackOf(stack).sublayers[index]}`;
};

function lensPanel(lens, i) {
  const shown = Math.min(5, lens[0].top.length), rank = (top) => [...top].sort((a, b) => b.p - a.p).slice(0, shown);
  const line = ({ site: name, top }) => cells([
    after(name),
    ...rank(top).map((one) => h("td", {}, chip(one), " ", h("span", { class: "n" }, num(one.p, 3)))),
  ]);
  const classifies = app.model.head === "classifier";
  return panel({
    title: "The prediction read at every layer",
    key: "lens",
    python: () => pythonPass(
      `for name in (${lens.map((one) => quote(one.site)).join(", ")},):`,
      `    Z = module.head(module.${topStack()}.norm(trace[name]))[0]`,
      `    print(name, (Z if Z.ndim == 1 else Z[${i}]).softmax(-1).topk(${shown}))`,
    ),
    note: `The ${classifies ? "classifier" : "language"} head put on the stream after each sublayer, behind the last norm. The last row is what the model says${classifies ? "" : ` after ${spell(
      app.pass.tokens[topStack()][i],
    )}`}.`,
    rows: () => [
      ["site", ...Array.from({ length: shown }, (_, k) => [`token ${k + 1}`, `p ${k + 1}`]).flat()],
      ...lens.map(({ site: name, top }) => [name, ...rank(top).flatMap((one) => [one.text, one.p])]),
    ],
    body: table(
      ["after", "likeliest", ...Array(shown - 1).fill("")],
      lens.map(line),
      { label: "predictions by layer" },
    ),
  });
}
const noLens = (isTop) => panel({
  title: "The prediction read at every layer",
  key: "lens",
  rows: () => [["none"]],
  body: h(
    "p",
    { class: "empty" },
    isTop
      ? "This model has no head: it gives vectors, and predicts nothing."
      : "The head reads the decoder. Choose the decoder to see what it would say at every layer.",
  ),
});

function unitsPanel(hidden, where, stack, i, part) {
  const d = hidden.shape[1];
  const values = hidden.data.subarray(i * d, (i + 1) * d);
  const order = [...values.keys()].sort((a, b) => Math.abs(values[b]) - Math.abs(values[a])).slice(0, 16);
  const most = Math.abs(values[order[0]]) || 1;
  const quiet = values.reduce((total, value) => total + (Math.abs(value) < 1e-3 ? 1 : 0), 0);
  const choose = h(
    "label",
    {},
    "Block ",
    h(
      "select",
      { key: "block", onchange: (event) => select({ at: `${stack}.${event.target.value}.self`, cell: "" }) },
      Array.from(
        { length: part.blocks },
        (_, b) => h("option", { value: b, selected: where === `${stack}.${b}.ffn` }, String(b)),
      ),
    ),
  );
  const line = (c) => cells([
    `unit ${c}`,
    { num: h(
      "span",
      { "data-name": `unit ${c}` },
      figure(values[c], () => select({ cell: `hidden:${i}:${c}:${where}` })),
    ) },
    track(Math.abs(values[c]) / most, values[c] < 0 ? "minus" : "q"),
  ]);
  return panel({
    title: `Strongest units of ${where}`,
    key: "units",
    python: () => pythonSite(`${where}.hidden`, undefined, `print(X[${i}])`),
    rows: () => [["unit", "value"], ...order.map((c) => [c, values[c]])],
    note: `Of ${d} units between the two matrices, ${quiet} are almost silent (below 0.001) for this token.`,
    body: [
      h("div", { class: "bar" }, choose),
      table(["", { text: "value", num: true }, ""], order.map(line), { label: "units" }),
    ],
  });
}
