// Heads: every head side by side, what it does on this text, and the effect of muting it (N16, N19, N46).

import { cells, chip, empty, figure, h, num, plural, spell, table, track, visible } from "../parts/dom.js";
import { scaleOfWeights } from "../parts/colour.js";
import { picture, short } from "../parts/matrix.js";
import { panel } from "../parts/panel.js";
import { weightsPanel } from "../parts/attention_matrix.js";
import { pythonPass, pythonSite } from "../parts/python.js";
import {
	app, attention, head, headName, isWhatIf, keyToken, look, place, query, reading, site, thumbnails, toggle, tokens, topStack,
} from "../app.js";
import { picker, proof } from "../parts/controls.js";
import { isSaved } from "../api.js";
import { list, select, state } from "../state.js";
import { draw as states } from "./states.js";

export const title = "Heads";
export const alone = true;

const SORTS = {
	entropy: ["entropy", "spread of a row, in nats: 0 looks at one token"],
	distance: ["distance", "how many tokens away it looks, on average"],
	first: ["first-token share", "weight on the first token"],
	previous: ["previous-token share", "weight on the token before"],
	itself: ["own-token share", "weight on the query's own token"],
	same: ["same-token share", "weight on other tokens spelled alike, where there are any"],
	diagonal: ["diagonal share", "weight within one token of where the lengths suggest"],
	induction: ["induction", "on random tokens written twice: weight on what followed the first occurrence"],
	moved: ["effect of muting", "KL divergence, in nats, of the prediction when this head alone is muted"],
};

export async function draw() {
	if (!app.model.attentions.length) return states();
	const sort = Object.hasOwn(SORTS, state().sort) ? state().sort : null, position = place(topStack());
	const [stats, pictures, effects, was, is] = await Promise.all([
		reading("heads"), thumbnails(),
		sort === "moved" && app.model.head !== "none" ? allEffects(position) : null,
		reading("prediction", { position }, app.base), reading("prediction", { position }),
	]);
	const inducts = sort === "induction" && canInduct() ? await reading("induction") : {};
	const rows = stats.map((one, i) => ({ ...one, name: `${one.attention}.${one.head}`, ...(effects ? effects[i] : {}) }));
	for (const row of rows) if (inducts[row.name]) row.induction = inducts[row.name].reduce((a, b) => a + b, 0) / inducts[row.name].length;
	return h(
		"div", { class: "split" }, gridPanel(rows, pictures, sort, position),
		h("div", {}, await chosenPanel(rows, position), predictionPanel(was, is, position)),
	);
}

// The effect of muting each head, sublayer by sublayer: a large model takes seconds, and the page says how many.
async function allEffects(position) {
	const found = [], all = app.model.attentions, begun = performance.now(), asked = state(), main = document.getElementById("main");
	for (const [done, { name }] of all.entries()) {
		const left = ((performance.now() - begun) / 1000 / done) * (all.length - done);
		if (left > 1) main.dataset.progress = `Muting each head: ${done} of ${all.length} sublayers, about ${Math.ceil(left)} s left`;
		found.push(...await reading("effects", { position, attention: name }));
		if (state() !== asked) break; // something else has been chosen
	}
	delete main.dataset.progress;
	return found;
}

const canInduct = () => app.model.shape !== "encoder" && app.model.config.family === "transformer";
const cell = (key, name, position) => `${key}:${name}${key === "moved" ? `:${position}` : ""}`;

function thumb(one, pictures, sort, position) {
	const X = pictures[one.attention], [, r, c] = X.shape, data = X.data.subarray(one.place * r * c, (one.place + 1) * r * c);
	const isMuted = list("mute").includes(one.name), key = sort || "entropy";
	const canvas = picture(data, r, c, scaleOfWeights(data, c));
	return h(
		"div", { class: isMuted ? "thumb muted" : "thumb" },
		h(
			"button",
			{
				key: `thumb ${one.name}`,
				"aria-pressed": String(one.name === headName()),
				onclick: (event) => (event.altKey ? toggle("mute", one.name) : select({ at: one.attention, head: one.head, k: "" })),
				onkeydown: (event) => {
					if (event.key !== "m") return;
					event.preventDefault();
					toggle("mute", one.name);
				},
				"data-head": one.name,
				"aria-label": `head ${one.name}${isMuted ? ", muted" : ""}`,
			},
			canvas,
		),
		h(
			"small", {}, h("b", {}, sort ? one.name.replace(/^(..).*?coder/, "$1c") : one.head),
			isMuted ? "off" : figure(one[key], cell(key, one.name, position), key === "moved" ? num(one[key], 2) : short(one[key])),
		),
	);
}

function gridPanel(rows, pictures, sort, position) {
	const sorted = rows.filter((one) => (one[sort] ?? null) !== null).sort((a, b) => b[sort] - a[sort]);
	const thumbs = (some, count) => h("div", { class: "thumbs", style: { "--heads": count, "--own": sort && "6rem" } }, some.map((one) => thumb(one, pictures, sort, position)));
	const groups = sort ? thumbs(sorted, 1) : h("div", { class: "grid groups" }, app.model.attentions.map(({ name, heads }) => h(
		"div", { class: "headrow" }, h("h3", {}, name), thumbs(rows.filter((row) => row.attention === name), heads.length),
	)));
	const isKnown = (key) => (key === "induction" ? canInduct() : key === "moved" || rows.some((one) => one[key] !== null));
	const sorts = [["place", "place"], ...Object.entries(SORTS).filter(([key]) => isKnown(key)).map(([key, [label]]) => [key, label])];
	return panel({
		title: plural(rows.length, "head"), key: "heads",
		python: () => pythonPass(
			"for name, A in trace.items():", '    if name.endswith("weights"):',
			"        print(name, torch.special.entr(A[0]).sum(-1).mean(-1))",
		),
		note: `Rows are queries, columns keys; below, the ${SORTS[sort || "entropy"].join(": ")}. A click chooses a head, Alt-click or M mutes it.`,
		rows: () => [
			["head", ...Object.values(SORTS).map(([label]) => label), "largest"],
			...rows.map((one) => [one.name, ...Object.keys(SORTS).map((key) => one[key] ?? ""), one.largest]),
		],
		aside: h("div", { class: "bar" }, picker("Sorted by", "sort", sorts, sort || "place", (to) => select({ sort: to }))),
		body: [groups, proof()],
	});
}

// Mutes every head of a sublayer, or none if all are muted.
function muteAll(one) {
	const names = one.heads.map((number) => `${one.name}.${number}`), now = new Set(list("mute")), isOn = names.every((name) => now.has(name));
	names.forEach((name) => (isOn ? now.delete(name) : now.add(name)));
	select({ mute: [...now].join(",") });
}

async function chosenPanel(rows, position) {
	const one = attention(), name = headName(), A = await site(`${one.name}.weights`, head());
	look(A);
	const facts = rows.find((row) => row.name === name), isMuted = list("mute").includes(name);
	const line = ([key, [label, note]]) => [
		h("dt", { title: note }, label), h("dd", {}, figure(facts[key], cell(key, name, position))),
	];
	return weightsPanel({
		one, A, title: `Head ${name}`, key: "chosen head", python: () => pythonSite(`${one.name}.weights`, head()),
		drawn: {
			title: "A", name: "head", key: "matrix head", selected: [query(), keyToken()],
			onselect: (q, k, derive) => select({ q, k, cell: derive ? `weights:${q}:${k}:${name}` : "" }),
		},
		body: [
			h("dl", { class: "facts" }, Object.entries(SORTS).filter(([key]) => (facts[key] ?? null) !== null).map(line)),
		],
		first: h(
			"p", { class: "row" },
			h(
				"button", { key: "mute", "aria-pressed": String(isMuted), disabled: isSaved, onclick: () => toggle("mute", name) },
				"Mute this head",
			),
			h("button", { key: "mute all", disabled: isSaved, onclick: () => muteAll(one) }, `Mute all of ${one.name}`),
			h("button", { key: "to attention", onclick: () => select({ view: "attention" }) }, "Open in Attention"),
		),
	});
}

function predictionPanel(was, is, position) {
	const where = app.model.head === "classifier" ? "" : ` after ${spell(tokens(topStack())[position])}`;
	if (!was.length) return panel({
		title: "Prediction", key: "prediction",
		body: empty("This model has no head, so it predicts nothing."), rows: () => [["none"]],
	});
	const all = [...new Map([...was, ...is].map((one) => [one.id, one])).values()].slice(0, 12), isOther = isWhatIf();
	const of = (some, id) => some.find((one) => one.id === id)?.p ?? null;
	const shown = (p, id, which) => (figure(p, `p:${position}:${id}${which}`, num(p, 3)));
	const line = (one) => cells([
		chip(one), isOther ? shown(of(was, one.id), one.id, ":base") : null, shown(of(is, one.id), one.id, ""),
		track(of(is, one.id) ?? 0, "o"),
	].filter(Boolean));
	const heads = isOther ? ["original", "changed"] : ["p"];
	return panel({
		title: `The prediction${where}${isOther ? ", of the original and the changed model" : ""}`, key: "prediction",
		python: () => pythonPass(
			'Z = trace["logits"][0]',
			`print((Z if Z.ndim == 1 else Z[${position}]).softmax(-1).topk(min(10, Z.shape[-1])))`,
		),
		note: isOther ? "A dash: not among the ten likeliest." : "Mute a head to see it change.",
		rows: () => [["what", "model", "what if"], ...all.map((one) => [visible(one.text), of(was, one.id) ?? "", of(is, one.id) ?? ""])],
		body: table(["", ...heads, ""], all.map(line), "prediction"),
	});
}
