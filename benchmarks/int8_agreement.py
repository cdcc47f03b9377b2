"""Does rounding change what a model writes? The compiled step in float32 and int8 beside PyTorch, on `python-lm`.

    python benchmarks/int8_agreement.py runs/python-lm

Windows of the test data are read by all, and the likeliest next tokens compared, each after the same text; then 200
prompts from the same data are continued greedily by 32 tokens, and the test data are evaluated. The bars: int8 agrees
on 99 % of the next tokens and on 90 % of the texts, and its perplexity is at most 0.5 % higher; float32 agrees on all,
but where the two best logits of PyTorch are nearly equal.

int8 is what `clearhead quantize` makes. Beside it are the nearest numbers, as `--int8` takes them, and weights with a
scale for each 32 numbers of a row, as in llama.cpp's q8_0, multiplied in float32.
"""

from copy import deepcopy
from itertools import islice
from typing import Any

import torch
import torch.nn.functional as F
from harness import arguments, report
from torch import Tensor

from clearhead.config.decoding import DecodingConfig
from clearhead.config.run import RunConfig
from clearhead.decoding.engine import Draft, Engine
from clearhead.decoding.own_texts import quantise
from clearhead.decoding.steppers.switching import SwitchingStepper, stepper_of
from clearhead.examples import Text
from clearhead.model_folder import Bundle, load
from clearhead.models.int8 import LARGEST, matrices
from clearhead.text.sources.read import ExampleReader, read_split
from clearhead.training.evaluation.evaluate import Evaluation

WINDOWS, PROMPTS, PROMPT, NEW = 100, 200, 32, 32
NEXT_BAR, TEXT_BAR, PERPLEXITY_BAR = 0.99, 0.90, 0.005
TIE = 1e-3  # logits that are nearly equal
BLOCK = 32  # numbers of q8_0 that share a scale


def test_data() -> ExampleReader:
    """The test data of `python-lm`."""
    config = RunConfig.read("python-lm")
    reader = read_split(config.data, config.kind, "test")
    assert reader is not None
    return reader


def windows(bundle: Bundle, length: int) -> list[list[int]]:
    """Ids of the test data, in pieces of equal length."""
    tokenizer = bundle.tokenizer
    assert tokenizer is not None
    ids: list[int] = []
    for example in test_data():
        assert isinstance(example, Text)
        ids += tokenizer.encode(example.text)
        if len(ids) >= length * max(WINDOWS, PROMPTS):
            break
    return [ids[first : first + length] for first in range(0, len(ids) - length, length)]


@torch.no_grad()
def round_in_blocks(bundle: Bundle) -> None:
    """Rounds each matrix to 8 bits with a scale for each block of a row."""
    rounded = matrices(bundle.module)
    for name, weight in bundle.module.named_parameters():
        if name in rounded:
            W = F.pad(weight, (0, -weight.shape[1] % BLOCK)).unflatten(1, (-1, BLOCK))
            s = (W.abs().amax(-1, keepdim=True) / LARGEST).half().float()
            W = torch.where(s > 0, (W / s).round() * s, 0.0).flatten(1)
            weight.copy_(W[:, : weight.shape[1]])


def perplexity(bundle: Bundle) -> float:
    """What `clearhead evaluate` prints."""
    return float(Evaluation(bundle).run(test_data())["perplexity"])


def compiled(bundle: Bundle) -> SwitchingStepper:
    """The compiled step of a model."""
    stepper = stepper_of(bundle.module)
    assert isinstance(stepper, SwitchingStepper)
    stepper.prepare()
    return stepper


def logits(stepper: Any, ids: list[int]) -> Tensor:
    """The logits after each token of a window: (n, vocabulary)."""
    Z: Tensor = stepper.step(torch.tensor([ids]), stepper.start(1, len(ids)))
    return Z[0]


def texts(stepper: Any, prompts: list[list[int]]) -> list[list[int]]:
    """The greedy continuations."""
    settings = DecodingConfig(temperature=0.0, max_tokens=NEW)
    drafts = [Draft(prompt, settings) for prompt in prompts]
    engine: Engine[Any] = Engine(stepper, [], None)
    for draft in drafts:
        engine.add(draft)
    while engine.is_busy:
        engine.step()
    return [draft.ids for draft in drafts]


def is_tie(model: Any, prompt: list[int], ours: list[int], theirs: list[int]) -> bool:
    """Whether two texts differ first where the two best logits of PyTorch are nearly equal."""
    same = next(i for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b)
    best = logits(model, prompt + theirs[:same])[-1].topk(2).values
    return float(best[0] - best[1]) < TIE


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("model", help="a model folder or a run of python-lm")
    options = parser.parse_args()
    bundle = load(options.model)
    bundles = {name: deepcopy(bundle) for name in ("float32", "int8", "nearest", "blocks of 32")}
    quantise(bundles["int8"])
    bundles["nearest"].quantise()
    round_in_blocks(bundles["blocks of 32"])
    model, steppers = bundle.module, {name: compiled(other) for name, other in bundles.items()}
    context = bundle.config.context
    assert context is not None
    pieces = windows(bundle, context)
    same, predictions = dict.fromkeys(steppers, 0), 0
    gaps: list[Tensor] = []  # between the two best logits of PyTorch
    gaps_of_others: dict[str, list[Tensor]] = {name: [] for name in steppers}  # where another token is chosen
    for ids in islice(pieces, WINDOWS):
        best = logits(model, ids).topk(2)
        gaps.append(best.values[:, 0] - best.values[:, 1])
        predictions += len(ids)
        for name, stepper in steppers.items():
            equal = logits(stepper, ids).argmax(-1) == best.indices[:, 0]
            same[name] += int(equal.sum())
            gaps_of_others[name].append(gaps[-1][~equal])
    # Next tokens of float32 that differ, but nearly equal another.
    ties = int((torch.cat(gaps_of_others["float32"]) < TIE).sum())
    prompts = [ids[:PROMPT] for ids in pieces[:PROMPTS]]
    written, before = texts(model, prompts), perplexity(bundle)
    results: dict[str, Any] = {
        "predictions": predictions, "texts": len(prompts), "perplexity": before,
        "median_gap": float(torch.cat(gaps).median()),
    }  # fmt: skip
    for name, stepper in steppers.items():
        own = texts(stepper, prompts)
        other = [(p, a, b) for p, a, b in zip(prompts, own, written, strict=True) if a != b]
        results[name] = {
            "same_next_token": same[name] / predictions,
            "same_text": 1 - len(other) / len(prompts),
            "perplexity_change": perplexity(bundles[name]) / before - 1,
        }
        others = torch.cat(gaps_of_others[name])
        if len(others):
            results[name]["median_gap_where_different"] = float(others.median())
        print(
            f"{name:12s} same next token {same[name] / predictions:.2%}, same text {1 - len(other) / len(prompts):.1%},"
            f" perplexity {results[name]['perplexity_change']:+.3%}"
        )
        if name == "float32":
            ties_of_texts = sum(is_tie(model, *one) for one in other)
            results[name] |= {
                "next_tokens_beyond_a_tie": predictions - same[name] - ties,
                "texts_beyond_a_tie": len(other) - ties_of_texts,
            }
    exact, coarse = results["float32"], results["int8"]
    is_kept = {
        "float32": not exact["next_tokens_beyond_a_tie"] and not exact["texts_beyond_a_tie"],
        "int8 next token": coarse["same_next_token"] >= NEXT_BAR,
        "int8 text": coarse["same_text"] >= TEXT_BAR,
        "int8 perplexity": abs(coarse["perplexity_change"]) <= PERPLEXITY_BAR,
    }
    print("bars kept:", is_kept)
    report("int8_agreement", {"results": results, "bars_kept": is_kept}, options.save, ("torch", "numba"))


if __name__ == "__main__":
    main()
