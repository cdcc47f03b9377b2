// A panel: title, note, body, and a menu that takes it out as SVG, PNG, CSV or Python.

import { h, num, svg, visible, spell } from "./dom.js";
import { colourOf, css, inkOn, property } from "./colour.js";

export function panel({ title, note, body, rows, python, drawing, key, warn }) {
  const section = h("section", { class: "panel", "data-panel": key || title, "aria-label": visible(title) });
  const name = (key || title).toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
  const content = [body].flat(Infinity).filter(Boolean);
  const menu = h(
    "details",
    { class: "menu" },
    h("summary", { "aria-label": `Export ${visible(title)}`, key: `export ${name}` }, "Export"),
    h(
      "div",
      {},
      h("button", { type: "button", onclick: () => save(`${name}.svg`, "image/svg+xml", toSVG()) }, "SVG"),
      h(
        "button",
        { type: "button", onclick: () => toPNG(toSVG()).then((blob) => save(`${name}.png`, "image/png", blob)) },
        "PNG",
      ),
      rows ? h(
        "button",
        { type: "button", onclick: () => save(`${name}.csv`, "text/csv", csv(rows())) },
        "CSV",
      ) : null,
      python ? h(
        "button",
        { type: "button", onclick: () => save(`${name}.py`, "text/x-python", python()) },
        "Python",
      ) : null,
    ),
  );
  const toSVG = () => {
    const own = drawing ? drawing() : section.querySelector(".matrix")?.drawing || section.querySelector("svg.chart");
    if (own instanceof SVGElement) return standalone(own);
    if (own) return matrixSVG(own);
    return tableSVG(title, rows ? rows() : [[title]]);
  };
  section.append(
    h("header", {}, h("div", {}, h("h2", {}, title), note ? h("p", { class: "note" }, note) : null), menu),
    ...(warn ? [warn] : []),
    ...content,
  );
  section.exports = { svg: toSVG, csv: () => (rows ? csv(rows()) : null), python: () => (python ? python() : null) };
  return section;
}

export function save(name, type, content) {
  const link = h(
    "a",
    {
      href: URL.createObjectURL(content instanceof Blob ? content : new Blob(
        [content],
        { type: `${type};charset=utf-8` },
      )),
      download: name,
    },
  );
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
  "fill",
  "stroke",
  "stroke-width",
  "fill-opacity",
  "stroke-opacity",
  "font-family",
  "font-size",
  "font-weight",
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
    xmlns: "http://www.w3.org/2000/svg",
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    "font-family": "sans-serif",
    "font-size": 12,
    fill: property("--ink"),
  },
  svg("rect", { width, height, fill: property("--card") }),
  ...inside,
));

function matrixSVG({ values, rows, columns, rowTokens, columnTokens, scale, isHidden, title, image }) {
  const isFine = rows * columns > 6000;
  const side = isFine ? Math.max(1, 640 / Math.max(rows, columns)) : Math.max(
    8,
    Math.min(40, 900 / Math.max(rows, columns)),
  );
  const label = (tokens, i) => (tokens ? spell(tokens[i], 18) : String(i));
  const left = 130, top = 150, parts = [svg("text", { x: left, y: 20, "font-weight": "bold" }, visible(title))];
  if (isFine) parts.push(svg(
    "image",
    {
      x: left,
      y: top,
      width: side * columns,
      height: side * rows,
      href: image.toDataURL(),
      "image-rendering": "pixelated",
      preserveAspectRatio: "none",
    },
  ));
  else for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) {
    const at = i * columns + j, hidden = isHidden && isHidden(at), colour = colourOf(values[at], scale);
    parts.push(svg(
      "rect",
      {
        x: left + j * side,
        y: top + i * side,
        width: side - 0.5,
        height: side - 0.5,
        fill: hidden ? property("--hatch") : css(colour),
      },
    ));
    if (side >= 34 && !hidden) parts.push(svg(
      "text",
      {
        x: left + (j + 0.5) * side,
        y: top + (i + 0.5) * side + 3.5,
        "font-size": 10,
        "text-anchor": "middle",
        fill: inkOn(colour),
      },
      num(values[at], 2),
    ));
  }
  if (side >= 9) {
    for (let i = 0; i < rows; i++) parts.push(svg(
      "text",
      { x: left - 6, y: top + (i + 0.5) * side + 4, "text-anchor": "end", "font-size": Math.min(12, side) },
      label(rowTokens, i),
    ));
    if (columnTokens) for (let j = 0; j < columns; j++) parts.push(svg(
      "text",
      {
        transform: `translate(${left + (j + 0.5) * side + 4} ${top - 6}) rotate(-90)`,
        "font-size": Math.min(12, side),
      },
      label(columnTokens, j),
    ));
  }
  return frame(Math.ceil(left + columns * side + 20), Math.ceil(top + rows * side + 20), ...parts);
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
    32 + widths.reduce((a, b) => a + b, 0),
    72 + 18 * texts.length,
    svg("text", { x: 16, y: 24, "font-weight": "bold", "font-size": 14 }, visible(title)),
    ...parts,
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

// What a view says when this model has nothing to show there.
export const absent = (title, text) => panel({ title, rows: () => [[text]], body: h("p", { class: "empty" }, text) });
