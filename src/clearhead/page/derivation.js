// Where a number comes from: a cell such as "weights:5:2" enters, its formula, operands and result leave.
// Operands are the captured numbers; the result is recomputed here in double precision and compared.

import { formula, h, note, num } from "./parts/dom.js";
import { ServiceError } from "./api.js";
import { select, state } from "./state.js";
import * as attention from "./derivations/attention.js";
import * as attribution from "./derivations/attribution.js";
import * as choice from "./derivations/choice.js";
import * as costs from "./derivations/costs.js";
import * as heads from "./derivations/heads.js";
import * as stream from "./derivations/stream.js";
import { equals } from "./derivations/terms.js";

const KINDS = { ...attention, ...attribution, ...choice, ...costs, ...heads, ...stream };

// A link may name a number that this pass does not have.
async function find(cell) {
	const [kind, ...given] = cell.split(":");
	try {
		const found = await KINDS[kind]?.(...given.map((part) => (part === "" || isNaN(part) ? part : Number(part))));
		if (Number.isFinite(found?.captured)) return found;
	} catch (error) {
		if (error instanceof ServiceError) throw error;
		console.warn(error);
	}
	throw new ServiceError(`There is no number ${cell.slice(0, 80)} in this pass.`);
}

function proof({ captured, again }) {
	if (again === undefined) return null;
	const gap = num(Math.abs(captured - again), 2);
	return h("p", { class: "proof-line" }, `in the model ${num(captured, 7)} · computed again here ${num(again, 7)} · difference ${gap}`);
}

export async function derivation() {
	if (!state().cell) return null;
	let found;
	try {
		found = await find(state().cell);
	} catch (error) {
		if (!(error instanceof ServiceError) || error.isExpired) throw error;
		found = { title: ["No derivation"], more: note(error.message) };
	}
	return h(
		"section",
		{ class: "panel", "data-panel": "derivation", "data-captured": found.captured, "data-again": found.again },
		h(
			"header", {}, h("div", {}, h("h2", {}, found.title)),
			h("button", { onclick: () => select({ cell: "" }), "aria-label": "Close the derivation", key: "close derivation" }, "×"),
		),
		found.formula ? [formula(found.formula), equals([found.captured, null, found.text], ...found.say)] : null,
		found.more, found.formula ? proof(found) : null,
	);
}
