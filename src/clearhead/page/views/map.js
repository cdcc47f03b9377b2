// The map: this model's own diagram, drawn from its settings; the stream's norm runs along the trunk (N21 to N32).

import { chart, drawnFigure, num, plural, scroll, svg } from "../parts/dom.js";
import { panel } from "../parts/panel.js";
import { pythonPass } from "../parts/python.js";
import { app, attention } from "../app.js";
import { streamSites } from "../derivations/stream.js";
import { address, select } from "../state.js";
import { draw as states, hasStates } from "./states.js";

export const title = "Map";
export const alone = true;

const ROW = 62, WIDTH = 470, TRUNK = 110, BRANCH = 46, BOX = 178, NORM = 58;
const FEED = { gelu_tanh: "gelu", relu2: "relu²", swiglu: "SwiGLU", geglu: "GeGLU", geglu_tanh: "GeGLU" };

const text = (x, y, content, properties = {}) => svg("text", { x, y, "text-anchor": "middle", ...properties }, content);
const line = (d, style = {}) => svg("path", { d, class: "line", style: { "stroke-width": "1.5", ...style } });
const TRUNK_LINE = { "stroke-width": "3", stroke: "var(--o)", "stroke-opacity": "0.45" };
const MEMORY_LINE = { "stroke-dasharray": "5 4", stroke: "var(--k)" };

// A box; with `to` it opens a view.
function box(x, y, width, height, label, { to, note, tone, on } = {}) {
	const shape = svg("rect", { x, y, width, height, rx: 7, class: "box" });
	const inside = [
		shape,
		text(x + width / 2, y + height / 2 + (note ? -3 : 4), label, { class: tone || null, "font-weight": to ? 600 : null }),
		note ? text(x + width / 2, y + height / 2 + 13, note, { class: "faint", "font-size": 11.5 }) : null,
	];
	if (!to) return svg("g", {}, inside);
	const follow = (event) => { event.preventDefault(); select(to); };
	return svg(
		"a",
		{ href: address(to), class: on ? "go on" : "go", "aria-label": `${label}, open`, onclick: follow, key: `map ${label} ${y} ${x}` },
		inside,
	);
}

const LABELS = {
	self: (stack) => (stack.causal ? "masked self-attention" : "self-attention"), cross: () => "cross-attention",
	ffn: () => "feed-forward",
};
const sums = (x, y) => svg("g", {}, svg("circle", { cx: x, cy: y, r: 8, class: "box" }), text(x, y + 4, "+"));

function sublayer(stack, block, kind, x, y, [norm, where], longest) {
	const place = `${stack.name}.${block}.${kind}`, trunk = x + TRUNK;
	const post = stack.placement === "post", both = stack.placement === "both";
	const heads = app.model.attentions.find((one) => one.name === place);
	const note = heads
		? `${plural(heads.heads.length, "head")} of ${heads.d_k}`
		: `${stack.d} → ${stack.d_ff} → ${stack.d}, ${FEED[stack.feedforward] || stack.feedforward}`;
	const to = heads ? { view: "attention", at: place, head: "", k: "" } : {
		view: "residual", at: `${stack.name}.${block}.self`, stack: stack.name,
	};
	const hasNorm = stack.norm !== "none", start = trunk + BRANCH, mid = y + 20, end = y + 48;
	const sub = start + (post || !hasNorm ? 0 : NORM + 14);
	const bar = (48 * norm) / longest, last = sub + BOX + (both && hasNorm ? NORM + 14 : 0);
	return [
		line(`M${trunk} ${y + 6}C${trunk} ${mid} ${trunk + 12} ${mid} ${start} ${mid}H${last + 14}V${end}H${trunk + 8}`),
		!post && hasNorm ? box(start, y + 6, NORM, 28, stack.norm) : null,
		box(sub, y, BOX, 40, LABELS[kind](stack), { to, note, tone: heads ? "q" : "v", on: attention().name === place }),
		both && hasNorm ? box(sub + BOX + 14, y + 6, NORM, 28, stack.norm) : null, sums(trunk, end),
		post && hasNorm ? box(trunk - NORM / 2, end + 12, NORM, 20, stack.norm) : null,
		svg("rect", { x: trunk - 16 - bar, y: end - 4, width: bar, height: 8, rx: 3, fill: "var(--o)", "fill-opacity": 0.75 }),
		drawnFigure(
			norm, `trunk:${where}`,
			{ x: trunk - 20 - bar, y: end + 4, "text-anchor": "end", "font-size": 11.5, class: "mono faint" }, num(norm, 3),
		),
	];
}

function column(stack, x, top) {
	const norms = app.pass.norms[stack.name], names = streamSites(stack.name), longest = Math.max(...norms, 1e-9);
	const trunk = x + TRUNK, parts = [];
	const each = ROW + (stack.placement === "post" && stack.norm !== "none" ? 22 : 0);
	let y = top + 92;
	const isAdded = ["learned", "sinusoidal"].includes(stack.positions);
	parts.push(text(trunk, top + 2, stack.name, { "font-weight": 700, "font-size": 14 }));
	parts.push(box(
		trunk - 70, top + 14, 140, 40, "embeddings",
		{
			to: { view: "embeddings", stack: stack.name },
			note: isAdded ? `tokens + ${stack.positions}` : `tokens, d = ${stack.d}`,
		},
	));
	if (!isAdded && stack.positions !== "none") parts.push(text(
		trunk + 80, top + 38, `${stack.positions} positions in attention`,
		{ "text-anchor": "start", "font-size": 11.5, class: "faint" },
	));
	if (stack.embedding_norm) parts.push(box(trunk - NORM / 2, top + 60, NORM, 20, stack.norm));
	const begin = top + (stack.embedding_norm ? 80 : 54), blocks = [];
	for (let block = 0; block < stack.blocks; block++) {
		const first = y - 10;
		stack.sublayers.forEach((kind, index) => {
			const k = 1 + block * stack.sublayers.length + index;
			blocks.push(sublayer(stack, block, kind, x, y, [norms[k], names[k][0]], longest));
			y += each;
		});
		parts.push(
			svg("rect", { x: x + 8, y: first, width: WIDTH - 16, height: y - first - 4, rx: 12, class: "line", "stroke-dasharray": "3 4" }),
			text(x + WIDTH - 18, first + 15, `block ${block}`, { "text-anchor": "end", "font-size": 11.5, class: "faint" }),
		);
		y += 14;
	}
	parts.push(line(`M${trunk} ${begin}V${y}`, TRUNK_LINE), ...blocks);
	if (stack.final_norm && stack.norm !== "none") {
		parts.push(box(trunk - NORM / 2, y, NORM, 24, stack.norm), line(`M${trunk} ${y + 24}v14`, TRUNK_LINE));
		y += 38;
	}
	return { parts, end: y, trunk };
}

export function draw() {
	if (hasStates(app.model)) return states();
	const { model } = app;
	const columns = model.stacks.map((stack, i) => ({ stack, ...column(stack, 20 + i * (WIDTH + 60), 26) }));
	const main = columns.at(-1), parts = columns.flatMap(({ parts: inside }) => inside);
	const width = 40 + columns.length * WIDTH + (columns.length - 1) * 60;
	let bottom = Math.max(...columns.map(({ end }) => end));
	if (columns.length > 1) {
		const [from, to] = columns, bus = 20 + WIDTH + 30;
		const each = ROW + (to.stack.placement === "post" && to.stack.norm !== "none" ? 22 : 0);
		parts.push(line(`M${from.trunk} ${from.end}V${bottom + 14}H${bus}V${26 + 92 + each + 20}`, MEMORY_LINE));
		for (let block = 0; block < to.stack.blocks; block++) {
			const y = 26 + 92 + block * (3 * each + 14) + each + 30;
			parts.push(
				line(`M${bus} ${y}H${to.trunk - 94}`, MEMORY_LINE),
				text(bus + 4, y - 5, "K, V", { "text-anchor": "start", "font-size": 11.5, class: "k" }),
			);
		}
		bottom += 14;
	}
	if (model.head !== "none") {
		const classifies = model.head === "classifier";
		const note = classifies
			? `${model.config.labels === "each-word" ? "each token" : `${model.config.pool} pooling`}, ${plural(model.labels.length, "class", "classes")}`
			: `${model.config.tied ? "tied to the embeddings" : "own matrix"}, ${plural(model.vocabulary, "token")}`;
		parts.push(line(`M${main.trunk} ${main.end}V${bottom + 18}`, TRUNK_LINE));
		parts.push(box(
			main.trunk - 125, bottom + 18, 250, 42, classifies ? "classifier head" : "language head",
			{ to: { view: classifies ? "classifier" : model.shape === "encoder" ? "residual" : "next" }, note, tone: "o" },
		));
		bottom += 62;
	}
	const drawing = chart(width, bottom + 24, `Diagram of this ${model.shape}`, parts,
	);
	const rows = () => [
		["stack", "after", "mean norm of the stream"],
		...model.stacks.flatMap(({ name }) => streamSites(name).map(([, after], i) => [name, after, app.pass.norms[name][i]])),
	];
	return panel({
		title: "Map of this model", key: "map", rows,
		python: () => pythonPass(
			"for name, X in trace.items():", '    if ".residual." in name or name.endswith("embeddings.out"):',
			"        print(name, float(X[0].norm(dim=-1).mean()))",
		),
		body: scroll("Map", drawing),
		note: `Drawn from its config: ${model.stacks[0].placement}-norm, ${model.config.positions} ` +
			`positions, ${model.config.similarity} similarity. Bars along the trunk: the mean norm of the ` +
			"stream after each sublayer, for this text. Click a part to open it.",
	});
}
