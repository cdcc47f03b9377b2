// Generation: token by token, with the cache and without it (N38, N40).

import { bytes, cells, chip, count, h, num, svg, table, track } from "../dom.js";
import { post } from "../api.js";
import { absent, panel } from "../panel.js";
import { pythonGeneration } from "../python.js";
import { app } from "../app.js";
import { select, state } from "../state.js";

export const title = "Generation";
export const alone = true;

const number = (key) => (state()[key] === "" ? undefined : Number(state()[key]));

export async function draw() {
  if (app.model.head !== "language" || app.model.shape === "encoder") return absent(
    title,
    "This model reads, and writes nothing. Open a language model or a translator to see it write, token by token.",
  );
  const asked = {
    text: app.pass.question.text,
    max_tokens: Math.max(1, Math.min(128, number("tokens") || 12)),
    temperature: number("temperature") ?? 0,
    seed: number("seed") ?? 1,
  };
  if (state().top_k) asked.top_k = number("top_k");
  if (state().top_p) asked.top_p = number("top_p");
  const found = await post("api/generations", asked);
  const step = Math.min(found.steps.length - 1, state().step === "" ? Infinity : Number(state().step));
  return [
    controls(),
    scrubPanel(found, step),
    h("div", { class: "pair" }, cellsPanel(found, step), costPanel(found, step)),
  ];
}

function controls() {
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
        onchange: (event) => select({ [key]: event.target.value, step: "" }),
        ...options,
      },
    ),
  );
  return h(
    "div",
    { class: "panel bar", role: "group", "aria-label": "Rules" },
    box("tokens", "tokens", { min: 1, max: 128 }),
    box("temperature", "temperature", { min: 0, max: 100, step: 0.1 }),
    box("top_k", "top-k", { min: 1, placeholder: "all" }),
    box("top_p", "top-p", { min: 0.01, max: 1, step: 0.05, placeholder: "1" }),
    box("seed", "seed", { min: 0 }),
  );
}

function scrubPanel(found, step) {
  const last = found.steps.length - 1;
  const go = (to) => select({ step: Math.max(0, Math.min(last, to)) });
  const now = found.steps[step];
  const scrub = h(
    "div",
    { class: "row" },
    h(
      "button",
      {
        type: "button",
        key: "step back",
        "aria-label": "Step before",
        disabled: step === 0,
        onclick: () => go(step - 1),
      },
      "‹",
    ),
    h(
      "input",
      {
        type: "range",
        key: "step",
        min: 0,
        max: last,
        value: String(step),
        "aria-label": "Step",
        onchange: (event) => go(Number(event.target.value)),
      },
    ),
    h(
      "button",
      {
        type: "button",
        key: "step on",
        "aria-label": "Next step",
        disabled: step === last,
        onclick: () => go(step + 1),
      },
      "›",
    ),
    h("span", { class: "note" }, `step ${step + 1} of ${last + 1}`),
  );
  const written = found.steps.map(({ token, logprob }, i) => chip(
    token,
    { key: `written ${i}`, "aria-pressed": String(i === step), onclick: () => go(i) },
    h("small", {}, i <= step ? num(Math.exp(logprob), 2) : "…"),
  ));
  const tops = table(
    ["likeliest here", { text: "p", num: true }, ""],
    now.top.map((one) => cells(
      [chip(one), { num: h("span", { class: "n", "data-value": String(one.p) }, num(one.p, 4)) }, track(one.p, "q")],
      { class: one.id === now.token.id ? "on" : null },
    )),
    { label: "alternatives" },
  );
  return panel({
    title: "Step by step",
    key: "steps",
    rows: () => [
      [
        "step",
        "token",
        "id",
        "logprob",
        "tokens read",
        "tokens computed",
        "cache bytes",
        "seconds",
        "seconds without cache",
        "difference",
      ],
      ...found.steps.map((one, i) => [
        i,
        one.token.text,
        one.token.id,
        one.logprob,
        one.read,
        one.computed,
        one.cache_bytes,
        one.seconds,
        one.seconds_without,
        one.difference,
      ]),
    ],
    python: pythonGeneration,
    note: "What was written is fed back: each step reads everything before it. A mistake stays in the " +
      "text and can lead to others.",
    body: [
      scrub,
      h("div", { class: "chips" }, found.prompt.map((token) => chip(token)), written),
      h(
        "p",
        { class: "note" },
        "Under each token: its probability over the whole vocabulary, before any rule. The logits of " +
          `this step, with the cache and without, are apart by ${num(now.difference, 2)}.`,
      ),
      tops,
    ],
  });
}

// The scores of one head: the prompt's triangle at once, then one row a step; hatched is what is not done again.
function cellsPanel(found, step) {
  const prompt = found.steps[0].computed, most = found.steps.at(-1).read, side = Math.min(26, 420 / most), parts = [];
  for (let i = 0; i < found.steps[step].read; i++) for (let j = 0; j <= i; j++) {
    const isPrompt = i < prompt, isNow = step > 0 ? i === found.steps[step].read - 1 : isPrompt;
    parts.push(svg(
      "rect",
      {
        x: 4 + j * side,
        y: 4 + i * side,
        width: side - 1,
        height: side - 1,
        fill: isNow ? "var(--o)" : isPrompt ? "var(--q)" : "var(--v)",
        "fill-opacity": isNow ? 1 : 0.3,
      },
    ));
  }
  const drawing = most > 160 ? h(
    "p",
    { class: "note" },
    "Too long to draw cell by cell; the counts beside it hold.",
  ) : svg(
    "svg",
    {
      class: "chart",
      viewBox: `0 0 ${8 + most * side} ${8 + most * side}`,
      width: 8 + most * side,
      role: "img",
      "aria-label": `Scores of step ${step + 1}`,
    },
    svg("rect", { x: 4, y: 4, width: most * side, height: most * side, class: "line" }),
    parts,
  );
  return panel({
    title: "Which scores are computed",
    python: pythonGeneration,
    key: "cells",
    rows: () => [
      ["step", "computed with cache", "computed without"],
      ...found.steps.map((one, i) => [i, scores(one.read, one.computed), scores(one.read, one.read)]),
    ],
    note: step
      ? "Full colour: the one row of this step. Pale: rows computed before, whose keys and values the cache has kept."
      : "The prompt's triangle is computed at once (prefill).",
    body: drawing,
  });
}
const scores = (read, computed) => {
  let total = 0;
  for (let i = read - computed; i < read; i++) total += i + 1;
  return total;
};

function costPanel(found, step) {
  const past = found.steps.slice(0, step + 1);
  const sum = (key) => past.reduce((total, one) => total + one[key], 0);
  const now = found.steps[step];
  const rows = [
    ["scores of a head, this step", count(scores(now.read, now.computed)), count(scores(now.read, now.read))],
    [
      "scores of a head, so far",
      count(past.reduce((t, one) => t + scores(one.read, one.computed), 0)),
      count(past.reduce((t, one) => t + scores(one.read, one.read), 0)),
    ],
    ["time of this step", `${num(now.seconds * 1000, 3)} ms`, `${num(now.seconds_without * 1000, 3)} ms`],
    ["time so far", `${num(sum("seconds") * 1000, 3)} ms`, `${num(sum("seconds_without") * 1000, 3)} ms`],
    ["keys and values kept", bytes(now.cache_bytes), "0 bytes"],
  ];
  const apart = Math.max(...past.map((one) => one.difference));
  return panel({
    title: "With the cache, and without",
    python: pythonGeneration,
    key: "cost",
    rows: () => [["", "with cache", "without"], ...rows],
    body: [
      table(
        ["", { text: "with cache", num: true }, { text: "without", num: true }],
        rows.map(([name, a, b]) => cells([name, { num: a }, { num: b }])),
        { label: "cost" },
      ),
      h(
        "p",
        { class: "note" },
        "Both were run just now, on this machine. Their logits are apart by at most ",
        h("b", { "data-name": "apart", "data-value": String(apart) }, num(apart, 2)),
        ".",
      ),
      found.steps.length > 1 ? null : h("p", { class: "note" }, "One step only: the model ended the text at once."),
    ],
  });
}
