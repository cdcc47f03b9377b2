// Where the numbers of attention come from: weights, scores, q, k, v, outputs of heads, and what they add.

import { cells, figure, formula, frac, h, mi, mn, num, root, row, sub, sum, sup, table } from "../dom.js";
import { app, attention, head, headTensors, isVisible, site, weight } from "../app.js";
import { list, select } from "../state.js";
import { MANY, at, dot, equals, go, rowOf, shown, terms } from "./terms.js";

export async function weights(i, j) {
  const one = attention(), T = await headTensors(), n = T.weights.shape[1];
  const S = Array.from(rowOf(T.scores, i)), seen = S.map((_, key) => isVisible(one, i, key));
  const largest = Math.max(...S.filter((_, key) => seen[key]));
  const shift = Math.abs(largest) > 30 ? largest : 0; // the same shares, and no overflow
  const e = S.map((value, key) => (seen[key] ? Math.exp(value - shift) : 0));
  const total = e.reduce((a, b) => a + b, 0);
  const order = [...e.keys()].filter((key) => seen[key]).sort((a, b) => (
    n > MANY ? e[b] - e[a] : a - b
  )).slice(0, MANY);
  const line = (key) => cells(
    [
      shown(one.keys, key),
      { num: figure(S[key], go(`scores:${i}:${key}`)) },
      { num: figure(e[key]) },
      { num: figure(at(T.weights, i, key), key === j ? null : go(`weights:${i}:${key}`)) },
    ],
    { class: key === j ? "on" : null },
  );
  return {
    title: ["Weight of ", shown(one.stack, i), " on ", shown(one.keys, j)],
    formula: formula(
      sub("A", "ij"),
      "=",
      frac(row("exp", sub("S", "ij")), row(sum("visible j′"), "exp", sub("S", "ij′"))),
    ),
    say: seen[j] ? equals(
      at(T.weights, i, j),
      shift ? ` = exp(${num(S[j])} − ${num(shift)}) / ` : " = exp(",
      shift ? "" : figure(S[j], go(`scores:${i}:${j}`)),
      shift ? "" : ") / ",
      total,
    ) : equals(0, " : this key is hidden from this query, so its share is exactly 0"),
    captured: at(T.weights, i, j),
    again: e[j] / total,
    more: [
      table(
        [
          "key",
          { text: "S", num: true },
          { text: shift ? "exp(S − max)" : "exp S", num: true },
          { text: "A", num: true },
        ],
        order.map(line),
        { label: "softmax" },
      ),
      h(
        "p",
        { class: "note" },
        `The row sums to ${num(
          rowOf(T.weights, i).reduce((a, b) => a + b, 0),
          6,
        )}. ${seen.filter(Boolean).length} of ${n} keys are visible.`,
      ),
    ],
  };
}

export async function scores(i, j) {
  const one = attention(), T = await headTensors(), q = rowOf(T.q, i), k = rowOf(T.k, j);
  const scale = app.pass.scales[one.name], kind = one.similarity, product = dot(q, k);
  const norm = (x) => Math.sqrt(dot(x, x)), d = q.length;
  const bias = one.biased && !list("off").includes("positions") ? at(
    await site(`${one.name}.bias`, head()),
    i,
    j,
  ) : null;
  let value = product * scale, said = [product, " × ", scale], f = [sub("q", "i"), "·", sub("k", "j")];
  if (kind === "scaled_dot") f = [frac(row(sub("q", "i"), "·", sub("k", "j")), root(sub("d", "k")))];
  if (kind === "scaled_dot" && Math.abs(scale - d ** -0.5) < 1e-9) said = [product, ` / √${d}`];
  if (kind === "cosine") {
    value = (product * scale) / (norm(q) * norm(k));
    said = [product, " / (", norm(q), " × ", norm(k), ")", scale === 1 ? "" : ` × ${num(scale)}`];
    f = [frac(row(sub("q", "i"), "·", sub("k", "j")), row("|", sub("q", "i"), "|", "|", sub("k", "j"), "|"))];
  }
  if (kind === "gaussian") {
    const gap = Array.from(q, (x, c) => x - k[c]);
    value = (-scale / 2) * dot(gap, gap);
    said = ["−½ × ", dot(gap, gap), scale === 1 ? "" : ` × ${num(scale)}`];
    f = ["−", frac(mn("1"), mn("2")), sup(row("|", sub("q", "i"), "−", sub("k", "j"), "|"), "2")];
  }
  if (kind === "distance") {
    value = (-scale / 2) * (i - j) ** 2;
    said = [`−½ × (${i} − ${j})²`, scale === 1 ? "" : ` × ${num(scale)}`];
    f = ["−", frac(mn("1"), mn("2")), sup(row("(", mi("i"), "−", mi("j"), ")"), "2")];
  }
  let rest = kind === "distance" ? null : terms(
    [h("span", { class: "q" }, "q"), h("span", { class: "k" }, "k")],
    q,
    k,
    (c) => go(`q:${i}:${c}`),
    (c) => go(`k:${j}:${c}`),
  );
  if (kind === "additive") {
    const v = rowOf(await weight(`${one.weights}.similarity.v`), head());
    const t = Array.from(q, (x, c) => Math.tanh(x + k[c]));
    value = dot(v, t) * scale;
    said = ["v · tanh(q + k)"];
    f = [mi("v"), "·", mi("tanh"), "(", sub("q", "i"), "+", sub("k", "j"), ")"];
    rest = terms(["v", "tanh(q + k)"], v, t);
  }
  if (bias !== null) {
    value += bias;
    said.push(" + ", bias, ` (${app.model.config.positions})`);
    f.push("+", sub("b", "ij"));
  }
  return {
    title: ["Score of ", shown(one.stack, i), " for ", shown(one.keys, j)],
    formula: formula(sub("S", "ij"), "=", ...f),
    say: equals(at(T.scores, i, j), " = ", ...said),
    captured: at(T.scores, i, j),
    again: value,
    more: [rest],
  };
}

// One number of q, k or v: a dot product of the sublayer's input with a row of the projection.
export async function projection(letter, i, c) {
  const one = attention(), T = await headTensors(), X = T[letter], d = X.shape[1];
  const isMemory = letter !== "q" && one.kind === "cross", stack = letter === "q" ? one.stack : one.keys;
  const off = list("off");
  const x = isMemory ? rowOf(await site("encoder.norm"), i) : rowOf(await site(`${one.name}.x`), i);
  const title = [`${letter}[${c}] of `, shown(stack, i)], captured = at(X, i, c);
  const goX = isMemory ? null : (e) => go(`x:${i}:${e}`);
  if (one.projections === "none" || (off.includes("projections") && one.kind === "self" && letter !== "v"))
    return {
      title,
      formula: formula(sub(letter, "i"), "=", sub("x", "i")),
      say: equals(captured, " = x itself, without a projection"),
      captured,
      again: x[c],
      more: [],
    };
  const group = letter === "q" ? head() : one.reads[head()];
  const W = await weight(`${one.weights}.W_${letter}.weight`, [group * d, (group + 1) * d]);
  const b = one.biases.includes(letter) ? (await weight(
    `${one.weights}.W_${letter}.bias`,
    [group * d, (group + 1) * d],
  )).data : null;
  const raw = Array.from(
    { length: d },
    (_, e) => {
      const z = dot(x, rowOf(W, e)) + (b ? b[e] : 0);
      return one.projections === "relu" ? Math.max(0, z) : z;
    },
  );
  const lines = [], note = [];
  let ready = raw;
  if (one.query_key_norm && letter !== "v") {
    const gamma = (await weight(`${one.weights}.norm_${letter}.weight`)).data;
    const size = Math.sqrt(dot(raw, raw) / d + app.model.config.norm_epsilon);
    ready = raw.map((value, e) => (gamma[e] * value) / size);
    note.push(`Normed: ${num(raw[c])} × ${num(gamma[c])} / ${num(size)} = ${num(ready[c])}.`);
  }
  let again = ready[c];
  if (one.rotary && letter !== "v" && !off.includes("positions")) {
    const half = d / 2, pair = c % half, angle = i * one.frequencies[pair], u = ready[pair], w = ready[pair + half];
    again = c < half ? u * Math.cos(angle) - w * Math.sin(angle) : w * Math.cos(angle) + u * Math.sin(angle);
    note.push(
      `Turned to position ${i}: the pair (${pair}, ${pair + half}) is (${num(u)}, ${num(w)}), by ${num(angle)} ` +
        `radians: ${c < half ? `${num(u)} cos − ${num(w)} sin` : `${num(w)} cos + ${num(u)} sin`} = ` +
        `${num(again)}.`,
    );
  }
  const tone = h("span", { class: letter }, `W_${letter}`);
  lines.push(h(
    "h3",
    {},
    `Before that: row ${c} of W_${letter} times x${b ? `, plus the bias ${num(b[c])}` : ""}: ${num(raw[c])}`,
  ));
  return {
    title,
    formula: formula(
      sub(letter, "i"),
      "=",
      ...(one.projections === "relu" ? [mi("relu"), "("] : []),
      sub("x", "i"),
      sub("W", letter),
      ...(b ? ["+", sub("b", letter)] : []),
      ...(one.projections === "relu" ? [")"] : []),
    ),
    say: equals(captured, note.length ? ` = turned or normed ${num(raw[c])}` : " = x · w"),
    captured,
    again,
    more: [
      note.map((text) => h("p", { class: "note" }, text)),
      note.length ? lines : null,
      terms(["x", tone], x, rowOf(W, c), goX),
    ],
  };
}

export async function heads(i, c) {
  const one = attention(), T = await headTensors(), A = rowOf(T.weights, i), n = A.length;
  const column = Float32Array.from({ length: n }, (_, j) => at(T.v, j, c));
  const order = [...A.keys()].filter((j) => A[j] > 0).sort((a, b) => (n > MANY ? A[b] - A[a] : a - b)).slice(0, MANY);
  const rows = order.map((j) => cells(
    [
      shown(one.keys, j),
      { num: figure(A[j], go(`weights:${i}:${j}`)) },
      { num: figure(column[j], go(`v:${j}:${c}`)) },
      { num: figure(A[j] * column[j]) },
    ],
  ));
  return {
    title: [`Output[${c}] of this head for `, shown(one.stack, i)],
    formula: formula(sub("h", "ic"), "=", sum("j"), sub("A", "ij"), sub("v", "jc")),
    say: equals(at(T.heads, i, c), " = the values, averaged by the weights"),
    captured: at(T.heads, i, c),
    again: dot(A, column),
    more: [table(
      [
        "key",
        { text: "A", num: true },
        { text: h("span", { class: "v" }, `v[${c}]`), num: true },
        { text: "product", num: true },
      ],
      rows,
      { label: "weighted values" },
    )],
  };
}

// What this head adds to the stream through its columns of W_o.
export async function part(i, c) {
  const one = attention(), T = await headTensors(), H = rowOf(T.heads, i), d = H.length, from = head() * d;
  if (one.projections === "none") return {
    title: ["Output"],
    formula: formula(sub("out", "i"), "=", sub("h", "i")),
    say: equals(H[c], " = the head itself: there is no W_o"),
    captured: H[c],
    again: H[c],
    more: [],
  };
  const W = await weight(`${one.weights}.W_o.weight`, [c, c + 1], [from, from + d]);
  const value = dot(H, W.data);
  return {
    title: [`What this head adds to dimension ${c} of `, shown(one.stack, i)],
    formula: formula(sub("out", "h"), "=", sub("h", "i"), sub("W", "o")),
    say: equals(
      value,
      " = h · w_o; ",
      figure(at(await site(`${one.name}.out`), i, c), go(`out:${i}:${c}`)),
      " with all heads",
    ),
    captured: value,
    again: value,
    more: [terms(["h", h("span", { class: "o" }, "W_o")], H, W.data, (e) => go(`heads:${i}:${e}`))],
  };
}

export async function out(i, c) {
  const one = attention(), all = await site(`${one.name}.heads`), d = all.shape[2], n = all.shape[1];
  const captured = at(await site(`${one.name}.out`), i, c);
  if (one.projections === "none") return part(i, c);
  const W = (await weight(`${one.weights}.W_o.weight`, [c, c + 1])).data;
  const b = one.biases.includes("o") ? (await weight(`${one.weights}.W_o.bias`, [c, c + 1])).data[0] : 0;
  const parts = one.heads.map((number, p) => (
    { number, value: dot(all.data.subarray((p * n + i) * d, (p * n + i + 1) * d), W.subarray(p * d, (p + 1) * d)) }
  ));
  const rows = parts.map(({ number, value }) => cells(
    [`head ${number}`, { num: figure(value, () => select({ head: number, cell: `part:${i}:${c}` })) }],
  ));
  if (b) rows.push(cells(["bias", { num: figure(b) }]));
  return {
    title: [`Dimension ${c} of what ${one.name} adds for `, shown(one.stack, i)],
    formula: formula(mi("out"), "=", sum("heads"), sub("h", "i"), sub("W", "o")),
    say: equals(captured, " = the sum over the heads"),
    captured,
    again: parts.reduce((a, { value }) => a + value, b),
    more: [table(["head", { text: "adds", num: true }], rows, { label: "heads" })],
  };
}
