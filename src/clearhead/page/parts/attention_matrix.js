// Attention weights as a matrix in a panel, as several views show them.

import { scaleOfWeights } from "./colour.js";
import { h } from "./dom.js";
import { matrix } from "./matrix.js";
import { panel } from "./panel.js";
import { hidesSome, isVisible, tokens } from "../app.js";

export function weightsMatrix(one, A, options) {
	const [rows, columns] = A.shape;
	return matrix({
		values: A.data, rows, columns, rowTokens: tokens(one.stack), columnTokens: tokens(one.keys),
		scale: scaleOfWeights(A.data, columns), tone: "o",
		isHidden: hidesSome(one) ? (at) => !isVisible(one, Math.floor(at / columns), at % columns) : null, ...options,
	});
}

export const weightsPanel = ({ one, A, body, drawn, ...rest }) => panel({
	rows: () => [
		["query", ...tokens(one.keys).map((token) => token.text)],
		...tokens(one.stack).map((token, i) => [token.text, ...A.data.subarray(i * A.shape[1], (i + 1) * A.shape[1])]),
	],
	body: h("div", { class: "beside" }, weightsMatrix(one, A, { wide: 420, tall: 420, ...drawn }), body), ...rest,
});
