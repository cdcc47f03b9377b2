"""One other engine in an environment of its own: a line of JSON enters for each task, and one leaves with its result.

    PYTHON peer_engine.py llama MODEL.gguf THREADS ROWS
    PYTHON peer_engine.py ctranslate2 FOLDER THREADS
    PYTHON peer_engine.py ctranslate2-translator FOLDER THREADS

It imports nothing of ours: llama.cpp and CTranslate2 are no part of our environment.
"""

import json
import sys
import time
from typing import Any


class Llama:
    """llama.cpp by its own functions, without the Python loop of its package; the likeliest token by NumPy."""

    def __init__(self, path: str, threads: int, rows: int) -> None:
        import llama_cpp as llama

        self.llama, self.rows = llama, rows
        self.log = llama.llama_log_callback(lambda level, text, user: None)  # kept: llama.cpp calls it
        llama.llama_log_set(self.log, None)
        llama.llama_backend_init()
        settings = llama.llama_model_default_params()
        settings.n_gpu_layers = 0
        self.model = llama.llama_model_load_from_file(path.encode(), settings)
        self.size = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(self.model))
        settings = llama.llama_context_default_params()
        settings.n_ctx, settings.n_batch, settings.n_ubatch = rows * 640, max(512, rows * 64), 512
        settings.n_seq_max, settings.n_threads, settings.n_threads_batch = rows, threads, threads
        self.context = llama.llama_init_from_model(self.model, settings)
        self.batch = llama.llama_batch_init(max(512, rows * 64), 0, 1)

    def about(self) -> dict[str, Any]:
        """Version and what it was built for."""
        info = self.llama.llama_print_system_info().decode()
        return {"llama_cpp_python": self.llama.__version__, "system_info": info}

    def decode(self, tokens: list[tuple[int, int, int, bool]]) -> list[int]:
        """Adds tokens (id, position, row, whether the next one is asked for); the likeliest next ones."""
        import numpy as np

        batch = self.batch
        batch.n_tokens = len(tokens)
        for i, (token, at, row, is_asked) in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.n_seq_id[i] = token, at, 1
            batch.seq_id[i][0], batch.logits[i] = row, is_asked
        assert self.llama.llama_decode(self.context, batch) == 0
        asked = [i for i, token in enumerate(tokens) if token[3]]
        logits = (self.llama.llama_get_logits_ith(self.context, i) for i in asked)
        return [int(np.ctypeslib.as_array(Z, (self.size,)).argmax()) for Z in logits]

    def write(self, prompts: list[list[int]], new: int, **_: Any) -> list[list[int]]:
        """So many new tokens of each prompt; all prompts are equally long."""
        self.llama.llama_memory_clear(self.llama.llama_get_memory(self.context), True)
        n = len(prompts[0])
        whole = [
            (token, at, row, at + 1 == n) for row, ids in enumerate(prompts) for at, token in enumerate(ids)
        ]
        chosen = self.decode(whole)
        texts = [[token] for token in chosen]
        for at in range(n, n + new - 1):
            chosen = self.decode([(token, at, row, True) for row, token in enumerate(chosen)])
            for text, token in zip(texts, chosen, strict=True):
                text.append(token)
        return texts


class Generator:
    """CTranslate2's generator; its tokens are numbers as text."""

    def __init__(self, path: str, threads: int) -> None:
        import ctranslate2

        self.library = ctranslate2
        self.model = ctranslate2.Generator(
            path, device="cpu", intra_threads=threads, inter_threads=1, compute_type="default"
        )

    def about(self) -> dict[str, Any]:
        """Version and type."""
        return {"ctranslate2": self.library.__version__, "compute_type": self.model.compute_type}

    def write(self, prompts: list[list[int]], new: int, **_: Any) -> list[list[int]]:
        """So many new tokens of each prompt."""
        given = [[str(token) for token in prompt] for prompt in prompts]
        found = self.model.generate_batch(
            given,
            max_length=new,
            min_length=new,
            beam_size=1,
            sampling_topk=1,
            include_prompt_in_result=False,
        )
        return [result.sequences_ids[0] for result in found]


class Translator(Generator):
    """CTranslate2's translator."""

    def __init__(self, path: str, threads: int) -> None:
        import ctranslate2

        self.library = ctranslate2
        self.model = ctranslate2.Translator(
            path, device="cpu", intra_threads=threads, inter_threads=1, compute_type="default"
        )

    def write(self, prompts: list[list[int]], new: int, beam: int = 1, **_: Any) -> list[list[int]]:
        """The best hypothesis of so many tokens for each source."""
        given = [[str(token) for token in prompt] for prompt in prompts]
        found = self.model.translate_batch(
            given, beam_size=beam, max_decoding_length=new, min_decoding_length=new, max_batch_size=0
        )
        return [[int(token) for token in result.hypotheses[0]] for result in found]


def main() -> None:
    kind, path, *numbers = sys.argv[1:]
    engine: Any = {"llama": Llama, "ctranslate2": Generator, "ctranslate2-translator": Translator}[kind](
        path, *map(int, numbers)
    )
    print(json.dumps(engine.about()), flush=True)
    for line in sys.stdin:
        task = json.loads(line)
        start = time.perf_counter()
        texts = engine.write(**task)
        print(json.dumps({"texts": texts, "seconds": time.perf_counter() - start}), flush=True)


if __name__ == "__main__":
    main()
