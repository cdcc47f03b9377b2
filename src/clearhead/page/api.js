// Requests to the service, each sent once. A saved page contains the answers and sends none.

const MOST_ANSWERS = 400; // answers kept in memory
const NOT_SAVED =
	"This is a saved page: it contains the numbers saved with it, but no model.\n" +
	"Start `clearhead explore` to see others.";
const answers = new Map();
const kept = document.getElementById("kept") ? JSON.parse(document.getElementById("kept").textContent) : null;
export const isSaved = kept !== null;

export class ServiceError extends Error {
	constructor(text, isExpired = false) {
		super(text);
		this.isExpired = isExpired;
	}
}

async function request(key, path, options) {
	if (isSaved) {
		if (!(key in kept)) throw new ServiceError(NOT_SAVED);
		return Uint8Array.from(atob(kept[key]), (c) => c.charCodeAt(0)).buffer;
	}
	let response;
	try {
		response = await fetch(path, options);
	} catch {
		throw new ServiceError("The service does not respond.\nIs `clearhead explore` still running?");
	}
	if (!response.ok) {
		const text = await response.text();
		let said = text;
		try { said = JSON.parse(text).error || text; } catch { /* plain text */ }
		throw new ServiceError(said, response.status === 404);
	}
	return response.arrayBuffer();
}

function once(key, path, options) {
	if (!answers.has(key)) {
		const answer = request(key, path, options);
		answers.set(key, answer);
		answer.catch(() => answers.delete(key));
		if (answers.size > MOST_ANSWERS) answers.delete(answers.keys().next().value);
	}
	return answers.get(key);
}

const text = (buffer) => new TextDecoder().decode(buffer);
export const get = async (path) => JSON.parse(text(await once(path, path)));
export async function post(path, body) {
	const content = JSON.stringify(body);
	return JSON.parse(text(
		await once(
			`${path} ${content}`, path, { method: "POST", headers: { "content-type": "application/json" }, body: content },
		),
	));
}
export const forget = () => answers.clear();

export async function packet(path) {
	const buffer = await once(path, path);
	const length = new DataView(buffer).getUint32(0, true);
	const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
	let at = 4 + length;
	const tensors = {};
	for (const { name, shape } of header.tensors) {
		const size = shape.reduce((a, b) => a * b, 1);
		tensors[name] = { shape, data: new Float32Array(buffer, at, size) };
		at += 4 * size;
	}
	return tensors;
}

// What a saved page needs: every answer so far, in base64.
export async function remembered() {
	const all = {};
	for (const [key, answer] of answers) {
		const data = new Uint8Array(await answer);
		let binary = "";
		for (let i = 0; i < data.length; i += 0x8000) binary += String.fromCharCode(...data.subarray(i, i + 0x8000));
		all[key] = btoa(binary);
	}
	return all;
}
