// Matrices are drawn for the room that they have, and in large type every panel for one screen.

import { h } from "./dom.js";

export const rem = () => parseFloat(getComputedStyle(document.documentElement).fontSize) / 16; // 1 at normal text size
const LEAST = 2; // rows that a table keeps
const tallOf = (id) => document.getElementById(id).offsetHeight;
export const isLarge = () => document.documentElement.hasAttribute("data-large");
// The height of the window between the frame and what has been changed.
export const screenRoom = () => Math.max(240, innerHeight - tallOf("frame") - tallOf("changed") - 8);
// The width of a panel's inside, in CSS pixels at normal text size.
export const panelWidth = () => (document.getElementById("main").clientWidth - 48) / rem();

// Draws every matrix of a part of the page for the room that it has there.
export function fitAll(root) {
	const all = [...root.querySelectorAll("canvas")].filter((canvas) => canvas.fit);
	const rooms = all.map((canvas) => canvas.parentElement.clientWidth);
	all.forEach((canvas, i) => { if (rooms[i]) canvas.fit(rooms[i]); });
	if (isLarge()) root.querySelectorAll(".panel").forEach(fitPanel);
}

// A panel taller than the screen gets smaller pictures, then tables that a button unfolds.
function fitPanel(panel) {
	const over = () => panel.offsetHeight - screenRoom() + (panel.closest("#side") ? 20 * rem() : 0);
	unfold(panel);
	if ("whole" in panel.dataset) return;
	const squares = [...panel.querySelectorAll(".matrix canvas")].filter((canvas) => canvas.fit);
	for (let turn = 0, less = 0; turn < 3 && squares.length && over() > 0; turn++) {
		less += over();
		squares.forEach((canvas) => canvas.fit(canvas.parentElement.clientWidth, less));
	}
	const rows = new Set([...panel.querySelectorAll(".headrow")].map((one) => one.offsetTop)).size, thumb = panel.querySelector(".thumb");
	if (rows && over() > 0) panel.style.setProperty("--thumb", `${Math.max(40 * rem(), thumb.offsetWidth - over() / rows)}px`);
	const much = over(), tables = [...panel.querySelectorAll("table")], boxes = tables.map((table) => table.getBoundingClientRect());
	const beside = ({ top }) => Math.max(...boxes.filter((box) => box.top === top).map(({ bottom }) => bottom));
	if (much > 0) tables.forEach((table, t) => foldTable(table, panel, much - beside(boxes[t]) + boxes[t].bottom));
}

function foldTable(table, panel, over) {
	const rows = [...table.tBodies[0].rows], tall = rows[0]?.offsetHeight;
	if (!tall) return; // inside closed details
	const count = Math.min(rows.length - LEAST, Math.ceil(over / tall + 1.4)); // and one for the button
	if (count < 2) return;
	rows.filter((row) => !row.matches(".on, .rest")).slice(-count).forEach((row) => { row.hidden = true; });
	table.after(h("button", { class: "more", onclick: () => { panel.dataset.whole = ""; unfold(panel); } }, `Show all ${rows.length} rows`));
}
function unfold(panel) {
	panel.style.removeProperty("--thumb");
	panel.querySelectorAll("tr[hidden]").forEach((row) => { row.hidden = false; });
	panel.querySelectorAll("button.more").forEach((button) => button.remove());
}
