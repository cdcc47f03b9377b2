// Links: who looks at whom, as curves between tokens; and one word's weights drawn over the sentence (N20).

import { chart, figure, h, num, percent, plural, scroll, spell, svg } from "../parts/dom.js";
import { colourer, css, inkOn, scaleOfWeights } from "../parts/colour.js";
import { panelWidth, rem, screenRoom } from "../parts/fit.js";
import { short } from "../parts/matrix.js";
import { panel } from "../parts/panel.js";
import { pythonPass, pythonSite, quote } from "../parts/python.js";
import { alike, app, attention, head, nameAt, query, scopedWeights, tokens } from "../app.js";
import { buttons, chooser, picker } from "../parts/controls.js";
import { strongest } from "../derivations/heads.js";
import { select, state } from "../state.js";
import { draw as states } from "./states.js";

export const title = "Links";
export const alone = true;

function pythonWeights(...lines) {
	const one = attention(), at = state().scope === "head" ? head() : "mean";
	if (state().scope !== "all") return pythonSite(`${one.name}.weights`, at, ...lines);
	const names = alike(one).map((other) => quote(`${other.name}.weights`)).join(", ");
	const mean = `X = torch.stack([trace[name][0].mean(0) for name in (${names},)]).mean(0)`;
	return pythonPass(mean, ...(lines.length ? lines : ["print(X)"]));
}

export async function draw() {
	if (!app.model.attentions.length) return states();
	const found = await scopedWeights(), one = attention(), i = query();
	const { kept, links, dropped } = strongest(found.A, Number(state().mass) / 100);
	const scopes = [["head", "this head"], ["layer", "its sublayer"], ["all", "all blocks"]];
	const masses = [25, 50, 75, 90, 95, 99, 100].map((share) => [share, `${share} % of the weight`]);
	return [
		chooser({ pair: false }), sentencePanel(found, i),
		panel({
			title: `Links of ${found.name}`, key: "links",
			rows: () => [
				["query", "key", "weight"],
				...kept.map((link) => [tokens(one.stack)[link.i].text, tokens(one.keys)[link.j].text, link.weight]),
			],
			python: pythonWeights,
			note: [
				`${kept.length} of ${plural(links, "link")} ${kept.length === 1 ? "is" : "are"} drawn; the rest carry `, figure(dropped, "dropped", percent(dropped)),
				" of the weight. Choose a word above to see its links alone.",
			],
			body: [
				h(
					"div", { class: "bar" }, buttons("Scope", "scope", scopes, state().scope, (scope) => select({ scope })),
					picker("strongest links with", "mass", masses, state().mass, (mass) => select({ mass })),
				),
				scroll("Links", curves(kept, i)),
			],
		}),
	];
}

const longest = (list) => Math.max(9, ...list.map((token) => [...spell(token, 20)].length));
function curves(kept, chosen) {
	const one = attention(), left = tokens(one.stack), right = tokens(one.keys), most = Math.max(left.length, right.length);
	const unit = rem(), tall = Math.min(620, screenRoom() / unit - 165); // so that it fits the screen, where words stay legible
	const step = Math.max(12 / unit, Math.min(26, (tall - 48) / most)), from = 24 + 7.9 * longest(left), isOnly = state().q !== "";
	const after = 24 + 7.9 * longest(right), to = from + Math.max(200, Math.min(520, panelWidth() - from - after)), width = to + after;
	const y = (k, count) => (24 + (k + 0.5) * step + ((most - count) * step) / 2).toFixed(1);
	const lines = kept.map(({ i, j, weight }) => {
		const [a, b] = [y(i, left.length), y(j, right.length)], isOn = i === chosen || !isOnly;
		const [least, more] = !isOnly ? [0.12, 0.8] : isOn ? [0.25, 0.75] : [0.15, 0.5];
		return svg("path", {
			d: `M${from} ${a}C${(from + to) / 2} ${a} ${(from + to) / 2} ${b} ${to} ${b}`, fill: "none",
			stroke: isOn ? "var(--q)" : "var(--hatch)", "stroke-width": (0.5 + 5 * weight).toFixed(2),
			"stroke-opacity": (least + more * weight).toFixed(3), "data-link": `${i} ${j}`,
		});
	});
	const names = (list, x, anchor, tone) => list.map((token, k) => svg(
		"text",
		{ x, y: Number(y(k, list.length)) + 4, "text-anchor": anchor, class: `mono ${tone(k)}`, "font-size": Math.max(11 / unit, Math.min(13, step)) },
		spell(token, 20),
	));
	return chart(
		width, 48 + most * step, `${plural(kept.length, "link")} between ${plural(left.length, "query", "queries")} and ${plural(right.length, "key")}`,
		svg("text", { x: from - 8, y: 14, "text-anchor": "end", class: "q", "font-weight": 600 }, "queries"),
		svg("text", { x: to + 8, y: 14, class: "k", "font-weight": 600 }, "keys"), lines,
		names(left, from - 8, "end", (k) => (k === chosen ? "q" : "")), names(right, to + 8, "start", () => ""),
	);
}

function sentencePanel({ A, name, cell }, i) {
	const one = attention(), m = A.shape[1], row = A.data.subarray(i * m, (i + 1) * m);
	const largest = row.reduce((a, b) => Math.max(a, b), 0), isSelf = one.kind === "self", go = (q) => select({ q });
	const paint = colourer(scaleOfWeights(A.data, m)); // of the whole head: a uniform row is pale
	const word = (token, key, isOn, style, onclick) => h(
		onclick ? "button" : "b", { key, "aria-pressed": onclick && String(isOn), onclick, style },
		h("bdi", {}, spell(token)),
	);
	const weighed = (token, j) => {
		const colour = paint(row[j]), style = { "background-color": css(colour), color: inkOn(colour) };
		return h(
			"span", { class: "word" }, word(token, `word ${j}`, isSelf && j === i, style, isSelf ? () => go(j) : null),
			figure(row[j], cell(i, j), short(row[j])),
		);
	};
	return panel({
		title: ["What ", h("b", { class: "q" }, nameAt(one.stack, i)), " looks at"], key: "sentence",
		rows: () => [["key", "weight"], ...tokens(one.keys).map((token, j) => [token.text, row[j]])],
		python: () => pythonWeights(`print(X[${i}])`),
		note: [
			`In ${name}; the strongest is `, figure(largest, cell(i, row.indexOf(largest)), num(largest, 3)),
			". Click a word to see what it looks at.",
		],
		body: [
			isSelf ? null : h(
				"div", { class: "sentence", role: "group", "aria-label": "Target tokens" },
				tokens(one.stack).map((token, q) => word(token, `target ${q}`, q === i, {}, () => go(q))),
			),
			h(
				"div",
				{ class: "sentence", role: "group", "aria-label": "Weights over the sentence", "data-name": "sentence" },
				tokens(one.keys).map(weighed),
			),
		],
	});
}
