// A matrix on a canvas: rows are queries, columns keys. Hover reads a number, a click or Enter derives it,
// arrow keys move. Values come as one Float32Array, row after row.

import { h, num, spell, visible } from "./dom.js";
import { colourer, inkOn, painter, property, scaleFor } from "./colour.js";
import { rem, screenRoom } from "./fit.js";

const LABEL = 96; // the widest label, in CSS pixels at normal text size
const LEAST = 11; // the smallest text, in CSS pixels at any size
const FOLDED = 64; // numbers of a strip that is folded into lines, so that they can be read

// A number in a field: four or five characters.
export const short = (x) => {
	const size = Math.abs(x), text = size < 9999.5 ? x.toFixed(size < 9.995 ? 2 : size < 99.95 ? 1 : 0) : x.toExponential(0);
	return text.replace(/^-(?=0\.00$)/, "").replace("-", "−");
};
const nameOf = (labels, i) => (labels ? spell(labels[i], 18) : String(i));

// The picture alone: one pixel a number, to be scaled up without smoothing.
export function picture(values, rows, columns, scale, isHidden) {
	const canvas = h("canvas", { width: columns, height: rows, "aria-hidden": "true" }), context = canvas.getContext("2d");
	const image = context.createImageData(columns, rows), pixels = new Uint32Array(image.data.buffer), paint = painter(scale);
	for (let i = 0; i < values.length; i++) pixels[i] = isHidden?.(i) ? 0 : paint(values[i]);
	context.putImageData(image, 0, 0);
	return canvas;
}

function legend(scale, hidden) {
	const low = scale.kind === "weights" ? 0 : -scale.largest;
	const ramp = Float32Array.from({ length: 256 }, (_, i) => low + ((scale.largest - low) * i) / 255);
	return h(
		"span", { class: "legend" }, num(low, 3), picture(ramp, 1, 256, scale), num(scale.largest, 3),
		hidden ? [h("i", { class: "hatch" }), hidden] : null,
	);
}

// The height that a matrix may have, so that its panel about fits the screen.
const roomBelow = () => Math.max(240, screenRoom() - 176 * rem());

export function matrix(options) {
	const {
		values, rowTokens, columnTokens, title, isHidden, onselect, name, wide = 960, tall = 760, small = false, bare = false,
	} = options;
	const scale = options.scale || scaleFor(values, "signed", isHidden), colour = colourer(scale);
	let { rows, columns, selected } = options;
	const canvas = h(
		"canvas",
		{
			tabindex: "0", role: "application", "aria-roledescription": "matrix", key: options.key || title,
			"aria-label": `${visible(title)}: ${rows} rows, ${columns} columns. Arrow keys move, Enter derives the number.`,
		},
	);
	const readout = h("output", { class: "readout", "aria-live": "off" });
	const context = canvas.getContext("2d");
	let g = null, image = picture(values, rows, columns, scale, isHidden); // g: the geometry on screen

	function measure(room, less) {
		const unit = rem(), mono = property("--mono"), share = options.share || (small ? 0.62 : 1);
		if (bare && !options.isPlain) fold(room, unit);
		const most = { w: Math.min(wide * unit, room), h: Math.max(96, Math.min(tall * unit, roomBelow() * share) - less * share) };
		context.font = `${12 * unit}px ${mono}`;
		const widest = (tokens, n) => (tokens ? Math.min(
			LABEL * unit,
			Math.max(...Array.from({ length: Math.min(n, 64) }, (_, i) => context.measureText(nameOf(tokens, i)).width)) + 10,
		) : 26 * unit);
		const side = bare ? 2 : widest(rowTokens, rows), head = bare ? 2 : columnTokens ? widest(columnTokens, columns) : 18 * unit;
		const largest = (small ? 24 : 52) * unit, fits = Math.min((most.w - side - 4) / columns, bare ? 44 * unit : largest);
		const square = Math.max(1, Math.min(fits, Math.max(2, (most.h - head) / rows)));
		const isLow = !small && square >= LEAST + 3 && square < 38 * unit; // wider fields have room for their numbers
		const cellW = columnTokens ? (isLow ? Math.min(fits, Math.max(square, Math.min(2.4 * square, 38 * unit))) : square) : Math.max(0.5, fits);
		const cellH = bare ? (rows > 1 || columns <= 16 ? 22 : 20) * unit : Math.min(
			columnTokens ? square : Math.max(cellW, 24 * unit), Math.max(1, (most.h - head) / rows), largest,
		);
		const hasRows = !bare && cellH >= LEAST, hasColumns = cellW >= LEAST || !columnTokens;
		const left = bare || (small && !hasRows) ? 2 : hasRows ? side : 14 * unit;
		const top = bare || (small && !hasColumns) ? 2 : hasColumns ? head : 16 * unit;
		const digits = Math.min(13 * unit, (cellW - 2) / 3.02);
		return {
			unit, mono, cellW, cellH, left, top, hasRows, hasColumns, wideAll: cellW * columns, tallAll: cellH * rows,
			rowFont: Math.max(LEAST, Math.min(12 * unit, cellH)), columnFont: Math.max(LEAST, Math.min(12 * unit, cellW)),
			digits: digits >= LEAST && cellH >= digits + 3 ? digits : 0,
		};
	}
	// A short vector is folded into lines of 32, 16 or 8 numbers, as many as can be read side by side.
	function fold(room, unit) {
		const at = selected[0] * columns + selected[1];
		const fits = [64, 32, 16, 8].find((line) => (room - 4) / line >= 35.3);
		columns = values.length <= FOLDED && fits ? Math.min(values.length, fits) : values.length;
		rows = Math.ceil(values.length / columns);
		selected = selected[1] < 0 ? [-1, -1] : [Math.floor(at / columns), at % columns];
		image = picture(values, rows, columns, scale, isHidden);
	}
	canvas.fit = (room, less = 0) => { // less: pixels of height that its panel lacks
		g = measure(room, less);
		const ratio = Math.min(3, devicePixelRatio || 1), width = Math.ceil(g.left + g.wideAll + 2), height = Math.ceil(g.top + g.tallAll + 2);
		Object.assign(g, { ratio, width, height });
		canvas.width = width * ratio;
		canvas.height = height * ratio;
		canvas.style.width = `${width}px`;
		canvas.style.aspectRatio = `${width} / ${height}`;
		draw();
	};

	const inside = ([i, j]) => i >= 0 && j >= 0 && i < rows && j < columns && i * columns + j < values.length;
	function draw() {
		context.setTransform(g.ratio, 0, 0, g.ratio, 0, 0);
		context.clearRect(0, 0, g.width, g.height);
		if (isHidden) hatch();
		context.imageSmoothingEnabled = g.cellW < 1 || g.cellH < 1;
		context.drawImage(image, g.left, g.top, g.wideAll, g.tallAll);
		if (g.cellW > 8 && g.cellH > 8) lines();
		if (g.digits) numbers();
		if (!bare) labels();
		band();
	}
	function hatch() {
		context.save();
		context.beginPath();
		context.rect(g.left, g.top, g.wideAll, g.tallAll);
		context.clip();
		context.fillStyle = property("--field");
		context.fillRect(g.left, g.top, g.wideAll, g.tallAll);
		context.strokeStyle = property("--hatch");
		context.beginPath();
		for (let x = g.left - g.tallAll; x < g.width; x += 6) {
			context.moveTo(x, g.top + g.tallAll);
			context.lineTo(x + g.tallAll, g.top);
		}
		context.stroke();
		context.restore();
	}
	function lines() {
		context.fillStyle = property("--card");
		for (let j = 0; j <= columns; j++) context.fillRect(g.left + j * g.cellW - 0.5, g.top, 1, g.tallAll);
		for (let i = 0; i <= rows; i++) context.fillRect(g.left, g.top + i * g.cellH - 0.5, g.wideAll, 1);
	}
	function numbers() {
		context.font = `${g.digits}px ${g.mono}`;
		context.textAlign = "center";
		context.textBaseline = "middle";
		for (let at = 0; at < values.length; at++) {
			if (isHidden?.(at)) continue;
			context.fillStyle = inkOn(colour(values[at]));
			context.fillText(short(values[at]), g.left + ((at % columns) + 0.5) * g.cellW, g.top + (Math.floor(at / columns) + 0.5) * g.cellH);
		}
	}
	function labels() {
		context.textBaseline = "middle";
		const ink = property("--ink"), { left, top, cellW, cellH } = g;
		if (g.hasRows) {
			context.font = `${g.rowFont}px ${g.mono}`;
			context.textAlign = "right";
			for (let i = 0; i < rows; i++) {
				context.fillStyle = i === selected[0] ? property(options.rowColour || "--q") : ink;
				context.fillText(truncated(nameOf(rowTokens, i), left - 8), left - 6, top + (i + 0.5) * cellH);
			}
		}
		context.font = `${g.columnFont}px ${g.mono}`;
		if (columnTokens && g.hasColumns) {
			context.textAlign = "left";
			for (let j = 0; j < columns; j++) {
				context.save();
				context.translate(left + (j + 0.5) * cellW, top - 6);
				context.rotate(-Math.PI / 2);
				context.fillStyle = j === selected[1] ? property("--k") : ink;
				context.fillText(truncated(nameOf(columnTokens, j), top - 8), 0, 0);
				context.restore();
			}
		} else if (!columnTokens) {
			context.font = `${LEAST * g.unit}px ${g.mono}`;
			context.textAlign = "center";
			context.fillStyle = property("--soft");
			const every = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512].find((step) => step * cellW >= 30 * g.unit) || 1024;
			for (let j = 0; j < columns; j += every) context.fillText(String(j), left + (j + 0.5) * cellW, top - 8 * g.unit);
		}
	}
	function truncated(text, room) {
		const letters = [...text];
		while (letters.length > 1 && context.measureText(letters.join("")).width > room) letters.splice(-2, 2, "…");
		return letters.join("");
	}
	function band() {
		const [i, j] = selected, { left, top, cellW, cellH } = g;
		context.lineWidth = 1.5;
		const frame = (name, ...box) => { context.strokeStyle = property(name); context.strokeRect(...box); };
		if (!bare && i >= 0 && i < rows) frame(options.rowColour || "--q", left, top + i * cellH, g.wideAll, Math.max(2, cellH));
		if (j >= 0 && j < columns && columnTokens) frame("--k", left + j * cellW, top, Math.max(2, cellW), g.tallAll);
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
		const x = ((event.clientX - box.left) * g.width) / box.width - g.left;
		const y = ((event.clientY - box.top) * g.height) / box.height - g.top;
		return [Math.floor(y / g.cellH), Math.floor(x / g.cellW)];
	}
	function choose(i, j, derive) {
		selected = [i, j];
		draw();
		read(i, j);
		if (bare) onselect(i * columns + j);
		else onselect(i, j, derive);
	}
	canvas.addEventListener("pointermove", (event) => {
		const at = where(event);
		if (bare) canvas.title = inside(at) ? `${at[0] * columns + at[1]}: ${num(values[at[0] * columns + at[1]])}` : "";
		else read(...(inside(at) ? at : selected));
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
		const within = (value, most) => Math.max(0, Math.min(most - 1, value)), [i, j] = selected.map((one) => Math.max(0, one));
		if (bare) { // along the vector, from line to line
			const at = within((i + step[0]) * columns + j + step[1], values.length);
			choose(Math.floor(at / columns), at % columns, true);
		} else choose(within(i + step[0], rows), within(j + step[1], columns), event.key === "Enter");
	});
	if (bare) return canvas;
	read(...selected);
	const element = h(
		"figure", { class: small ? "matrix small" : "matrix", "data-name": name || title },
		h("figcaption", {}, h("b", { class: options.tone }, title), `${rows} × ${columns}`),
		h("div", { class: "room" }, canvas), options.plain ? null : readout, legend(scale, isHidden && (options.hiddenLabel || "hidden by the mask")),
	);
	element.drawing = { values, rows, columns, rowTokens, columnTokens, scale, isHidden, title, image };
	return element;
}

// One vector as a strip of fields; every step along it derives a number.
export const strip = (values, { name, onselect, chosen = -1, ...rest }) => h("div", { class: "room" }, matrix({
	values, rows: 1, columns: values.length, title: name, selected: [0, chosen], bare: true, onselect, ...rest,
}));
