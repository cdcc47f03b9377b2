"""How does the memory of causal attention grow with n? The fused path in a line, the plain one in a square.

Each point is the peak resident memory of a fresh process over what it held before one causal attention
(one head of width 256, batch 1). Also measured, with 4 heads of width 64: what leaves the kernel (dropout)
and what does not (grouped queries, d_v ≠ d_k). Draws docs/images/attention_memory.svg.
"""

import json
import resource
import subprocess
import sys
from pathlib import Path

from harness import arguments, report

LENGTHS = (1024, 4096, 16384)
WIDE = {"h": 1, "g": 1, "d_k": 256, "d_v": 256}
HEADS = {"h": 4, "g": 4, "d_k": 64, "d_v": 64}
CASES: dict[str, tuple[dict[str, int], float]] = {  # sizes, dropout
    "fused": (WIDE, 0.0),
    "plain": (WIDE, 0.0),
    "fused, 4 heads": (HEADS, 0.0),
    "fused, grouped queries": (HEADS | {"g": 2}, 0.0),
    "fused, d_v = 32": (HEADS | {"d_v": 32}, 0.0),
    "fused, d_v = 96": (HEADS | {"d_v": 96}, 0.0),
    "fused, dropout": (HEADS, 0.1),
}
PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "attention_memory.svg"


def measure(case: str, n: int) -> float:
    """Megabytes that one attention adds to this process."""
    import torch

    from clearhead.layers.attention import Attention, Dimensions, fused, plain
    from clearhead.layers.masks import View
    from clearhead.layers.similarity import ScaledDot

    torch.manual_seed(1)
    sizes, dropout = CASES[case]
    size = Dimensions(256, 256, sizes["h"], sizes["g"], sizes["d_k"], sizes["d_v"])
    attention = Attention(size, ScaledDot(size.h, size.d_k, None), dropout=dropout).train()
    at = torch.arange(n)[None]
    X = torch.randn(1, n, 256)
    with torch.no_grad():
        Q, (K, V) = attention.queries(X), attention.keys_values(X)
        attend = plain if case == "plain" else fused
        attend(
            attention,
            Q[:, :, :64],
            K[:, :, :64],
            V[:, :, :64],
            View(at[:, :64], at[:, :64], causal=True, aligned=True),
        )
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        attend(attention, Q, K, V, View(at, at, causal=True, aligned=True))
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def draw(points: dict[str, dict[int, float]]) -> None:
    """Memory against n, on logarithmic axes."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "clearhead"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 4.2), layout="constrained")
    styles = {
        "plain": ("#d55e00", "o", "plain: every score in memory"),
        "fused": ("#0072b2", "s", "fused: a tile at a time"),
    }
    for case, (colour, marker, label) in styles.items():
        lengths = list(points[case])
        axes.plot(
            lengths, [points[case][n] for n in lengths], marker=marker, color=colour, linewidth=2, label=label
        )
        axes.annotate(f"{points[case][lengths[-1]]:,.0f} MB", (lengths[-1], points[case][lengths[-1]]),
                      textcoords="offset points", xytext=(6, -3), color=colour)  # fmt: skip
    ticks = LENGTHS
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(ticks, [f"{n:,}" for n in ticks])
    axes.set_xlim(right=30000)
    axes.set_xlabel("sequence length n")
    axes.set_ylabel("memory added by one causal attention (MB)")
    axes.set_title("One head of width 256: n² against n", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, loc="center right")
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, metadata={"Date": None})


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--one", nargs=2, metavar=("CASE", "N"), help="measure one point in this process")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one[0], int(options.one[1]))))
        return
    points: dict[str, dict[int, float]] = {}
    for case in CASES:
        lengths = LENGTHS if case in ("fused", "plain") else (4096,)
        for n in lengths:
            command = [sys.executable, __file__, "--one", case, str(n)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            points.setdefault(case, {})[n] = json.loads(done.stdout)
            print(f"{case:24s} n = {n:6d}  {points[case][n]:10.1f} MB")
    growth = points["fused"][16384] / max(points["fused"][4096], 1.0)
    keeps = growth <= 6  # four times the tokens; a square would be sixteen
    print(f"fused, from 4k to 16k: {growth:.1f} times the memory: {'a line' if keeps else 'NOT a line'}")
    if options.save:
        draw(points)
    result = {"megabytes": points, "fused_growth_4k_to_16k": growth, "bar": 6, "kept": keeps, "seed": 1}
    report("attention_memory", result, options.save)
    raise SystemExit(not keeps)


if __name__ == "__main__":
    main()
