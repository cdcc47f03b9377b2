// Requests to the service, each sent once. A saved page contains the answers and sends none.

const MOST_ANSWERS = 2000; // answers kept in memory
const MOST_BYTES = 512e6; // of them together, beside the latest
const NOT_SAVED =
	"This is a saved page: it contains the numbers saved with it, but no model.\n" +
	"Start `clearhead explore` to see others.";
const answers = new Map(), sizes = new Map();
const whole = new Map(); // of a saved page: tensors and weights, complete, by their path
const kept = globalThis.saved?.answers ?? null;
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
		return kept[key];
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
		answer.then(({ byteLength }) => { sizes.set(key, byteLength); dropOldest(); }, () => answers.delete(key));
	}
	return answers.get(key);
}
function dropOldest() {
	let total = [...sizes.values()].reduce((a, b) => a + b, 0);
	while (answers.size > 1 && (answers.size > MOST_ANSWERS || total > MOST_BYTES)) {
		const key = answers.keys().next().value;
		total -= sizes.get(key) || 0;
		answers.delete(key);
		sizes.delete(key);
	}
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
export const forget = () => { answers.clear(); sizes.clear(); };

export async function packet(path) {
	if (isSaved && !(path in kept)) return parts(path);
	return unpack(await once(path, path));
}
function unpack(buffer) {
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

// Sites and weights are saved whole: a head, the mean of all, or some rows are taken from there.
export const siteKey = (pass, name) => `api/passes/${pass}/tensors?sites=${name}`;
export const weightKey = (name, moment) => `api/weights?name=${name}${moment === undefined ? "" : `&moment=${moment}`}`;
async function stored(key) {
	if (!(key in kept)) throw new ServiceError(NOT_SAVED);
	if (!whole.has(key)) whole.set(key, Object.values(unpack(await request(key)))[0]);
	return whole.get(key);
}
async function parts(path) {
	const asked = new URLSearchParams(path.slice(path.indexOf("?"))), found = {};
	if (asked.has("name")) {
		found[asked.get("name")] = cut(await stored(weightKey(asked.get("name"), asked.get("moment") ?? undefined)), asked.get("rows"), asked.get("columns"));
		return found;
	}
	const pass = path.split("/")[2];
	for (const name of asked.get("sites").split(",")) {
		const X = headOf(await stored(siteKey(pass, name)), asked.get("head"));
		found[name] = asked.has("rows") && X.shape.length === 2 ? cut(X, asked.get("rows")) : X;
	}
	return found;
}
function headOf({ shape, data }, at) {
	if (at === null) return { shape, data };
	const [count, n, m] = shape, size = n * m;
	if (at !== "mean") return { shape: [n, m], data: data.subarray(at * size, (Number(at) + 1) * size) };
	return { shape: [n, m], data: Float32Array.from({ length: size }, (_, i) => {
		let sum = 0;
		for (let head = 0; head < count; head++) sum += data[head * size + i];
		return sum / count;
	}) };
}
function cut({ shape, data }, rows, columns) {
	const range = (text, most) => (text ? text.split(":").map((x) => Math.min(most, Number(x))) : [0, most]);
	const [a, b] = range(rows, shape[0]);
	if (shape.length === 1) return { shape: [b - a], data: data.subarray(a, b) };
	const [c, d] = range(columns, shape[1]), taken = new Float32Array((b - a) * (d - c));
	for (let i = a; i < b; i++) taken.set(data.subarray(i * shape[1] + c, i * shape[1] + d), (i - a) * (d - c));
	return { shape: [b - a, d - c], data: taken };
}

// Every answer so far that a saved page needs, by request.
export async function remembered(isKept) {
	const found = [...answers].filter(([key]) => isKept(key));
	return Promise.all(found.map(async ([key, answer]) => [key, await answer]));
}
