// The selection, which lives in the address bar; views subscribe.

export const DEFAULTS = {
	view: "attention", text: null, target: null, more: "", at: "", head: "", q: "", k: "", stage: "softmax", cell: "",
	off: "", mute: "", scope: "head", mass: "90", step: "", sort: "place", stack: "", site: "", swap: "", temperature: "",
	top_k: "", top_p: "", seed: "1", tokens: "12", goal: "", method: "", other: null, parts: "sublayers", lesson: "", moment: "",
};
const STEPS = ["view", "cell", "stage", "lesson"]; // changes that Back undoes, one by one
const TYPED = ["text", "target", "other"]; // and these, as one
const listeners = new Set();
let values = read(), isTyping = false;

function read() {
	const given = new URLSearchParams((location.hash.length > 1 ? location.hash : globalThis.saved?.start ?? "").slice(1));
	return Object.fromEntries(Object.entries(DEFAULTS).map(
		([key, value]) => [key, given.has(key) ? given.get(key) : value],
	));
}

// A page inside another, as in a notebook, has no address of its own.
function write(how, to) {
	try { history[how](null, "", to); } catch { /* it keeps its selection to itself */ }
}

export const state = () => values;
export const list = (key) => (values[key] ? values[key].split(",") : []);

export function address(changes) {
	const next = { ...values, ...changes };
	const stated = Object.entries(next).filter(([key, value]) => value !== DEFAULTS[key] && value !== null);
	return `#${new URLSearchParams(stated)}`;
}

const merged = (changes) => ({
	...values, ...Object.fromEntries(Object.entries(changes).map(([key, value]) => [key, value === null ? null : String(value)])),
});

// A derivation is closed when something else is selected, unless it is named too.
export function select(given) {
	const before = values, changes = { cell: "", ...given };
	const to = address(changes);
	values = merged(changes);
	const changed = Object.keys(values).filter((key) => values[key] !== before[key]);
	if (!changed.length) return;
	const wasTyping = isTyping;
	isTyping = changed.some((key) => TYPED.includes(key));
	const isStep = changed.some((key) => STEPS.includes(key)) || (isTyping && !wasTyping);
	write(isStep ? "pushState" : "replaceState", to);
	notify(new Set(changed));
}

// What an open selection means, written down: nothing on screen changes.
export function settle(changes) {
	write("replaceState", address(changes));
	values = merged(changes);
}

export const subscribe = (listener) => listeners.add(listener);
const notify = (changed) => listeners.forEach((listener) => listener(changed));

addEventListener("popstate", () => {
	const before = values;
	values = read();
	isTyping = false;
	const changed = Object.keys(values).filter((key) => values[key] !== before[key]);
	if (changed.length) notify(new Set(changed));
});
