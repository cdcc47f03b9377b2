// Words of a text, each coloured by its number, which stands below it.

import { figure, h } from "./dom.js";
import { colourer, css, inkOn, scaleFor } from "./colour.js";
import { short } from "./matrix.js";

// Draws a word with its number: colours are those of all numbers, blue above zero and orange below.
export const weighedWords = (values) => {
	const paint = colourer(scaleFor(values, "signed"));
	return (text, value, cell) => {
		const colour = paint(value);
		return h(
			"span", { class: "word" }, h("b", { style: { "background-color": css(colour), color: inkOn(colour) } }, h("bdi", {}, text)),
			figure(value, cell, short(value)),
		);
	};
};
