// Links: who looks at whom, as curves between tokens; and one word's weights drawn over the sentence (N20).

import { h, num, percent, spell, svg } from "../dom.js";
import { colourOf, css, inkOn } from "../colour.js";
import { panel } from "../panel.js";
import { pythonPass, pythonSite, quote } from "../python.js";
import { app, attention, head, headName, query, site, tokens } from "../app.js";
import { chooser } from "../selection.js";
import { select, state } from "../state.js";

export const title = "Links";
export const alone = true;
const MOST = 2000;

async function weights() {
  const one = attention();
  if (state().scope === "head") return { A: await site(`${one.name}.weights`, head()), name: `head ${headName()}` };
  if (state().scope === "layer") return {
    A: await site(`${one.name}.weights`, "mean"),
    name: `${one.name}, mean of its ${one.heads.length} heads`,
  };
  const like = app.model.attentions.filter((other) => other.stack === one.stack && other.kind === one.kind);
  const all = await Promise.all(like.map((other) => site(`${other.name}.weights`, "mean")));
  const data = all[0].data.map((_, i) => all.reduce((total, A) => total + A.data[i], 0) / all.length);
  return {
    A: { shape: all[0].shape, data },
    name: `all ${one.stack} ${one.kind}-attention, mean of ${like.length} layers`,
  };
}

function pythonWeights(...lines) {
  const one = attention();
  const at = state().scope === "head" ? head() : "mean";
  if (state().scope !== "all") return pythonSite(`${one.name}.weights`, at, ...lines);
  const like = app.model.attentions.filter((other) => other.stack === one.stack && other.kind === one.kind);
  const names = like.map((other) => quote(`${other.name}.weights`)).join(", ");
  const mean = `X = torch.stack([trace[name][0].mean(0) for name in (${names},)]).mean(0)`;
  return pythonPass(mean, ...(lines.length ? lines : ["print(X)"]));
}

// The strongest links that together hold a share of the whole mass, at most so many.
export function strongest({ shape, data }, share) {
  const total = data.reduce((a, b) => a + b, 0);
  const order = [...data.keys()].filter((i) => data[i] > 0).sort((a, b) => data[b] - data[a]);
  const kept = [];
  let mass = 0;
  for (const at of order) {
    if (mass >= share * total || kept.length >= MOST) break;
    mass += data[at];
    kept.push({ i: Math.floor(at / shape[1]), j: at % shape[1], weight: data[at] });
  }
  return { kept, links: order.length, dropped: total ? Math.max(0, 1 - mass / total) : 0 };
}

export async function draw() {
  const { A, name } = await weights(), one = attention(), i = query();
  const { kept, links, dropped } = strongest(A, Number(state().mass) / 100);
  const scopes = [["head", "this head"], ["layer", "its layer"], ["all", "all layers"]];
  const controls = h(
    "div",
    { class: "bar" },
    h(
      "span",
      { class: "heads", role: "group", "aria-label": "Scope" },
      scopes.map(([scope, label]) => h(
        "button",
        {
          type: "button",
          key: `scope ${scope}`,
          "aria-pressed": String(state().scope === scope),
          onclick: () => select({ scope }),
        },
        label,
      )),
    ),
    h(
      "label",
      {},
      "strongest links that hold",
      h(
        "select",
        { key: "mass", onchange: (event) => select({ mass: event.target.value }) },
        [25, 50, 75, 90, 95, 99, 100].map((share) => h(
          "option",
          { value: share, selected: String(share) === state().mass },
          `${share} % of the weight`,
        )),
      ),
    ),
  );
  const rows = () => [
    ["query", "key", "weight"],
    ...kept.map((link) => [tokens(one.stack)[link.i].text, tokens(one.keys)[link.j].text, link.weight]),
  ];
  return [
    chooser({ pair: false }),
    sentencePanel(A, name, i),
    panel({
      title: `Links of ${name}`,
      key: "links",
      rows,
      python: pythonWeights,
      note: [
        `${kept.length} of ${links} links are drawn; the others hold `,
        h("b", { "data-name": "dropped", "data-value": String(dropped) }, percent(dropped)),
        " of the weight. Queries on the left, keys on the right. Choose a word above to see its links alone.",
      ],
      body: [
        controls,
        h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Links" }, curves(A, kept, i)),
      ],
    }),
  ];
}

function curves(A, kept, chosen) {
  const one = attention();
  const left = tokens(one.stack);
  const right = tokens(one.keys);
  const most = Math.max(left.length, right.length);
  const step = Math.max(12, Math.min(26, 620 / most));
  const width = 640;
  const from = 200;
  const to = 440;
  const y = (k, count) => 24 + (k + 0.5) * step + ((most - count) * step) / 2, isOnly = state().q !== "";
  const lines = kept.map(({ i, j, weight }) => svg(
    "path",
    {
      d: `M${from} ${y(i, left.length).toFixed(1)}C${from + 90} ${y(i, left.length).toFixed(1)} ${to - 90} ` +
        `${y(j, right.length).toFixed(1)} ${to} ${y(j, right.length).toFixed(1)}`,
      fill: "none",
      stroke: i === chosen || !isOnly ? "var(--q)" : "var(--hatch)",
      "stroke-width": (0.5 + 5 * weight).toFixed(2),
      "stroke-opacity": (isOnly ? (
        i === chosen ? 0.25 + 0.75 * weight : 0.15 + 0.5 * weight
      ) : 0.12 + 0.8 * weight).toFixed(3),
    },
  ));
  const name = (token, k, count, x, anchor, tone) => svg(
    "text",
    { x, y: y(k, count) + 4, "text-anchor": anchor, class: `mono ${tone}`, "font-size": Math.min(13, step) },
    spell(token, 20),
  );
  return svg(
    "svg",
    {
      class: "chart",
      viewBox: `0 0 ${width} ${48 + most * step}`,
      width,
      role: "img",
      "aria-label": `${kept.length} links between ${left.length} queries and ${right.length} keys`,
    },
    svg("text", { x: from - 8, y: 14, "text-anchor": "end", class: "q", "font-weight": 600 }, "queries"),
    svg("text", { x: to + 8, y: 14, class: "k", "font-weight": 600 }, "keys"),
    lines,
    left.map((token, k) => name(token, k, left.length, from - 8, "end", k === chosen ? "q" : "")),
    right.map((token, k) => name(token, k, right.length, to + 8, "start", "")),
  );
}

function sentencePanel(A, name, i) {
  const one = attention();
  const m = A.shape[1];
  const row = A.data.subarray(i * m, (i + 1) * m);
  const scale = { kind: "weights", largest: Math.max(...row, 1e-9) };
  const word = (token, j) => {
    const colour = colourOf(row[j], scale);
    return h(
      "button",
      {
        type: "button",
        key: `word ${j}`,
        "aria-pressed": String(one.kind === "self" && j === i),
        title: `${num(row[j], 4)}`,
        "data-value": String(row[j]),
        onclick: () => (one.kind === "self" ? select({ q: j }) : null),
        style: { "background-color": css(colour), color: inkOn(colour) },
      },
      h("bdi", {}, spell(token)),
      h("span", { class: "sr" }, ` ${num(row[j], 3)}`),
    );
  };
  const choose = one.kind === "cross" ? h(
    "div",
    { class: "sentence", role: "group", "aria-label": "Target tokens" },
    tokens(one.stack).map((token, j) => h(
      "button",
      { type: "button", key: `target ${j}`, "aria-pressed": String(j === i), onclick: () => select({ q: j }) },
      h("bdi", {}, spell(token)),
    )),
  ) : null;
  return panel({
    title: `What ${spell(tokens(one.stack)[i])} looks at`,
    key: "sentence",
    rows: () => [["key", "weight"], ...tokens(one.keys).map((token, j) => [token.text, row[j]])],
    python: () => pythonWeights(`print(X[${i}])`),
    note: `In ${name}; the darkest is ${num(scale.largest, 3)}. Click a word to see what it looks at.`,
    body: [
      choose,
      h(
        "div",
        { class: "sentence", role: "group", "aria-label": "Weights over the sentence", "data-name": "sentence" },
        tokens(one.keys).map(word),
      ),
    ],
  });
}
