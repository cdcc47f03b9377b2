// Text: how it is split into tokens, each with id, bytes and place (N1, N8).

import { bytes, cells, chip, count, facts, figure, h, num, plural, slice, spell, table, visible } from "../parts/dom.js";
import { panel } from "../parts/panel.js";
import { pythonPass, quote } from "../parts/python.js";
import { app, chosenStack, topStack } from "../app.js";
import { select, state } from "../state.js";

export const title = "Text";
export const alone = true;

export function draw() {
	const seen = app.pass, stacks = Object.keys(seen.tokens).sort().reverse();
	return [h("div", { class: "pair" }, stacks.map(tokenPanel)), details(), passPanel()];
}

function tokenPanel(stack) {
	const list = app.pass.tokens[stack], isTarget = stack === "decoder" && app.model.shape === "encoder-decoder";
	const own = isTarget && app.pass.own_target !== null;
	const name = app.model.shape === "encoder-decoder" ? (isTarget ? "Target" : "Source") : "Tokens";
	const note = own
		? "The model's own translation. Type another above to see how the model reads it."
		: `${plural(list.length, "token")}. Italic: frames the text; dashed: an incomplete character; underlined: unknown.`;
	return panel({
		title: name, note, key: `tokens ${stack}`, python: () => pythonTokens(stack),
		rows: () => [
			["place", "id", "text", "bytes", "start", "end"],
			...list.map((token, i) => [i, token.id, token.text, token.bytes, token.start, token.end]),
		],
		body: h(
			"div", { class: "chips" },
			list.map((token, i) => chip(
				token,
				{
					key: `chip ${stack} ${i}`, "aria-pressed": String(isChosen(stack, i)),
					onclick: () => select({ stack, q: i, step: "" }),
				},
				h("small", {}, token.id),
			)),
		),
	});
}
const textOf = (stack) => {
	const isTarget = stack === "decoder" && app.model.shape === "encoder-decoder";
	return isTarget ? (app.pass.question.target ?? app.pass.own_target ?? "") : app.pass.question.text;
};
const pythonTokens = (stack) => pythonPass(
	`words = model.${stack === topStack() ? "tokenizer" : "reader.tokenizer"}`,
	`print(words.offsets(${quote(textOf(stack))}))`,
);
const chosen = () => Math.max(0, Math.min(app.pass.tokens[chosenStack()].length - 1, Math.trunc(state().q === "" ? 1 : state().q) || 0));
const isChosen = (stack, i) => stack === chosenStack() && i === chosen();

function details() {
	const stack = chosenStack(), token = app.pass.tokens[stack][chosen()];
	const text = textOf(stack);
	const from = Math.max(0, token.start - 40), to = token.end + 40;
	const before = slice(text, from, token.start), after = slice(text, token.end, to);
	const lines = [
		["place", String(chosen())], ["id", String(token.id)],
		["reads", h("bdi", {}, visible(token.text).slice(0, 400) || "∅")],
		["bytes", h("span", { class: "n" }, (token.bytes || "none").slice(0, 600))],
		[
			"in the text",
			token.end > token.start ? [
				`characters ${token.start} to ${token.end}: ${from > 0 ? "…" : ""}`, h("bdi", {}, visible(before)),
				h("b", {}, h("bdi", {}, visible(slice(text, token.start, token.end)).slice(0, 400))),
				h("bdi", {}, visible(after)), to < [...text].length ? "…" : "",
			] : "not in the text: it frames the text or was appended",
		],
		[
			"kind",
			[
				token.special ? "special token" : token.unknown ? "unknown: the vocabulary lacks it, so the model reads <unk>" : "ordinary token",
				token.partial ? ", an incomplete character" : "", token.added ? ", appended" : "",
			].join(""),
		],
	];
	return panel({
		title: `Token ${chosen()}: ${spell(token)}`, key: "token",
		rows: () => [
			["field", "value"], ["id", token.id], ["text", token.text], ["bytes", token.bytes], ["start", token.start],
			["end", token.end],
		],
		python: () => pythonTokens(stack),
		body: facts(lines),
	});
}

function passPanel() {
	const seen = app.pass, most = app.model.limits, ms = (kind) => [1000 * seen.seconds[kind], `seconds:${kind}`];
	const timed = (kind) => figure(...ms(kind), `${num(ms(kind)[0], 3)} ms`);
	const lines = [
		["the model", `${app.model.shape}, ${count(app.model.weights)} weights, vocabulary of ${plural(app.model.vocabulary, "token")}`],
		["logits of both differ by at most", figure(seen.difference, "difference", num(seen.difference, 3))],
		["normal run", timed("fast")], ["recorded run", timed("captured")],
		["tensors recorded", [`${plural(Object.keys(seen.sites).length, "site")}, `, figure(seen.bytes, "kept", bytes(seen.bytes))]],
		["limits", `${plural(most.tokens, "token")}, ${plural(most.characters, "character")}`],
	];
	return panel({
		title: "This pass",
		note: "Every number on the page is from one run that recorded every tensor; a normal run gives the same logits.",
		key: "pass",
		rows: () => [
			["what", "value"], ["difference", seen.difference], ["seconds, fast", seen.seconds.fast],
			["seconds, captured", seen.seconds.captured], ["bytes", seen.bytes],
		],
		python: () => pythonPass("for name, X in trace.items():", "    print(name, tuple(X.shape[1:]))"),
		body: [
			facts(lines),
			h(
				"details", {}, h("summary", {}, "All sites and their shapes"),
				table(
					["site", "shape"], Object.entries(seen.sites).map(([name, shape]) => cells([name, shape.join(" × ")])),
					"sites",
				),
			),
		],
	});
}
