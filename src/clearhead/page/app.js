// What the views share: the model, the pass on screen, the one without what-ifs, and what the selection means.

import { get, packet, post, forget, ServiceError } from "./api.js";
import { list, select, state } from "./state.js";

export const app = { model: null, pass: null, base: null };

export const attention = () => {
	const all = app.model.attentions;
	return all.find((one) => one.name === state().at) || all.find((one) => one.stack === (
		app.model.shape === "encoder" ? "encoder" : "decoder"
	)) || all[0];
};
// The place of the chosen head among those that pruning left.
export const head = () => {
	const heads = attention().heads;
	return Math.max(0, heads.indexOf(Number(state().head || heads[0])));
};
export const nameOf = (one, at) => `${one.name}.${one.heads[at]}`;
export const headName = () => nameOf(attention(), head());
// A head by its name, the chosen one where none is given: its attention, and its place there.
export function headAt(name = headName()) {
	const cut = name.lastIndexOf(".");
	const one = app.model.attentions.find((other) => other.name === name.slice(0, cut));
	return { one, place: one.heads.indexOf(Number(name.slice(cut + 1))), name };
}
export const topStack = () => (app.model.shape === "encoder" ? "encoder" : "decoder");
export const tokens = (stack) => app.pass.tokens[stack];
const within = (text, most, otherwise) => (
	text !== "" && Number.isInteger(Number(text)) && text >= 0 && Number(text) < most ? Number(text) : otherwise
);
export const query = () => within(state().q, tokens(attention().stack).length, tokens(attention().stack).length - 1);
export const keyToken = () => {
	const most = tokens(attention().keys).length;
	return within(state().k, most, Math.max(0, Math.min(most - 1, query() - 1)));
};
// The token that a view about one token looks at: the query's place in a stack.
export const place = (stack) => within(state().q, tokens(stack).length, tokens(stack).length - 1);
export const chosenStack = () => (Object.hasOwn(app.pass.tokens, state().stack) ? state().stack : topStack());
export const stackOf = (name) => app.model.stacks.find((one) => one.name === name);
export const isWhatIf = () => Boolean(state().off || state().mute);

export function isVisible(one, i, j) {
	if (one.kind === "cross") return true;
	const window = app.pass.window[one.stack];
	return !(app.pass.causal[one.stack] && j > i) && !(window !== null && Math.abs(i - j) >= window);
}

// Whether the mask hides any key from any query of an attention.
export function hidesSome(one) {
	const n = tokens(one.stack).length;
	return one.kind === "self" && n > 1 && (app.pass.causal[one.stack] || (app.pass.window[one.stack] ?? n) < n);
}

const question = () => {
	const asked = { text: state().text ?? app.model.example };
	if (app.model.shape === "encoder-decoder" && state().target !== null) asked.target = state().target;
	if (state().more && app.model.shape !== "encoder") asked.more = list("more").map(Number);
	return asked;
};

export async function ask() {
	const asked = question();
	const whatIf = { ...asked };
	if (state().off) whatIf.off = list("off");
	if (state().mute) whatIf.mute = list("mute");
	const pass = await post("api/passes", whatIf);
	return { pass, base: isWhatIf() ? await post("api/passes", asked) : pass };
}

// A pass that has expired is requested again, once.
export async function again(work) {
	try {
		return await work();
	} catch (error) {
		if (!(error instanceof ServiceError) || !error.isExpired) throw error;
		forget();
		Object.assign(app, await ask());
		return work();
	}
}

export const sites = (names, at, pass = app.pass) => packet(
	`api/passes/${pass.name}/tensors?sites=${names.join(",")}${at === undefined ? "" : `&head=${at}`}`,
);
export const site = async (name, at, pass) => (await sites([name], at, pass))[name];
export const reading = (what, asked = {}, pass = app.pass) => get(
	`api/passes/${pass.name}/${what}?${new URLSearchParams(asked)}`,
);
export const thumbnails = () => packet(`api/passes/${app.pass.name}/thumbnails`);
export async function weight(name, rows, columns) {
	const part = (range) => (range ? `${range[0]}:${range[1]}` : "");
	return (await packet(`api/weights?name=${name}&rows=${part(rows)}&columns=${part(columns)}`))[name];
}
export const weightRow = async (name, row) => (await weight(name, [row, row + 1])).data;

// All tensors of a head, by their short names.
export async function headTensors(one = attention(), at = head()) {
	const [own, keys] = await Promise.all([
		sites(["q", "scores", "weights", "heads"].map((key) => `${one.name}.${key}`), at),
		sites(["k", "v"].map((key) => `${one.name}.${key}`), one.reads[at]),
	]);
	return Object.fromEntries(Object.entries({ ...own, ...keys }).map(
		([name, X]) => [name.slice(one.name.length + 1), X],
	));
}

// The weights that links are drawn from: of a head, or the mean over its sublayer or over all sublayers of its kind.
// `cell` names the derivation of one of them.
export async function scopedWeights() {
	const one = attention(), { scope } = state();
	if (scope === "head") return {
		A: await site(`${one.name}.weights`, head()), name: `head ${headName()}`,
		cell: (i, j) => `weights:${i}:${j}:${headName()}`,
	};
	if (scope === "layer") return {
		A: await site(`${one.name}.weights`, "mean"), name: `${one.name}, mean of its ${one.heads.length} heads`,
		cell: (i, j) => `mean:${i}:${j}:${one.name}`,
	};
	const like = alike(one), all = await Promise.all(like.map((other) => site(`${other.name}.weights`, "mean")));
	return {
		A: { shape: all[0].shape, data: all[0].data.map((_, i) => all.reduce((sum, A) => sum + A.data[i], 0) / all.length) },
		name: `all ${one.stack} ${one.kind}-attention, mean of ${like.length} sublayers`,
		cell: (i, j) => `mean:${i}:${j}:all`,
	};
}
export const alike = (one) => app.model.attentions.filter(
	(other) => other.stack === one.stack && other.kind === one.kind,
);

// The rules of the next token as the service takes them, and what they lead to.
const ruled = (keys) => Object.fromEntries(keys.filter((key) => state()[key] !== "").map((key) => [key, Number(state()[key])]));
export const choice = (i) => reading("choice", { position: i, step: i, seed: 1, ...ruled(["temperature", "top_k", "top_p", "seed"]) });
export const generated = () => post("api/generations", {
	text: app.pass.question.text, temperature: 0, ...ruled(["temperature", "top_k", "top_p", "seed"]),
	max_tokens: Math.max(1, Math.min(128, Math.trunc(state().tokens) || 12)),
});

// Other passes that a number may come from: without what-ifs, of a generation step, without a word.
export async function passOf(which) {
	if (!which || which === "base") return which ? app.base : app.pass;
	const number = Number(which.slice(4));
	if (which.startsWith("word")) {
		const { places } = (await reading("without")).words[number];
		return post("api/passes", { ...app.pass.question, leave: places });
	}
	const more = (await generated()).steps.slice(0, number).map(({ token }) => token.id);
	const target = app.model.shape === "encoder-decoder" ? { target: "" } : {};
	return post("api/passes", { text: app.pass.question.text, ...target, more });
}

export const toggle = (key, value) => {
	const now = new Set(list(key));
	if (!now.delete(value)) now.add(value);
	select({ [key]: [...now].join(","), cell: state().cell });
};
