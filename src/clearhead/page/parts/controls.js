// Lists, buttons and numbers to choose with, and the selection, which every view that uses it shows.

import { chip, figure, h, num, spell } from "./dom.js";
import { select, state } from "../state.js";
import { isSaved } from "../api.js";
import { app, attention, head, isAllowed, keyToken, query, temperatureOf, tokens } from "../app.js";

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

// The rules of sampling that a view offers. What is not allowed stays in its field, marked, and changes nothing.
const RULES = {
	tokens: ["tokens", "a whole number from 1 to 128", { max: 128 }], temperature: ["temperature", "a number from 0 to 100", {}],
	top_k: ["top-k", "a whole number from 1, or nothing for all", { placeholder: "all" }],
	top_p: ["top-p", "a number above 0, at most 1, or nothing for 1", { step: 0.05, placeholder: "1" }],
	seed: ["seed", "a whole number from 0", {}],
};
const OPTIONAL = ["temperature", "top_k", "top_p"];
export function rules(view, keys, ...more) {
	const said = h("span", { class: "wrong", role: "alert" });
	const set = (key, field) => {
		const isFine = isAllowed(key, field.value) || (OPTIONAL.includes(key) && field.value.trim() === "");
		field.setAttribute("aria-invalid", String(!isFine));
		said.textContent = isFine ? "" : `${RULES[key][0]} must be ${RULES[key][1]}.`;
		if (isFine) select({ [key]: field.value, step: "" });
	};
	const field = (key, value) => h("input", {
		type: "number", key: `rule ${key}`, value, min: 0, step: "any", disabled: isSaved,
		onchange: (event) => set(key, event.target), ...RULES[key][2],
	});
	const given = (key) => (isAllowed(key, state()[key]) ? state()[key] : "");
	const temperature = () => h(
		"label", {}, "temperature",
		h("input", {
			type: "range", key: "slide temperature", min: 0, max: 3, step: 0.1, value: String(temperatureOf(view)), disabled: isSaved,
			"aria-label": "temperature", oninput: (event) => set("temperature", event.target),
		}),
		field("temperature", String(temperatureOf(view))),
	);
	return bar("Rules", keys.map((key) => (key === "temperature" ? temperature() : h("label", {}, RULES[key][0], field(key, given(key))))), more, said);
}

export const headButtons = (heads, now, go, ...first) => buttons(
	"Head", "head", [...first, ...heads.map((number) => [number])], now, go, "Head ",
);

export function chooser({ pair = true } = {}) {
	const one = attention();
	const token = (label, key, stack, now) => picker(
		h("span", { class: key }, label), key,
		tokens(stack).map((one, i) => [i, `${i} ${spell(one, 16)}`]), now,
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
export const placeChooser = (stack, i, first = null, last = proof()) => bar(
	"Selection", first,
	h(
		"div", { class: "chips", role: "group", "aria-label": `tokens of the ${stack}` },
		tokens(stack).map((token, q) => chip(
			token, { key: `token ${stack} ${q}`, "aria-pressed": String(q === i), onclick: () => select({ q }) },
		)),
	),
	last,
);

// The promise of the page, with its number.
export const proof = () => h(
	"span",
	{
		class: "proof", "data-difference": String(app.pass.difference),
		title: "The pass whose numbers are shown, and the model's normal run without recording, give the same logits.",
	},
	"✓ equals the normal run (difference ", figure(app.pass.difference, "difference", num(app.pass.difference, 2)), ")",
);
