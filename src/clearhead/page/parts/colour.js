// Colour scales that are even to the eye: straight lines in OKLab, whose lightness alone gives the order.
// Weights run from the page's own background to deep blue; signed numbers from orange over it to blue.

// Lightness, chroma and hue of the points that a scale runs through.
const zero = { light: [0.985, 0.003, 270], dark: [0.25, 0.012, 275] };
const POINTS = {
	"weights light": [zero.light, [0.68, 0.115, 245], [0.33, 0.15, 275]],
	"weights dark": [zero.dark, [0.58, 0.13, 258], [0.94, 0.06, 210]],
	"signed light": [[0.5, 0.145, 52], [0.78, 0.105, 66], zero.light, [0.74, 0.095, 245], [0.42, 0.15, 262]],
	"signed dark": [[0.84, 0.125, 68], [0.53, 0.1, 55], zero.dark, [0.54, 0.11, 255], [0.85, 0.09, 235]],
};
const tables = new Map();

export const isDark = () => document.documentElement.dataset.theme === "dark";
const lab = ([L, C, H]) => [L, C * Math.cos((H * Math.PI) / 180), C * Math.sin((H * Math.PI) / 180)];
const mix = (a, b, t) => a.map((value, i) => value + (b[i] - value) * t);

function rgb([L, a, b]) {
	const l = (L + 0.3963377774 * a + 0.2158037573 * b) ** 3;
	const m = (L - 0.1055613458 * a - 0.0638541728 * b) ** 3;
	const s = (L - 0.0894841775 * a - 1.291485548 * b) ** 3;
	const linear = [
		4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s, -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
		-0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
	];
	return linear.map((x) => Math.round(
		255 * Math.max(0, Math.min(1, x <= 0.0031308 ? 12.92 * x : 1.055 * x ** (1 / 2.4) - 0.055)),
	));
}

function through(points, t) {
	const at = t * (points.length - 1);
	const i = Math.min(points.length - 2, Math.floor(at));
	return mix(points[i], points[i + 1], at - i);
}

// 256 colours of a scale, as [r, g, b].
function colours(kind) {
	const name = `${kind} ${isDark() ? "dark" : "light"}`;
	if (!tables.has(name)) {
		const points = POINTS[name].map(lab);
		tables.set(name, Array.from({ length: 256 }, (_, i) => rgb(through(points, i / 255))));
	}
	return tables.get(name);
}

// How a number becomes a colour: a scale has a kind, and the number at its end.
export function scaleFor(values, kind, isHidden) {
	let largest = 0;
	for (let i = 0; i < values.length; i++) if (
		Number.isFinite(values[i]) && !(isHidden && isHidden(i))
	) largest = Math.max(largest, Math.abs(values[i]));
	return { kind, largest: kind === "weights" ? Math.max(largest, 1e-12) : largest || 1 };
}
// Weights are shares of 1; among many keys each is so small that the scale ends at the largest.
export const scaleOfWeights = (values, keys) => (
	keys > 32 ? scaleFor(values, "weights") : { kind: "weights", largest: 1 }
);
const chooser = ({ kind, largest }, table) => {
	const share = kind === "weights" ? (x) => x / largest : (x) => (x / largest + 1) / 2;
	return (x) => table[Math.max(0, Math.min(255, Math.round(share(x) * 255))) || 0];
};
export const colourer = (scale) => chooser(scale, colours(scale.kind));
// The same as one pixel of a canvas, for matrices of many numbers.
export const painter = (scale) => chooser(scale, Uint32Array.from(colours(scale.kind), ([r, g, b]) => (255 << 24) | (b << 16) | (g << 8) | r));
export const css = (c) => `rgb(${c[0]} ${c[1]} ${c[2]})`;

// Black or white, whichever is more legible (relative luminance of WCAG).
export function inkOn(colour) {
	const [r, g, b] = colour.map((x) => (x <= 10 ? x / 3294 : ((x / 255 + 0.055) / 1.055) ** 2.4));
	return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
}
export const property = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
