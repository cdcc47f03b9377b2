// A panel: title, note, body, and a menu that exports it as SVG, PNG, CSV or Python.

import { empty, h, note, num, spell, svg, visible } from "./dom.js";
import { colourer, css, inkOn, property } from "./colour.js";

export function panel({ title, note: said, body, rows, python, drawing, key, first, aside }) {
	const plain = [title].flat().map((part) => (part instanceof Node ? part.textContent : part)).join("");
	const section = h("section", { class: "panel", "data-panel": key || plain, "aria-label": visible(plain) });
	const name = (key || plain).toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
	const toSVG = () => {
		const own = drawing ? drawing() : section.querySelector(".matrix")?.drawing || section.querySelector("svg.chart");
		return own instanceof SVGElement ? standalone(own) : own ? matrixSVG(own) : tableSVG(plain, rows());
	};
	const out = { svg: toSVG, csv: () => csv(rows()), python: () => (python ? python() : null) };
	const item = (label, extension, type, content) => h(
		"button", { onclick: async () => { closeMenus(); save(`${name}.${extension}`, type, await content()); } }, label,
	);
	const menu = h(
		"details", { class: "menu" },
		h("summary", { "aria-label": `Export ${visible(plain)}`, key: `export ${name}` }, "Export"),
		h(
			"div", {}, item("SVG", "svg", "image/svg+xml", out.svg), item("PNG", "png", "image/png", () => toPNG(out.svg())),
			item("CSV", "csv", "text/csv", out.csv), python ? item("Python", "py", "text/x-python", out.python) : null,
		),
	);
	section.append(
		...(first ? [first] : []), h("header", {}, h("div", {}, h("h2", {}, title)), aside, menu), ...(said ? [note(said)] : []),
		...[body].flat(Infinity).filter(Boolean),
	);
	section.exports = out;
	return section;
}

export function save(name, type, content) {
	const link = h("a", { href: URL.createObjectURL(new Blob([content], { type: `${type};charset=utf-8` })), download: name });
	document.body.append(link);
	link.click();
	link.remove();
	setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// A field that a spreadsheet would take for a formula is marked as text.
function csv(rows) {
	const field = (value) => {
		let text = typeof value === "number" ? String(value) : String(value ?? "");
		if (typeof value !== "number" && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
		return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
	};
	return rows.map((row) => row.map(field).join(",")).join("\n") + "\n";
}

const write = (element) => new XMLSerializer().serializeToString(element);
const STYLES = [
	"fill", "stroke", "stroke-width", "fill-opacity", "stroke-opacity", "font-family", "font-size", "font-weight",
	"text-anchor",
];

function standalone(element) {
	const copy = element.cloneNode(true);
	const from = [element, ...element.querySelectorAll("*")], to = [copy, ...copy.querySelectorAll("*")];
	from.forEach((node, i) => {
		const style = getComputedStyle(node);
		for (const name of STYLES) {
			const value = style.getPropertyValue(name);
			if (value) to[i].setAttribute(name, value);
		}
	});
	const box = element.viewBox.baseVal;
	copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
	copy.setAttribute("width", box.width);
	copy.setAttribute("height", box.height);
	copy.prepend(svg("rect", { x: box.x, y: box.y, width: box.width, height: box.height, fill: property("--card") }));
	return write(copy);
}

const frame = (width, height, ...inside) => write(svg(
	"svg",
	{
		xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${width} ${height}`, width, height,
		"font-family": "sans-serif", "font-size": 12, fill: property("--ink"),
	},
	svg("rect", { width, height, fill: property("--card") }), ...inside,
));

function matrixSVG({ values, rows, columns, rowTokens, columnTokens, scale, isHidden, title, image }) {
	const isFine = rows * columns > 6000, most = Math.max(rows, columns), left = 130, top = 150;
	const side = isFine ? Math.max(1, 640 / most) : Math.max(8, Math.min(40, 900 / most)), size = Math.min(12, side);
	const x = (j) => left + j * side, y = (i) => top + i * side, paint = colourer(scale);
	const text = (properties, content) => svg("text", { "font-size": size, ...properties }, content);
	const name = (tokens, i) => (tokens ? spell(tokens[i], 18) : String(i));
	const parts = [text({ x: left, y: 20, "font-size": 12, "font-weight": "bold" }, visible(title))];
	if (isFine) parts.push(svg("image", {
		x: left, y: top, width: side * columns, height: side * rows, href: image.toDataURL(),
		"image-rendering": "pixelated", preserveAspectRatio: "none",
	}));
	else values.forEach((value, at) => {
		const i = Math.floor(at / columns), j = at % columns, hidden = isHidden?.(at), fill = paint(value);
		parts.push(svg("rect", { x: x(j), y: y(i), width: side - 0.5, height: side - 0.5, fill: hidden ? property("--hatch") : css(fill) }));
		if (side >= 34 && !hidden) parts.push(text(
			{ x: x(j + 0.5), y: y(i + 0.5) + 3.5, "font-size": 10, "text-anchor": "middle", fill: inkOn(fill) }, num(value, 2),
		));
	});
	if (side >= 9) for (let i = 0; i < rows; i++) parts.push(text(
		{ x: left - 6, y: y(i + 0.5) + 4, "text-anchor": "end" }, name(rowTokens, i),
	));
	if (side >= 9 && columnTokens) for (let j = 0; j < columns; j++) parts.push(text(
		{ transform: `translate(${x(j + 0.5) + 4} ${top - 6}) rotate(-90)` }, name(columnTokens, j),
	));
	return frame(Math.ceil(x(columns) + 20), Math.ceil(y(rows) + 20), ...parts);
}

function tableSVG(title, rows) {
	const shown = rows.slice(0, 80);
	const texts = shown.map((row) => row.map(
		(value) => visible(typeof value === "number" ? num(value, 5) : String(value ?? "")).slice(0, 40),
	));
	const widths = texts[0].map((_, j) => 14 + 7.4 * Math.max(...texts.map((row) => (row[j] || "").length)));
	const starts = widths.map((_, j) => 16 + widths.slice(0, j).reduce((a, b) => a + b, 0));
	const parts = texts.flatMap((row, i) => row.map(
		(text, j) => svg("text", { x: starts[j], y: 52 + 18 * i, "font-weight": i ? "normal" : "bold" }, text),
	));
	return frame(
		32 + widths.reduce((a, b) => a + b, 0), 72 + 18 * texts.length,
		svg("text", { x: 16, y: 24, "font-weight": "bold", "font-size": 14 }, visible(title)), ...parts,
	);
}

export async function toPNG(markup) {
	const image = new Image();
	image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(markup)}`;
	await image.decode();
	const canvas = h("canvas", { width: image.width * 2, height: image.height * 2 });
	canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
	return new Promise((done) => canvas.toBlob(done, "image/png"));
}

// Closes export menus, except the one that contains an element; says whether one was open.
export function closeMenus(except) {
	const open = [...document.querySelectorAll("details.menu[open]")].filter((menu) => !(except && menu.contains(except)));
	open.forEach((menu) => { menu.open = false; });
	return open.length > 0;
}

// What a view shows when it does not apply to this model.
export const absent = (title, text) => panel({ title, rows: () => [[text]], body: empty(text) });
