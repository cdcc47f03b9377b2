// Python that makes the same pass, and then prints what a panel shows.

import { app, isWhatIf, rule, temperatureOf, topStack } from "../app.js";
import { list } from "../state.js";

const escape = (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`;
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

// The ids that the model reads.
function inputs() {
	const ids = (stack) => `torch.tensor([[${app.pass.tokens[stack].map((token) => token.id).join(", ")}]])`;
	return `Inputs(${ids(topStack())}${app.model.shape === "encoder-decoder" ? `, source=${ids("encoder")}` : ""})`;
}
function whatIf(asked) {
	return [
		`module = without(model.module${asked.off.map((part) => `, ${quote(part)}`).join("")})`,
		`edits = (${asked.mute.map((name) => `zero(${quote(name)}), `).join("")})`,
		"with torch.no_grad(), capture(module, edits=edits) as trace:",
		`    module.outputs(${inputs()})`,
	];
}

// The inputs and the answer that attribution takes.
export function pythonAnswer({ position, id, against }, first, ...rest) {
	return pythonPass(
		first, "from clearhead.inspection.attribution.goals import Logit", "from clearhead.models.inputs import Inputs", "",
		`inputs = ${inputs()}`, `goal = Logit(${id}, against=${against ?? "None"}, position=${position})`, ...rest,
	);
}

// A site, or one head of it, or their mean.
export function pythonSite(name, at, ...rest) {
	const part = at === undefined || at === "mean" ? "[0]" : `[0, ${at}]`;
	const tensor = `X = trace[${quote(name)}]${part}${at === "mean" ? ".mean(0)" : ""}`;
	return pythonPass(tensor, ...(rest.length ? rest : ["print(X)"]));
}

const RULES = ["temperature", "top_k", "top_p", "seed"];
const rules = (view, keys) => keys.map((key) => [key, key === "temperature" ? temperatureOf(view) : rule(key, key === "seed" ? 1 : undefined)])
	.filter(([, value]) => value !== undefined).map(([key, value]) => `${key}=${value}`).join(", ");

export const pythonChoice = (position) => pythonPass(
	"from clearhead.config.decoding import DecodingConfig",
	"from clearhead.decoding.sampling import draw, narrow, number", "",
	`settings = DecodingConfig(${rules("next", RULES.slice(0, 3))})`,
	`drawn = torch.tensor([number(${rule("seed", 1)}, ${position})], dtype=torch.double)`,
	`Z = trace["logits"][:, ${position}]`,
	"print(draw(narrow(Z, settings), drawn) if settings.temperature else Z.argmax(-1))",
);

export const pythonGeneration = () => (isWhatIf() ? [
	"import clearhead", "from clearhead.config.decoding import DecodingConfig",
	"from clearhead.inspection.cache_comparison import compare_cache", "from clearhead.inspection.passes import Inspector", "",
	`model = clearhead.load(${quote(app.model.folder)})`, `settings = DecodingConfig(max_tokens=${rule("tokens", 12)}, ${rules("generation", RULES)})`,
	`found = compare_cache(Inspector(model.bundle), ${quote(app.pass.question.text)}, settings, ${quoted("off")}, ${quoted("mute")})`,
	"print([step.token.text for step in found.steps])", "",
] : [
	"import clearhead", "", `model = clearhead.load(${quote(app.model.folder)})`,
	`generated = model.generate(${quote(app.pass.question.text)}, chat=False, beam=1, max_tokens=${rule("tokens", 12)}, ${rules("generation", RULES)})`,
	"print(generated.tokens, generated.logprobs)", "",
]).join("\n");
const quoted = (key) => `[${list(key).map(quote).join(", ")}]`;
