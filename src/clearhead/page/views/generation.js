// Generation: token by token, with the cache and without it (N38, N40).

import { bytes, cells, chart, chip, count, figure, h, note, num, svg, table, track } from "../parts/dom.js";
import { absent, panel } from "../parts/panel.js";
import { pythonGeneration } from "../parts/python.js";
import { app, generated, isWhatIf } from "../app.js";
import { rules } from "../parts/controls.js";
import { scoresOf } from "../derivations/costs.js";
import { select, state } from "../state.js";

export const title = "Generation";
export const alone = true;

export async function draw() {
	if (app.model.head !== "language" || app.model.shape === "encoder") return absent(
		title,
		"This model generates no text. Open a language model or a translator to see it generate token by token.",
	);
	const found = await generated(), last = found.steps.length - 1;
	const step = Math.max(0, Math.min(last, state().step === "" ? last : Math.trunc(state().step) || 0));
	return [
		rules(
			["tokens", "temperature", "top_k", "top_p", "seed"],
			isWhatIf() ? h("b", {}, "The original model generates: what-ifs do not apply here.") : null,
		),
		scrubPanel(found, step), h("div", { class: "pair" }, cellsPanel(found, step), costPanel(found, step)),
	];
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
		note: "Each step reads everything generated before it. A mistake stays in the text and can lead " +
			"to others.",
		body: [
			h(
				"div", { class: "row" }, button("step back", "Step before", "‹", step - 1),
				h("input", { ...slide, onchange: (event) => go(Number(event.target.value)) }),
				button("step on", "Next step", "›", step + 1),
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
			found.steps.length > 1 ? null : note("One step only: the model ended the text immediately."),
		],
	});
}
