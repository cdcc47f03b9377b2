// The next token: from logits to a choice, rule by rule, with the drawn number on the cumulative bar (N28, N39).

import { cells, chart, chip, drawnFigure, figure, h, num, percent, spell, svg, table, track } from "../parts/dom.js";
import { absent, panel } from "../parts/panel.js";
import { pythonChoice, pythonPass } from "../parts/python.js";
import { app, choice, place, tokens, topStack } from "../app.js";
import { placeChooser, rules } from "../parts/controls.js";
import { list, select, state } from "../state.js";

export const title = "Next token";

export async function draw() {
	const stack = topStack(), i = place(stack);
	if (app.model.head !== "language") return absent(
		title,
		`This model has the head '${app.model.head}', so it predicts no tokens. ` +
			"See the Classifier view for the classes, or open a language model or a translator.",
	);
	const found = await choice(i), again = () => select({ seed: Number(state().seed || 0) + 1 });
	return [
		placeChooser(stack, i, h("span", {}, app.model.shape === "encoder" ? "At" : "After")),
		rules(
			["temperature", "top_k", "top_p", "seed"], h("button", { key: "draw again", onclick: again }, "Draw again"),
		),
		cumulative(found, i), tablePanel(found, i),
	];
}

function cumulative(found, i) {
	const width = 900, parts = found.rows.filter((row) => row.kept && row.final > 0);
	const chosen = found.rows.find((row) => row.id === found.chosen), x = (share) => 10 + share * (width - 20);
	const segments = parts.map((row) => {
		const wide = x(row.to) - x(row.from), isChosen = row.id === found.chosen;
		const [fill, opacity, ink] = isChosen ? ["var(--o)", 1, "var(--card)"] : ["var(--q)", 0.35, "var(--ink)"];
		const middle = { x: x(row.from) + wide / 2, y: 53, "text-anchor": "middle", class: "mono", "font-size": 11 };
		return [
			svg("rect", { x: x(row.from), y: 34, width: Math.max(0.8, wide - 1), height: 30, fill, "fill-opacity": opacity }),
			wide > 34 ? svg("text", { ...middle, style: { fill: ink } }, spell(row, Math.floor(wide / 8))) : null,
		];
	});
	const mark = found.drawn === null ? [] : [
		svg("path", { d: `M${x(found.drawn)} 28V70`, stroke: "var(--ink)", "stroke-width": 2 }),
		drawnFigure(
			found.drawn, `drawn:${i}`,
			{ x: Math.max(60, Math.min(width - 60, x(found.drawn))), y: 20, "text-anchor": "middle", "font-weight": 600 },
			`drawn: ${num(found.drawn, 4)}`,
		),
	];
	const ends = [[0, "start"], [0.5, "middle"], [1, "end"]].map(([share, anchor]) => svg(
		"text", { x: x(share), y: 86, "text-anchor": anchor, class: "faint", "font-size": 11 }, String(share),
	));
	const drawing = chart(
		width, 96, `Cumulative probability; the drawn number falls on ${spell(chosen)}`,
		svg("rect", { x: 10, y: 34, width: width - 20, height: 30, class: "box" }), segments, mark, ends,
	);
	const how = found.drawn === null
		? "Temperature 0: the likeliest token, with certainty."
		: `The number for seed ${state().seed || 1} at step ${found.position} falls on the chosen ` +
				"token. Tokens are in the order of their ids, as the sampler adds them up.";
	return panel({
		title: `The choice: ${spell(chosen)}`, key: "choice",
		note: `${how} ${found.kept} of ${found.vocabulary} tokens may be drawn.`,
		rows: () => [["token", "from", "to"], ...parts.map((row) => [row.text, row.from, row.to])],
		python: () => pythonChoice(found.position), body: drawing,
	});
}

function tablePanel(found, i) {
	const most = Math.max(...found.rows.map((row) => row.final), 1e-12);
	const canGo = app.model.shape !== "encoder" && i === tokens(topStack()).length - 1, more = list("more");
	const follow = (ids) => select({ more: ids.join(","), q: "" });
	const line = (row) => cells(
		[
			chip(row), ...["logit", "p", "heated"].map((key) => figure(row[key], `${key}:${i}:${row.id}`)),
			row.kept ? "kept" : h("span", { class: "note" }, "dropped"), figure(row.final, `final:${i}:${row.id}`),
			track(row.final / most, row.id === found.chosen ? "o" : "q"),
			canGo ? h("button", { key: `take ${row.id}`, onclick: () => follow([...more, row.id]) }, "append") : "",
		],
		{ class: row.id === found.chosen ? "on" : null },
	);
	return panel({
		title: "Rule by rule", key: "rules",
		python: () => pythonPass(`print(trace["logits"][0, ${i}].softmax(-1).topk(${found.rows.length}))`),
		rows: () => [
			["token", "id", "logit", "softmax", "with temperature", "kept", "renormalised"],
			...found.rows.map((row) => [row.text, row.id, row.logit, row.p, row.heated, row.kept, row.final]),
		],
		note: [
			`The softmax runs over all ${found.vocabulary} tokens; the ${found.rows.length} shown have `,
			figure(found.shown_mass, `mass:${i}`, percent(found.shown_mass)), ". Entropy ",
			figure(found.entropy, `spread:${i}`, num(found.entropy, 3)),
			` nats.${canGo ? " Append any token and continue from there." : ""}`,
		],
		body: [
			more.length ? h(
				"p", { class: "row" }, `${more.length} tokens were appended to the text.`,
				h("button", { key: "take back", onclick: () => follow(more.slice(0, -1)) }, "Remove the last one"),
			) : null,
			table(["token", "logit", "softmax", "÷ T", "top-k, top-p", "renormalised", "", ""], found.rows.map(line), "choice"),
		],
	});
}
