// Translation: the encoder's attention, the decoder's, and the rectangle between them, with its alignment (N17, N29).

import { cells, chip, h, num, spell, svg, table } from "../dom.js";
import { scaleOfWeights } from "../colour.js";
import { matrix } from "../matrix.js";
import { absent, panel } from "../panel.js";
import { pythonSite } from "../python.js";
import { app, attention, head, isVisible, site, tokens } from "../app.js";
import { proof } from "../selection.js";
import { select, state } from "../state.js";

export const title = "Translation";
export const alone = true;

const block = () => (attention().stack === "decoder" ? attention().block : 0);
const find = (name) => app.model.attentions.find((one) => one.name === name);

export async function draw() {
  if (app.model.shape !== "encoder-decoder") return absent(
    title,
    `This model is of shape '${app.model.shape}': it has no source and target. Open a translator, ` +
      "such as one trained on builtin:spanish, to see its cross-attention.",
  );
  const b = block();
  const mean = state().scope !== "head";
  const last = app.model.stacks.find(({ name }) => name === "encoder").blocks - 1;
  const names = [`encoder.${Math.min(b, last)}.self`, `decoder.${b}.self`, `decoder.${b}.cross`];
  const at = (one) => (mean ? "mean" : Math.min(head(), one.heads.length - 1));
  const all = await Promise.all(names.map((name) => site(`${name}.weights`, at(find(name)))));
  const cross = find(names[2]), A = all[2];
  return [
    bar(b, cross, mean),
    alignmentPanel(A),
    h("div", { class: "pair" }, names.map((name, i) => square(find(name), all[i], mean))).children,
  ].flatMap((part) => (part instanceof HTMLCollection ? [h("div", { class: "pair" }, [...part])] : [part]));
}

function bar(b, cross, mean) {
  const blocks = app.model.stacks.find(({ name }) => name === "decoder").blocks;
  return h(
    "div",
    { class: "panel bar", role: "group", "aria-label": "Selection" },
    h(
      "label",
      {},
      "Block",
      h(
        "select",
        { key: "block", onchange: (event) => select({ at: `decoder.${event.target.value}.cross` }) },
        Array.from({ length: blocks }, (_, i) => h("option", { value: i, selected: i === b }, String(i))),
      ),
    ),
    h(
      "span",
      { class: "heads", role: "group", "aria-label": "Head" },
      "Head",
      h(
        "button",
        { type: "button", key: "head mean", "aria-pressed": String(mean), onclick: () => select({ scope: "layer" }) },
        "mean",
      ),
      cross.heads.map((number, i) => h(
        "button",
        {
          type: "button",
          key: `head ${number}`,
          "aria-pressed": String(!mean && i === head()),
          onclick: () => select({ scope: "head", head: number, at: cross.name }),
        },
        String(number),
      )),
    ),
    proof(),
  );
}

function square(one, A, mean) {
  const columns = A.shape[1];
  const hides = one.kind === "self" && app.pass.causal[one.stack];
  const titles = {
    "encoder self": "Encoder: the source looks at itself",
    "decoder self": "Decoder: the target looks back",
    "decoder cross": "Cross: the target looks at the source",
  };
  const drawn = matrix({
    values: A.data,
    rows: A.shape[0],
    columns,
    rowTokens: tokens(one.stack),
    columnTokens: tokens(one.keys),
    kind: "weights",
    scale: scaleOfWeights(A.data, columns),
    title: one.name,
    name: one.name,
    key: `matrix ${one.name}`,
    wide: 440,
    tall: 420,
    tone: "o",
    isHidden: hides ? (at) => !isVisible(one, Math.floor(at / columns), at % columns) : null,
    selected: attention().name === one.name ? [Number(state().q || -1), Number(state().k || -1)] : [-1, -1],
    onselect: (i, j, derive) => select({
      at: one.name,
      q: i,
      k: j,
      ...(derive && !mean ? { view: "attention", cell: `weights:${i}:${j}` } : {}),
    }),
  });
  return panel({
    title: titles[`${one.stack} ${one.kind}`],
    key: one.name,
    note: `${mean ? `Mean of ${one.heads.length} heads` : `Head ${one.heads[Math.min(
      head(),
      one.heads.length - 1,
    )]}`} of ${one.name}. Rows are queries, columns keys.`,
    body: drawn,
    python: () => pythonSite(`${one.name}.weights`),
    rows: () => [
      ["query", ...tokens(one.keys).map((token) => token.text)],
      ...tokens(one.stack).map((token, i) => [token.text, ...A.data.subarray(i * columns, (i + 1) * columns)]),
    ],
  });
}

// For each target token the source token that it looks at most.
function alignmentPanel(A) {
  const source = tokens("encoder"), target = tokens("decoder"), m = A.shape[1];
  const links = target.map((_, i) => {
    const row = A.data.subarray(i * m, (i + 1) * m);
    const j = row.indexOf(Math.max(...row));
    return { i, j, weight: row[j] };
  });
  const wide = (token) => Math.max(34, 8.2 * [...spell(token, 14)].length + 16);
  const places = (list) => {
    let x = 10;
    return list.map((token) => { const at = x + wide(token) / 2; x += wide(token) + 6; return at; });
  };
  const xs = places(source);
  const ys = places(target);
  const width = Math.max(xs.at(-1) + wide(source.at(-1)) / 2, ys.at(-1) + wide(target.at(-1)) / 2) + 10;
  const token = (list, x, y, tone) => list.map((one, i) => svg(
    "g",
    {},
    svg("rect", { x: x[i] - wide(one) / 2, y, width: wide(one), height: 26, rx: 6, class: "box" }),
    svg("text", { x: x[i], y: y + 17, "text-anchor": "middle", class: `mono ${tone}` }, spell(one, 14)),
  ));
  const drawing = svg(
    "svg",
    {
      class: "chart",
      viewBox: `0 0 ${width} 170`,
      width,
      role: "img",
      "aria-label": "Alignment of target and source",
    },
    links.map(({ i, j, weight }) => svg(
      "path",
      {
        d: `M${ys[i]} 134C${ys[i]} 90 ${xs[j]} 80 ${xs[j]} 36`,
        fill: "none",
        stroke: "var(--o)",
        "stroke-width": 1 + 4 * weight,
        "stroke-opacity": 0.25 + 0.7 * weight,
      },
    )),
    token(source, xs, 10, "k"),
    token(target, ys, 134, "q"),
  );
  const line = ({ i, j, weight }) => cells([
    chip(target[i]),
    chip(source[j]),
    { num: h("span", { class: "n", "data-value": String(weight), "data-name": `aligned ${i}` }, num(weight, 3)) },
  ]);
  return panel({
    title: "The alignment read off the cross-attention",
    key: "alignment",
    python: () => pythonSite(`decoder.${block()}.cross.weights`),
    rows: () => [
      ["target", "source", "weight"],
      ...links.map(({ i, j, weight }) => [target[i].text, source[j].text, weight]),
    ],
    note: "For each target token, which the decoder reads, the source token with the largest weight: " +
      "where it looks while it predicts the token after it.",
    body: [
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Alignment" }, drawing),
      h(
        "details",
        {},
        h("summary", {}, "As a table"),
        table(
          ["target, read", "source, looked at most", { text: "weight", num: true }],
          links.map(line),
          { label: "alignment" },
        ),
      ),
    ],
  });
}
