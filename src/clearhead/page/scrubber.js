// The slider over the steps of a run whose weights were kept: the same text in the model as it was then.

import { h, num, svg } from "./parts/dom.js";
import { isSaved } from "./api.js";
import { app, attention, keyToken, query } from "./app.js";
import { select, state } from "./state.js";

const WIDTH = 160, HEIGHT = 24, PAUSE = 900; // of the curve, in pixels, and between two steps, in milliseconds
const find = (id) => document.getElementById(id);
let playing = null;

// The place on the slider; the last one is the model itself.
const placeNow = () => {
	const at = app.model.moments.findIndex(({ step }) => String(step) === state().moment);
	return at < 0 ? app.model.moments.length : at;
};
// The head and the words that are looked at stay the same from step to step.
function go(place) {
	const words = attention() ? { q: query(), k: keyToken() } : {};
	select({ ...words, moment: app.model.moments[place]?.step ?? "", cell: state().cell });
}
function stop() {
	clearTimeout(playing);
	playing = null;
	drawScrubber();
}
function play() {
	if (playing) { stop(); return; }
	const next = () => {
		go((placeNow() + 1) % (app.model.moments.length + 1));
		playing = placeNow() === app.model.moments.length ? null : setTimeout(next, PAUSE);
		drawScrubber();
	};
	playing = setTimeout(next, 0);
}

// The training loss before each of the steps, with a mark at the chosen one.
function curve(place) {
	const known = app.model.moments.filter(({ loss }) => loss !== null), most = Math.max(...known.map(({ loss }) => loss), 1e-9);
	const end = Math.max(...known.map(({ step }) => step), 1);
	const x = ({ step }) => (2 + step / end * (WIDTH - 4)).toFixed(1), y = ({ loss }) => (HEIGHT - 2 - loss / most * (HEIGHT - 5)).toFixed(1);
	const here = app.model.moments[place] ?? known.at(-1);
	return svg(
		"svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "loss", "aria-hidden": "true" },
		svg("polyline", { points: known.map((one) => `${x(one)},${y(one)}`).join(" ") }),
		here && here.loss !== null ? svg("circle", { cx: x(here), cy: y(here), r: 3 }) : null,
	);
}

export function drawScrubber() {
	const box = find("scrubber"), { moments } = app.model, place = placeNow(), one = moments[place];
	box.hidden = isSaved || !moments.length;
	if (box.hidden) return;
	const said = one ? `step ${one.step}${one.loss === null ? "" : `, loss ${num(one.loss, 3)}`}` : "the trained model";
	let slider = box.querySelector("input");
	if (!slider) {
		slider = h("input", { type: "range", min: 0, max: moments.length, step: 1, key: "moment", "aria-label": "Training step", oninput: () => go(Number(slider.value)) });
		box.append(h("button", { key: "play moments" }), h("span", {}, "Training"), slider, h("output", {}));
		box.querySelector("button").addEventListener("click", play);
	}
	slider.value = place;
	slider.setAttribute("aria-valuetext", said);
	box.querySelector("button").replaceChildren(playing ? "❚❚" : "▶", h("span", { class: "sr" }, playing ? "Pause" : "Play the training"));
	box.querySelector("output").replaceChildren(said);
	box.querySelector("svg")?.remove();
	box.append(curve(place));
}
