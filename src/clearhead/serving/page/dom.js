// Elements, numbers and texts. Text only ever enters the document as text: nothing here parses markup.

const SVG = "http://www.w3.org/2000/svg";
const MATH = "http://www.w3.org/1998/Math/MathML";

function build(element, properties, children) {
  for (const [key, value] of Object.entries(properties || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "style") for (const [name, text] of Object.entries(value)) element.style.setProperty(name, text);
    else if (key === "value" || key === "checked" || key === "disabled") element[key] = value;
    else element.setAttribute(key === "key" ? "data-key" : key, value === true ? "" : value);
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

export const h = (name, properties, ...children) => build(document.createElement(name), properties, children);
export const svg = (name, properties, ...children) => build(
  document.createElementNS(SVG, name),
  properties,
  children,
);
export const m = (name, ...children) => build(document.createElementNS(MATH, name), {}, children);

// MathML in few words: mi("q"), sub("q", "i"), frac(a, b), row(a, b, c).
export const mi = (text) => m("mi", text);
export const mo = (text) => m("mo", text);
export const mn = (text) => m("mn", text);
export const row = (...parts) => m("mrow", ...parts.map((part) => (typeof part === "string" ? mo(part) : part)));
export const sub = (base, index) => m("msub", typeof base === "string" ? mi(base) : base, m("mtext", index));
export const sup = (base, index) => m("msup", typeof base === "string" ? mi(base) : base, mi(index));
export const frac = (above, below) => m("mfrac", above, below);
export const root = (inside) => m("msqrt", inside);
export const sum = (below) => m("munder", mo("∑"), mi(below));
export const formula = (...parts) => h("div", { class: "formula" }, m("math", row(...parts)));

// Numbers: four significant digits, a true minus sign.
export function num(value, digits = 4) {
  if (value === null || value === undefined) return "–";
  if (!Number.isFinite(value)) return value < 0 ? "−∞" : value > 0 ? "∞" : "NaN";
  if (value === 0) return "0";
  const size = Math.abs(value);
  const text = size >= 1e5 || size < 1e-4 ? value.toExponential(Math.max(0, digits - 2)) : value.toPrecision(digits);
  return text.replace("e+", "e").replaceAll("-", "−");
}
export const fixed = (value, digits = 3) => value.toFixed(digits).replace("-", "−");
export const percent = (share) => (
  share >= 0.0995
    ? `${(share * 100).toFixed(1)} %`
    : share >= 0.001
    ? `${(share * 100).toFixed(2)} %`
    : share === 0
    ? "0 %"
    : "< 0.1 %"
);
export const count = (value) => value.toLocaleString("en");
export function bytes(value) {
  const unit = value >= 1 << 20 ? [1 << 20, "MiB"] : value >= 1024 ? [1024, "KiB"] : [1, "bytes"];
  return `${num(value / unit[0], unit[0] === 1 ? 6 : 3)} ${unit[1]}`;
}

// A number on screen: its exact value is kept beside the rounded one; with `go` a click derives it.
export function figure(value, go, name) {
  const properties = { class: "n", "data-value": String(value) };
  if (!go) return h("span", properties, num(value));
  return h("button", { ...properties, type: "button", onclick: go, title: name || "derive this number" }, num(value));
}

// Characters that cannot be seen, or that turn the text around, are spelled out.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff]/gu;
const NAMED = { "\n": "⏎", "\t": "⇥", "\r": "␍" };
export function visible(text) {
  return text.replace(
    UNSEEN,
    (c) => NAMED[c] || (c < " " ? String.fromCodePoint(
      0x2400 + c.codePointAt(0),
    ) : `⟨${c.codePointAt(0).toString(16)}⟩`),
  );
}
export function spell(token, longest = 24) {
  const letters = [...visible(token.text).replaceAll(" ", "·")];
  const text = letters.length > longest ? letters.slice(0, longest - 1).join("") + "…" : letters.join("");
  return text || "∅";
}

export const chip = (token, properties = {}, ...more) => {
  const kinds = ["special", "partial", "added"].filter((kind) => token[kind]).join(" ");
  return h(
    properties.onclick ? "button" : "span",
    { ...properties, class: `chip ${kinds}`, title: `token ${token.id}`, type: properties.onclick ? "button" : null },
    h("bdi", {}, spell(token)),
    ...more,
  );
};

export const table = (heads, rows, properties = {}) => h(
  "div",
  { class: "scroll", tabindex: "0", role: "region", "aria-label": properties.label || "table" },
  h(
    "table",
    {},
    h(
      "thead",
      {},
      h("tr", {}, heads.map((head) => h("th", { scope: "col", class: head.num ? "num" : null }, head.text ?? head))),
    ),
    h("tbody", {}, rows),
  ),
);
export const cells = (values, properties = {}) => h(
  "tr",
  properties,
  values.map((value) => (
    value instanceof Node && value.tagName === "TD" ? value : h(
      "td",
      { class: typeof value === "object" && value?.num ? "num" : null },
      value?.num ?? value,
    )
  )),
);
export const track = (share, kind = "") => h(
  "span",
  { class: `track ${kind}` },
  h("i", { style: { width: `${Math.max(0, Math.min(1, share)) * 100}%` } }),
);

export const say = (text) => { document.getElementById("say").textContent = text; };
