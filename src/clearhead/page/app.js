// What the views share: the model, the pass on screen, the one without what-ifs, and what the selection means.

import { get, packet, post, forget, ServiceError, weightKey } from "./api.js";
import { list, select, state } from "./state.js";
import { spell } from "./parts/dom.js";

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
export const likeliest = (some = app.pass.prediction) => some.reduce((a, b) => (b.p > a.p ? b : a));
export const mainStack = () => (app.model.shape === "decoder" ? "decoder" : "encoder"); // which reads the text
export const topStack = () => (app.model.shape === "encoder" ? "encoder" : "decoder");
export const tokens = (stack) => app.pass.tokens[stack];
// A token by its spelling, with its place where others are spelled alike.
export const nameAt = (stack, i) => spell(tokens(stack)[i]) + (tokens(stack).filter(({ text }) => text === tokens(stack)[i].text).length > 1 ? ` (${i})` : "");
const within = (text, most, otherwise) => (
	text !== "" && Number.isInteger(Number(text)) && text >= 0 && Number(text) < most ? Number(text) : otherwise
);
// The strongest pair of words of the chosen head: what is looked at until something else is chosen.
const pair = () => app.pairs.find((one) => one.head === attention().heads[head()]) || { query: 0, key: 0 };
// A pass comes with those of the sublayer that the page opens with.
export const readPairs = async () => {
	const name = attention()?.name;
	return { pairs: !name || name === app.model.opening ? app.pass.pairs : await reading("pairs", { attention: name }) };
};
export const query = () => within(state().q, tokens(attention().stack).length, pair().query);
export const keyToken = () => {
	const most = tokens(attention().keys).length, i = query();
	if (state().k !== "") return within(state().k, most, pair().key);
	const row = app.looked?.name === headName() && app.looked.pass === app.pass ? app.looked.A.data.subarray(i * most, (i + 1) * most) : null;
	return i === pair().query || !row ? Math.min(most - 1, i === pair().query ? pair().key : i) : row.indexOf(row.reduce((a, b) => Math.max(a, b)));
};
// The weights that the chosen head has, so that an open key can be the strongest of its row.
export const look = (A) => { app.looked = { name: headName(), pass: app.pass, A }; };
// What the page opens with: a sublayer that the model names, and there the head that connects two words most.
export const opening = () => (app.model.opening ? {
	at: app.model.opening, head: app.pass.pairs.reduce((a, b) => (b.weight > a.weight ? b : a)).head,
} : {});
// The token that a view about one token looks at: the query's place in a stack, if none is chosen the last token of a
// language model, which predicts the next, and of others a word.
export const place = (stack) => within(state().q, tokens(stack).length, app.model.shape === "decoder" ? tokens(stack).length - 1 : wordIn(stack));
function wordIn(stack) {
	if (attention()?.stack === stack) return pair().query;
	const lengths = tokens(stack).map(({ text, special }) => (special ? 0 : text.length));
	return lengths.indexOf(Math.max(...lengths));
}
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

// The step of the run whose weights are looked at, if it is not the model itself.
const moment = () => (app.model.moments.some(({ step }) => String(step) === state().moment) ? { moment: Number(state().moment) } : {});
const question = () => {
	const asked = { text: state().text ?? app.model.example };
	if (app.model.shape === "encoder-decoder" && state().target !== null) asked.target = state().target;
	if (state().more && app.model.shape !== "encoder") asked.more = list("more").map(Number);
	return { ...asked, ...moment() };
};

export async function ask() {
	const asked = question(), pass = await post("api/passes", { ...asked, ...changes() });
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

const part = (range) => (range ? `${range[0]}:${range[1]}` : "");
// Tensors by name: of all heads or of one, of all tokens or of those in a range.
export const sites = (names, at, pass = app.pass, rows = null) => packet(
	`api/passes/${pass.name}/tensors?sites=${names.join(",")}${at === undefined ? "" : `&head=${at}`}${rows ? `&rows=${part(rows)}` : ""}`,
);
export const site = async (name, at, pass, rows) => (await sites([name], at, pass, rows))[name];
// The numbers of one token at some sites, by their names.
export async function tokenAt(names, i, pass) {
	const found = await sites(names, undefined, pass, [i, i + 1]);
	return Object.fromEntries(Object.entries(found).map(([name, X]) => [name, X.data]));
}
export const reading = (what, asked = {}, pass = app.pass) => get(
	`api/passes/${pass.name}/${what}?${new URLSearchParams(asked)}`,
);
export const thumbnails = () => packet(`api/passes/${app.pass.name}/thumbnails`);
export async function weight(name, rows, columns) {
	return (await packet(`${weightKey(name, moment().moment)}&rows=${part(rows)}&columns=${part(columns)}`))[name];
}
export const weightRow = async (name, row) => (await weight(name, [row, row + 1])).data;

// All tensors of a head, by their short names.
export async function headTensors(one = attention(), at = head()) {
	const of = (keys, place) => sites(keys.map((key) => `${one.name}.${key}`), place);
	// Scores and weights of a long text are as many numbers as one answer has; those of others come at once.
	const isLong = tokens(one.stack).length * tokens(one.keys).length > 1 << 20, own = ["q", "heads", "scores", "weights"];
	const found = await Promise.all([...(isLong ? own.map((key) => of([key], at)) : [of(own, at)]), of(["k", "v"], one.reads[at])]);
	return Object.fromEntries(found.flatMap(Object.entries).map(
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

// The rules of the next token: least, most, and whether it must be whole. What is not allowed is as if
// it had not been given.
const LIMITS = { temperature: [0, 100], top_k: [1, 1 << 24, true], top_p: [1e-6, 1], seed: [0, 2 ** 53 - 1, true], tokens: [1, 128, true] };
export function isAllowed(key, text) {
	const [least, most, isWhole] = LIMITS[key], value = Number(text);
	return String(text).trim() !== "" && value >= least && value <= most && (!isWhole || Number.isInteger(value));
}
export const rule = (key, otherwise) => (isAllowed(key, state()[key]) ? Number(state()[key]) : otherwise);
const ruled = (temperature) => Object.fromEntries(Object.entries({
	temperature: rule("temperature", temperature), top_k: rule("top_k"), top_p: rule("top_p"), seed: rule("seed", 1),
}).filter(([, value]) => value !== undefined));
export const choice = (i) => reading("choice", { position: i, step: i, ...ruled(1) });
// A translator takes the likeliest token where nothing else is chosen; a language model draws.
export const temperatureOf = (view) => rule("temperature", view === "generation" && app.model.shape === "encoder-decoder" ? 0 : 1);
const changes = () => ({ ...(state().off ? { off: list("off") } : {}), ...(state().mute ? { mute: list("mute") } : {}) });
export const generated = () => post("api/generations", {
	text: app.pass.question.text, ...ruled(temperatureOf("generation")), max_tokens: rule("tokens", 12), ...changes(), ...moment(),
});
// The pass over all that has been generated before a step.
export async function generatedPass(step) {
	const more = (await generated()).steps.slice(0, step).map(({ token }) => token.id);
	const target = app.model.shape === "encoder-decoder" ? { target: "" } : {};
	return post("api/passes", { text: app.pass.question.text, ...target, more, ...changes(), ...moment() });
}

// Two words of the text, exchanged; null if none are chosen.
// What a swap exchanges: words, or the letters of a text that is one word, such as DNA.
export function wordsOf(text) {
	const words = [...text.matchAll(/[\p{L}\p{N}]+/gu)];
	return words.length > 1 ? words : [...text.matchAll(/[\p{L}\p{N}]/gu)];
}
export function swappedText() {
	const { text } = app.pass.question, words = wordsOf(text), [a, b] = list("swap").map(Number).sort((x, y) => x - y);
	if (!words[a] || !words[b] || a === b) return null;
	const [one, two] = [words[a], words[b]], rest = text.slice(one.index + one[0].length, two.index);
	return text.slice(0, one.index) + two[0] + rest + one[0] + text.slice(two.index + two[0].length);
}
// Models in which swapped words are compared; pass 2 v is the text as written in model v, pass 2 v + 1 the swapped one.
export const SWAPS = [["the model", []], ["no positions", ["positions"]], ["no positions, no mask", ["positions", "mask"]]];
export function swapPass(number) {
	const [, off] = SWAPS[number >> 1], text = number % 2 ? swappedText() : app.pass.question.text;
	return post("api/passes", { text, ...(off.length ? { off } : {}), ...moment() });
}

// What is asked about the answer after a token: a chosen one, or none, which is the likeliest.
export function answer(position, chosen = null) {
	const [at, id, against] = state().goal.split(":"), own = chosen || (at === String(position) ? { id, against } : {});
	return { position, ...(Number.isInteger(parseInt(own.id)) ? { id: own.id } : {}), ...(Number.isInteger(parseInt(own.against)) ? { against: own.against } : {}) };
}
export const goalOf = ({ position, id, against }) => `${position}:${id}:${against ?? ""}`;
// The pass over the text that is compared with this one; a translator's target stays the same.
const otherPass = () => {
	const { text: _, target, ...asked } = app.pass.question;
	return post("api/passes", { ...asked, text: state().other, ...(app.pass.question.target === null && app.pass.own_target === null ? {} : { target: target ?? app.pass.own_target }) });
};

// Other passes that a number may come from: another text, without what-ifs, of a generation step, without a word, with words swapped.
export async function passOf(which) {
	if (!which || which === "base") return which ? app.base : app.pass;
	if (which === "other") return otherPass();
	const number = Number(which.slice(4));
	if (which.startsWith("swap")) return swapPass(number);
	if (which.startsWith("word")) {
		const { places } = (await reading("without")).words[number];
		return post("api/passes", { ...app.pass.question, leave: places });
	}
	return generatedPass(number);
}

export const toggle = (key, value) => {
	const now = new Set(list(key));
	if (!now.delete(value)) now.add(value);
	select({ [key]: [...now].join(","), cell: state().cell });
};
