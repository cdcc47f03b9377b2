// A matrix on a canvas: rows are queries, columns keys. Hover reads a number, a click or Enter derives it,
// arrow keys move. Values come as one Float32Array, row after row.

import { h, num, spell, visible } from "./dom.js";
import { colours, colourOf, css, inkOn, property, scaleFor } from "./colour.js";

const LABEL = 96; // the widest label, in CSS pixels at normal text size
const rem = () => parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;

// A number in a field: four or five characters.
const short = (x) => (
  Math.abs(x) < 9.995
    ? x.toFixed(2)
    : Math.abs(x) < 99.95
    ? x.toFixed(1)
    : Math.abs(x) < 9999.5
    ? x.toFixed(0)
    : x.toExponential(0)
).replace("-", "−");
const nameOf = (labels, i) => (labels ? spell(labels[i], 18) : String(i));

// The picture alone: one pixel a number, to be scaled up without smoothing.
export function picture(values, rows, columns, scale, isHidden) {
  const canvas = document.createElement("canvas");
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  const table = colours(scale.kind);
  for (let i = 0; i < values.length; i++) {
    const share = scale.kind === "weights" ? values[i] / scale.largest : (values[i] / scale.largest + 1) / 2;
    const c = table[Math.max(0, Math.min(255, Math.round(share * 255))) || 0];
    image.data.set([c[0], c[1], c[2], isHidden && isHidden(i) ? 0 : 255], i * 4);
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

export function legend(scale, hasHidden, unit = "") {
  const canvas = h(
    "canvas",
    { width: 256, height: 1, "aria-hidden": "true", style: { width: "7rem", height: "0.75rem" } },
  );
  const context = canvas.getContext("2d");
  colours(scale.kind).forEach((c, i) => { context.fillStyle = css(c); context.fillRect(i, 0, 1, 1); });
  const low = scale.kind === "weights" ? "0" : num(-scale.largest, 3);
  return h(
    "span",
    { class: "legend" },
    low,
    canvas,
    num(scale.largest, 3) + unit,
    hasHidden ? [h("i", { class: "hatch" }), "hidden by the mask"] : null,
  );
}

export function matrix(options) {
  const {
    values,
    rows,
    columns,
    rowTokens,
    columnTokens,
    title,
    isHidden,
    onselect,
    name,
    wide = 720,
    tall = 620,
    small = false,
  } = options;
  const kind = options.kind || "signed";
  const scale = options.scale || scaleFor(values, kind, isHidden);
  const selected = options.selected || [-1, -1];
  const unit = rem();
  const font = Math.round(12 * unit);
  const canvas = h(
    "canvas",
    {
      tabindex: "0",
      role: "application",
      "aria-roledescription": "matrix",
      key: options.key || title,
      "aria-label": `${visible(title)}: ${rows} rows, ${columns} columns. Arrow keys move, Enter derives the number.`,
    },
  );
  const readout = h("output", { class: "readout", "aria-live": "off" });
  const context = canvas.getContext("2d");
  context.font = `${font}px ${property("--mono")}`;
  const widest = (tokens, n) => (tokens ? Math.min(
    LABEL * unit,
    Math.max(...Array.from({ length: Math.min(n, 64) }, (_, i) => context.measureText(nameOf(tokens, i)).width)) + 8,
  ) : 22 * unit);
  const cell = Math.min(
    Math.max(2, Math.min((wide * unit) / columns, (tall * unit) / rows)),
    (small ? 22 : 44) * unit,
  );
  const cellW = Math.min(cell, (wide * unit) / columns);
  const cellH = Math.min(cell, (tall * unit) / rows);
  const showRows = cellH >= font * 0.9;
  const showColumns = cellW >= font * 0.9 || !columnTokens;
  const left = small && !showRows ? 2 : showRows ? widest(rowTokens, rows) : 14 * unit;
  const top = small && !showColumns ? 2 : columnTokens && showColumns ? widest(columnTokens, columns) : 16 * unit;
  const width = Math.ceil(left + cellW * columns + 2);
  const height = Math.ceil(top + cellH * rows + 2);
  const image = picture(values, rows, columns, scale, isHidden);
  const ratio = Math.min(3, devicePixelRatio || 1);
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  canvas.style.width = `${width}px`;
  canvas.style.aspectRatio = `${width} / ${height}`;

  function draw() {
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    if (isHidden) hatch();
    context.imageSmoothingEnabled = cellW < 1 || cellH < 1;
    context.drawImage(image, left, top, cellW * columns, cellH * rows);
    if (cellW > 8 && cellH > 8) lines();
    if (cellW >= 34 * unit && cellH >= 16 * unit) numbers();
    labels();
    band();
  }
  function hatch() {
    context.save();
    context.beginPath();
    context.rect(left, top, cellW * columns, cellH * rows);
    context.clip();
    context.fillStyle = property("--field");
    context.fillRect(left, top, cellW * columns, cellH * rows);
    context.strokeStyle = property("--hatch");
    context.beginPath();
    for (let x = left - cellH * rows; x < width; x += 6) {
      context.moveTo(x, top + cellH * rows);
      context.lineTo(x + cellH * rows, top);
    }
    context.stroke();
    context.restore();
  }
  function lines() {
    context.strokeStyle = property("--card");
    context.lineWidth = 1;
    context.beginPath();
    for (let j = 0; j <= columns; j++) {
      context.moveTo(left + j * cellW, top);
      context.lineTo(left + j * cellW, top + rows * cellH);
    }
    for (let i = 0; i <= rows; i++) {
      context.moveTo(left, top + i * cellH);
      context.lineTo(left + columns * cellW, top + i * cellH);
    }
    context.stroke();
  }
  function numbers() {
    context.font = `${Math.round(Math.min(11.5 * unit, cellW * 0.27))}px ${property("--mono")}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) {
      const at = i * columns + j;
      if (isHidden && isHidden(at)) continue;
      context.fillStyle = inkOn(colourOf(values[at], scale));
      context.fillText(short(values[at]), left + (j + 0.5) * cellW, top + (i + 0.5) * cellH);
    }
  }
  function labels() {
    context.font = `${font}px ${property("--mono")}`;
    context.textBaseline = "middle";
    const ink = property("--ink"), soft = property("--soft");
    if (showRows) {
      context.textAlign = "right";
      for (let i = 0; i < rows; i++) {
        context.fillStyle = i === selected[0] ? property("--q") : ink;
        context.fillText(cut(nameOf(rowTokens, i), left - 8), left - 6, top + (i + 0.5) * cellH);
      }
    }
    if (columnTokens && showColumns) {
      context.textAlign = "left";
      for (let j = 0; j < columns; j++) {
        context.save();
        context.translate(left + (j + 0.5) * cellW, top - 6);
        context.rotate(-Math.PI / 2);
        context.fillStyle = j === selected[1] ? property("--k") : ink;
        context.fillText(cut(nameOf(columnTokens, j), top - 8), 0, 0);
        context.restore();
      }
    } else if (!columnTokens && !(small && !showColumns)) {
      context.textAlign = "center";
      context.fillStyle = soft;
      const every = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512].find((step) => step * cellW >= 26 * unit) || 1024;
      for (let j = 0; j < columns; j += every) context.fillText(String(j), left + (j + 0.5) * cellW, top - 8);
    }
  }
  function cut(text, room) {
    const letters = [...text];
    while (letters.length > 1 && context.measureText(letters.join("")).width > room) letters.splice(-2, 2, "…");
    return letters.join("");
  }
  function band() {
    const [i, j] = selected;
    context.lineWidth = 1.5;
    if (i >= 0 && i < rows) {
      context.strokeStyle = property(options.rowColour || "--q");
      context.strokeRect(left, top + i * cellH, columns * cellW, Math.max(2, cellH));
    }
    if (j >= 0 && j < columns) {
      context.strokeStyle = property(options.columnColour || "--k");
      context.strokeRect(left + j * cellW, top, Math.max(2, cellW), rows * cellH);
    }
    if (i >= 0 && j >= 0) {
      context.lineWidth = 2.5;
      context.strokeStyle = property("--ink");
      context.strokeRect(left + j * cellW, top + i * cellH, Math.max(3, cellW), Math.max(3, cellH));
    }
  }
  function read(i, j) {
    if (i < 0 || j < 0 || i >= rows || j >= columns) { readout.replaceChildren(); return; }
    const at = i * columns + j;
    const hidden = isHidden && isHidden(at);
    const to = columnTokens ? ` → ${nameOf(columnTokens, j)} (${j})` : `, ${j}`;
    readout.replaceChildren(
      `${nameOf(rowTokens, i)} (${i})${to}: `,
      h(
        "b",
        { "data-value": String(values[at]) },
        hidden && options.hiddenText ? options.hiddenText : num(values[at], 5),
      ),
    );
  }
  function where(event) {
    const box = canvas.getBoundingClientRect();
    const x = ((event.clientX - box.left) * width) / box.width - left;
    const y = ((event.clientY - box.top) * height) / box.height - top;
    return [Math.floor(y / cellH), Math.floor(x / cellW)];
  }
  const inside = ([i, j]) => i >= 0 && j >= 0 && i < rows && j < columns;
  canvas.addEventListener(
    "pointermove",
    (event) => { const at = where(event); read(...(inside(at) ? at : selected)); },
  );
  canvas.addEventListener("pointerleave", () => read(...selected));
  canvas.addEventListener(
    "click",
    (event) => { const at = where(event); if (inside(at) && onselect) onselect(at[0], at[1], true); },
  );
  canvas.addEventListener("keydown", (event) => {
    const step = {
      ArrowUp: [-1, 0],
      ArrowDown: [1, 0],
      ArrowLeft: [0, -1],
      ArrowRight: [0, 1],
      Home: [0, -columns],
      End: [0, columns],
      PageUp: [-10, 0],
      PageDown: [10, 0],
    }[event.key];
    if (event.key === "Enter" && onselect) {
      event.preventDefault();
      onselect(Math.max(0, selected[0]), Math.max(0, selected[1]), true);
    }
    if (!step || !onselect) return;
    event.preventDefault();
    const clamp = (value, most) => Math.max(0, Math.min(most - 1, value));
    onselect(
      clamp(Math.max(0, selected[0]) + step[0], rows),
      clamp(Math.max(0, selected[1]) + step[1], columns),
      false,
    );
  });
  draw();
  read(...selected);
  const head = h(
    "figcaption",
    {},
    h("b", { class: options.tone || null }, title),
    options.subtitle || `${rows} × ${columns}`,
  );
  const element = h(
    "figure",
    { class: "matrix", "data-name": name || title },
    head,
    canvas,
    options.plain ? null : readout,
    legend(scale, Boolean(isHidden), options.unit),
  );
  element.drawing = { values, rows, columns, rowTokens, columnTokens, scale, isHidden, title, image };
  return element;
}

// One vector as a strip of fields, with numbers where there is room.
export function strip(values, { scale, name, colour, onselect, chosen = -1, key }) {
  const n = values.length, unit = rem();
  const width = Math.max(240, Math.min(40 * unit * n, 680 * unit)), tall = (n <= 16 ? 30 : 22) * unit;
  const canvas = h(
    "canvas",
    {
      role: onselect ? "application" : "img",
      tabindex: onselect ? "0" : null,
      key,
      "aria-label": `${name}: ${n} numbers, from ${num(Math.min(...values), 3)} to ${num(Math.max(...values), 3)}`,
    },
  );
  const ratio = Math.min(3, devicePixelRatio || 1), step = width / n;
  canvas.width = width * ratio;
  canvas.height = tall * ratio;
  canvas.style.width = `${width}px`;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  context.imageSmoothingEnabled = false;
  context.drawImage(picture(values, 1, n, scale), 0, 0, width, tall);
  context.strokeStyle = property("--card");
  if (step > 6) for (let i = 1; i < n; i++) {
    context.beginPath();
    context.moveTo(i * step, 0);
    context.lineTo(i * step, tall);
    context.stroke();
  }
  if (step >= 34 * unit) {
    context.font = `${Math.round(11 * unit)}px ${property("--mono")}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    values.forEach((value, i) => {
      context.fillStyle = inkOn(colourOf(value, scale));
      context.fillText(short(value), (i + 0.5) * step, tall / 2);
    });
  }
  context.strokeStyle = property(colour || "--rule");
  context.lineWidth = 2;
  context.strokeRect(1, 1, width - 2, tall - 2);
  if (chosen >= 0) { context.strokeStyle = property("--ink"); context.strokeRect(chosen * step, 1, step, tall - 2); }
  if (onselect) {
    canvas.addEventListener(
      "click",
      (event) => {
        const box = canvas.getBoundingClientRect();
        onselect(Math.max(0, Math.min(n - 1, Math.floor(((event.clientX - box.left) / box.width) * n))));
      },
    );
    canvas.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (by) { event.preventDefault(); onselect(Math.max(0, Math.min(n - 1, Math.max(0, chosen) + by))); }
      if (event.key === "Enter") { event.preventDefault(); onselect(Math.max(0, chosen)); }
    });
  }
  return canvas;
}
