// The page as one file: sources, style and all answers so far go into a document that sends no requests.

import { remembered } from "./api.js";
import { app, attention, headTensors, sites, weight } from "./app.js";
import { save } from "./parts/panel.js";
import { announce } from "./parts/dom.js";
import { escape } from "./parts/python.js";

const MOST = 40e6; // bytes of numbers that are saved without being viewed
const IMPORT = /(from\s+|import\s+)"(\.{1,2}\/[^"]+\.js)"/g;
const POLICY = "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data: blob:";
const START = `
const hash = JSON.parse(document.getElementById("start").textContent);
if (location.hash.length < 2 && hash.length > 1) history.replaceState(null, "", hash);
await import("page/main.js");
`;

const fetchText = async (path) => (await fetch(path)).text();

// A module and all that it imports, by path; imports are rewritten to those paths.
async function sources(path, found = new Map()) {
	if (found.has(path)) return found;
	found.set(path, null);
	const text = await fetchText(path);
	const folder = path.slice(0, path.lastIndexOf("/") + 1);
	const resolve = (name) => new URL(name, `http://x/${folder}`).pathname.slice(1);
	for (const [, , name] of text.matchAll(IMPORT)) await sources(resolve(name), found);
	found.set(path, text.replace(IMPORT, (_, word, name) => `${word}"${resolve(name)}"`));
	return found;
}

function encoded(text) {
	const letters = Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte));
	return `data:text/javascript;base64,${btoa(letters.join(""))}`;
}

const inScript = (value) => JSON.stringify(value).replace(/[<\u2028\u2029]/g, escape);
const script = (type, id, content) => `<script type="${type}"${id ? ` id="${id}"` : ""}>${content}</script>`;

// Every head of every sublayer where that is little; otherwise only what has been viewed.
async function fetchHeads() {
	if (app.pass.bytes > MOST) return false;
	for (const one of app.model.attentions) {
		for (const at of one.heads.keys()) {
			await sites(["q", "scores", "weights", "heads"].map((key) => `${one.name}.${key}`), at);
			await sites(["k", "v"].map((key) => `${one.name}.${key}`), one.reads[at]);
		}
	}
	await headTensors();
	const { projections, heads, weights, d_v: d } = attention();
	if (projections === "none") return true;
	for (const at of heads.keys()) await weight(`${weights}.W_o.weight`, null, [at * d, (at + 1) * d]);
	return true;
}

export async function savePage() {
	announce("Saving the page");
	const isWhole = await fetchHeads();
	const modules = await sources("page/main.js");
	const shell = await fetchText("./");
	const imports = Object.fromEntries([...modules].map(([path, text]) => [path, encoded(text)]));
	const html = [
		'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
		`<meta http-equiv="Content-Security-Policy" content="${POLICY}">`,
		'<meta name="viewport" content="width=device-width, initial-scale=1">',
		"<title>clearhead explorer, saved</title>", shell.match(/<link rel="icon"[^>]*>/)[0],
		`<style>${await fetchText("page/style.css")}</style>`,
		script("application/json", "kept", inScript(await remembered())),
		script("application/json", "start", inScript(location.hash)), script("importmap", "", inScript({ imports })),
		script("module", "", START), "</head>", shell.match(/<body>[\s\S]*<\/body>/)[0], "</html>",
	];
	save(`${app.model.name.replace(/[^\w.-]+/g, "-")}-explorer.html`, "text/html", html.join("\n"));
	announce(isWhole ? "Saved with every head." : "Saved with what has been viewed; the rest is too large.");
}
