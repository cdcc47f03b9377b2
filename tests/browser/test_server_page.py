"""The page of the server in a real browser: behind a key, by keyboard, and for a screen reader."""

import threading
import time
from collections.abc import Iterator
from importlib import import_module

import pytest
from playwright.sync_api import Browser, Page, expect

from clearhead.api import Model
from clearhead.cli.listening import listen
from clearhead.config.serving import ServingConfig
from clearhead.serving.server.access import Keys
from clearhead.serving.server.app import server_app
from clearhead.serving.server.process import address_of
from clearhead.serving.sockets import server_for
from tests.decoding.tiny import classifier, language_model, translator
from tests.serving.server.conftest import KEY, service_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    """The page as somebody sees it who followed the link of a server with a key."""
    models = {
        "writes": Model(language_model("word")),
        "translates": Model(translator("word")),
        "decides": Model(classifier()),
    }
    service, keys = service_of(ServingConfig(slots=2), **models), Keys([KEY])
    with listen(0) as listener:
        server = server_for(server_app(service, keys))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        page = browser.new_page()
        page.set_default_timeout(60_000)
        page.goto(address_of(listener, keys))
        yield page
        page.close()
        server.should_exit = True
        thread.join(10)
    service.stop()


def test_every_model_can_be_tried_by_keyboard(page: Page) -> None:
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    assert "token" not in page.url
    expect(page.get_by_role("status")).to_contain_text("0 waiting")
    answer = page.get_by_role("region", name="Text of the answer")
    page.get_by_label("Most tokens").fill("5")
    page.get_by_label("Prompt").fill("the cat")
    page.keyboard.press("Control+Enter")
    expect(answer).not_to_be_empty()
    page.get_by_role("combobox", name="Model").select_option("translates")
    page.get_by_label("Text to translate").fill("the cat sat on the table")
    page.get_by_role("button", name="Run").press("Enter")
    expect(page.get_by_role("button", name="Stop")).to_be_disabled()
    page.get_by_role("combobox", name="Model").select_option("decides")
    page.get_by_label("Text to classify").press("Control+Enter")
    expect(answer).to_contain_text("%")
    assert faults == []
    page.get_by_label("Text to classify").fill("")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("alert")).to_contain_text("The text is empty")
    assert [fault for fault in faults if "400" not in fault] == []


def test_nothing_hinders_a_screen_reader(page: Page) -> None:
    auditor = import_module("axe_playwright_python.sync_playwright").Axe()
    found = auditor.run(page).response["violations"]
    assert [(fault["id"], fault["help"]) for fault in found] == []


def test_the_explorer_is_behind_the_same_key(page: Page) -> None:
    page.get_by_role("combobox", name="Model").select_option("writes")
    page.get_by_role("link", name="See inside it").click()
    page.wait_for_selector("html[data-drawn] main[aria-busy='false']")
    assert page.url.split("#")[0].endswith("/explore/writes/")
