// Where the numbers of the stream come from: a sublayer's input, hidden units, logits and probabilities.

import { cells, figure, formula, frac, h, mi, num, root, row, sub, sum, sup, table } from "../dom.js";
import { app, attention, reading, site, sites, stackOf, topStack, weight } from "../app.js";
import { at, dot, equals, go, rowOf, shown, terms } from "./terms.js";

const before = (place) => {
  const [stack, block, kind] = place.split("."), order = stackOf(stack).sublayers, index = order.indexOf(kind);
  if (index) return `${stack}.${block}.residual.${index - 1}`;
  return Number(block) ? `${stack}.${block - 1}.residual.${order.length - 1}` : `${stack}.embeddings.out`;
};

// What a sublayer reads: the stream behind its norm.
export async function input(i, c, place = attention().name) {
  const [stack, block, kind] = place.split(".");
  const part = stackOf(stack);
  const X = await site(`${place}.x`);
  const captured = at(X, i, c);
  const stream = rowOf(await site(before(place)), i);
  const d = stream.length;
  const title = [`Input[${c}] of ${place} for `, shown(stack, i)];
  const link = (e) => go(`stream:${i}:${e}:${before(place)}`);
  if (part.placement === "post" || part.norm === "none") return {
    title,
    formula: formula(sub("x", "i"), "=", mi("stream")),
    say: equals(captured, " = the stream itself: ", figure(stream[c], link(c))),
    captured,
    again: stream[c],
    more: [],
  };
  if (part.norm === "whole") return {
    title,
    formula: formula(sub("x", "i"), "=", frac(row(mi("s"), "−", mi("μ")), root(row(sup("σ", "2"), "+", mi("ε"))))),
    say: equals(captured, " : the norm over all tokens and dimensions at once (N23)"),
    captured,
    again: captured,
    more: [],
  };
  const name = `${stack}.blocks.${block}.add_${kind}.norm`;
  const gamma = (await weight(`${name}.weight`)).data;
  const isLayer = part.norm === "layer";
  const beta = isLayer && app.model.config.norm_bias ? (await weight(`${name}.bias`)).data[c] : 0;
  const mean = isLayer ? stream.reduce((a, b) => a + b, 0) / d : 0;
  const variance = stream.reduce((a, b) => a + (b - mean) ** 2, 0) / d;
  const again = (gamma[c] * (stream[c] - mean)) / Math.sqrt(variance + part.epsilon) + beta;
  return {
    title,
    captured,
    again,
    formula: isLayer ? formula(
      sub("x", "i"),
      "=",
      mi("γ"),
      frac(row(mi("s"), "−", mi("μ")), root(row(sup("σ", "2"), "+", mi("ε")))),
      "+",
      mi("β"),
    ) : formula(sub("x", "i"), "=", mi("γ"), frac(mi("s"), root(row(mi("mean"), sup("s", "2"), "+", mi("ε"))))),
    say: equals(
      captured,
      " = ",
      gamma[c],
      " × (",
      figure(stream[c], link(c)),
      isLayer ? ` − ${num(mean)}` : "",
      `) / √(${num(variance)} + ${num(part.epsilon)})`,
      beta ? ` + ${num(beta)}` : "",
    ),
    more: [h(
      "dl",
      { class: "facts" },
      [
        ["s, the stream", stream[c]],
        ...(isLayer ? [["μ over this token", mean], ["σ²", variance], ["β", beta]] : [["mean of s²", variance]]),
        ["γ", gamma[c]],
      ].map(([name, value]) => [h("dt", {}, name), h("dd", {}, figure(value))]),
    )],
  };
}

// The stream at a site: the embedding and everything that was added since.
export async function stream(i, c, where) {
  const stack = where.split(".")[0];
  const part = stackOf(stack);
  const captured = at(await site(where), i, c);
  const order = part.sublayers;
  const title = [`Stream[${c}] at ${where} for `, shown(stack, i)], names = [`${stack}.embeddings.out`];
  for (let block = 0; block < part.blocks; block++) order.forEach((_, index) => names.push(
    `${stack}.${block}.residual.${index}`,
  ));
  const some = names.slice(0, names.indexOf(where) + 1);
  const values = Object.values(await sites(some)).map((X) => at(X, i, c));
  const label = (name, index) => (
    index ? `${name.split(".")[0]}.${name.split(".")[1]}.${order[name.split(".")[3]]}` : "embeddings"
  );
  const rows = values.map((value, index) => cells(
    [label(some[index], index), { num: figure(index ? value - values[index - 1] : value) }, { num: figure(value) }],
  ));
  const isSum = part.placement !== "post";
  return {
    title,
    formula: formula(mi("s"), "=", sub("x", "embedding"), "+", sum("sublayers"), mi("added")),
    say: equals(
      captured,
      isSum
        ? " = the embedding and what each sublayer added"
        : " : after each sublayer the stream is normed, so it changes as a whole",
    ),
    captured,
    again: values.at(-1),
    more: [table(
      ["after", { text: isSum ? "added" : "change", num: true }, { text: "stream", num: true }],
      rows,
      { label: "stream" },
    )],
  };
}

// One unit between the two matrices of the feed-forward.
export async function hidden(i, c, place) {
  const [stack, block] = place.split(".");
  const part = stackOf(stack);
  const name = `${stack}.blocks.${block}.ffn`;
  const captured = at(await site(`${place}.hidden`), i, c);
  const x = rowOf(await site(`${place}.x`), i);
  const W = (await weight(`${name}.W_1.weight`, [c, c + 1])).data;
  const hasBias = app.model.config.feedforward_bias;
  const bias = async (letter) => (hasBias ? (await weight(`${name}.${letter}.bias`, [c, c + 1])).data[0] : 0);
  const z = dot(x, W) + (await bias("W_1")), f = ACTIVATIONS[part.feedforward];
  const g = part.gated ? dot(x, (await weight(`${name}.W_g.weight`, [c, c + 1])).data) + (await bias("W_g")) : null;
  const again = part.gated ? f(g) * z : f(z), word = part.feedforward;
  return {
    title: [`Unit ${c} of ${place} for `, shown(stack, i)],
    captured,
    again,
    formula: part.gated ? formula(mi("f"), "(", sub("W", "g"), mi("x"), ")", "∘", sub("W", "1"), mi("x")) : formula(
      mi("f"),
      "(",
      sub("W", "1"),
      mi("x"),
      ...(hasBias ? ["+", sub("b", "1")] : []),
      ")",
    ),
    say: part.gated ? equals(captured, ` = ${word}: gate f(`, g, ") × ", z) : equals(captured, ` = ${word}(`, z, ")"),
    more: [terms(["x", "w₁"], x, W, (e) => go(`x:${i}:${e}:${place}`))],
  };
}
const erf = (x) => { // to 1e-15: a series near 0, a continued fraction far away
  if (Math.abs(x) > 3) {
    let t = 0;
    for (let k = 60; k > 0; k--) t = (k / 2) / (Math.abs(x) + t);
    return Math.sign(x) * (1 - Math.exp(-x * x) / (Math.sqrt(Math.PI) * (Math.abs(x) + t)));
  }
  let term = x, total = x;
  for (let k = 1; k < 90; k++) {
    term *= (-x * x) / k;
    total += term / (2 * k + 1);
  } return (2 / Math.sqrt(Math.PI)) * total;
};
const gelu = (x) => (x / 2) * (1 + erf(x / Math.SQRT2));
const tanhGelu = (x) => (x / 2) * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));
const silu = (x) => x / (1 + Math.exp(-x));
const ACTIVATIONS = {
  relu: (x) => Math.max(0, x),
  gelu,
  gelu_tanh: tanhGelu,
  silu,
  relu2: (x) => Math.max(0, x) ** 2,
  swiglu: silu,
  geglu: gelu,
  geglu_tanh: tanhGelu,
};

export async function logit(i, id) {
  const config = app.model.config;
  const stack = topStack();
  const x = rowOf(await site(`${stack}.norm`), i);
  const captured = at(await site("logits"), i, id);
  const title = [`Logit of token ${id} after `, shown(stack, i)];
  if (config.head_transform) return {
    title,
    formula: formula(mi("z"), "=", mi("W"), mi("norm"), "(", mi("gelu"), "(", mi("dense"), mi("x"), ")", ")"),
    say: equals(captured, " : behind a dense layer, gelu and a norm"),
    captured,
    again: captured,
    more: [],
  };
  const W = (await weight(config.tied ? stackOf(stack).table : "head.table.weight", [id, id + 1])).data;
  const b = config.head_bias ? (await weight("head.bias", [id, id + 1])).data[0] : 0;
  const plain = dot(x, W) * config.head_scale + b, cap = config.soft_cap;
  return {
    title,
    captured,
    again: cap ? cap * Math.tanh(plain / cap) : plain,
    formula: formula(sub("z", "t"), "=", mi("x"), "·", sub(config.tied ? "E" : "W", "t")),
    say: equals(
      captured,
      " = x · e",
      config.head_scale === 1 ? "" : ` × ${num(config.head_scale)}`,
      b ? ` + ${num(b)}` : "",
      cap ? `, capped at ${cap}` : "",
    ),
    more: [
      h(
        "p",
        { class: "note" },
        `x is the vector at the top of the ${stack}; `,
        config.tied ? "e is the token's own embedding: the head is tied to the table." : "e is its row of the head.",
      ),
      terms(["x", "e"], x, W),
    ],
  };
}

export async function probability(i, id) {
  const Z = rowOf(await site("logits"), i), largest = Z.reduce((a, b) => Math.max(a, b), -Infinity);
  const total = Z.reduce((a, b) => a + Math.exp(b - largest), 0);
  const again = Math.exp(Z[id] - largest) / total;
  const found = await reading("choice", { position: i });
  const captured = found.rows.find((one) => one.id === id)?.p ?? again;
  return {
    title: [`Probability of token ${id} after `, shown(topStack(), i)],
    captured,
    again,
    formula: formula(
      sub("P", "t"),
      "=",
      frac(row("exp", sub("z", "t")), row(sum(`all ${Z.length} tokens`), "exp", mi("z"))),
    ),
    say: equals(captured, " = exp(", figure(Z[id], go(`logit:${i}:${id}`)), ` − ${num(largest)}) / `, total),
    more: [h(
      "p",
      { class: "note" },
      `The sum runs over the whole vocabulary of ${Z.length} tokens; the largest logit is taken off ` +
        "first, which changes no share.",
    )],
  };
}
