"""Does rounding change what a model writes? The compiled step in float32 and int8 beside PyTorch, on `python-lm`.

    python benchmarks/int8_agreement.py runs/python-lm

Windows of the test data are read by all three, and the likeliest next tokens compared, each after the same text; then
200 prompts from the same data are continued greedily by 32 tokens. The bars: int8 agrees on 99 % of the next tokens and
on 90 % of the texts; float32 on all of them, but where the two best logits of PyTorch are nearly equal.
"""

from copy import deepcopy
from itertools import islice
from typing import Any

import torch
from harness import arguments, report
from torch import Tensor

from clearhead.config.decoding import DecodingConfig
from clearhead.config.run import RunConfig
from clearhead.decoding.engine import Draft, Engine
from clearhead.decoding.steppers.switching import SwitchingStepper, stepper_of
from clearhead.examples import Text
from clearhead.model_folder import Bundle, load
from clearhead.text.sources.read import read_split

WINDOWS, PROMPTS, PROMPT, NEW = 100, 200, 32, 32
NEXT_BAR, TEXT_BAR = 0.99, 0.90
TIE = 1e-3  # logits that are nearly equal


def windows(bundle: Bundle, length: int) -> list[list[int]]:
    """Ids of the test data of `python-lm`, in pieces of equal length."""
    config = RunConfig.read("python-lm")
    reader, tokenizer = read_split(config.data, config.kind, "test"), bundle.tokenizer
    assert reader is not None
    assert tokenizer is not None
    ids: list[int] = []
    for example in reader:
        assert isinstance(example, Text)
        ids += tokenizer.encode(example.text)
        if len(ids) >= length * max(WINDOWS, PROMPTS):
            break
    return [ids[first : first + length] for first in range(0, len(ids) - length, length)]


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
    rounded = deepcopy(bundle)
    rounded.quantise()
    model, steppers = bundle.module, {"float32": compiled(bundle), "int8": compiled(rounded)}
    context = bundle.config.context
    assert context is not None
    pieces = windows(bundle, context)
    same, predictions = dict.fromkeys(steppers, 0), 0
    ties = 0  # next tokens of float32 that differ, but nearly equal another
    for ids in islice(pieces, WINDOWS):
        reference = logits(model, ids)
        predictions += len(ids)
        for name, stepper in steppers.items():
            equal = logits(stepper, ids).argmax(-1) == reference.argmax(-1)
            same[name] += int(equal.sum())
            if name == "float32":
                best = reference[~equal].topk(2).values
                ties += int((best[:, 0] - best[:, 1] < TIE).sum())
    prompts = [ids[:PROMPT] for ids in pieces[:PROMPTS]]
    written = texts(model, prompts)
    results: dict[str, Any] = {"predictions": predictions, "texts": len(prompts)}
    for name, stepper in steppers.items():
        own = texts(stepper, prompts)
        other = [(p, a, b) for p, a, b in zip(prompts, own, written, strict=True) if a != b]
        results[name] = {
            "same_next_token": same[name] / predictions,
            "same_text": 1 - len(other) / len(prompts),
        }
        print(
            f"{name:8s} same next token {same[name] / predictions:.2%}, same text {1 - len(other) / len(prompts):.1%}"
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
        "int8": coarse["same_next_token"] >= NEXT_BAR and coarse["same_text"] >= TEXT_BAR,
    }
    print("bars kept:", is_kept)
    report("int8_agreement", {"results": results, "bars_kept": is_kept}, options.save, ("torch", "numba"))


if __name__ == "__main__":
    main()
