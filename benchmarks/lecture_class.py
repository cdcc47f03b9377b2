"""Does a class of 30 follow the lessons on one machine? Clients replay a page's requests, a real Chromium among them.

A browser walks through the lessons of the translator of the package once, and its requests are recorded. Then 30
clients, each on a step of its own, send the requests of their step to a fresh `clearhead explore`, all at the same
moment; the browser turns to its next step at that moment too. A step is answered when all its requests are. The bar:
no error, and half of the steps answered within 2 s, when the class turns the page within the time that `--spread`
says; the whole class at the same moment is measured beside it.
"""

import json
import os
import random
import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx
from explorer_process import CHROMIUM, DRAWN, explorer
from harness import arguments, report
from playwright.sync_api import Page, sync_playwright

BAR = 2.0
NEXT = '#lesson [data-key="lesson on"]'


@dataclass
class Step:
    """The requests of one step: method, path and body; names of passes are those of the recording."""

    name: str
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)


def record(page: Page, address: str, most: int | None) -> tuple[list[Step], dict[str, str]]:
    """Walks through all lessons; the requests of every step, and which question led to which pass."""
    steps: list[Step] = []
    names: dict[str, str] = {}

    def note(response: Any) -> None:
        asked = response.request
        path = asked.url.split(base, 1)[-1]
        if not steps or not path.startswith("api/"):
            return
        steps[-1].requests.append((asked.method, path, asked.post_data))
        if asked.method == "POST" and path == "api/passes":
            names[asked.post_data] = response.json()["name"]

    parts = urlsplit(address)
    base = f"{parts.scheme}://{parts.netloc}/"
    page.on("response", note)
    page.set_default_timeout(120_000)
    page.goto(address)
    page.wait_for_selector(DRAWN)
    listing = page.evaluate("async () => (await fetch('api/lessons?language=en')).json()")
    for lesson in [one for one in listing["lessons"] if one["why"] is None][:most]:
        for number in range(1, len(lesson["steps"]) + 1):
            page.goto("about:blank")  # a page that has nothing in memory, as a student's has not
            steps.append(Step(f"{lesson['name']}.{number}"))
            page.goto(f"{base}#lesson={lesson['name']}.{number}")
            page.wait_for_selector(f"{DRAWN} .look")
    return steps, names


def replay(client: httpx.Client, step: Step, names: dict[str, str]) -> tuple[float, int]:
    """Seconds until all requests of a step are answered, and how many were refused."""
    found: dict[str, str] = {}
    errors, start = 0, time.perf_counter()
    for method, path, body in step.requests:
        for old, new in found.items():
            path = path.replace(old, new)
        headers = {"content-type": "application/json"}
        answer = client.request(method, path, content=body, headers=headers if body else None)
        errors += answer.status_code != 200
        if body in names and path == "api/passes":
            found[names[body]] = answer.json()["name"]
    return time.perf_counter() - start, errors


def turn_page(page: Page) -> float:
    """Seconds until a real browser has drawn its next step."""
    start = time.perf_counter()
    before = page.evaluate("document.documentElement.dataset.drawn")
    page.locator(NEXT).click()
    page.wait_for_function(
        "before => document.documentElement.dataset.drawn !== before && "
        "document.getElementById('main').getAttribute('aria-busy') === 'false'",
        arg=before,
    )
    return time.perf_counter() - start


def lecture(
    options: Any, steps: list[Step], names: dict[str, str], page: Page, spread: float
) -> dict[str, Any]:
    """A class on a fresh explorer: every client turns to another step, `rounds` times."""
    generator = random.Random(1)
    with explorer(options.model) as (address, _), ThreadPoolExecutor(options.clients) as threads:
        parts = urlsplit(address)
        base = f"{parts.scheme}://{parts.netloc}/"
        clients = [httpx.Client(base_url=base, timeout=120) for _ in range(options.clients)]
        for client in clients:
            client.get(address)  # the token becomes a cookie
        page.goto(f"{address}#lesson={steps[0].name}")
        page.wait_for_selector(f"{DRAWN} .look")
        times: list[float] = []
        drawn: list[float] = []
        errors = 0
        for turn in range(options.rounds):
            together = threading.Barrier(options.clients + 1)

            def student(
                number: int, wait: float, turn: int = turn, together: threading.Barrier = together
            ) -> Any:
                together.wait()
                time.sleep(wait)
                return replay(clients[number], steps[(2 * number + 7 * turn) % len(steps)], names)

            waits = [generator.uniform(0, spread) for _ in clients]
            work = [threads.submit(student, number, wait) for number, wait in enumerate(waits)]
            together.wait()
            time.sleep(spread / 2)
            drawn.append(turn_page(page))
            for one in work:
                seconds, wrong = one.result()
                times.append(seconds)
                errors += wrong
    ordered = sorted(times)
    return {
        "spread_seconds": spread,
        "median_seconds": statistics.median(times),
        "ninth_decile_seconds": ordered[int(0.9 * len(ordered))],
        "largest_seconds": ordered[-1],
        "browser_seconds": [round(one, 2) for one in drawn],
        "steps": len(times),
        "errors": errors,
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--model", default="builtin:translator")
    parser.add_argument("--clients", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--lessons", type=int, help="record only the first lessons")
    parser.add_argument(
        "--spread", type=float, default=20.0, help="seconds within which the class turns the page"
    )
    options = parser.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 1000})
        with explorer(options.model) as (address, _):
            steps, names = record(page, address, options.lessons)
        rows = []
        for spread in (options.spread, 0.0):
            rows.append(lecture(options, steps, names, browser.new_page(), spread))
            print(json.dumps(rows[-1]))
        browser.close()
    kept = rows[0]["median_seconds"] <= BAR and not any(row["errors"] for row in rows)
    sizes = {"recorded_steps": len(steps), "recorded_requests": sum(len(step.requests) for step in steps)}
    values = {
        "results": rows,
        "bar_seconds": BAR,
        "clients": options.clients,
        "model": options.model,
        "load_average": os.getloadavg()[0],
        "kept": kept,
    }
    report("lecture_class", values | sizes, options.save, ("torch", "playwright", "httpx"))
    raise SystemExit(not kept)


if __name__ == "__main__":
    main()
