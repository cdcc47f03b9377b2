// Python that makes the same pass, and then prints what a panel shows.

import { app, isWhatIf, topStack } from "../app.js";
import { state } from "../state.js";

export const escape = (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`;
export const quote = (text) => JSON.stringify(text).replace(/[\u007f-\uffff]/g, escape);

// `trace` has every site, `module` is the model or a variant without a part; the panel's own lines follow.
export function pythonPass(...more) {
	const asked = app.pass.question;
	const lines = ["import torch", "", "import clearhead"];
	if (isWhatIf() || asked.more.length || app.model.head === "none") {
		lines.push("from clearhead.inspection.capture import capture, zero");
		lines.push("from clearhead.inspection.variants import without");
		lines.push("from clearhead.models.inputs import Inputs");
	}
	const pass = lines.length > 3 ? whatIf(asked) : plain(asked);
	return [...lines, "", `model = clearhead.load(${quote(app.model.folder)})`, ...pass, ...more, ""].join("\n");
}

function plain(asked) {
	const target = asked.target === null ? "" : `, target=${quote(asked.target)}`;
	return ["module = model.module", `trace = model.trace(${quote(asked.text)}${target})`];
}

function whatIf(asked) {
	const ids = (stack) => `torch.tensor([[${app.pass.tokens[stack].map((token) => token.id).join(", ")}]])`;
	const source = app.model.shape === "encoder-decoder" ? `, source=${ids("encoder")}` : "";
	return [
		`module = without(model.module${asked.off.map((part) => `, ${quote(part)}`).join("")})`,
		`edits = (${asked.mute.map((name) => `zero(${quote(name)}), `).join("")})`,
		"with torch.no_grad(), capture(module, edits=edits) as trace:",
		`    module.outputs(Inputs(${ids(topStack())}${source}))`,
	];
}

// A site, or one head of it, or their mean.
export function pythonSite(name, at, ...rest) {
	const part = at === undefined || at === "mean" ? "[0]" : `[0, ${at}]`;
	const tensor = `X = trace[${quote(name)}]${part}${at === "mean" ? ".mean(0)" : ""}`;
	return pythonPass(tensor, ...(rest.length ? rest : ["print(X)"]));
}

const stated = (keys) => keys.filter((key) => state()[key] !== "");
const rules = (keys) => stated(keys).map((key) => `${key}=${Number(state()[key])}`).join(", ");

export const pythonChoice = (position) => pythonPass(
	"from clearhead.config.decoding import DecodingConfig",
	"from clearhead.decoding.sampling import draw, narrow, number", "",
	`settings = DecodingConfig(${rules(["temperature", "top_k", "top_p"])})`,
	`drawn = torch.tensor([number(${Number(state().seed)}, ${position})], dtype=torch.double)`,
	`Z = trace["logits"][:, ${position}]`,
	"print(draw(narrow(Z, settings), drawn) if settings.temperature else Z.argmax(-1))",
);

export const pythonGeneration = () => [
	"import clearhead", "", `model = clearhead.load(${quote(app.model.folder)})`,
	`generated = model.generate(${quote(app.pass.question.text)}, beam=1, max_tokens=${Number(state().tokens)}, ` +
		`${rules(["temperature", "top_k", "top_p", "seed"])})`,
	"print(generated.tokens, generated.logprobs)", "",
].join("\n");
