// Elements, numbers and texts. Text only ever enters the document as text: nothing here parses markup.

import { address, select } from "../state.js";

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

export const h = (name, properties, ...children) => {
	const element = document.createElement(name);
	if (name === "button") element.type = "button";
	return build(element, properties, children);
};
export const svg = (name, properties, ...children) => build(
	document.createElementNS(SVG, name), properties, children,
);
export const m = (name, ...children) => build(document.createElementNS(MATH, name), {}, children);

// MathML from one line, such as "A_{ij} = {exp S_{ij}} / {∑_j exp S_{ij}}".
export function formula(source) {
	const parts = source.match(/"[^"]*"|[\p{L}′]+|[\d.]+|\S/gu);
	const one = () => {
		const part = parts.shift();
		if (part === "{") { const inside = until("}"); parts.shift(); return m("mrow", ...inside); }
		if (part === "√") return m("msqrt", one());
		if (part[0] === '"') return m("mtext", `\u00a0${part.slice(1, -1)}\u00a0`);
		return m(/^(exp|ln|sin|cos|tanh|max)$/.test(part) ? "mo" : /^[\p{L}′]/u.test(part) ? "mi" : /\d/.test(part) ? "mn" : "mo", part);
	};
	const joined = () => {
		let base = one();
		while ("_^/".includes(parts[0] || " ")) {
			const kind = { _: base.textContent === "∑" ? "munder" : "msub", "^": "msup", "/": "mfrac" }[parts.shift()];
			base = m(kind, base, one());
		}
		return base;
	};
	const until = (end) => { const row = []; while (parts.length && parts[0] !== end) row.push(joined()); return row; };
	return h("div", { class: "formula" }, m("math", m("mrow", ...until())));
}

// Numbers: four significant digits, a true minus sign.
export function num(value, digits = 4) {
	if (value === null || value === undefined) return "–";
	if (!Number.isFinite(value)) return value < 0 ? "−∞" : value > 0 ? "∞" : "NaN";
	if (Number.isInteger(value) && Math.abs(value) < 1e5) return String(value).replace("-", "−");
	const size = Math.abs(value);
	const text = size >= 1e5 || size < 1e-4 ? value.toExponential(Math.max(0, digits - 2)) : value.toPrecision(digits);
	return text.replace("e+", "e").replaceAll("-", "−");
}
// A text by characters, as the service counts them: one outside the basic plane, such as an emoji, is one.
export const slice = (text, start, end) => [...text].slice(start, end).join("");
export const percent = (share) => (
	share >= 0.0995
		? `${(share * 100).toFixed(1)} %`
		: share >= 0.001
		? `${(share * 100).toFixed(2)} %`
		: share === 0
		? "0 %"
		: "< 0.1 %"
);
export const plural = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;
export const count = (value) => value.toLocaleString("en");
export function bytes(value) {
	const unit = value >= 1 << 20 ? [1 << 20, "MiB"] : value >= 1024 ? [1024, "KiB"] : [1, "bytes"];
	return `${num(value / unit[0], unit[0] === 1 ? 6 : 3)} ${unit[1]}`;
}

// A number on screen: its exact value is kept beside the rounded one; with a cell, a click derives it.
const derives = (value, cell) => ({
	class: "n",
	"data-value": String(value),
	key: cell,
	onclick: cell && ((event) => { event.preventDefault(); select({ cell }); }),
});
export const figure = (value, cell, text = num(value)) => (cell && value !== null ? h(
	"button", { ...derives(value, cell), title: "Where does this number come from?" }, text,
) : h("span", derives(value), text));
// The same in a drawing: a text with these properties.
export const drawnFigure = (value, cell, properties, text = num(value)) => svg(
	"a", { ...derives(value, cell), href: address({ cell }), role: "button" }, svg("text", properties, text),
);

// Invisible characters, and those that reverse the text, are spelled out.
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
	const kinds = ["special", "partial", "added", "unknown"].filter((kind) => token[kind]).join(" ");
	const title = `token ${token.id}${token.unknown ? ", the unknown token: the vocabulary lacks this word" : ""}`;
	return h(
		properties.onclick ? "button" : "span", { ...properties, class: `chip ${kinds}`, title },
		h("bdi", {}, spell(token)), ...more,
	);
};

export const scroll = (label, inside) => h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, inside);
// Rows of cells under their heads; columns of numbers are aligned right.
export const table = (heads, rows, label) => scroll(
	label,
	h(
		"table", {},
		h("thead", {}, h("tr", {}, heads.map((head, c) => h("th", { scope: "col", class: rows[0]?.cells[c]?.className }, head)))),
		h("tbody", {}, rows),
	),
);
const isNumber = (value) => value instanceof Element && value.classList.contains("n");
export const cells = (values, properties = {}) => h(
	"tr", properties, values.map((value) => h("td", { class: isNumber(value) ? "num" : null }, value)),
);
export const track = (share, kind = "") => h(
	"span", { class: `track ${kind}` }, h("i", { style: { width: `${Math.max(0, Math.min(1, share)) * 100}%` } }),
);

// Bars for numbers of both signs from a common zero, which is the left end where none is negative.
export const signedTracks = (values) => {
	const low = Math.min(0, ...values), range = Math.max(0, ...values) - low || 1, share = (x) => `${(x / range) * 100}%`;
	return (x) => h(
		"span", { class: `track signed ${x < 0 ? "k" : "q"}`, style: { "--zero": share(-low) } },
		h("i", { style: { "margin-left": share(Math.min(x, 0) - low), width: share(Math.abs(x)) } }),
	);
};

export const facts = (lines) => h("dl", { class: "facts" }, lines.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
// A drawing of so many pixels at normal text size; it grows with the text.
export const chart = (width, height, label, ...parts) => svg(
	"svg",
	{
		class: "chart", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "xMinYMin meet", role: "group", "aria-label": label,
		style: { width: `${width / 16}rem`, "--natural": `${width}px` },
	},
	parts,
);
export const empty = (text) => h("p", { class: "empty" }, text);
export const note = (...parts) => h("p", { class: "note" }, ...parts);
export const announce = (text) => { document.getElementById("announce").textContent = text; };
