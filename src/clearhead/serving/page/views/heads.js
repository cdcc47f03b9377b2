// Heads: every head side by side, what it does on this text, and what is lost without it (N16, N19, N46).

import { cells, chip, h, num, spell, table, track, visible } from "../dom.js";
import { scaleOfWeights } from "../colour.js";
import { picture, matrix } from "../matrix.js";
import { panel } from "../panel.js";
import { pythonPass, pythonSite } from "../python.js";
import {
  app, attention, head, headName, isVisible, isWhatIf, keyToken, place, query, reading, site, thumbnails, toggle,
  tokens, topStack,
} from "../app.js";
import { proof } from "../selection.js";
import { list, select, state } from "../state.js";

export const title = "Heads";
export const alone = true;

const SORTS = {
  place: ["place", null, ""],
  entropy: ["entropy", "entropy", "spread of a row, in nats: 0 looks at one token"],
  distance: ["distance", "distance", "how many tokens away it looks, on average"],
  first: ["first-token share", "first", "weight on the first token"],
  previous: ["previous-token share", "previous", "weight on the token before"],
  effect: [
    "effect of muting",
    "moved",
    "KL divergence, in nats, of the prediction when this head alone is muted",
  ],
};

export async function draw() {
  const sort = SORTS[state().sort] ? state().sort : "place", [, key] = SORTS[sort];
  const position = place(topStack());
  const [stats, pictures, effects, was, is] = await Promise.all([
    reading("heads"),
    thumbnails(),
    sort === "effect" ? reading("effects", { position }) : null,
    reading("prediction", { position }, app.base),
    reading("prediction", { position }),
  ]);
  const rows = stats.map((one, i) => (
    { ...one, name: `${one.attention}.${one.head}`, ...(effects ? effects[i] : {}) }
  ));
  return h(
    "div",
    { class: "split" },
    gridPanel(rows, pictures, sort, key),
    h("div", {}, await chosenPanel(rows), predictionPanel(was, is, position)),
  );
}

function thumb(one, pictures, key) {
  const X = pictures[one.attention];
  const [, r, c] = X.shape;
  const data = X.data.subarray(one.place * r * c, (one.place + 1) * r * c);
  const muted = list("mute").includes(one.name), value = key ? one[key] : one.entropy;
  const canvas = picture(data, r, c, scaleOfWeights(data, c));
  canvas.setAttribute("aria-hidden", "true");
  const choose = (event) => (event.altKey ? toggle("mute", one.name) : select({ at: one.attention, head: one.head }));
  const press = (event) => { if (event.key === "m") toggle("mute", one.name); };
  return h(
    "button",
    {
      type: "button",
      class: muted ? "thumb muted" : "thumb",
      key: `thumb ${one.name}`,
      "aria-pressed": String(one.name === headName()),
      onclick: choose,
      onkeydown: press,
      "data-head": one.name,
      "aria-label": `head ${one.name}${muted ? ", muted" : ""}, ${key || "entropy"} ${num(value, 3)}`,
      title: "Click: look at it. Alt-click or M: mute it.",
    },
    canvas,
    h(
      "small",
      {},
      h("span", {}, key ? one.name.replace(/^(..).*?coder/, "$1c") : `head ${one.head}`),
      h("span", { "data-value": String(value) }, muted ? "muted" : num(value, 3)),
    ),
  );
}

function gridPanel(rows, pictures, sort, key) {
  const chooser = h(
    "label",
    {},
    "Sorted by ",
    h(
      "select",
      { key: "sort heads", onchange: (event) => select({ sort: event.target.value }) },
      Object.entries(SORTS).map(([name, [label]]) => h("option", { value: name, selected: name === sort }, label)),
    ),
  );
  const sorted = key ? rows.filter((one) => one[key] !== null).sort((a, b) => b[key] - a[key]) : rows;
  const groups = key ? h("div", { class: "thumbs" }, sorted.map((one) => thumb(one, pictures, key)))
    : h(
      "div",
      { class: "grid" },
      app.model.attentions.map((one) => h(
        "div",
        { class: "headrow" },
        h("h3", {}, one.name),
        h(
          "div",
          { class: "thumbs" },
          rows.filter((row) => row.attention === one.name).map((row) => thumb(row, pictures, null)),
        ),
      )),
    );
  return panel({
    title: `${rows.length} heads`,
    key: "heads",
    python: () => pythonPass(
      "for name, A in trace.items():",
      '    if name.endswith("weights"):',
      "        print(name, torch.special.entr(A[0]).sum(-1).mean(-1))",
    ),
    note: `Rows are queries, columns keys, dark is much. ${sort === "place" ? "Below each: the entropy of its rows, in nats." : `Below each: ${SORTS[sort][2]}.`} ` +
      "Click to look at a head; Alt-click, or M on the keyboard, mutes it.",
    rows: () => [
      ["head", "entropy", "distance", "first", "previous", "largest", "effect of muting"],
      ...rows.map((one) => [
        one.name,
        one.entropy,
        one.distance,
        one.first,
        one.previous,
        one.largest,
        one.moved ?? "",
      ]),
    ],
    body: [h("div", { class: "bar" }, chooser, proof()), groups],
  });
}

async function chosenPanel(rows) {
  const one = attention();
  const A = await site(`${one.name}.weights`, head());
  const facts = rows.find((row) => row.name === headName());
  const muted = list("mute").includes(headName());
  const columns = A.shape[1], hides = app.pass.causal[one.stack] && one.kind === "self";
  const drawn = matrix({
    values: A.data,
    rows: A.shape[0],
    columns,
    rowTokens: tokens(one.stack),
    columnTokens: tokens(one.keys),
    kind: "weights",
    scale: scaleOfWeights(A.data, columns),
    title: headName(),
    name: "head",
    wide: 420,
    tall: 420,
    key: "matrix head",
    tone: "o",
    isHidden: hides ? (at) => !isVisible(one, Math.floor(at / columns), at % columns) : null,
    selected: [query(), keyToken()],
    onselect: (i, j, derive) => select({
      q: i,
      k: j,
      ...(derive ? { view: "attention", cell: `weights:${i}:${j}` } : {}),
    }),
  });
  const line = ([label, key, note]) => [
    h("dt", { title: note }, label),
    h("dd", { "data-name": key }, num(facts?.[key], 4)),
  ];
  return panel({
    title: `Head ${headName()}`,
    key: "chosen head",
    rows: () => [
      ["query", ...tokens(one.keys).map((token) => token.text)],
      ...tokens(one.stack).map((token, i) => [token.text, ...A.data.subarray(i * columns, (i + 1) * columns)]),
    ],
    python: () => pythonSite(`${one.name}.weights`, head()),
    body: [
      drawn,
      h(
        "dl",
        { class: "facts" },
        Object.values(SORTS).filter(([, key]) => key && facts?.[key] !== undefined).map(line),
      ),
      h(
        "p",
        { class: "row" },
        h(
          "button",
          { type: "button", key: "mute", "aria-pressed": String(muted), onclick: () => toggle("mute", headName()) },
          muted ? "Muted: bring it back" : "Mute this head",
        ),
        h(
          "button",
          { type: "button", key: "to bench", onclick: () => select({ view: "attention" }) },
          "Open on the bench",
        ),
      ),
    ],
  });
}

function predictionPanel(was, is, position) {
  const where = app.model.head === "classifier" ? "" : ` after ${spell(tokens(topStack())[position])}`;
  if (!was.length) return panel({
    title: "Prediction",
    key: "prediction",
    body: h("p", { class: "empty" }, "This model has no head, so it predicts nothing."),
    rows: () => [["none"]],
  });
  const all = [...new Map([...was, ...is].map((one) => [one.id, one])).values()].slice(0, 12);
  const of = (list, id) => list.find((one) => one.id === id)?.p;
  const line = (one) => {
    const before = of(was, one.id);
    const after = of(is, one.id);
    return cells([
      chip({ ...one, text: one.text }),
      { num: before === undefined ? "–" : num(before, 3) },
      { num: h(
        "span",
        { "data-value": String(after), "data-id": one.id },
        after === undefined ? "–" : num(after, 3),
      ) },
      track(after ?? 0, "o"),
    ]);
  };
  return panel({
    title: isWhatIf() ? `The prediction${where}, before and now` : `The prediction${where}`,
    key: "prediction",
    python: () => pythonPass(
      'Z = trace["logits"][0]',
      `print((Z if Z.ndim == 1 else Z[${position}]).softmax(-1).topk(min(10, Z.shape[-1])))`,
    ),
    note: isWhatIf() ? "A dash: not among the ten likeliest." : "Choose a query to read it there; mute a head to see it change.",
    rows: () => [
      ["what", "model", "what if"],
      ...all.map((one) => [visible(one.text), of(was, one.id) ?? "", of(is, one.id) ?? ""]),
    ],
    body: table(
      ["", { text: "model", num: true }, { text: isWhatIf() ? "what if" : "now", num: true }, ""],
      all.map(line),
      { label: "prediction" },
    ),
  });
}
