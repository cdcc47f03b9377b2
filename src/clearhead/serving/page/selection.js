// The selection, to be seen and changed on every view that uses it.

import { chip, h, num } from "./dom.js";
import { select } from "./state.js";
import { app, attention, head, keyToken, query, tokens } from "./app.js";

export function chooser({ heads = true, pair = true } = {}) {
  const one = attention(), choose = (name) => select({ at: name, cell: "", k: "" });
  const tokenSelect = (label, key, stack, now, tone) => h(
    "label",
    {},
    h("span", { class: tone }, label),
    h(
      "select",
      { key: `choose ${key}`, onchange: (event) => select({ [key]: event.target.value, cell: "" }) },
      tokens(stack).map((token, i) => h(
        "option",
        { value: i, selected: i === now },
        `${i} ${[...token.text].slice(0, 16).join("")}`,
      )),
    ),
  );
  return h(
    "div",
    { class: "panel bar", role: "group", "aria-label": "Selection" },
    h(
      "label",
      {},
      "Attention",
      h(
        "select",
        { key: "choose attention", onchange: (event) => choose(event.target.value) },
        app.model.attentions.map((other) => h(
          "option",
          { value: other.name, selected: other.name === one.name },
          other.name,
        )),
      ),
    ),
    heads ? h(
      "span",
      { class: "heads", role: "group", "aria-label": "Head" },
      h("span", {}, "Head"),
      one.heads.map((number, i) => h(
        "button",
        {
          type: "button",
          key: `head ${number}`,
          "aria-pressed": String(i === head()),
          onclick: () => select({ head: number, cell: "" }),
        },
        String(number),
      )),
    ) : null,
    pair ? [
      tokenSelect("query", "q", one.stack, query(), "q"),
      tokenSelect("key", "k", one.keys, keyToken(), "k"),
    ] : null,
    proof(),
  );
}

// The promise of the page, with its number.
export const proof = () => h(
  "span",
  {
    class: "proof",
    title: "The largest difference of any logit between the captured pass, whose numbers are shown, and " +
      "the fast pass without a capture",
    "data-difference": String(app.pass.difference),
  },
  `captured = fast within ${num(app.pass.difference, 2)}`,
);

export const tokenRow = (stack, now, go) => h(
  "div",
  { class: "chips", role: "group", "aria-label": `tokens of the ${stack}` },
  tokens(stack).map((token, i) => chip(
    token,
    { key: `token ${stack} ${i}`, "aria-pressed": String(i === now), onclick: () => go(i) },
  )),
);
