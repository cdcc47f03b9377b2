// Lists, buttons and numbers to choose with, and the selection, which every view that uses it shows.

import { chip, figure, h, num } from "./dom.js";
import { select, state } from "../state.js";
import { app, attention, head, keyToken, query, tokens } from "../app.js";

// A list: options are values, or pairs of a value and its text.
export const picker = (label, key, options, now, go) => h(
	"label", {}, label,
	h(
		"select", { key: `choose ${key}`, onchange: (event) => go(event.target.value) },
		options.map((option) => {
			const [value, text] = [option].flat().length > 1 ? option : [option, option];
			return h("option", { value, selected: String(value) === String(now) }, String(text));
		}),
	),
);
// Buttons of which one is pressed: pairs of a value and its text.
export const buttons = (label, key, options, now, go, said) => h(
	"span", { class: "heads", role: "group", "aria-label": label }, said,
	options.map(([value, text = value]) => h(
		"button", { key: `${key} ${value}`, "aria-pressed": String(value === now), onclick: () => go(value) },
		String(text),
	)),
);
export const bar = (label, ...inside) => h("div", { class: "panel bar", role: "group", "aria-label": label }, inside);

// The rules of sampling that a view offers.
const RULES = {
	tokens: ["tokens", { min: 1, max: 128 }], temperature: ["temperature", { min: 0, max: 100, step: 0.1 }],
	top_k: ["top-k", { min: 1, placeholder: "all" }],
	top_p: ["top-p", { min: 0.01, max: 1, step: 0.05, placeholder: "1" }], seed: ["seed", { min: 0 }],
};
export const rules = (keys, ...more) => bar("Rules", keys.map((key) => h(
	"label", {}, RULES[key][0],
	h("input", {
		type: "number", key: `rule ${key}`, value: state()[key],
		onchange: (event) => select({ [key]: event.target.value, step: "" }), ...RULES[key][1],
	}),
)), more);

export const headButtons = (heads, now, go, ...first) => buttons(
	"Head", "head", [...first, ...heads.map((number) => [number])], now, go, "Head ",
);

export function chooser({ pair = true } = {}) {
	const one = attention();
	const token = (label, key, stack, now) => picker(
		h("span", { class: key }, label), key,
		tokens(stack).map(({ text }, i) => [i, `${i} ${[...text].slice(0, 16).join("")}`]), now,
		(value) => select({ [key]: value }),
	);
	const names = app.model.attentions.map(({ name }) => name);
	return bar(
		"Selection", picker("Attention", "attention", names, one.name, (at) => select({ at, k: "" })),
		headButtons(one.heads, one.heads[head()], (number) => select({ head: number })),
		pair ? [token("query", "q", one.stack, query()), token("key", "k", one.keys, keyToken())] : null, proof(),
	);
}

export const stackPicker = (stack) => (app.model.stacks.length > 1 ? picker(
	"Stack", "stack", app.model.stacks.map(({ name }) => name), stack,
	(name) => select({ stack: name, q: "", site: "" }),
) : null);
// One token of a stack.
export const placeChooser = (stack, i, ...first) => bar(
	"Selection", first,
	h(
		"div", { class: "chips", role: "group", "aria-label": `tokens of the ${stack}` },
		tokens(stack).map((token, q) => chip(
			token, { key: `token ${stack} ${q}`, "aria-pressed": String(q === i), onclick: () => select({ q }) },
		)),
	),
	proof(),
);

// The promise of the page, with its number.
export const proof = () => h(
	"span", { class: "proof", "data-difference": String(app.pass.difference) }, "captured = fast within ",
	figure(app.pass.difference, "difference", num(app.pass.difference, 2)),
);
