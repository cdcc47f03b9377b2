"""How long after a changed text is the explorer's page drawn? In a real Chromium, beside the model's own pass.

A 6-layer language model reads texts of 64 and of 512 tokens on the attention view. The bars: at most 3 times
the model's own forward pass plus 150 ms for 64 tokens, at most 2 s for 512. The files of the page,
gzipped together, must weigh under 100 KB.
"""

import gzip
import random
import shutil
import statistics
import string
import threading
import time
from typing import Any

import torch
from harness import arguments, median_interval, report
from playwright.sync_api import Page, sync_playwright

from clearhead.api import Model
from clearhead.cli.listening import listen
from clearhead.config.model import ModelConfig
from clearhead.config.tokenizer import TokenizerConfig
from clearhead.model_folder import Bundle
from clearhead.models.build import build
from clearhead.models.inputs import Inputs
from clearhead.page import page_files
from clearhead.serving.access_token import new_token
from clearhead.serving.explorer.app import explorer_app
from clearhead.serving.sockets import server_for
from clearhead.text.tokenizers.tokenizer import Tokenizer

TIMES = """text => new Promise(done => {
  const box = document.querySelector('[data-key="field text"]');
  const start = performance.now(), before = document.documentElement.dataset.drawn;
  new MutationObserver((_, watcher) => {
    if (document.documentElement.dataset.drawn === before) return;
    watcher.disconnect();
    requestAnimationFrame(() => setTimeout(() => done(performance.now() - start)));
  }).observe(document.documentElement, { attributes: true });
  box.value = text;
  box.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter' }));
})"""


def make_model() -> Model:
    """A 6-layer byte-level language model with random weights."""
    tokenizer = Tokenizer.train(["text"], TokenizerConfig(kind="byte"))
    config = ModelConfig(vocabulary=tokenizer.size, d=384, h=6, decoder_blocks=6, context=1024)
    return Model(Bundle(build(config), tokenizer))


def own_pass(model: Model, text: str) -> float:
    """Seconds of the model's own forward pass."""
    ids = torch.tensor([model.reader.ids(text)])
    start = time.perf_counter()
    with torch.no_grad():
        model.module(Inputs(ids))
    return time.perf_counter() - start


def measure(page: Page, model: Model, tokens: int, repeats: int) -> dict[str, Any]:
    """Seconds until the page is drawn, and of the model alone, in turn, each time for another text."""
    generator = random.Random(tokens)
    drawn, alone = [], []
    for _ in range(repeats + 2):
        text = "".join(generator.choices(string.ascii_lowercase + " ", k=tokens - 1))
        alone.append(own_pass(model, text))
        drawn.append(page.evaluate(TIMES, text) / 1000)
    drawn, alone = drawn[2:], alone[2:]  # two to warm up
    bar = 3 * statistics.median(alone) + 0.150 if tokens <= 64 else 2.0
    return {
        "tokens": tokens,
        "median_seconds": statistics.median(drawn),
        "interval_95": median_interval(drawn),
        "smallest": min(drawn),
        "largest": max(drawn),
        "model_alone_seconds": statistics.median(alone),
        "bar_seconds": bar,
        "kept": median_interval(drawn)[0] <= bar,
        "repeats": repeats,
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--repeats", type=int, default=12)
    options = parser.parse_args()
    model, chromium = make_model(), shutil.which("chromium") or shutil.which("google-chrome")
    weight = len(gzip.compress(b"".join(path.read_bytes() for path in page_files().values()), 9, mtime=0))
    with listen(0) as listener, sync_playwright() as playwright:
        token = new_token()
        server = server_for(explorer_app(model, token=token))
        threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True).start()
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 1000})
        page.goto(f"http://127.0.0.1:{listener.getsockname()[1]}/?token={token}")
        page.wait_for_selector("html[data-drawn] main[aria-busy='false']")
        results = [measure(page, model, tokens, options.repeats) for tokens in (64, 512)]
        browser.close()
        server.should_exit = True
    for row in results:
        print(
            f"{row['tokens']:4d} tokens: drawn after {row['median_seconds'] * 1000:6.0f} ms, the model alone "
            f"{row['model_alone_seconds'] * 1000:5.0f} ms, bar {row['bar_seconds'] * 1000:5.0f} ms: "
            f"{'kept' if row['kept'] else 'FAILED'}"
        )
    print(f"page weight {weight} bytes gzipped, bar 100000: {'kept' if weight < 100_000 else 'FAILED'}")
    kept = all(row["kept"] for row in results) and weight < 100_000
    report(
        "explore_speed",
        {"results": results, "page_gzipped_bytes": weight, "kept": kept},
        options.save,
        ("torch", "playwright"),
    )
    raise SystemExit(not kept)


if __name__ == "__main__":
    main()
