// The keys of the page, which ? shows. A key does what a button does; none acts while somebody types.

import { h } from "./parts/dom.js";
import { closeMenus } from "./parts/panel.js";
import { darken, enlarge } from "./frame.js";
import { headName, isWhatIf, toggle } from "./app.js";
import { select } from "./state.js";
import { toggleList, turn } from "./lessons.js";
import { KEYS, VIEWS } from "./views.js";

const press = (...keys) => keys.map((key) => document.querySelector(`main [data-key="${key}"]:not(:disabled)`)).find(Boolean)?.click();
const ACTIONS = {
	ArrowRight: ["→", "next stage of attention, next step of generation", () => press("stage on", "step on")],
	ArrowLeft: ["←", "stage or step before", () => press("stage back", "step back")],
	" ": ["Space", "play the generation, or pause it", () => press("play")],
	m: ["M", "mute the chosen head, or unmute it", () => toggle("mute", headName())],
	r: ["R", "restore the original model", () => { if (isWhatIf()) select({ off: "", mute: "" }); }],
	l: ["L", "the list of lessons", () => toggleList()],
	n: ["N", "next step of the lesson", () => turn(1)],
	p: ["P", "step before", () => turn(-1)],
	"/": ["/", "edit the text", () => document.querySelector('[data-key="field text"]')?.focus()],
	"+": ["+", "larger text, then normal again", () => enlarge()],
	d: ["D", "light or dark", () => darken()],
	"?": ["?", "these keys", () => help()],
	Escape: ["Esc", "close the derivation or a menu", () => select({ cell: "" })],
};

export function help() {
	const box = document.getElementById("help");
	const line = (key, text) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, text)];
	box.replaceChildren(
		h("h2", {}, "Keys"),
		h(
			"dl", { class: "facts" }, Object.values(VIEWS).map((view, i) => line(KEYS[i], view.title)),
			Object.values(ACTIONS).map(([key, text]) => line(key, text)),
		),
		h("p", { class: "note" }, "In a matrix arrow keys move and Enter derives. Back undoes a view, a stage or a derivation."),
		h("button", { onclick: () => box.close() }, "Close"),
	);
	if (!box.open) box.showModal();
}

const TAKES_KEYS = "input, textarea, select, [role=application], dialog";
export const listen = () => addEventListener("keydown", (event) => {
	if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
	if (event.key === "Escape" && closeMenus()) return;
	const isElsewhere = event.target.closest?.(TAKES_KEYS) || document.getElementById("help").open;
	if (isElsewhere && !(event.key === "Escape" && !document.getElementById("help").open)) return;
	if (event.key === " " && event.target.closest?.("button, a, summary")) return;
	const view = Object.keys(VIEWS)[KEYS.indexOf(event.key)];
	const action = ACTIONS[event.key] || ACTIONS[event.key.toLowerCase()];
	if (view === undefined && !action) return;
	if (event.key !== "Escape") event.preventDefault();
	if (view !== undefined && event.key.length === 1) select({ view });
	else if (action) action[2]();
});
