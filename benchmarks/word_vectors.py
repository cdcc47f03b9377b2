"""Are our word vectors as good, and trained as fast, as gensim's own call gives them?

Skip-gram on the Brown corpus (1.16 million words), once through `clearhead.vectors` and once by gensim alone on the
same file, in turn for each seed. The settings are gensim's defaults but for skip-gram, so none was chosen on the
questions. The semantic analogies (all sections but gram1 to gram9) are asked among the 300,000 most frequent words,
the usual restriction; the mean of ours may fall behind gensim's by one standard error at most. Speed counts the
words of all epochs over the time from the file to the vectors, reading and counting included; the bar is 0.9 times
gensim's.
"""

import gzip
import math
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness import SHARED_DATA, arguments, ratio, report

from clearhead.config.vectors import VectorsConfig
from clearhead.text.sources.read import read
from clearhead.vectors.evaluation import (
    RESTRICTION,
    SYNTACTIC,
    AnalogyScores,
    evaluate_analogies,
    evaluate_pairs,
    read_pairs,
    read_questions,
)
from clearhead.vectors.training import train
from clearhead.vectors.words import WordVectors

BAR = 0.9
FOLDER = SHARED_DATA / "word2vec"


def ours(path: Path, config: VectorsConfig) -> tuple[float, WordVectors]:
    """Seconds, and our vectors."""
    start = time.perf_counter()
    table = train(read(str(path), "text"), config)
    return time.perf_counter() - start, WordVectors(table)


def theirs(path: Path, config: VectorsConfig) -> tuple[float, Any]:
    """Seconds, and gensim's vectors."""
    from gensim.models import Word2Vec
    from gensim.models.word2vec import LineSentence

    start = time.perf_counter()
    model = Word2Vec(
        LineSentence(str(path)), sg=1, epochs=config.epochs, seed=config.seed, workers=config.workers
    )
    return time.perf_counter() - start, model.wv


def semantic(questions: Path, vectors: Any) -> tuple[int, int]:
    """Right answers and questions with known words in the semantic sections, by gensim's own evaluation."""
    _, sections = vectors.evaluate_word_analogies(str(questions), restrict_vocab=RESTRICTION)
    chosen = [section for section in sections[:-1] if not section["section"].startswith(SYNTACTIC)]
    right = sum(len(section["correct"]) for section in chosen)
    return right, right + sum(len(section["incorrect"]) for section in chosen)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    if not FOLDER.exists():
        raise SystemExit(
            f"{FOLDER} is missing: this benchmark needs the Brown corpus and the analogy questions."
        )
    with TemporaryDirectory() as folder:
        files = {name: Path(folder) / name for name in ("brown.txt", "questions-words.txt")}
        for name, path in files.items():
            path.write_bytes(gzip.decompress((FOLDER / f"{name}.gz").read_bytes()))
        brown, questions = files.values()
        result = measure(brown, questions, options.seeds, options.epochs, options.workers)
    report("word_vectors", result, options.save, packages=("gensim", "numpy", "torch"))
    raise SystemExit(not result["kept"])


def measure(brown: Path, questions: Path, seeds: int, epochs: int, workers: int) -> dict[str, Any]:
    """Both for every seed, the order alternating."""
    words = sum(len(line.split()) for line in brown.open(encoding="utf-8"))
    asked = list(read_questions(questions))
    rows = []
    print(
        f"{'seed':4} {'ours':>8} {'gensim':>8} {'known':>7} {'ours':>12} {'gensim':>12}  words/s {'WordSim':>9}"
    )
    for seed in range(1, seeds + 1):
        config = VectorsConfig(split="whitespace", seed=seed, epochs=epochs, workers=workers)
        found: dict[str, tuple[float, Any]] = {}
        for name, run in (("ours", ours), ("theirs", theirs))[:: 1 if seed % 2 else -1]:
            found[name] = run(brown, config)
        scores: AnalogyScores = evaluate_analogies(found["ours"][1], asked)
        total = scores.total("semantic")
        pairs = evaluate_pairs(found["ours"][1], read_pairs(FOLDER / "wordsim353.csv"))
        right, known = semantic(questions, found["theirs"][1])
        assert known == total.in_vocabulary
        row: dict[str, Any] = {
            "seed": seed,
            "semantic": total.right / known,
            "gensim_semantic": right / known,
            "in_vocabulary": known,
            "questions": total.questions,
            "syntactic": scores.total("syntactic").accuracy,
            "wordsim_spearman": pairs.spearman,
            "wordsim_in_vocabulary": pairs.in_vocabulary,
            "seconds": found["ours"][0],
            "gensim_seconds": found["theirs"][0],
        }
        rows.append(row)
        speeds = [epochs * words / row[name] for name in ("seconds", "gensim_seconds")]
        print(
            f"{seed:4} {row['semantic']:8.4f} {row['gensim_semantic']:8.4f} {known:7,} {speeds[0]:12,.0f} "
            f"{speeds[1]:12,.0f} {row['wordsim_spearman']:18.4f}",
            flush=True,
        )
    return verdict(rows, epochs, workers, words)


def verdict(rows: list[dict[str, Any]], epochs: int, workers: int, words: int) -> dict[str, Any]:
    """The means with their standard error, the speed, and whether both bars are kept."""
    mine, others = ([row[name] for row in rows] for name in ("semantic", "gensim_semantic"))
    error = math.sqrt((statistics.variance(mine) + statistics.variance(others)) / len(rows))
    difference = statistics.mean(mine) - statistics.mean(others)
    # Speed is words over seconds, so that the ratio of speeds is that of the seconds turned round.
    speed = ratio([row["gensim_seconds"] for row in rows], [row["seconds"] for row in rows])
    is_good, is_fast = difference >= -error, speed["interval_95"][1] >= BAR
    print(
        f"semantic {statistics.mean(mine):.4f}, gensim {statistics.mean(others):.4f}: difference {difference:+.4f}, "
        f"standard error {error:.4f}{'' if is_good else '  FAILED'}"
    )
    print(
        "speed {:.3f} times gensim's, 95 % interval {:.3f} to {:.3f}".format(
            speed["median_ratio"], *speed["interval_95"]
        )
        + ("" if is_fast else "  FAILED")
    )
    return {
        "semantic": statistics.mean(mine),
        "gensim_semantic": statistics.mean(others),
        "difference": difference,
        "standard_error": error,
        "in_vocabulary": rows[0]["in_vocabulary"],
        "questions": rows[0]["questions"],
        "restriction": RESTRICTION,
        "wordsim_spearman": statistics.mean(row["wordsim_spearman"] for row in rows),
        "speed": speed,
        "bar": BAR,
        "words": words,
        "epochs": epochs,
        "workers": workers,
        "seeds": rows,
        "kept": is_good and is_fast,
    }


if __name__ == "__main__":
    main()
