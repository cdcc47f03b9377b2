// The page as one file: all answers so far go into a document that sends no requests, which `one_file.py` makes.

import { packet, remembered, siteKey, weightKey } from "./api.js";
import { app, choice, reading, topStack } from "./app.js";
import { VIEWS } from "./views.js";
import { save } from "./parts/panel.js";
import { announce } from "./parts/dom.js";

const MOST = 40e6; // bytes of numbers that are saved without being viewed
const POSITIONS = 48; // tokens of a stack whose readings are saved without being viewed

// The bytes of the answers as `one_file.py` packs them, compressed and in base64.
async function packed(found) {
	const header = new TextEncoder().encode(JSON.stringify({ start: location.hash, answers: found.map(([key, data]) => [key, data.byteLength]) }));
	const parts = [new Uint32Array([header.length]), header, ...found.map(([, data]) => data)];
	const zipped = new Response(new Blob(parts).stream().pipeThrough(new CompressionStream("gzip")));
	const data = new Uint8Array(await zipped.arrayBuffer());
	let binary = "";
	for (let i = 0; i < data.length; i += 0x8000) binary += String.fromCharCode(...data.subarray(i, i + 0x8000));
	return btoa(binary);
}

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
const isPart = (key) => key.startsWith(`api/passes/${app.pass.name}/tensors?`) && /&(head|rows)=/.test(key) || /^api\/weights\?.*&(rows|columns)=/.test(key);

export async function savePage() {
	announce("Saving the page");
	const isWhole = await fetchAll();
	const page = await (await fetch("page/saved.html")).text(), content = await packed(await remembered((key) => !(isWhole && isPart(key))));
	const html = page.replace(/(id="answers">)[^<]*/, (_, open) => open + content);
	save(`${app.model.name.replace(/[^\w.-]+/g, "-")}-explorer.html`, "text/html", html);
	announce(isWhole ? "Saved with every number of this pass." : "Saved with what has been viewed; the rest is too large.");
}
