// The page as one file: sources, style and all answers so far go into a document that sends no requests.

import { packet, remembered, siteKey, weightKey } from "./api.js";
import { app, choice, reading, topStack } from "./app.js";
import { VIEWS } from "./views.js";
import { save } from "./parts/panel.js";
import { announce } from "./parts/dom.js";
import { escape } from "./parts/python.js";

const MOST = 40e6; // bytes of numbers that are saved without being viewed
const POSITIONS = 48; // tokens of a stack whose readings are saved without being viewed
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

// What every view shows of this pass, and all tensors and weights where they are few; says whether all of it is inside.
async function fetchAll() {
	for (const view of Object.values(VIEWS)) if (!view.missing?.()) { await view.draw(); await view.done?.(); }
	if (app.pass.bytes + 4 * app.model.weights > MOST) return false;
	const names = Object.keys(app.pass.sites), places = [...new Set(names.map((name) => name.match(/^(.+\.(?:self|cross|ffn))\./)?.[1]))];
	const inputs = places.filter(Boolean).map((place) => `${place}.x`);
	const biases = app.model.attentions.filter(({ biased }) => biased).map(({ name }) => `${name}.bias`);
	for (const name of [...names, ...inputs, ...biases]) await packet(siteKey(app.pass.name, name));
	for (const name of app.model.parameters) await packet(weightKey(name));
	for (const { name } of app.model.attentions) await reading("pairs", { attention: name });
	await fetchPositions();
	return true;
}

// What is read at each token, of a text that is not long.
async function fetchPositions() {
	for (const [stack, list] of Object.entries(app.pass.tokens)) {
		for (const [position, { id }] of list.entries()) {
			if (position >= POSITIONS) return;
			await reading("stream", { stack, position });
			await reading("neighbours", { stack, id });
			if (stack !== topStack() || app.model.head === "none") continue;
			await Promise.all([reading("lens", { position }), reading("prediction", { position })]);
			if (!VIEWS.attribution.missing()) await reading("attribution", { position });
			if (app.model.head === "language") await choice(position);
		}
	}
}

// Heads and tokens that were fetched one by one are inside the whole tensors too.
const isPart = (key) => key.startsWith(`api/passes/${app.pass.name}/tensors?`) && /&(head|rows)=/.test(key) || /^api\/weights\?.*=\d/.test(key);

export async function savePage() {
	announce("Saving the page");
	const isWhole = await fetchAll();
	const modules = await sources("page/main.js");
	const shell = await fetchText("./");
	const imports = Object.fromEntries([...modules].map(([path, text]) => [path, encoded(text)]));
	const html = [
		'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
		`<meta http-equiv="Content-Security-Policy" content="${POLICY}">`,
		'<meta name="viewport" content="width=device-width, initial-scale=1">',
		"<title>clearhead explorer, saved</title>", shell.match(/<link rel="icon"[^>]*>/)[0],
		`<style>${await fetchText("page/style.css")}</style>`,
		script("application/json", "kept", inScript(await remembered((key) => !(isWhole && isPart(key))))),
		script("application/json", "start", inScript(location.hash)), script("importmap", "", inScript({ imports })),
		script("module", "", START), "</head>", shell.match(/<body>[\s\S]*<\/body>/)[0], "</html>",
	];
	save(`${app.model.name.replace(/[^\w.-]+/g, "-")}-explorer.html`, "text/html", html.join("\n"));
	announce(isWhole ? "Saved with every number of this pass." : "Saved with what has been viewed; the rest is too large.");
}
