// The page of the server: what is loaded, a box to try it, and how busy it is.

const byId = id => document.getElementById(id);
const EVERY = 2000; // milliseconds between two looks at the counters
const TASKS = {
	completions: { name: "continue", label: "Prompt", path: "/v1/completions", body: text => ({ prompt: text }), streams: true },
	chat: { name: "chat", label: "Message", path: "/v1/chat/completions", body: text => ({ messages: [{ role: "user", content: text }] }), streams: true },
	translate: { name: "translate", label: "Text to translate", path: "/v1/translate", body: text => ({ input: text }), show: row => row.text },
	classify: { name: "classify", label: "Text to classify", path: "/v1/classify", body: text => ({ input: text }), show: classes },
};
let models = [];
let running = null; // stops the request that is under way
let last = null; // tokens generated, and when they were counted

function classes(row) {
	const sorted = Object.entries(row.probabilities).sort((a, b) => b[1] - a[1]);
	return sorted.map(([label, share]) => `${(100 * share).toFixed(1).padStart(5)} %  ${label}`).join("\n");
}

function options(select, entries) {
	select.replaceChildren(...entries.map(([value, name]) => new Option(name, value)));
}

async function fetchJson(path, settings) {
	const answer = await fetch(path, settings);
	if (!answer.ok) throw new Error((await answer.json()).error.message);
	return answer.json();
}

function chooseModel() {
	const model = models.find(one => one.id === byId("model").value);
	options(byId("task"), model.tasks.filter(task => task in TASKS).map(task => [task, TASKS[task].name]));
	byId("explore").href = `/explore/${encodeURIComponent(model.id)}/`;
	chooseTask();
}

function chooseTask() {
	const task = TASKS[byId("task").value];
	byId("textlabel").textContent = task ? task.label : "This model gives vectors only: /v1/embeddings";
	byId("run").disabled = !task;
	byId("choices").hidden = !task || !task.streams;
}

async function run(event) {
	event.preventDefault();
	const task = TASKS[byId("task").value];
	if (!task || running) return;
	running = new AbortController();
	byId("error").hidden = true;
	byId("answer").textContent = "";
	byId("stop").disabled = false;
	try {
		await ask(task, running.signal);
	} catch (error) {
		if (error.name !== "AbortError") {
			byId("error").textContent = error.message;
			byId("error").hidden = false;
		}
	} finally {
		running = null;
		byId("stop").disabled = true;
	}
}

async function ask(task, signal) {
	const body = { model: byId("model").value, ...task.body(byId("text").value) };
	const settings = { method: "POST", headers: { "content-type": "application/json" }, signal };
	if (!task.streams) {
		const answer = await fetchJson(task.path, { ...settings, body: JSON.stringify(body) });
		byId("answer").textContent = answer.data.map(task.show).join("\n");
		return;
	}
	const numbers = { max_tokens: byId("max_tokens").valueAsNumber, temperature: byId("temperature").valueAsNumber };
	const answer = await fetch(task.path, { ...settings, body: JSON.stringify({ ...body, ...numbers, stream: true }) });
	if (!answer.ok) throw new Error((await answer.json()).error.message);
	const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
	let rest = "";
	for (;;) {
		const { done, value } = await reader.read();
		if (done) return;
		const events = (rest + value).split("\n\n");
		rest = events.pop();
		for (const one of events) show(one.slice("data: ".length));
	}
}

function show(content) {
	if (content === "[DONE]") return;
	const event = JSON.parse(content);
	if (event.error) throw new Error(event.error.message);
	for (const choice of event.choices) byId("answer").append(choice.text ?? choice.delta.content ?? "");
}

async function count() {
	try {
		const text = await (await fetch("/metrics")).text();
		const sum = name => [...text.matchAll(new RegExp(`^clearhead_${name}\\{.*\\} (.*)$`, "gm"))].reduce((total, found) => total + Number(found[1]), 0);
		const now = { tokens: sum("generated_tokens_total"), at: performance.now() };
		const speed = last ? (1000 * (now.tokens - last.tokens)) / (now.at - last.at) : 0;
		const texts = sum("open_texts"), slots = sum("used_slots");
		last = now;
		byId("load").textContent = `${slots} running, ${Math.max(0, texts - slots)} waiting, ${speed.toFixed(0)} tokens per second`;
	} catch {
		byId("load").textContent = "The server does not answer.";
	}
	setTimeout(count, EVERY);
}

byId("form").addEventListener("submit", run);
byId("stop").addEventListener("click", () => running?.abort());
byId("model").addEventListener("change", chooseModel);
byId("task").addEventListener("change", chooseTask);
byId("text").addEventListener("keydown", event => {
	if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("form").requestSubmit();
});
models = (await fetchJson("/v1/models")).data;
options(byId("model"), models.map(model => [model.id, model.id]));
chooseModel();
count();
