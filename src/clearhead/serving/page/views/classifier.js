// The classifier: what the model says of the whole text, how it pools, and what each word does to it (N30, N45).

import { cells, figure, h, num, spell, table, track, visible } from "../dom.js";
import { scaleFor } from "../colour.js";
import { strip } from "../matrix.js";
import { absent, panel } from "../panel.js";
import { pythonPass, pythonSite } from "../python.js";
import { app, reading, site, tokens, topStack } from "../app.js";
import { proof } from "../selection.js";

export const title = "Classifier";
export const alone = true;

export async function draw() {
  if (app.model.head !== "classifier") return absent(
    title,
    `This model has the head '${app.model.head}': it knows no classes. Open a classifier, such as ` +
      "one trained on builtin:reviews, to see how it decides.",
  );
  const [pooled, logits, left] = await Promise.all([site("head.pooled"), site("logits"), reading("without")]);
  return [classPanel(logits), poolPanel(pooled), wordsPanel(left)];
}

function classPanel(logits) {
  const classes = app.pass.prediction, best = Math.max(...classes.map((one) => one.p));
  const line = (one) => cells(
    [
      visible(one.text),
      { num: figure(logits.data[one.id]) },
      { num: h("span", { "data-name": `class ${one.id}` }, figure(one.p)) },
      track(one.p, one.p === best ? "o" : "q"),
    ],
    { class: one.p === best ? "on" : null },
  );
  return panel({
    title: `The model says: ${visible(classes.find((one) => one.p === best).text)}`,
    key: "classes",
    python: () => pythonPass('print(trace["logits"][0].softmax(-1))'),
    rows: () => [["class", "logit", "probability"], ...classes.map((one) => [one.text, logits.data[one.id], one.p])],
    body: [
      h("div", { class: "bar" }, proof()),
      table(
        ["class", { text: "logit", num: true }, { text: "softmax", num: true }, ""],
        classes.map(line),
        { label: "classes" },
      ),
    ],
  });
}

const POOLS = {
  first: "the vector of the first token",
  mean: "the mean of all token vectors",
  last: "the vector of the last token",
};
function poolPanel(pooled) {
  const {
    pool,
    pool_dense: dense,
  } = app.model.config, list = tokens(topStack()), used = (i) => pool === "mean" || i === (
    pool === "first" ? 0 : list.length - 1
  );
  return panel({
    title: "One vector for the whole text",
    key: "pooling",
    python: () => pythonSite("head.pooled"),
    rows: () => [["dimension", "value"], ...Array.from(pooled.data, (value, i) => [i, value])],
    note: `Pooling: ${POOLS[pool]}${dense === "none" ? "" : `, through a dense layer and ${dense}`}. ` +
      "The classes are read from it.",
    body: [
      h(
        "div",
        { class: "chips" },
        list.map((token, i) => h(
          "span",
          { class: "chip", style: { opacity: used(i) ? "1" : "0.45" } },
          h("bdi", {}, spell(token)),
        )),
      ),
      h(
        "p",
        {},
        strip(
          Array.from(pooled.data),
          { scale: scaleFor(pooled.data, "signed"), name: "pooled vector", colour: "--o" },
        ),
      ),
    ],
  });
}

function wordsPanel(left) {
  const best = left.whole.indexOf(Math.max(...left.whole));
  const effects = left.words.map((one) => left.whole[best] - one.p[best]);
  const most = Math.max(...effects.map(Math.abs), 1e-9);
  const line = (one, i) => {
    const winner = one.p.indexOf(Math.max(...one.p));
    return cells([
      h("bdi", {}, visible(one.word).slice(0, 40)),
      { num: figure(one.p[best]) },
      { num: h("span", { "data-name": `effect ${i}` }, figure(effects[i])) },
      track(Math.abs(effects[i]) / most, effects[i] < 0 ? "minus" : "q"),
      winner === best ? "" : `becomes ${visible(left.labels[winner])}`,
    ]);
  };
  return panel({
    title: "Each word left out",
    key: "words",
    python: () => pythonPass(
      `ids = [${tokens(topStack()).map((token) => token.id).join(", ")}]`,
      `for places in [${left.words.map((one) => `[${one.places.join(", ")}]`).join(", ")}]:`,
      "    kept = [id for place, id in enumerate(ids) if place not in places]",
      "    print(module(torch.tensor([kept])).softmax(-1)[0].tolist())",
    ),
    rows: () => [["word left out", ...left.labels], ...left.words.map((one) => [one.word, ...one.p])],
    note: `The probability of ${visible(left.labels[best])} is ${num(left.whole[best], 3)}. The model ` +
      "reads the text again without each word; the effect is what the word had added. Orange: the " +
      `text is more ${visible(left.labels[best])} without it.`,
    body: left.words.length ? table(
      ["without", { text: `p(${visible(left.labels[best])})`, num: true }, { text: "effect", num: true }, "", ""],
      left.words.map(line),
      { label: "words left out" },
    ) : h("p", { class: "empty" }, "There are no words to leave out."),
  });
}
