// Opens a page that is one file: unpacks its modules and the answers inside, then starts it. Not a module itself.

(async () => {
	const unzip = (id) => new Response(
		new Blob([Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0))])
			.stream().pipeThrough(new DecompressionStream("gzip")),
	).arrayBuffer();
	const read = (data, start, length) => JSON.parse(new TextDecoder().decode(new Uint8Array(data, start, length)));
	const data = await unzip("answers"), length = new DataView(data).getUint32(0, true), answers = {};
	const header = read(data, 4, length);
	let at = 4 + length;
	for (const [key, size] of header.answers) { answers[key] = data.slice(at, at + size); at += size; }
	globalThis.saved = { answers, start: header.start };
	const imports = Object.fromEntries(Object.entries(read(await unzip("modules"))).map(
		([path, text]) => [path, `data:text/javascript;charset=utf-8,${encodeURIComponent(text)}`],
	));
	const map = document.createElement("script");
	map.type = "importmap";
	map.textContent = JSON.stringify({ imports });
	document.head.append(map);
	await import("page/main.js");
})();
