// Generation: token by token, with the cache and without it (N38, N40).

import { bytes, cells, chart, chip, count, figure, h, note, num, plural, svg, table, track } from "../parts/dom.js";
import { panel } from "../parts/panel.js";
import { matrix } from "../parts/matrix.js";
import { scaleFor } from "../parts/colour.js";
import { pythonGeneration } from "../parts/python.js";
import { app, attention, generated, generatedPass, head, sites, temperatureOf } from "../app.js";
import { rules } from "../parts/controls.js";
import { scoresOf } from "../derivations/costs.js";
import { list, select, state } from "../state.js";

export const title = "Generation";
export const alone = true;

export const missing = () => (app.model.head === "language" && app.model.shape !== "encoder" ? null
	: "This model generates no text. Open a language model or a translator.");

export async function draw() {
	const found = await generated(), last = found.steps.length - 1;
	const step = Math.max(0, Math.min(last, state().step === "" ? last : Math.trunc(state().step) || 0));
	return [
		rules("generation", ["tokens", "temperature", "top_k", "top_p", "seed"]),
		scrubPanel(found, step), ...(selfAttentions().length ? [await cachePanel(found, step)] : []),
		h("div", { class: "pair" }, cellsPanel(found, step), costPanel(found, step)),
	];
}

const selfAttentions = () => app.model.attentions.filter(({ stack, kind }) => stack === "decoder" && kind === "self");

// The keys and values that one head of the cache keeps: a row a token, and a new one at every step.
async function cachePanel(found, step) {
	const selfs = selfAttentions();
	const one = selfs.find(({ block }) => block === attention().block) || selfs[0], at = Math.min(head(), one.heads.length - 1);
	const pass = await generatedPass(found.steps.length - 1), kept = found.steps[step].read, first = kept - found.steps[step].computed;
	const name = one.reads[at], both = await sites([`${one.name}.k`, `${one.name}.v`], name, pass);
	const drawn = (letter, X) => matrix({
		values: X.data, rows: X.shape[0], columns: X.shape[1], rowTokens: pass.tokens.decoder, title: letter.toUpperCase(),
		name: `cache ${letter}`, key: `cache ${letter}`, tone: letter, rowColour: `--${letter}`, selected: [kept - 1, -1],
		scale: scaleFor(X.data, "signed"), isHidden: (place) => place >= kept * X.shape[1], hiddenText: "not yet computed",
		hiddenLabel: "not yet computed", wide: 460, tall: 420, plain: true, onselect: () => {},
	});
	const added = plural(kept - first, "row is", "rows are");
	return panel({
		title: "K and V in the cache", key: "cache", python: pythonGeneration,
		rows: () => [
			["token", ...Array.from({ length: one.d_k }, (_, c) => `k ${c}`)],
			...pass.tokens.decoder.slice(0, kept).map((token, i) => [token.text, ...both[`${one.name}.k`].data.subarray(i * one.d_k, (i + 1) * one.d_k)]),
		],
		note: `Head ${one.heads[at]} of ${one.name}, after step ${step + 1}: ${added} new, ` +
			`${first ? `${count(first)} kept from before and never computed again.` : "the prompt's, computed at once."}`,
		body: h("div", { class: "flow two" }, drawn("k", both[`${one.name}.k`]), drawn("v", both[`${one.name}.v`])),
	});
}

// Steps on by itself, until the last one.
let playing = null;
function play(step, last) {
	if (playing) { pause(); select({ step }); return; }
	const go = (to) => {
		if (to > last || state().view !== "generation") { pause(); return; }
		playing = setTimeout(() => go(to + 1), 900);
		select({ step: to });
	};
	go(step >= last ? 0 : step + 1);
}
function pause() {
	clearTimeout(playing);
	playing = null;
	document.querySelector('[data-key="play"]')?.replaceChildren("▶ Play");
}

// Where the translation of the Target box was found by another search than this one, the page says so.
function otherSearch({ steps }) {
	const own = app.pass.change?.own_after ?? app.pass.own_target;
	if (app.model.shape !== "encoder-decoder" || own === null || steps.at(-1).read < steps.length) return null;
	const letters = (text) => text.replace(/[\s·]/g, ""), here = letters(steps.filter(({ token }) => !token.special).map(({ token }) => token.text).join(""));
	if (here === letters(own)) return null;
	const how = temperatureOf("generation") ? "Drawn at random" : "Token by token, always the likeliest";
	return ` ${how}; the translation in the Target box was found by beam search, which follows several beginnings.`;
}

function scrubPanel(found, step) {
	const last = found.steps.length - 1, now = found.steps[step];
	const go = (to) => select({ step: Math.max(0, Math.min(last, to)) });
	const button = (key, label, text, to) => h(
		"button", { key, "aria-label": label, disabled: to < 0 || to > last, onclick: () => go(to) }, text,
	);
	const slide = { type: "range", key: "step", min: 0, max: last, value: String(step), "aria-label": "Step" };
	const p = (k, id) => `p:${found.steps[k].read - 1}:${id}:step${k}`;
	const written = found.steps.map(({ token, logprob }, k) => h(
		"span", { class: "word" },
		chip(token, { key: `written ${k}`, "aria-pressed": String(k === step), onclick: () => go(k) }),
		k <= step ? figure(Math.exp(logprob), p(k, token.id), num(Math.exp(logprob), 2)) : h("span", { class: "n" }, "…"),
	));
	return panel({
		title: "Step by step", key: "steps",
		rows: () => [
			["step", "token", "id", "logprob", "tokens read", "tokens computed", "cache bytes", "seconds", "seconds without cache", "difference"],
			...found.steps.map((one, k) => [
				k, one.token.text, one.token.id, one.logprob, one.read, one.computed, one.cache_bytes, one.seconds,
				one.seconds_without, one.difference,
			]),
		],
		python: pythonGeneration,
		note: [
			"Each step reads all before it: a mistake stays, and can lead to others.", otherSearch(found),
		],
		body: [
			h(
				"div", { class: "row" }, button("step back", "Step before", "‹", step - 1),
				h("input", { ...slide, onchange: (event) => go(Number(event.target.value)) }),
				button("step on", "Next step", "›", step + 1),
				h("button", { key: "play", onclick: () => play(step, last), disabled: !last }, playing ? "❚❚ Pause" : "▶ Play"),
				h("span", { class: "note" }, `step ${step + 1} of ${last + 1}`),
			),
			h("div", { class: "chips words" }, found.prompt.map((token) => h("span", { class: "word" }, chip(token))), written),
			note(
				"Under each token: its probability over the whole vocabulary, before any rule. The logits of " +
					"this step, with the cache and without, differ by ",
				figure(now.difference, `apart:${step}`, num(now.difference, 2)), ".",
			),
			table(
				["likeliest here", "p", ""],
				now.top.map((one) => cells(
					[chip(one), figure(one.p, p(step, one.id)), track(one.p, "q")],
					{ class: one.id === now.token.id ? "on" : null },
				)),
				"alternatives",
			),
		],
	});
}

// The scores of one head: the prompt's triangle at once, then one row a step; pale is what is not recomputed.
function cellsPanel(found, step) {
	const prompt = found.steps[0].computed, most = found.steps.at(-1).read, side = Math.min(26, 420 / most), parts = [];
	const box = (i, j) => ({ x: 4 + j * side, y: 4 + i * side, width: side - 1, height: side - 1 });
	for (let i = 0; i < found.steps[step].read; i++) {
		const isPrompt = i < prompt, isNow = step > 0 ? i === found.steps[step].read - 1 : isPrompt;
		const paint = { fill: isNow ? "var(--o)" : isPrompt ? "var(--q)" : "var(--v)", "fill-opacity": isNow ? 1 : 0.3 };
		for (let j = 0; j <= i && most <= 160; j++) parts.push(svg("rect", { ...box(i, j), ...paint }));
	}
	const size = 8 + most * side;
	return panel({
		title: "Which scores are computed", python: pythonGeneration, key: "cells",
		rows: () => [
			["step", "computed with cache", "computed without"],
			...found.steps.map((one, k) => [k, scoresOf(one, "with"), scoresOf(one, "without")]),
		],
		note: step
			? "Full colour: the one row of this step. Pale: rows computed before, whose keys and values the cache has kept."
			: "The prompt's triangle is computed at once (prefill).",
		body: most > 160 ? note("Too long to draw cell by cell; see the counts beside it.") : chart(
			size, size, `Scores of step ${step + 1}`,
			svg("rect", { x: 4, y: 4, width: most * side, height: most * side, class: "line" }), parts,
		),
	});
}

function costPanel(found, step) {
	const past = found.steps.slice(0, step + 1), now = found.steps[step];
	const sum = (steps, value) => steps.reduce((total, one) => total + value(one), 0);
	const both = (label, kind, steps, value, text) => [label, ...["with", "without"].map((how) => {
		const number = sum(steps, (one) => value(one, how));
		return [number, `${kind}:${step}:${how}${steps === past ? ":so far" : ""}`, text(number)];
	})];
	const ms = (one, how) => 1000 * (how === "with" ? one.seconds : one.seconds_without), inMs = (x) => `${num(x, 3)} ms`;
	const rows = [
		both("scores of a head, this step", "computed", [now], scoresOf, count),
		both("scores of a head, so far", "computed", past, scoresOf, count),
		both("time of this step", "time", [now], ms, inMs), both("time so far", "time", past, ms, inMs),
		["keys and values kept", [now.cache_bytes, `cache:${step}`, bytes(now.cache_bytes)], [0, null, "0 bytes"]],
	];
	const isMaskless = list("off").includes("mask");
	const worst = past.reduce((a, one, k) => (one.difference > past[a].difference ? k : a), 0), apart = past[worst].difference;
	return panel({
		title: "With the cache, and without", python: pythonGeneration, key: "cost",
		rows: () => [["", "with cache", "without"], ...rows.map(([name, a, b]) => [name, a[0], b[0]])],
		body: [
			table(
				["", "with cache", "without"], rows.map(([name, a, b]) => cells([name, figure(...a), figure(...b)])), "cost",
			),
			h(
				"p", { class: "note", "data-name": "apart" },
				"Both ran just now, on this machine. Their logits differ by at most ",
				figure(apart, `apart:${worst}`, num(apart, 2)), ".",
			),
			isMaskless ? note("Without the mask, earlier tokens read the later ones too: what the cache keeps is out of date, and the tokens are chosen without it.") : null,
			found.steps.length > 1 ? null : note("One step only: the model ended the text immediately."),
		],
	});
}
