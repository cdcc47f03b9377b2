"""How long is it from `clearhead explore` to the first lesson's second step? In a real Chromium, with three clicks.

The bars: the page is drawn within 5 s of the start of the command, and the second step within 10 s, clicks included.
"""

import os
import statistics

from explorer_process import CHROMIUM, DRAWN, explorer
from harness import arguments, report
from playwright.sync_api import Browser, sync_playwright

OPENS, STEP = 5.0, 10.0


def visit(browser: Browser) -> tuple[tuple[float, float], tuple[float, float]]:
    """Seconds until the page is drawn, and until the second step is, each with the command's own processor seconds."""
    with explorer() as (address, seconds):
        page = browser.new_page(viewport={"width": 1440, "height": 1000})
        page.goto(address)
        page.wait_for_selector(DRAWN)
        opened = seconds()
        page.locator("#lessons").click()
        page.locator("#lesson ol button").first.click()
        page.locator('[data-key="lesson on"]').click()
        page.locator('#lesson [aria-label^="2: "][aria-current="step"]').wait_for()
        page.wait_for_selector(f"{DRAWN} .look")
        taken = seconds()
        page.close()
    return opened, taken


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        opened, steps = zip(*(visit(browser) for _ in range(options.repeats)), strict=True)
        browser.close()
    results = {
        name: {
            "median_seconds": statistics.median(wall for wall, _ in times),
            "all": [round(wall, 2) for wall, _ in times],
            "processor_seconds": statistics.median(own for _, own in times),
            "bar": bar,
        }
        for name, times, bar in (("page drawn", opened, OPENS), ("second step drawn", steps, STEP))
    }
    kept = all(row["median_seconds"] <= row["bar"] for row in results.values())
    for name, row in results.items():
        own = f"{row['processor_seconds']:.1f} s of the processor"
        print(f"{name:18} after {row['median_seconds']:.1f} s ({own}), bar {row['bar']:.0f} s: {row['all']}")
    values = {"results": results, "clicks": 3, "load_average": os.getloadavg()[0], "kept": kept}
    report("first_visit", values, options.save, ("torch", "playwright"))
    raise SystemExit(not kept)


if __name__ == "__main__":
    main()
