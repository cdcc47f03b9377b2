// What the views share: the model, the pass on screen, the one without what-ifs, and the selection made sense of.

import { get, packet, post, forget, Refused } from "./api.js";
import { list, select, state } from "./state.js";

export const app = { model: null, pass: null, base: null };

export const attention = () => {
  const all = app.model.attentions;
  return all.find((one) => one.name === state().at) || all.find((one) => one.stack === (
    app.model.shape === "encoder" ? "encoder" : "decoder"
  )) || all[0];
};
// The place of the chosen head among those that stand, and its number.
export const head = () => {
  const heads = attention().heads;
  return Math.max(0, heads.indexOf(Number(state().head || heads[0])));
};
export const headName = () => `${attention().name}.${attention().heads[head()]}`;
export const topStack = () => (app.model.shape === "encoder" ? "encoder" : "decoder");
export const tokens = (stack) => app.pass.tokens[stack];
const within = (text, most, otherwise) => (
  text !== "" && Number(text) >= 0 && Number(text) < most ? Number(text) : otherwise
);
export const query = () => within(state().q, tokens(attention().stack).length, tokens(attention().stack).length - 1);
export const keyToken = () => {
  const most = tokens(attention().keys).length;
  return within(state().k, most, Math.max(0, Math.min(most - 1, query() - 1)));
};
// The token that a view about one token looks at: the query's place in a stack.
export const place = (stack) => within(state().q, tokens(stack).length, tokens(stack).length - 1);
export const stackOf = (name) => app.model.stacks.find((one) => one.name === name);
export const isWhatIf = () => Boolean(state().off || state().mute);

export function isVisible(one, i, j) {
  if (one.kind === "cross") return true;
  const window = app.pass.window[one.stack];
  return !(app.pass.causal[one.stack] && j > i) && !(window !== null && Math.abs(i - j) >= window);
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
  const base = isWhatIf() ? await post("api/passes", asked) : pass;
  app.pass = pass;
  app.base = base;
}

// A pass that the service no longer keeps is asked for again, once.
export async function again(work) {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof Refused) || !error.isGone) throw error;
    forget();
    await ask();
    return work();
  }
}

export const sites = (names, at) => packet(
  `api/passes/${app.pass.name}/tensors?sites=${names.join(",")}${at === undefined ? "" : `&head=${at}`}`,
);
export const site = async (name, at) => (await sites([name], at))[name];
export const reading = (what, asked = {}, pass = app.pass) => get(
  `api/passes/${pass.name}/${what}?${new URLSearchParams(asked)}`,
);
export const thumbnails = () => packet(`api/passes/${app.pass.name}/thumbnails`);
export async function weight(name, rows, columns) {
  const part = (range) => (range ? `${range[0]}:${range[1]}` : "");
  return (await packet(`api/weights?name=${name}&rows=${part(rows)}&columns=${part(columns)}`))[name];
}

// All tensors of the chosen head.
export async function headTensors() {
  const one = attention(), at = head(), shared = one.reads[at];
  const [own, keys] = await Promise.all([
    sites(["q", "scores", "weights", "heads"].map((key) => `${one.name}.${key}`), at),
    sites(["k", "v"].map((key) => `${one.name}.${key}`), shared),
  ]);
  return Object.fromEntries(Object.entries({ ...own, ...keys }).map(
    ([name, X]) => [name.slice(one.name.length + 1), X],
  ));
}

export const toggle = (key, value) => {
  const now = new Set(list(key));
  if (!now.delete(value)) now.add(value);
  select({ [key]: [...now].join(",") });
};
