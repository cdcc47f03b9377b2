// The next token: from logits to a choice, rule by rule, with the drawn number on the cumulative bar (N28, N39).

import { cells, chip, figure, h, num, percent, spell, svg, table, track } from "../dom.js";
import { absent, panel } from "../panel.js";
import { pythonChoice, pythonPass } from "../python.js";
import { app, place, reading, tokens, topStack } from "../app.js";
import { proof, tokenRow } from "../selection.js";
import { list, select, state } from "../state.js";

export const title = "Next token";
export const hint = "Click a logit or a probability to see where it comes from.";

export async function draw() {
  const stack = topStack(), i = place(stack);
  if (app.model.head !== "language") return absent(
    title,
    `This model has the head '${app.model.head}', so it predicts no tokens. ` +
      "See the Classifier view for what a classifier says, or open a language model or a translator.",
  );
  const asked = { position: i, seed: state().seed || 1, step: i };
  for (const key of ["temperature", "top_k", "top_p"]) if (state()[key] !== "") asked[key] = state()[key];
  const found = await reading("choice", asked);
  const bar = h(
    "div",
    { class: "panel bar", role: "group", "aria-label": "Selection" },
    h("span", {}, app.model.shape === "encoder" ? "At" : "After"),
    tokenRow(stack, i, (q) => select({ q, cell: "" })),
    proof(),
  );
  return [bar, rules(), cumulative(found), tablePanel(found, i)];
}

function rules() {
  const box = (key, label, options) => h(
    "label",
    {},
    label,
    h(
      "input",
      {
        type: "number",
        key: `rule ${key}`,
        value: state()[key],
        onchange: (event) => select({ [key]: event.target.value }),
        ...options,
      },
    ),
  );
  return h(
    "div",
    { class: "panel bar", role: "group", "aria-label": "Rules" },
    box("temperature", "temperature", { min: 0, max: 100, step: 0.1 }),
    box("top_k", "top-k", { min: 1, step: 1, placeholder: "all" }),
    box("top_p", "top-p", { min: 0.01, max: 1, step: 0.05, placeholder: "1" }),
    box("seed", "seed", { min: 0, step: 1 }),
    h(
      "button",
      { type: "button", key: "draw again", onclick: () => select({ seed: Number(state().seed || 0) + 1 }) },
      "Draw again",
    ),
  );
}

function cumulative(found) {
  const width = 900;
  const parts = found.rows.filter((row) => row.kept && row.final > 0);
  const chosen = found.rows.find((row) => row.id === found.chosen);
  const x = (share) => 10 + share * (width - 20);
  const segments = parts.map((row) => {
    const wide = x(row.to) - x(row.from), isChosen = row.id === found.chosen;
    return svg(
      "g",
      {},
      svg(
        "rect",
        {
          x: x(row.from),
          y: 34,
          width: Math.max(0.8, wide - 1),
          height: 30,
          fill: isChosen ? "var(--o)" : "var(--q)",
          "fill-opacity": isChosen ? 1 : 0.35,
        },
      ),
      wide > 34 ? svg(
        "text",
        {
          x: x(row.from) + wide / 2,
          y: 53,
          "text-anchor": "middle",
          class: "mono",
          fill: isChosen ? "var(--card)" : null,
          "font-size": 11,
        },
        spell(row, Math.max(2, Math.floor(wide / 8))),
      ) : null,
    );
  });
  const mark = found.drawn === null ? [] : [
    svg("path", { d: `M${x(found.drawn)} 30V70`, stroke: "var(--ink)", "stroke-width": 2 }),
    svg(
      "text",
      { x: Math.max(60, Math.min(width - 60, x(found.drawn))), y: 20, "text-anchor": "middle", "font-weight": 600 },
      `drawn: ${num(found.drawn, 4)}`,
    ),
  ];
  const ends = [[0, "0", "start"], [0.5, "0.5", "middle"], [1, "1", "end"]].map(([share, label, anchor]) => svg(
    "text",
    { x: x(share), y: 86, "text-anchor": anchor, class: "faint", "font-size": 11 },
    label,
  ));
  const drawing = svg(
    "svg",
    {
      class: "chart cumulative",
      viewBox: `0 0 ${width} 96`,
      width,
      role: "img",
      "aria-label": `Cumulative probability; the drawn number falls on ${spell(chosen)}`,
    },
    svg("rect", { x: 10, y: 34, width: width - 20, height: 30, class: "box" }),
    segments,
    mark,
    ends,
  );
  const how = found.drawn === null
    ? "Temperature 0: the likeliest token, with certainty."
    : `The number for seed ${state().seed || 1} at step ${found.position} falls on the chosen ` +
        "token. Tokens stand in the order of their ids, as the sampler adds them up.";
  return panel({
    title: ["The choice: ", spell(chosen)].join(""),
    key: "choice",
    note: `${how} ${found.kept} of ${found.vocabulary} tokens may be drawn.`,
    rows: () => [["token", "from", "to"], ...parts.map((row) => [row.text, row.from, row.to])],
    python: () => pythonChoice(found.position),
    body: drawing,
  });
}

function tablePanel(found, i) {
  const most = Math.max(...found.rows.map((row) => row.final), 1e-12);
  const canGo = app.model.shape !== "encoder" && i === tokens(topStack()).length - 1;
  const follow = (id) => select({ more: [...list("more"), id].join(","), q: "", cell: "" });
  const line = (row) => cells(
    [
      chip(row),
      { num: h(
        "span",
        { "data-name": `logit ${row.id}` },
        figure(row.logit, () => select({ cell: `logit:${i}:${row.id}` })),
      ) },
      { num: h("span", { "data-name": `p ${row.id}` }, figure(row.p, () => select({ cell: `p:${i}:${row.id}` }))) },
      { num: figure(row.heated) },
      row.kept ? "kept" : h("span", { class: "note" }, "cut"),
      { num: h("span", { "data-name": `final ${row.id}` }, figure(row.final)) },
      track(row.final / most, row.id === found.chosen ? "o" : "q"),
      canGo ? h("button", { type: "button", key: `take ${row.id}`, onclick: () => follow(row.id) }, "take it") : "",
    ],
    { class: row.id === found.chosen ? "on" : null },
  );
  const more = list("more").length ? h(
    "p",
    { class: "row" },
    `${list("more").length} tokens were put after the text.`,
    h(
      "button",
      {
        type: "button",
        key: "take back",
        onclick: () => select({ more: list("more").slice(0, -1).join(","), q: "" }),
      },
      "Take the last one back",
    ),
  ) : null;
  return panel({
    title: "Rule by rule",
    key: "rules",
    python: () => pythonPass(`print(trace["logits"][0, ${i}].softmax(-1).topk(${found.rows.length}))`),
    rows: () => [
      ["token", "id", "logit", "softmax", "with temperature", "kept", "renormalised"],
      ...found.rows.map((row) => [row.text, row.id, row.logit, row.p, row.heated, row.kept, row.final]),
    ],
    note: `The softmax runs over all ${found.vocabulary} tokens; the ${found.rows.length} shown hold ` +
      `${percent(found.shown_mass)}. Entropy ${num(found.entropy, 3)} nats.${canGo ? " Take any token, and go on from there." : ""}`,
    body: [
      more,
      table(
        [
          "token",
          { text: "logit", num: true },
          { text: "softmax", num: true },
          { text: "÷ T", num: true },
          "top-k, top-p",
          { text: "renormalised", num: true },
          "",
          "",
        ],
        found.rows.map(line),
        { label: "choice" },
      ),
    ],
  });
}
