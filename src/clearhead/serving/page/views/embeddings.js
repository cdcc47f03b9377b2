// Embeddings: each token's vector, its position's, its neighbours, and all of them in two dimensions (N2, N4, N7).

import { cells, chip, figure, h, num, percent, spell, svg, table, track } from "../dom.js";
import { scaleFor } from "../colour.js";
import { matrix, strip } from "../matrix.js";
import { panel } from "../panel.js";
import { pythonPass, pythonSite } from "../python.js";
import { app, place, reading, site, stackOf, tokens, topStack } from "../app.js";
import { proof, tokenRow } from "../selection.js";
import { select, state } from "../state.js";

export const title = "Embeddings";
export const alone = true;

const chosenStack = () => (state().stack in app.pass.tokens ? state().stack : topStack());

export async function draw() {
  const stack = chosenStack();
  const i = place(stack);
  const token = tokens(stack)[i];
  const isAdded = `${stack}.embeddings.positions` in app.pass.sites;
  const chosen = sitesOf(stack, isAdded).find(([name]) => name === state().site) || sitesOf(stack, isAdded)[0];
  const [E, P, near, flat] = await Promise.all([
    site(`${stack}.embeddings.tokens`),
    isAdded ? site(`${stack}.embeddings.positions`) : null,
    reading("neighbours", { stack, id: token.id }),
    reading("projection", { site: chosen[0] }),
  ]);
  const choose = app.model.stacks.length > 1 ? h(
    "label",
    {},
    "Stack",
    h(
      "select",
      { key: "stack", onchange: (event) => select({ stack: event.target.value, q: "", site: "" }) },
      app.model.stacks.map(({ name }) => h("option", { value: name, selected: name === stack }, name)),
    ),
  ) : null;
  return [
    h(
      "div",
      { class: "panel bar", role: "group", "aria-label": "Selection" },
      choose,
      tokenRow(stack, i, (q) => select({ q })),
      proof(),
    ),
    vectorPanel(stack, i, E, P),
    h("div", { class: "pair" }, nearPanel(token, near), flatPanel(stack, i, flat, chosen, isAdded)),
    tablePanel(stack, i, E),
  ];
}

const sitesOf = (stack, isAdded) => [
  [`${stack}.embeddings.tokens`, "token vectors"],
  ...(isAdded ? [
    [`${stack}.embeddings.positions`, "position vectors"],
    [`${stack}.embeddings.out`, "their sum"],
  ] : []),
  [`${stack}.norm`, "at the top of the stack, in context"],
];
const line = (X, i) => Array.from(X.data.subarray(i * X.shape[1], (i + 1) * X.shape[1]));

function vectorPanel(stack, i, E, P) {
  const token = line(E, i);
  const position = P ? line(P, P.shape[0] === 1 ? 0 : i) : null;
  const scale = scaleFor([...token, ...(position || [])], "signed");
  const norm = (x) => Math.sqrt(x.reduce((a, b) => a + b * b, 0));
  const rows = [
    ["token", token, "--q"],
    ...(position ? [
      ["position", position, "--k"],
      ["sum", token.map((value, c) => value + position[c]), "--o"],
    ] : []),
  ];
  return panel({
    title: `The vector of ${spell(tokens(stack)[i])}`,
    key: "vector",
    python: () => pythonSite(`${stack}.embeddings.tokens`, undefined, `print(X[${i}])`),
    rows: () => [
      ["dimension", ...rows.map(([name]) => name)],
      ...token.map((_, c) => [c, ...rows.map(([, x]) => x[c])]),
    ],
    note: position
      ? `A row of the table for the token, one for position ${i}, and their sum: x = E t + P p.`
      : `A row of the embedding table, ${token.length} numbers wide. Positions ` +
          `(${stackOf(stack).positions}) enter inside attention, not here.`,
    body: h(
      "div",
      { class: "strips" },
      rows.flatMap(([name, x, colour]) => [
        h("span", {}, h("b", {}, name), h("span", { class: "note" }, ` norm ${num(norm(x), 3)}`)),
        strip(x, { scale, name, colour }),
      ]),
    ),
  });
}

function nearPanel(token, near) {
  const most = (list) => Math.max(...list.map((one) => Math.abs(one.value)), 1e-9);
  const side = (name, list) => h(
    "div",
    {},
    h("h3", {}, name),
    table(
      ["token", { text: name, num: true }, ""],
      list.map((one) => cells(
        [
          chip(one),
          { num: h("span", { "data-name": `${name} ${one.id}` }, figure(one.value)) },
          track(Math.abs(one.value) / most(list), one.value < 0 ? "minus" : "q"),
        ],
      )),
      { label: name },
    ),
  );
  return panel({
    title: `Neighbours of ${spell(token)}`,
    key: "neighbours",
    python: () => pythonPass(
      `E = module.${chosenStack()}.tokens.weight.detach()`,
      `for values in (torch.cosine_similarity(E, E[${token.id}][None]), E @ E[${token.id}]):`,
      "    print(values.topk(11))",
    ),
    note: "The nearest of the whole vocabulary. The dot product also likes long vectors; the cosine " +
      "sees directions only.",
    rows: () => [
      ["measure", "token", "id", "value"],
      ...Object.entries(near).flatMap(([name, list]) => list.map((one) => [name, one.text, one.id, one.value])),
    ],
    body: h("div", { class: "pair" }, side("cosine", near.cosine), side("dot product", near.dot)),
  });
}

function flatPanel(stack, chosen, { points, share }, [name, label], isAdded) {
  const width = 460;
  const height = 340;
  const xs = points.map(([x]) => x);
  const ys = points.map(([, y]) => y);
  const span = (list) => [Math.min(...list), Math.max(...list)];
  const to = (value, [low, high], size) => 40 + ((value - low) / (high - low || 1)) * (size - 80);
  const list = tokens(stack);
  const many = list.length > 80;
  const marks = points.map(([x, y], i) => svg(
    "g",
    {},
    svg(
      "circle",
      {
        cx: to(x, span(xs), width),
        cy: height - to(y, span(ys), height),
        r: i === chosen ? 6 : 3.5,
        fill: i === chosen ? "var(--o)" : "var(--q)",
      },
    ),
    many && i !== chosen ? null : svg(
      "text",
      { x: to(x, span(xs), width) + 7, y: height - to(y, span(ys), height) + 4, class: "mono", "font-size": 11 },
      spell(list[i], 12),
    ),
  ));
  const choose = h(
    "label",
    {},
    "Vectors ",
    h(
      "select",
      { key: "site", onchange: (event) => select({ site: event.target.value }) },
      sitesOf(stack, isAdded).map(([key, text]) => h("option", { value: key, selected: key === name }, text)),
    ),
  );
  return panel({
    title: "In two dimensions",
    key: "projection",
    python: () => pythonSite(
      name,
      undefined,
      "U, S, _ = torch.linalg.svd((X - X.mean(0)).double(), full_matrices=False)",
      "print(U[:, :2] * S[:2])",
    ),
    rows: () => [["token", "first", "second"], ...points.map(([x, y], i) => [list[i].text, x, y])],
    note: `${label}: the two directions in which they differ most hold ${percent(share[0] || 0)} and ${percent(share[1] || 0)} ` +
      "of the variance.",
    body: [
      h("div", { class: "bar" }, choose),
      svg(
        "svg",
        {
          class: "chart",
          viewBox: `0 0 ${width} ${height}`,
          width,
          role: "img",
          "aria-label": `Projection of ${list.length} vectors`,
        },
        svg("rect", { x: 1, y: 1, width: width - 2, height: height - 2, rx: 8, class: "line" }),
        marks,
      ),
    ],
  });
}

function tablePanel(stack, i, E) {
  return panel({
    title: "All token vectors",
    key: "table",
    python: () => pythonSite(`${stack}.embeddings.tokens`),
    rows: () => [
      ["token", ...Array.from({ length: E.shape[1] }, (_, c) => c)],
      ...tokens(stack).map((token, k) => [token.text, ...line(E, k)]),
    ],
    body: matrix({
      values: E.data,
      rows: E.shape[0],
      columns: E.shape[1],
      rowTokens: tokens(stack),
      title: "E t",
      name: "embeddings",
      key: "matrix embeddings",
      selected: [i, -1],
      wide: 980,
      tall: 420,
      onselect: (q) => select({ q }),
    }),
  });
}
