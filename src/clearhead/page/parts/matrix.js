// A matrix on a canvas: rows are queries, columns keys. Hover reads a number, a click or Enter derives it,
// arrow keys move. Values come as one Float32Array, row after row.

import { h, num, spell, visible } from "./dom.js";
import { colourer, inkOn, property, scaleFor } from "./colour.js";

const LABEL = 96; // the widest label, in CSS pixels at normal text size
const rem = () => parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;

// A number in a field: four or five characters.
const short = (x) => {
	const size = Math.abs(x), text = size < 9999.5 ? x.toFixed(size < 9.995 ? 2 : size < 99.95 ? 1 : 0) : x.toExponential(0);
	return text.replace("-", "−");
};
const nameOf = (labels, i) => (labels ? spell(labels[i], 18) : String(i));

// The picture alone: one pixel a number, to be scaled up without smoothing.
export function picture(values, rows, columns, scale, isHidden) {
	const canvas = h("canvas", { width: columns, height: rows, "aria-hidden": "true" }), context = canvas.getContext("2d");
	const image = context.createImageData(columns, rows), colour = colourer(scale);
	for (let i = 0; i < values.length; i++) {
		image.data.set(colour(values[i]), i * 4);
		image.data[i * 4 + 3] = isHidden?.(i) ? 0 : 255;
	}
	context.putImageData(image, 0, 0);
	return canvas;
}

function legend(scale, hasHidden) {
	const low = scale.kind === "weights" ? 0 : -scale.largest;
	const ramp = Float32Array.from({ length: 256 }, (_, i) => low + ((scale.largest - low) * i) / 255);
	return h(
		"span", { class: "legend" }, num(low, 3), picture(ramp, 1, 256, scale), num(scale.largest, 3),
		hasHidden ? [h("i", { class: "hatch" }), "hidden by the mask"] : null,
	);
}

export function matrix(options) {
	const {
		values, rows, columns, rowTokens, columnTokens, title, isHidden, onselect, name, wide = 720, tall = 620,
		small = false, bare = false,
	} = options;
	const scale = options.scale || scaleFor(values, "signed", isHidden), unit = rem(), font = Math.round(12 * unit);
	let { selected } = options;
	const canvas = h(
		"canvas",
		{
			tabindex: "0", role: "application", "aria-roledescription": "matrix", key: options.key || title,
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
	const roomW = (wide * unit) / columns, roomH = (tall * unit) / rows;
	const cell = Math.min(Math.max(2, Math.min(roomW, roomH)), (small ? 22 : 44) * unit);
	const cellW = Math.min(bare ? 40 * unit : cell, roomW);
	const cellH = bare ? (columns > 16 ? 22 : 30) * unit : Math.min(cell, roomH);
	const showRows = !bare && cellH >= font * 0.9, showColumns = cellW >= font * 0.9 || !columnTokens;
	const left = bare || small && !showRows ? 2 : showRows ? widest(rowTokens, rows) : 14 * unit;
	const top = bare || small && !showColumns ? 2 : columnTokens && showColumns ? widest(columnTokens, columns) : 16 * unit;
	const wideAll = cellW * columns, tallAll = cellH * rows, ratio = Math.min(3, devicePixelRatio || 1);
	const width = Math.ceil(left + wideAll + 2), height = Math.ceil(top + tallAll + 2);
	const image = picture(values, rows, columns, scale, isHidden), colour = colourer(scale);
	canvas.width = width * ratio;
	canvas.height = height * ratio;
	canvas.style.width = `${width}px`;
	canvas.style.aspectRatio = `${width} / ${height}`;

	const inside = ([i, j]) => i >= 0 && j >= 0 && i < rows && j < columns;
	function draw() {
		context.setTransform(ratio, 0, 0, ratio, 0, 0);
		context.clearRect(0, 0, width, height);
		if (isHidden) hatch();
		context.imageSmoothingEnabled = cellW < 1 || cellH < 1;
		context.drawImage(image, left, top, wideAll, tallAll);
		if (cellW > 8 && cellH > 8) lines();
		if (cellW >= 34 * unit && cellH >= 16 * unit) numbers();
		if (!bare) labels();
		band();
	}
	function hatch() {
		context.save();
		context.beginPath();
		context.rect(left, top, wideAll, tallAll);
		context.clip();
		context.fillStyle = property("--field");
		context.fillRect(left, top, wideAll, tallAll);
		context.strokeStyle = property("--hatch");
		context.beginPath();
		for (let x = left - tallAll; x < width; x += 6) {
			context.moveTo(x, top + tallAll);
			context.lineTo(x + tallAll, top);
		}
		context.stroke();
		context.restore();
	}
	function lines() {
		context.fillStyle = property("--card");
		for (let j = 0; j <= columns; j++) context.fillRect(left + j * cellW - 0.5, top, 1, tallAll);
		for (let i = 0; i <= rows; i++) context.fillRect(left, top + i * cellH - 0.5, wideAll, 1);
	}
	function numbers() {
		context.font = `${Math.round(Math.min(11.5 * unit, cellW * 0.27))}px ${property("--mono")}`;
		context.textAlign = "center";
		context.textBaseline = "middle";
		for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) {
			const at = i * columns + j;
			if (isHidden?.(at)) continue;
			context.fillStyle = inkOn(colour(values[at]));
			context.fillText(short(values[at]), left + (j + 0.5) * cellW, top + (i + 0.5) * cellH);
		}
	}
	function labels() {
		context.font = `${font}px ${property("--mono")}`;
		context.textBaseline = "middle";
		const ink = property("--ink");
		if (showRows) {
			context.textAlign = "right";
			for (let i = 0; i < rows; i++) {
				context.fillStyle = i === selected[0] ? property("--q") : ink;
				context.fillText(truncated(nameOf(rowTokens, i), left - 8), left - 6, top + (i + 0.5) * cellH);
			}
		}
		if (columnTokens && showColumns) {
			context.textAlign = "left";
			for (let j = 0; j < columns; j++) {
				context.save();
				context.translate(left + (j + 0.5) * cellW, top - 6);
				context.rotate(-Math.PI / 2);
				context.fillStyle = j === selected[1] ? property("--k") : ink;
				context.fillText(truncated(nameOf(columnTokens, j), top - 8), 0, 0);
				context.restore();
			}
		} else if (!columnTokens && !(small && !showColumns)) {
			context.textAlign = "center";
			context.fillStyle = property("--soft");
			const every = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512].find((step) => step * cellW >= 26 * unit) || 1024;
			for (let j = 0; j < columns; j += every) context.fillText(String(j), left + (j + 0.5) * cellW, top - 8);
		}
	}
	function truncated(text, room) {
		const letters = [...text];
		while (letters.length > 1 && context.measureText(letters.join("")).width > room) letters.splice(-2, 2, "…");
		return letters.join("");
	}
	function band() {
		const [i, j] = selected;
		context.lineWidth = 1.5;
		const frame = (name, ...box) => { context.strokeStyle = property(name); context.strokeRect(...box); };
		if (i >= 0 && i < rows) frame(options.rowColour || "--q", left, top + i * cellH, wideAll, Math.max(2, cellH));
		if (j >= 0 && j < columns && columnTokens) frame("--k", left + j * cellW, top, Math.max(2, cellW), tallAll);
		context.lineWidth = 2.5;
		if (inside(selected)) frame("--ink", left + j * cellW, top + i * cellH, Math.max(3, cellW), Math.max(3, cellH));
	}
	function read(i, j) {
		if (!inside([i, j])) { readout.replaceChildren(); return; }
		const at = i * columns + j, to = columnTokens ? ` → ${nameOf(columnTokens, j)} (${j})` : `, ${j}`;
		const text = isHidden?.(at) && options.hiddenText || num(values[at], 5);
		readout.replaceChildren(`${nameOf(rowTokens, i)} (${i})${to}: `, h("b", { "data-value": String(values[at]) }, text));
	}
	function where(event) {
		const box = canvas.getBoundingClientRect();
		const x = ((event.clientX - box.left) * width) / box.width - left;
		const y = ((event.clientY - box.top) * height) / box.height - top;
		return [Math.floor(y / cellH), Math.floor(x / cellW)];
	}
	function choose(i, j, derive) {
		selected = [i, j];
		draw();
		read(i, j);
		onselect(i, j, derive);
	}
	canvas.addEventListener("pointermove", (event) => {
		const at = where(event);
		read(...(inside(at) ? at : selected));
	});
	canvas.addEventListener("pointerleave", () => read(...selected));
	canvas.addEventListener("click", (event) => {
		const at = where(event);
		if (inside(at)) choose(...at, true);
	});
	canvas.addEventListener("keydown", (event) => {
		const step = {
			ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -columns],
			End: [0, columns], PageUp: [-10, 0], PageDown: [10, 0], Enter: [0, 0],
		}[event.key];
		if (!step) return;
		event.preventDefault();
		const to = (axis, most) => Math.max(0, Math.min(most - 1, Math.max(0, selected[axis]) + step[axis]));
		choose(to(0, rows), to(1, columns), event.key === "Enter");
	});
	draw();
	if (bare) return canvas;
	read(...selected);
	const element = h(
		"figure", { class: "matrix", "data-name": name || title },
		h("figcaption", {}, h("b", { class: options.tone }, title), `${rows} × ${columns}`),
		canvas, options.plain ? null : readout, legend(scale, Boolean(isHidden)),
	);
	element.drawing = { values, rows, columns, rowTokens, columnTokens, scale, isHidden, title, image };
	return element;
}

// One vector as a bare strip of fields; every step along it derives a number.
export const strip = (values, { name, colour = "--rule", onselect, chosen = -1, ...rest }) => matrix({
	values, rows: 1, columns: values.length, title: name, rowColour: colour, selected: [0, chosen], wide: 680,
	bare: true, onselect: (_, c) => onselect(c), ...rest,
});
