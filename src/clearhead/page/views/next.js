// The next token: from logits to a choice, rule by rule, with the drawn number on the cumulative bar (N28, N39).

import { cells, chart, chip, count, drawnFigure, figure, h, num, percent, plural, spell, svg, table, track } from "../parts/dom.js";
import { panel } from "../parts/panel.js";
import { pythonChoice, pythonPass } from "../parts/python.js";
import { panelWidth } from "../parts/fit.js";
import { isSaved } from "../api.js";
import { app, choice, place, reading, rule, tokens, topStack } from "../app.js";
import { placeChooser, rules } from "../parts/controls.js";
import { list, select } from "../state.js";

export const title = "Next token";

export const missing = () => (app.model.head === "language" ? null : "This model predicts no tokens. Open a language model or a translator.");

export async function draw() {
	const stack = topStack(), i = place(stack), isCausal = app.model.shape !== "encoder";
	const [found, losses] = await Promise.all([choice(i), isCausal ? reading("loss") : null]);
	return [
		placeChooser(stack, i, h("span", {}, isCausal ? "After" : "At")),
		rules(
			"next", ["temperature", "top_k", "top_p", "seed"],
			h("button", { key: "draw again", disabled: isSaved, onclick: () => select({ seed: rule("seed", 1) + 1 }) }, "Draw again"),
		),
		cumulative(found, i), tablePanel(found, i, losses?.tokens[i]), losses?.tokens.length ? lossPanel(losses, i) : null,
	];
}

// How surprised the model is by each true next token (N33).
function lossPanel({ tokens: rows, mean }, i) {
	const most = Math.max(...rows.map(({ loss }) => loss), 1e-9), stack = topStack();
	const line = (row) => cells(
		[
			chip(tokens(stack)[row.position]), chip(row), figure(row.p, `p:${row.position}:${row.id}`),
			figure(row.loss, `loss:${row.position}:${row.id}`), track(row.loss / most, "k"),
		],
		{ class: row.position === i ? "on" : null },
	);
	return panel({
		title: "The loss: −ln p of the true next token", key: "loss",
		python: () => pythonPass(
			`ids = torch.tensor([${rows.map(({ id }) => id).join(", ")}])`,
			`log_P = trace["logits"][0, :${rows.length}].log_softmax(-1)`, "print(-log_P.gather(-1, ids[:, None]).mean())",
		),
		rows: () => [["after", "true next", "p", "loss"], ...rows.map((row) => [tokens(stack)[row.position].text, row.text, row.p, row.loss])],
		note: [
			"The surprise at each token of this text, in nats: 0 for one that was certain. Their mean, ", figure(mean, "losses", num(mean, 4)),
			", is the loss that training makes small.",
		],
		body: table(["after", "true next", "p", "−ln p", ""], rows.map(line), "losses"),
	});
}

function cumulative(found, i) {
	const width = Math.max(420, Math.min(900, panelWidth())), parts = found.rows.filter((row) => row.kept && row.final > 0);
	const chosen = found.rows.find((row) => row.id === found.chosen), x = (share) => 10 + share * (width - 20);
	const segments = parts.map((row) => {
		const wide = x(row.to) - x(row.from), isChosen = row.id === found.chosen;
		const [fill, opacity, ink] = isChosen ? ["var(--o)", 1, "var(--card)"] : ["var(--q)", 0.35, "var(--ink)"];
		const middle = { x: x(row.from) + wide / 2, y: 53, "text-anchor": "middle", class: "mono", "font-size": 13 };
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
		"text", { x: x(share), y: 86, "text-anchor": anchor, class: "faint", "font-size": 12 }, String(share),
	));
	const drawing = chart(
		width, 96, `Cumulative probability; the drawn number falls on ${spell(chosen)}`,
		svg("rect", { x: 10, y: 34, width: width - 20, height: 30, class: "box" }), segments, mark, ends,
	);
	const how = found.drawn === null
		? "Temperature 0: the likeliest token, with certainty."
		: `The number for seed ${rule("seed", 1)} at step ${found.position} falls on the chosen ` +
				"token. Tokens are in the order of their ids, as the sampler adds them up.";
	return panel({
		title: `The choice: ${spell(chosen)}`, key: "choice",
		note: `${how} ${count(found.kept)} of ${plural(found.vocabulary, "token")} may be drawn.`,
		rows: () => [["token", "from", "to"], ...parts.map((row) => [row.text, row.from, row.to])],
		python: () => pythonChoice(found.position), body: drawing,
	});
}

function tablePanel(found, i, truth) {
	const most = Math.max(...found.rows.map((row) => row.final), 1e-12);
	const canGo = app.model.shape !== "encoder" && i === tokens(topStack()).length - 1, more = list("more");
	const follow = (ids) => select({ more: ids.join(","), q: "" });
	const line = (row) => cells(
		[
			[chip(row), row.id === truth?.id ? h("small", {}, " true next") : null], ...["logit", "p", "heated"].map((key) => figure(row[key], `${key}:${i}:${row.id}`)),
			row.kept ? "kept" : h("span", { class: "note" }, "dropped"), figure(row.final, `final:${i}:${row.id}`),
			track(row.final / most, row.id === found.chosen ? "o" : "q"),
			canGo ? h("button", { key: `take ${row.id}`, disabled: isSaved, onclick: () => follow([...more, row.id]) }, "append") : "",
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
			`The softmax runs over all ${plural(found.vocabulary, "token")}; the ${count(found.rows.length)} shown have `,
			figure(found.shown_mass, `mass:${i}`, percent(found.shown_mass)), ". Entropy ",
			figure(found.entropy, `spread:${i}`, num(found.entropy, 3)),
			` nats.${canGo ? " Append any token and continue from there." : ""}`,
		],
		body: [
			more.length ? h(
				"p", { class: "row" }, `${plural(more.length, "token was", "tokens were")} appended to the text.`,
				h("button", { key: "take back", onclick: () => follow(more.slice(0, -1)) }, "Remove the last one"),
			) : null,
			table(["token", "logit", "softmax", "÷ T", "top-k, top-p", "renormalised", "", ""], found.rows.map(line), "choice"),
		],
	});
}
