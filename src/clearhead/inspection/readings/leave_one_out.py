"""What each word does to a classification: the model reads the text again without it (N30)."""

from dataclasses import dataclass

from clearhead.errors import InputError
from clearhead.inspection.passes import Pass
from clearhead.inspection.readings.predictions import probabilities


@dataclass(frozen=True)
class WithoutWord:
    """A word, the places of its tokens, and the probability of every class without it."""

    word: str
    places: list[int]
    p: list[float]


@dataclass(frozen=True)
class LeaveOneOut:
    """The probabilities of the whole text, and of the text without each of its words."""

    unit: str  # what is removed: a word, or a token of a text that is one word, such as DNA
    labels: list[str]
    whole: list[float]
    words: list[WithoutWord]


def leave_one_out(captured: Pass) -> LeaveOneOut:
    """The class probabilities without each word of the text; without each token where there is only one word."""
    if captured.module.config.head != "classifier":
        raise InputError("This model knows no classes, so there is no effect of a word to show.")
    stack, rows, words = captured.top, [], words_of(captured)
    is_one = len(words) == 1 and len(words[0][1]) > 1
    if is_one:
        spelled = captured.tokens[stack]
        words = [(captured.text[spelled[i].start : spelled[i].end], {i}) for i in sorted(words[0][1])]
    for word, places in words:
        kept = [id for place, id in enumerate(captured.ids[stack]) if place not in places]
        if kept:
            P = probabilities(captured, captured.rerun(ids={stack: kept}))
            rows.append(WithoutWord(word, sorted(places), P.tolist()))
    whole = probabilities(captured, captured.trace.row(-1)).tolist()
    return LeaveOneOut("token" if is_one else "word", captured.inspector.reader.labels, whole, rows)


def words_of(captured: Pass) -> list[tuple[str, set[int]]]:
    """The words of the text, split at white space, with the places of their tokens."""
    text = captured.text
    found: list[tuple[int, int, set[int]]] = []
    for place, token in enumerate(captured.tokens[captured.top]):
        spelt = text[token.start : token.end]
        start = token.start + len(spelt) - len(spelt.lstrip())
        if token.end <= start:
            continue
        if found and not any(letter.isspace() for letter in text[found[-1][1] : start]):
            first, end, places = found.pop()
            found.append((first, max(end, token.end), {*places, place}))
        else:
            found.append((start, token.end, {place}))
    return [(text[start:end], places) for start, end, places in found]
