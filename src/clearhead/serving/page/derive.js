// Where a number comes from: a cell such as "weights:5:2" enters, its formula, operands and result leave.
// Operands are the captured numbers; the result is computed again here, in double precision, and compared.

import { cells, chip, figure, formula, frac, h, m, mi, mn, mo, num, root, row, sub, sum, sup, table } from "./dom.js";
import { app, attention, head, headTensors, isVisible, reading, site, sites, stackOf, tokens, topStack, weight } from "./app.js";
import { list, select, state } from "./state.js";

const MANY = 40; // terms that are shown in order; of more, the largest
const go = (cell) => () => select({ cell });
const at = (X, i, j) => X.data[i * X.shape.at(-1) + j];
const rowOf = (X, i) => X.data.subarray(i * X.shape.at(-1), (i + 1) * X.shape.at(-1));
const dot = (a, b) => { let total = 0; for (let i = 0; i < a.length; i++) total += a[i] * b[i]; return total; };
const shown = (stack, i) => chip(tokens(stack)[i]);

// a · b, term by term.
function terms(names, a, b, goA, goB) {
  const products = Array.from(a, (value, i) => ({ i, a: value, b: b[i], p: value * b[i] }));
  const some = products.length > MANY ? [...products].sort((x, y) => Math.abs(y.p) - Math.abs(x.p)).slice(0, 24) : products;
  const rows = some.map(({ i, a: x, b: y, p }) => cells([String(i), { num: figure(x, goA && goA(i)) }, { num: figure(y, goB && goB(i)) }, { num: figure(p) }]));
  if (some.length < products.length) {
    const rest = products.reduce((total, { p }) => total + p, 0) - some.reduce((total, { p }) => total + p, 0);
    rows.push(cells([`and ${products.length - some.length} smaller`, "", "", { num: figure(rest) }]));
  }
  return table(["", ...names.map((text) => ({ text, num: true })), { text: "product", num: true }], rows, { label: "terms" });
}

const equals = (...parts) => h("p", { class: "result" }, ...parts.map((part) => (typeof part === "number" ? figure(part) : part)));

async function weights(i, j) {
  const one = attention(), T = await headTensors(), n = T.weights.shape[1];
  const S = Array.from(rowOf(T.scores, i)), seen = S.map((_, key) => isVisible(one, i, key));
  const largest = Math.max(...S.filter((_, key) => seen[key]));
  const shift = Math.abs(largest) > 30 ? largest : 0; // the same shares, and no overflow
  const e = S.map((value, key) => (seen[key] ? Math.exp(value - shift) : 0));
  const total = e.reduce((a, b) => a + b, 0);
  const order = [...e.keys()].filter((key) => seen[key]).sort((a, b) => (n > MANY ? e[b] - e[a] : a - b)).slice(0, MANY);
  const line = (key) => cells([shown(one.keys, key), { num: figure(S[key], go(`scores:${i}:${key}`)) }, { num: figure(e[key]) }, { num: figure(at(T.weights, i, key), key === j ? null : go(`weights:${i}:${key}`)) }], { class: key === j ? "on" : null });
  return {
    title: ["Weight of ", shown(one.stack, i), " on ", shown(one.keys, j)],
    formula: formula(sub("A", "ij"), "=", frac(row("exp", sub("S", "ij")), row(sum("visible j′"), "exp", sub("S", "ij′")))),
    say: seen[j]
      ? equals(at(T.weights, i, j), shift ? ` = exp(${num(S[j])} − ${num(shift)}) / ` : " = exp(", shift ? "" : figure(S[j], go(`scores:${i}:${j}`)), shift ? "" : ") / ", total)
      : equals(0, " : this key is hidden from this query, so its share is exactly 0"),
    captured: at(T.weights, i, j), again: e[j] / total,
    more: [table(["key", { text: "S", num: true }, { text: shift ? "exp(S − max)" : "exp S", num: true }, { text: "A", num: true }], order.map(line), { label: "softmax" }),
      h("p", { class: "note" }, `The row sums to ${num(rowOf(T.weights, i).reduce((a, b) => a + b, 0), 6)}. ${seen.filter(Boolean).length} of ${n} keys are visible.`)],
  };
}

async function scores(i, j) {
  const one = attention(), T = await headTensors(), q = rowOf(T.q, i), k = rowOf(T.k, j);
  const scale = app.pass.scales[one.name], kind = one.similarity, product = dot(q, k);
  const norm = (x) => Math.sqrt(dot(x, x)), d = q.length;
  const bias = one.biased && !list("off").includes("positions") ? at(await site(`${one.name}.bias`, head()), i, j) : null;
  let value = product * scale, said = [product, " × ", scale], f = [sub("q", "i"), "·", sub("k", "j")];
  if (kind === "scaled_dot") f = [frac(row(sub("q", "i"), "·", sub("k", "j")), root(sub("d", "k")))];
  if (kind === "scaled_dot" && Math.abs(scale - d ** -0.5) < 1e-9) said = [product, ` / √${d}`];
  if (kind === "cosine") { value = (product * scale) / (norm(q) * norm(k)); said = [product, " / (", norm(q), " × ", norm(k), ")", scale === 1 ? "" : ` × ${num(scale)}`]; f = [frac(row(sub("q", "i"), "·", sub("k", "j")), row("|", sub("q", "i"), "|", "|", sub("k", "j"), "|"))]; }
  if (kind === "gaussian") { const gap = Array.from(q, (x, c) => x - k[c]); value = (-scale / 2) * dot(gap, gap); said = ["−½ × ", dot(gap, gap), scale === 1 ? "" : ` × ${num(scale)}`]; f = ["−", frac(mn("1"), mn("2")), sup(row("|", sub("q", "i"), "−", sub("k", "j"), "|"), "2")]; }
  if (kind === "distance") { value = (-scale / 2) * (i - j) ** 2; said = [`−½ × (${i} − ${j})²`, scale === 1 ? "" : ` × ${num(scale)}`]; f = ["−", frac(mn("1"), mn("2")), sup(row("(", mi("i"), "−", mi("j"), ")"), "2")]; }
  let rest = kind === "distance" ? null : terms([h("span", { class: "q" }, "q"), h("span", { class: "k" }, "k")], q, k, (c) => go(`q:${i}:${c}`), (c) => go(`k:${j}:${c}`));
  if (kind === "additive") {
    const v = rowOf(await weight(`${one.weights}.similarity.v`), head()), t = Array.from(q, (x, c) => Math.tanh(x + k[c]));
    value = dot(v, t) * scale; said = ["v · tanh(q + k)"]; f = [mi("v"), "·", mi("tanh"), "(", sub("q", "i"), "+", sub("k", "j"), ")"];
    rest = terms(["v", "tanh(q + k)"], v, t);
  }
  if (bias !== null) { value += bias; said.push(" + ", bias, ` (${app.model.config.positions})`); f.push("+", sub("b", "ij")); }
  return {
    title: ["Score of ", shown(one.stack, i), " for ", shown(one.keys, j)], formula: formula(sub("S", "ij"), "=", ...f),
    say: equals(at(T.scores, i, j), " = ", ...said), captured: at(T.scores, i, j), again: value, more: [rest],
  };
}

// One number of q, k or v: a dot product of the sublayer's input with a row of the projection.
async function projection(letter, i, c) {
  const one = attention(), T = await headTensors(), X = T[letter], d = X.shape[1];
  const isMemory = letter !== "q" && one.kind === "cross", stack = letter === "q" ? one.stack : one.keys;
  const off = list("off"), x = isMemory ? rowOf(await site("encoder.norm"), i) : rowOf(await site(`${one.name}.x`), i);
  const title = [`${letter}[${c}] of `, shown(stack, i)], captured = at(X, i, c);
  const goX = isMemory ? null : (e) => go(`x:${i}:${e}`);
  if (one.projections === "none" || (off.includes("projections") && one.kind === "self" && letter !== "v"))
    return { title, formula: formula(sub(letter, "i"), "=", sub("x", "i")), say: equals(captured, " = x itself, without a projection"), captured, again: x[c], more: [] };
  const group = letter === "q" ? head() : one.reads[head()], W = await weight(`${one.weights}.W_${letter}.weight`, [group * d, (group + 1) * d]);
  const b = one.biases.includes(letter) ? (await weight(`${one.weights}.W_${letter}.bias`, [group * d, (group + 1) * d])).data : null;
  const raw = Array.from({ length: d }, (_, e) => { const z = dot(x, rowOf(W, e)) + (b ? b[e] : 0); return one.projections === "relu" ? Math.max(0, z) : z; });
  const lines = [], note = [];
  let ready = raw;
  if (one.query_key_norm && letter !== "v") {
    const gamma = (await weight(`${one.weights}.norm_${letter}.weight`)).data, size = Math.sqrt(dot(raw, raw) / d + app.model.config.norm_epsilon);
    ready = raw.map((value, e) => (gamma[e] * value) / size);
    note.push(`Normed: ${num(raw[c])} × ${num(gamma[c])} / ${num(size)} = ${num(ready[c])}.`);
  }
  let again = ready[c];
  if (one.rotary && letter !== "v" && !off.includes("positions")) {
    const half = d / 2, pair = c % half, angle = i * one.frequencies[pair], u = ready[pair], w = ready[pair + half];
    again = c < half ? u * Math.cos(angle) - w * Math.sin(angle) : w * Math.cos(angle) + u * Math.sin(angle);
    note.push(`Turned to position ${i}: the pair (${pair}, ${pair + half}) is (${num(u)}, ${num(w)}), by ${num(angle)} radians: ${c < half ? `${num(u)} cos − ${num(w)} sin` : `${num(w)} cos + ${num(u)} sin`} = ${num(again)}.`);
  }
  const tone = h("span", { class: letter }, `W_${letter}`);
  lines.push(h("h3", {}, `Before that: row ${c} of W_${letter} times x${b ? `, plus the bias ${num(b[c])}` : ""}: ${num(raw[c])}`));
  return {
    title, formula: formula(sub(letter, "i"), "=", ...(one.projections === "relu" ? [mi("relu"), "("] : []), sub("x", "i"), sub("W", letter), ...(b ? ["+", sub("b", letter)] : []), ...(one.projections === "relu" ? [")"] : [])),
    say: equals(captured, note.length ? ` = turned or normed ${num(raw[c])}` : " = x · w"), captured, again,
    more: [note.map((text) => h("p", { class: "note" }, text)), note.length ? lines : null, terms(["x", tone], x, rowOf(W, c), goX)],
  };
}

async function heads(i, c) {
  const one = attention(), T = await headTensors(), A = rowOf(T.weights, i), n = A.length;
  const column = Float32Array.from({ length: n }, (_, j) => at(T.v, j, c));
  const order = [...A.keys()].filter((j) => A[j] > 0).sort((a, b) => (n > MANY ? A[b] - A[a] : a - b)).slice(0, MANY);
  const rows = order.map((j) => cells([shown(one.keys, j), { num: figure(A[j], go(`weights:${i}:${j}`)) }, { num: figure(column[j], go(`v:${j}:${c}`)) }, { num: figure(A[j] * column[j]) }]));
  return {
    title: [`Output[${c}] of this head for `, shown(one.stack, i)], formula: formula(sub("h", "ic"), "=", sum("j"), sub("A", "ij"), sub("v", "jc")),
    say: equals(at(T.heads, i, c), " = the values, averaged by the weights"), captured: at(T.heads, i, c), again: dot(A, column),
    more: [table(["key", { text: "A", num: true }, { text: h("span", { class: "v" }, `v[${c}]`), num: true }, { text: "product", num: true }], rows, { label: "weighted values" })],
  };
}

// What this head adds to the stream through its columns of W_o.
async function part(i, c) {
  const one = attention(), T = await headTensors(), H = rowOf(T.heads, i), d = H.length, from = head() * d;
  if (one.projections === "none") return { title: ["Output"], formula: formula(sub("out", "i"), "=", sub("h", "i")), say: equals(H[c], " = the head itself: there is no W_o"), captured: H[c], again: H[c], more: [] };
  const W = await weight(`${one.weights}.W_o.weight`, [c, c + 1], [from, from + d]);
  const value = dot(H, W.data);
  return {
    title: [`What this head adds to dimension ${c} of `, shown(one.stack, i)], formula: formula(sub("out", "h"), "=", sub("h", "i"), sub("W", "o")),
    say: equals(value, " = h · w_o; ", figure(at(await site(`${one.name}.out`), i, c), go(`out:${i}:${c}`)), " with all heads"), captured: value, again: value,
    more: [terms(["h", h("span", { class: "o" }, "W_o")], H, W.data, (e) => go(`heads:${i}:${e}`))],
  };
}

async function out(i, c) {
  const one = attention(), all = await site(`${one.name}.heads`), d = all.shape[2], n = all.shape[1];
  const captured = at(await site(`${one.name}.out`), i, c);
  if (one.projections === "none") return part(i, c);
  const W = (await weight(`${one.weights}.W_o.weight`, [c, c + 1])).data, b = one.biases.includes("o") ? (await weight(`${one.weights}.W_o.bias`, [c, c + 1])).data[0] : 0;
  const parts = one.heads.map((number, p) => ({ number, value: dot(all.data.subarray((p * n + i) * d, (p * n + i + 1) * d), W.subarray(p * d, (p + 1) * d)) }));
  const rows = parts.map(({ number, value }) => cells([`head ${number}`, { num: figure(value, () => select({ head: number, cell: `part:${i}:${c}` })) }]));
  if (b) rows.push(cells(["bias", { num: figure(b) }]));
  return {
    title: [`Dimension ${c} of what ${one.name} adds for `, shown(one.stack, i)], formula: formula(mi("out"), "=", sum("heads"), sub("h", "i"), sub("W", "o")),
    say: equals(captured, " = the sum over the heads"), captured, again: parts.reduce((a, { value }) => a + value, b), more: [table(["head", { text: "adds", num: true }], rows, { label: "heads" })],
  };
}

const before = (place) => {
  const [stack, block, kind] = place.split("."), order = stackOf(stack).sublayers, index = order.indexOf(kind);
  if (index) return `${stack}.${block}.residual.${index - 1}`;
  return Number(block) ? `${stack}.${block - 1}.residual.${order.length - 1}` : `${stack}.embeddings.out`;
};

// What a sublayer reads: the stream behind its norm.
async function input(i, c, place = attention().name) {
  const [stack, block, kind] = place.split("."), part = stackOf(stack), X = await site(`${place}.x`), captured = at(X, i, c);
  const stream = rowOf(await site(before(place)), i), d = stream.length, title = [`Input[${c}] of ${place} for `, shown(stack, i)];
  const link = (e) => go(`stream:${i}:${e}:${before(place)}`);
  if (part.placement === "post" || part.norm === "none") return { title, formula: formula(sub("x", "i"), "=", mi("stream")), say: equals(captured, " = the stream itself: ", figure(stream[c], link(c))), captured, again: stream[c], more: [] };
  if (part.norm === "whole") return { title, formula: formula(sub("x", "i"), "=", frac(row(mi("s"), "−", mi("μ")), root(row(sup("σ", "2"), "+", mi("ε"))))), say: equals(captured, " : the norm over all tokens and dimensions at once (N23)"), captured, again: captured, more: [] };
  const name = `${stack}.blocks.${block}.add_${kind}.norm`, gamma = (await weight(`${name}.weight`)).data, isLayer = part.norm === "layer";
  const beta = isLayer && app.model.config.norm_bias ? (await weight(`${name}.bias`)).data[c] : 0;
  const mean = isLayer ? stream.reduce((a, b) => a + b, 0) / d : 0, variance = stream.reduce((a, b) => a + (b - mean) ** 2, 0) / d;
  const again = (gamma[c] * (stream[c] - mean)) / Math.sqrt(variance + part.epsilon) + beta;
  return {
    title, captured, again,
    formula: isLayer ? formula(sub("x", "i"), "=", mi("γ"), frac(row(mi("s"), "−", mi("μ")), root(row(sup("σ", "2"), "+", mi("ε")))), "+", mi("β")) : formula(sub("x", "i"), "=", mi("γ"), frac(mi("s"), root(row(mi("mean"), sup("s", "2"), "+", mi("ε"))))),
    say: equals(captured, " = ", gamma[c], " × (", figure(stream[c], link(c)), isLayer ? ` − ${num(mean)}` : "", `) / √(${num(variance)} + ${num(part.epsilon)})`, beta ? ` + ${num(beta)}` : ""),
    more: [h("dl", { class: "facts" }, [["s, the stream", stream[c]], ...(isLayer ? [["μ over this token", mean], ["σ²", variance], ["β", beta]] : [["mean of s²", variance]]), ["γ", gamma[c]]].map(([name, value]) => [h("dt", {}, name), h("dd", {}, figure(value))]))],
  };
}

// The stream at a site: the embedding and everything that was added since.
async function stream(i, c, where) {
  const stack = where.split(".")[0], part = stackOf(stack), captured = at(await site(where), i, c), order = part.sublayers;
  const title = [`Stream[${c}] at ${where} for `, shown(stack, i)], names = [`${stack}.embeddings.out`];
  for (let block = 0; block < part.blocks; block++) order.forEach((_, index) => names.push(`${stack}.${block}.residual.${index}`));
  const some = names.slice(0, names.indexOf(where) + 1), values = Object.values(await sites(some)).map((X) => at(X, i, c));
  const label = (name, index) => (index ? `${name.split(".")[0]}.${name.split(".")[1]}.${order[name.split(".")[3]]}` : "embeddings");
  const rows = values.map((value, index) => cells([label(some[index], index), { num: figure(index ? value - values[index - 1] : value) }, { num: figure(value) }]));
  const isSum = part.placement !== "post";
  return {
    title, formula: formula(mi("s"), "=", sub("x", "embedding"), "+", sum("sublayers"), mi("added")),
    say: equals(captured, isSum ? " = the embedding and what each sublayer added" : " : after each sublayer the stream is normed, so it changes as a whole"),
    captured, again: values.at(-1), more: [table(["after", { text: isSum ? "added" : "change", num: true }, { text: "stream", num: true }], rows, { label: "stream" })],
  };
}

// One unit between the two matrices of the feed-forward.
async function hidden(i, c, place) {
  const [stack, block] = place.split("."), part = stackOf(stack), name = `${stack}.blocks.${block}.ffn`, captured = at(await site(`${place}.hidden`), i, c);
  const x = rowOf(await site(`${place}.x`), i), W = (await weight(`${name}.W_1.weight`, [c, c + 1])).data, hasBias = app.model.config.feedforward_bias;
  const bias = async (letter) => (hasBias ? (await weight(`${name}.${letter}.bias`, [c, c + 1])).data[0] : 0);
  const z = dot(x, W) + (await bias("W_1")), f = ACTIVATIONS[part.feedforward];
  const g = part.gated ? dot(x, (await weight(`${name}.W_g.weight`, [c, c + 1])).data) + (await bias("W_g")) : null;
  const again = part.gated ? f(g) * z : f(z), word = part.feedforward;
  return {
    title: [`Unit ${c} of ${place} for `, shown(stack, i)], captured, again, formula: part.gated ? formula(mi("f"), "(", sub("W", "g"), mi("x"), ")", "∘", sub("W", "1"), mi("x")) : formula(mi("f"), "(", sub("W", "1"), mi("x"), ...(hasBias ? ["+", sub("b", "1")] : []), ")"),
    say: part.gated ? equals(captured, ` = ${word}: gate f(`, g, ") × ", z) : equals(captured, ` = ${word}(`, z, ")"),
    more: [terms(["x", "w₁"], x, W, (e) => go(`x:${i}:${e}:${place}`))],
  };
}
const erf = (x) => { // to 1e-15: a series near 0, a continued fraction far away
  if (Math.abs(x) > 3) { let t = 0; for (let k = 60; k > 0; k--) t = (k / 2) / (Math.abs(x) + t); return Math.sign(x) * (1 - Math.exp(-x * x) / (Math.sqrt(Math.PI) * (Math.abs(x) + t))); }
  let term = x, total = x; for (let k = 1; k < 90; k++) { term *= (-x * x) / k; total += term / (2 * k + 1); } return (2 / Math.sqrt(Math.PI)) * total;
};
const gelu = (x) => (x / 2) * (1 + erf(x / Math.SQRT2)), tanhGelu = (x) => (x / 2) * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))), silu = (x) => x / (1 + Math.exp(-x));
const ACTIVATIONS = { relu: (x) => Math.max(0, x), gelu, gelu_tanh: tanhGelu, silu, relu2: (x) => Math.max(0, x) ** 2, swiglu: silu, geglu: gelu, geglu_tanh: tanhGelu };

async function logit(i, id) {
  const config = app.model.config, stack = topStack(), x = rowOf(await site(`${stack}.norm`), i), captured = at(await site("logits"), i, id);
  const title = [`Logit of token ${id} after `, shown(stack, i)];
  if (config.head_transform) return { title, formula: formula(mi("z"), "=", mi("W"), mi("norm"), "(", mi("gelu"), "(", mi("dense"), mi("x"), ")", ")"), say: equals(captured, " : behind a dense layer, gelu and a norm"), captured, again: captured, more: [] };
  const W = (await weight(config.tied ? stackOf(stack).table : "head.table.weight", [id, id + 1])).data, b = config.head_bias ? (await weight("head.bias", [id, id + 1])).data[0] : 0;
  const plain = dot(x, W) * config.head_scale + b, cap = config.soft_cap;
  return {
    title, captured, again: cap ? cap * Math.tanh(plain / cap) : plain, formula: formula(sub("z", "t"), "=", mi("x"), "·", sub(config.tied ? "E" : "W", "t")),
    say: equals(captured, " = x · e", config.head_scale === 1 ? "" : ` × ${num(config.head_scale)}`, b ? ` + ${num(b)}` : "", cap ? `, capped at ${cap}` : ""),
    more: [h("p", { class: "note" }, `x is the vector at the top of the ${stack}; ${config.tied ? "e is the token's own embedding: the head is tied to the table." : "e is its row of the head."}`), terms(["x", "e"], x, W)],
  };
}

async function probability(i, id) {
  const Z = rowOf(await site("logits"), i), largest = Z.reduce((a, b) => Math.max(a, b), -Infinity);
  const total = Z.reduce((a, b) => a + Math.exp(b - largest), 0), again = Math.exp(Z[id] - largest) / total, found = await reading("choice", { position: i });
  const captured = found.rows.find((one) => one.id === id)?.p ?? again;
  return {
    title: [`Probability of token ${id} after `, shown(topStack(), i)], captured, again, formula: formula(sub("P", "t"), "=", frac(row("exp", sub("z", "t")), row(sum(`all ${Z.length} tokens`), "exp", mi("z")))),
    say: equals(captured, " = exp(", figure(Z[id], go(`logit:${i}:${id}`)), ` − ${num(largest)}) / `, total), more: [h("p", { class: "note" }, `The sum runs over the whole vocabulary of ${Z.length} tokens; the largest logit is taken off first, which changes no share.`)],
  };
}

const KINDS = { weights, scores, dot: scores, q: (i, c) => projection("q", i, c), k: (i, c) => projection("k", i, c), v: (i, c) => projection("v", i, c), heads, part, out, x: input, stream, hidden, logit, p: probability };

export async function derivation() {
  const [kind, i, j, ...rest] = state().cell.split(":");
  const derive = KINDS[kind];
  if (!derive) return null;
  const found = await derive(Number(i), Number(j), ...rest);
  const gap = Math.abs(found.captured - found.again);
  return h("section", { class: "panel", "data-panel": "derivation", "data-captured": String(found.captured), "data-again": String(found.again) },
    h("header", {}, h("div", {}, h("h2", {}, found.title)), h("button", { type: "button", onclick: () => select({ cell: "" }), "aria-label": "Close the derivation", key: "close derivation" }, "×")),
    found.formula, found.say, found.more, h("p", { class: "proof-line" }, `captured ${num(found.captured, 7)} · computed again here ${num(found.again, 7)} · apart by ${num(gap, 2)}`));
}
