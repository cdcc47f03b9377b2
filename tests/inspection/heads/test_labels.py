"""The weight of a head on what the data name is what adding up its weights gives."""

import pytest

from clearhead.api import Model
from clearhead.corpora.corpus import Labels, Relation, Tag
from clearhead.examples import Labelled, Pair, Text
from clearhead.inspection.heads.labels import EVEN, label_weights, labelled_texts
from clearhead.inspection.heads.table import strong_labels
from tests.decoding.tiny import classifier, language_model, translator

TEXT, TARGET = "the cat sat on the green table", "my dog wanted to see"
NOUNS = ("cat", "table", "dog")


def label(text: str) -> Labels:
    """Nouns, and from *sat* to *cat*."""
    place = {word: (text.index(word), text.index(word) + len(word)) for word in text.split()}
    tags = tuple(Tag("noun", place[word]) for word in place if word in NOUNS)
    if "sat" not in place:
        return Labels(tags)
    return Labels(
        tags, (Relation("who", place["sat"], place["cat"]), Relation("next", place["sat"], place["table"]))
    )


@pytest.mark.notes("N46")
def test_labels_are_weighed_in_every_shape() -> None:
    model = Model(language_model("word"))
    found = label_weights(model.module, labelled_texts(model.bundle, [Text(TEXT)], label))
    A = model.trace(TEXT)["decoder.1.self.weights"][0, 2]  # <s> the cat sat on the green table
    assert found["noun"]["decoder.1.self.2"] == pytest.approx(float(A[2:, [2, 7]].sum(-1).mean()), abs=1e-6)
    even = [1 / 3, 1 / 4, 1 / 5, 1 / 6, 1 / 7, 2 / 8]
    assert found["noun" + EVEN]["decoder.1.self.2"] == pytest.approx(sum(even) / 6)
    assert found["who"]["decoder.1.self.2"] == pytest.approx(float(A[3, 2]), abs=1e-6)
    assert "next" not in found  # a decoder cannot see it

    model = Model(classifier("word"))
    found = label_weights(model.module, labelled_texts(model.bundle, [Labelled(TEXT, "good")], label))
    A = model.trace(TEXT)["encoder.0.self.weights"][0, 1]
    assert found["next"]["encoder.0.self.1"] == pytest.approx(float(A[3, 7]), abs=1e-6)

    model = Model(translator("word"))
    found = label_weights(model.module, labelled_texts(model.bundle, [Pair(TEXT, TARGET)], label))
    A = model.trace(TEXT, TARGET)["decoder.1.cross.weights"][0, 0]
    assert found["noun"]["decoder.1.cross.0"] == pytest.approx(float(A[:, [2, 7]].sum(-1).mean()), abs=1e-6)
    assert "decoder.1.cross.0" not in found["who"]


def test_a_label_is_named_if_it_is_looked_at_in_particular() -> None:
    assert strong_labels({"noun": 0.7, "noun" + EVEN: 0.3, "verb": 0.5, "verb" + EVEN: 0.4, "who": 0.41}) == [
        "noun",
        "who",
    ]
