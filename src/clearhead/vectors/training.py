"""Word vectors from text: examples enter, a table of vectors leaves (N3).

Skip-gram learns v and u so that P(context b | word a) = softmax(u_b · v_a) is large for words b near a; words in like
contexts then get like vectors v. The softmax over all words is replaced by telling b apart from a few random words
(Mikolov et al., 2013, "Distributed Representations of Words and Phrases and their Compositionality"). gensim computes.
"""

from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import torch

from clearhead.config.vectors import VectorsConfig
from clearhead.errors import ConfigError, DataError
from clearhead.examples import Example
from clearhead.text.tokenizers.fast import cores
from clearhead.vector_folder import VectorTable
from clearhead.vectors.sentences import Listener, SentenceFile, ignore, sentences_of, split_words


def gensim_models() -> Any:
    """The package that trains, or the line that installs it."""
    try:
        return import_module("gensim.models")
    except ImportError:
        raise ConfigError(
            "Training word vectors needs the package gensim, which is not installed.\n"
            "Install it: pip install 'clearhead[vectors]'"
        ) from None


def train(
    examples: Iterable[Example],
    config: VectorsConfig | None = None,
    listener: Listener = ignore,
    source: str = "",
) -> VectorTable:
    """Trains vectors on the words of some examples; `source` says in the folder where they came from."""
    models, config = gensim_models(), config or VectorsConfig()
    with TemporaryDirectory(prefix="clearhead-vectors-") as folder:
        sentences = SentenceFile(Path(folder) / "words.txt", listener)
        sentences.write(split_words(sentences_of(examples), config))
        for number in range(1, config.phrases + 1):
            sentences = join_phrases(models, sentences, config, number)
        return train_on(models, sentences, config, source)


def join_phrases(models: Any, sentences: SentenceFile, config: VectorsConfig, number: int) -> SentenceFile:
    """The same sentences, with an underscore between words that often occur together; each pass joins longer ones."""
    sentences.start(f"finding phrases, pass {number}", 2)
    found = models.phrases.Phrases(
        sentences, min_count=config.minimum_frequency, threshold=config.phrase_threshold
    ).freeze()
    joined = SentenceFile(sentences.path.with_name(f"phrases-{number}.txt"), sentences.listener)
    joined.write(found[sentence] for sentence in sentences)
    sentences.path.unlink()
    return joined


def train_on(models: Any, sentences: SentenceFile, config: VectorsConfig, source: str) -> VectorTable:
    """The vectors of sentences that are ready."""
    workers = config.workers or cores()
    model = models.Word2Vec(
        sg=int(config.method == "skip-gram"),
        vector_size=config.width,
        window=config.window,
        negative=config.negative,
        sample=config.subsample,
        alpha=config.learning_rate,
        min_alpha=config.final_rate,
        min_count=config.minimum_frequency,
        max_final_vocab=config.vocabulary,
        seed=config.seed,
        workers=workers,
    )
    sentences.start("counting words")
    model.build_vocab(sentences)
    check_vocabulary(len(model.wv), sentences, config)
    sentences.start("training", config.epochs)
    started = perf_counter()
    model.train(sentences, total_examples=model.corpus_count, epochs=config.epochs)
    seconds = perf_counter() - started
    words = list(model.wv.index_to_key)
    made = {
        "by": f"gensim {version('gensim')}",
        "source": source,
        "settings": config.model_dump(mode="json") | {"workers": workers},
        "sentences": sentences.sentences,
        "words_read": sentences.words,
        "seconds": round(seconds, 3),
        "words_per_second": round(config.epochs * sentences.words / seconds),
    }
    counts = [int(model.wv.get_vecattr(word, "count")) for word in words]
    return VectorTable(words, torch.from_numpy(model.wv.vectors).clone(), counts, made)


def check_vocabulary(count: int, sentences: SentenceFile, config: VectorsConfig) -> None:
    """Rejects a text in which no two words are frequent enough."""
    if count < 2:
        raise DataError(
            f"Of the {sentences.words:,} words of the text, {count} different ones occur at least "
            f"{config.minimum_frequency} times, and vectors need two.\n"
            "Give more text, or lower --minimum-frequency."
        )
