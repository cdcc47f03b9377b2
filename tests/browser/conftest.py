"""A real browser on a real service: one Chromium for all tests, one explorer and one open page for each model."""

import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from clearhead.api import Model
from clearhead.cli.listening import listen
from clearhead.inspection.kept_models import kept_models
from clearhead.serving.access_token import new_token
from clearhead.serving.explorer.app import explorer_app
from clearhead.serving.sockets import server_for
from clearhead.shipped import SHIPPED

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

TOKEN = new_token()
KEPT = {"language-model": kept_models(SHIPPED / "language-model")}  # models after some steps, by name
MOST_PAGES = 4  # that stay open
# Resolves when the page has been drawn since a drawing that has a number, and is drawing nothing.
DRAWN = """since => new Promise((done, fail) => {
  const root = document.documentElement, main = document.getElementById('main');
  const isDrawn = () => (root.dataset.drawn ?? null) !== since && main.getAttribute('aria-busy') === 'false';
  if (isDrawn()) { done(); return; }
  const watcher = new MutationObserver(() => { if (isDrawn()) { watcher.disconnect(); done(); } });
  watcher.observe(root, { attributes: true });
  watcher.observe(main, { attributes: true });
  setTimeout(() => fail(new Error(`not drawn: ${main.innerText.slice(0, 400)}`)), 60000);  // on a busy machine
})"""
GO = f"""address => {{
  const since = document.documentElement.dataset.drawn ?? null;
  location.href = address;
  return ({DRAWN})(since);
}}"""
VIEWS = [
    "text", "map", "embeddings", "attention", "heads", "links", "residual", "next", "generation", "translation",
    "classifier", "attribution", "contrast",
]  # fmt: skip


@contextmanager
def served(model: Model, name: str = "tiny") -> Iterator[str]:
    """The address of an explorer that runs in a thread."""
    with listen(0) as listener:
        kept = KEPT.get(name, [])
        server = server_for(explorer_app(model, name, f"models/{name}", token=TOKEN, kept=kept))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join(10)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, as it is installed."""
    assert CHROMIUM is not None, "The browser tests need chromium or google-chrome on PATH."
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


class Services:
    """Explorers that run until the end of the session: one for each model, however many tests visit it."""

    def __init__(self) -> None:
        self.running: dict[tuple[int, str], tuple[Any, str, Model]] = {}

    def address(self, model: Model, name: str) -> str:
        """The address of a model's explorer."""
        key = (id(model.bundle), name)
        if key not in self.running:
            service = served(model, name)
            self.running[key] = (service, service.__enter__(), model)  # the model is kept, and so its id
        return self.running[key][1]

    def stop(self) -> None:
        """Ends them all at the same time: each gives its last answers seconds to end."""
        with ThreadPoolExecutor(max(1, len(self.running))) as threads:
            for service, _, _ in self.running.values():
                threads.submit(service.__exit__, None, None, None)


@pytest.fixture(scope="session")
def services() -> Iterator[Services]:
    """The explorers of this session."""
    running = Services()
    yield running
    running.stop()


def selection(address: str) -> dict[str, str]:
    """What an address selects, in whatever order."""
    return {"view": "attention", **dict(parse_qsl(urlsplit(address).fragment))}


class Visitor:
    """Somebody at the page: goes to views, reads numbers, and notices what must not happen."""

    def __init__(self, page: Page, address: str) -> None:
        self.page, self.address = page, address
        self.faults: list[str] = []
        page.set_default_timeout(60_000)  # on a machine that is busy with other work
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("console", self.hear)
        page.on("request", self.watch)
        page.on("dialog", self.dismiss)

    def hear(self, message: Any) -> None:
        """Notes what the console complains about, a refusal of the service aside: the page shows those."""
        if message.type in ("error", "warning") and "422" not in message.text:
            self.faults.append(f"console: {message.text}")

    def dismiss(self, dialog: Any) -> None:
        """Notes a dialog: the page opens none, so a text has run as a script."""
        self.faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def watch(self, request: Any) -> None:
        """Notes a request to anybody else."""
        if not request.url.startswith((self.address, "data:", "blob:")):
            self.faults.append(f"request: {request.url}")

    def go(self, view: str, **state: Any) -> None:
        """Opens a view with a selection and waits until it is drawn."""
        address = f"{self.address}#{urlencode({'view': view, **state})}"
        if not self.page.url.startswith(self.address):
            self.page.goto(address.replace("#", f"?token={TOKEN}#", 1))
            self.settle()
        elif selection(self.page.url) != selection(address):
            self.page.evaluate(GO, address)

    def settle(self) -> None:
        """Waits until nothing is being drawn."""
        self.page.evaluate(DRAWN, None)

    def act(self, action: Callable[[], Any]) -> None:
        """Does something that draws the page again, and waits for it."""
        since = self.page.evaluate("document.documentElement.dataset.drawn ?? null")
        action()
        self.page.evaluate(DRAWN, since)

    def click_view(self, view: str) -> None:
        """Goes to another view by its link."""
        link = self.page.locator(f'[data-key="view {view}"]')
        if link.get_attribute("aria-current") is None:
            self.act(link.click)

    def number(self, selector: str) -> float:
        """The exact number behind what is shown."""
        element = self.page.locator(selector).first
        if (own := element.get_attribute("data-value")) is not None:
            return float(own)
        return float(element.locator("[data-value]").first.get_attribute("data-value") or "nan")

    def matrices(self) -> dict[str, list[float]]:
        """The numbers that all matrices on screen are drawn from, by name."""
        return dict(
            self.page.evaluate(
                "Object.fromEntries([...document.querySelectorAll('.matrix')]"
                ".map(one => [one.dataset.name, Array.from(one.drawing.values)]).reverse())"
            )
        )

    def matrix(self, name: str) -> list[float]:
        """The numbers that a matrix on screen is drawn from."""
        return self.matrices()[name]


class Pages:
    """Pages that stay open from test to test, by explorer and window; the least recently used are closed."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.open: OrderedDict[str, Visitor] = OrderedDict()

    def new(self, address: str, options: dict[str, Any]) -> Visitor:
        """A page of its own."""
        window = {"viewport": {"width": 1440, "height": 1000}, "reduced_motion": "reduce"}
        return Visitor(self.browser.new_context(**window | options).new_page(), address)

    def find(self, address: str, options: dict[str, Any]) -> Visitor:
        """The page that is open there, or a new one."""
        key = repr((address, sorted(options.items())))
        if key not in self.open:
            self.open[key] = self.new(address, options)
        self.open.move_to_end(key)
        while len(self.open) > MOST_PAGES:
            self.open.popitem(last=False)[1].page.context.close()
        return self.open[key]

    def close(self) -> None:
        """Closes them all."""
        while self.open:
            self.open.popitem()[1].page.context.close()


@pytest.fixture(scope="session")
def pages(browser: Browser, services: Services) -> Iterator[Pages]:
    """The open pages of this session; closed before the explorers, which would wait for their connections."""
    found = Pages(browser)
    yield found
    found.close()


@pytest.fixture
def visit(
    pages: Pages, services: Services, request: pytest.FixtureRequest
) -> Iterator[Callable[..., Visitor]]:
    """Opens explorers; at the end nothing bad may have happened on any of them.

    The page of a model may be where another test has left it: the selection is what `go` makes it. `alone` is for a
    test that changes the page for good, such as its text size.
    """
    visitors: list[Visitor] = []
    own: list[Visitor] = []
    failed = request.session.testsfailed

    def open_(model: Model, name: str = "tiny", alone: bool = False, **options: Any) -> Visitor:
        address = services.address(model, name)
        visitor = pages.new(address, options) if alone else pages.find(address, options)
        visitor.faults.clear()
        visitors.append(visitor)
        own.extend([visitor] if alone else [])
        return visitor

    yield open_
    for visitor in own:
        visitor.page.context.close()
    if request.session.testsfailed > failed:
        pages.close()  # one of them may be in a state that no test expects
    assert [fault for visitor in visitors for fault in visitor.faults] == []


@pytest.fixture
def open_file(pages: Pages) -> Iterator[Callable[..., Visitor]]:
    """Opens files without a network; at the end nothing bad may have happened on any of them."""
    visitors: list[Visitor] = []

    def open_(file: Path, **options: Any) -> Visitor:
        visitors.append(pages.new(file.as_uri(), {"offline": True, **options}))
        visitors[-1].page.goto(file.as_uri())
        return visitors[-1]

    yield open_
    for visitor in visitors:
        visitor.page.context.close()
    assert [fault for visitor in visitors for fault in visitor.faults] == []
