"""The page in front of a class: the output in sight, a projector's screen, and what a teacher types and presses."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from clearhead.api import Model
from clearhead.config.decoding import DecodingConfig
from clearhead.corpora import CORPORA
from clearhead.decoding.generate import Generator
from clearhead.examples import Labelled
from clearhead.inspection.capture import capture, intervene, zero
from clearhead.inspection.variants import without
from clearhead.models.inputs import Inputs
from tests.browser.conftest import VIEWS, Visitor, selection
from tests.browser.test_numbers import MODELS, SHAPES, TARGET, TEXT, given_ids
from tests.decoding.tiny import classifier, random_model

pytestmark = pytest.mark.slow
Visit = Callable[..., Visitor]
PROJECTOR = {"width": 1280, "height": 720}
# Every size in which a text is drawn on a canvas, in pixels of the screen.
RECORDER = """
  window.sizes = [];
  const draw = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (...given) {
    const { a, b } = this.getTransform(), size = parseFloat(this.font.match(/[\\d.]+(?=px)/)[0]);
    window.sizes.push([this.canvas, size * Math.hypot(a, b), given[0]]);
    draw.apply(this, given);
  };
"""
# The smallest text on screen, and what it says: of elements, of drawings as they are scaled, and of canvases.
SMALLEST = """() => {
  const found = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const { textContent: text, parentElement: element } = walk.currentNode, box = element.getBoundingClientRect();
    if (!text.trim() || !box.width || element.closest('.sr, .skip, script, noscript, math')) continue;
    const drawing = element.closest('svg'), size = parseFloat(getComputedStyle(element).fontSize);
    found.push([drawing ? size * drawing.getBoundingClientRect().width / drawing.viewBox.baseVal.width : size, text]);
  }
  for (const [canvas, size, text] of window.sizes) {
    const shrunk = canvas.getBoundingClientRect().width / canvas.width;
    if (canvas.isConnected && canvas.width) found.push([size * shrunk, text]);
  }
  return found.sort((a, b) => a[0] - b[0])[0];
}"""
# The texts that were drawn on a canvas, the last ones at the end.
INSIDE = """key => {
  const canvas = document.querySelector(`canvas[data-key="${key}"]`);
  return window.sizes.filter((one) => one[0] === canvas).map((one) => one[2]);
}"""
ABOVE = "id => document.getElementById(id).getBoundingClientRect().bottom"


def box_of(visitor: Visitor, selector: str) -> dict[str, float]:
    box = visitor.page.locator(selector).first.bounding_box()
    assert box is not None, selector
    return {"x": box["x"], "y": box["y"], "width": box["width"], "height": box["height"]}


def enlarge(visitor: Visitor) -> None:
    """Presses A+ twice at the same place: large type."""
    box = box_of(visitor, '[aria-label="Text size"]')
    for _ in range(2):
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        visitor.act(lambda x=x, y=y: visitor.page.mouse.click(x, y))  # type: ignore[misc]
    assert visitor.page.evaluate("getComputedStyle(document.documentElement).fontSize") == "24px"


def drawing_width(visitor: Visitor, view: str, given: dict[str, Any]) -> float:
    visitor.go(view, **given)
    return box_of(visitor, "svg.chart")["width"]


def said(visitor: Visitor, selector: str) -> str:
    return visitor.page.locator(selector).first.inner_text().replace("\n", " ")


@pytest.mark.parametrize("shape", list(MODELS))
def test_the_output_is_in_sight(visit: Visit, shape: str) -> None:
    model = MODELS[shape]()
    visitor = visit(model)
    visitor.go("map", text=TEXT)
    if model.translates:
        assert visitor.page.locator('[data-key="field target"]').input_value() == model.translate(TEXT)
        visitor.go("map", text=TEXT, target=TARGET)
        assert visitor.page.locator('[data-key="field target"]').input_value() == TARGET
    Z = model.logits(*given_ids(model))
    P = torch.softmax((Z[0] if Z.ndim == 2 else Z[0, -1]).double(), -1)
    best = int(P.argmax())
    name = model.reader.labels[best] if Z.ndim == 2 else model.tokenizer.piece(best)
    assert name in said(visitor, "#said")
    assert visitor.number("#said") == pytest.approx(float(P[best]), abs=1e-6)
    visitor.page.mouse.wheel(0, 3000)
    assert visitor.page.locator("#said").bounding_box()["y"] >= 0  # type: ignore[index]


def test_a_changed_translator_shows_its_own_output_and_nothing_moves(visit: Visit) -> None:
    model = MODELS["encoder-decoder"]()
    visitor = visit(model, viewport=PROJECTOR)
    heads = [f"decoder.1.cross.{head}" for head in range(3)]
    visitor.go("heads", text=TEXT, target=TARGET, at="decoder.1.cross", head=0)
    for key in ("mute", "mute all"):
        button = f'[data-key="{key}"]'
        place = box_of(visitor, button)
        visitor.act(lambda b=button: visitor.page.locator(b).click())  # type: ignore[misc]
        assert box_of(visitor, button) == place, key
    edits = tuple(map(zero, heads))
    generator = Generator(model.bundle, model.module)
    with intervene(model.module, *edits):
        own = generator.write([TEXT], DecodingConfig())[0][0].text
        Z = model.logits(*given_ids(model))[0].double().log_softmax(-1)
    before = model.logits(*given_ids(model))[0].double().log_softmax(-1)
    moved = (before.exp() * (before - Z)).sum(-1)
    i = int(moved.argmax())
    banner = said(visitor, "#changed")
    assert "all heads of decoder.1.cross muted" in banner
    assert model.translate(TEXT) in banner
    assert own in banner
    after = f'#changed [data-key="p:{i}:{int(Z[i].argmax())}"]'
    assert visitor.number(after) == pytest.approx(float(Z[i].max().exp()), abs=1e-6)
    was = f'#changed [data-key="p:{i}:{int(before[i].argmax())}:base"]'
    assert visitor.number(was) == pytest.approx(float(before[i].max().exp()), abs=1e-6)
    visitor.page.mouse.wheel(0, 5000)
    banner_box = box_of(visitor, "#changed")
    assert banner_box["y"] + banner_box["height"] == pytest.approx(720)
    visitor.go("generation", text=TEXT, target=TARGET, mute=",".join(heads), temperature=0)
    with intervene(model.module, *edits):
        theirs = generator.write([TEXT], DecodingConfig(beam=1, temperature=0.0, max_tokens=12))[0][0].tokens
    shown = visitor.page.locator('[data-key^="written"]')
    assert [shown.nth(k).get_attribute("title") for k in range(shown.count())] == [
        f"token {id}" for id in theirs
    ]
    visitor.act(lambda: visitor.page.get_by_role("button", name="Restore", exact=True).click())
    assert not visitor.page.locator("#changed").is_visible()


def test_without_its_mask_a_model_generates_anew(visit: Visit) -> None:
    model = MODELS["decoder"]()
    visitor = visit(model)
    visitor.go("generation", text=TEXT, off="mask", temperature=0, tokens=4)
    variant, ids = without(model.module, "mask"), model.generator.prompt(TEXT).ids
    for k in range(4):
        with torch.no_grad():
            ids = [*ids, int(variant(Inputs(torch.tensor([ids])))[0, -1].argmax())]
        assert visitor.page.locator(f'[data-key="written {k}"]').get_attribute("title") == f"token {ids[-1]}"
    assert "what the cache keeps is out of date" in said(visitor, "[data-panel=cost]")


# What scrolls inside a panel, and panels that are taller than the window between the frame and the banner.
TOO_LARGE = """() => {
  const isBox = (way) => ['auto', 'scroll'].includes(way), styles = (one) => getComputedStyle(one);
  const scrolls = (one) => (isBox(styles(one).overflowX) || isBox(styles(one).overflowY))
    && (one.scrollWidth > one.clientWidth + 1 || one.scrollHeight > one.clientHeight + 1);
  const tall = (id) => document.getElementById(id).offsetHeight, room = innerHeight - tall('frame') - tall('changed');
  const name = (one) => one.closest('[data-panel]')?.dataset.panel ?? one.className;
  return [
    ...[...document.querySelectorAll('main *, #side, #side *')].filter(scrolls).map((one) => `${name(one)} scrolls`),
    ...[...document.querySelectorAll('.panel')].filter((one) => one.offsetHeight > room)
      .map((one) => `${name(one)} is tall`),
  ];
}"""
RULES = (("temperature", "-5", "0.5"), ("top_p", "2", "0.9"), ("top_k", "0", "5"), ("seed", "0.1", "3"))
GIVEN: dict[str, Any] = {"text": TEXT, "head": 1, "q": 3, "k": 2}
# A step of the lecture: from a dot product to a muted head, by its numbers.
STEPS: list[tuple[str, dict[str, str]]] = [
    *(("attention", {"stage": stage}) for stage in ("qkv", "dot", "scores", "mask", "softmax", "values", "output")),
    *(("attention", {"cell": cell}) for cell in ("product:3:2", "scores:3:2", "weights:3:2", "heads:3:1", "part:3:1")),
    ("heads", {"mute": "{at}.1"}), ("attention", {"mute": "{at}.1"}), ("next", {"mute": "{at}.1"}),
]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_large_type_shows_a_panel_a_screen(visit: Visit, shape: str, subtests: pytest.Subtests) -> None:
    """At 1280 × 720 nothing scrolls inside a panel, and each fits but the map, which is as tall as the model."""
    classes: dict[str, Any] = {"head": "classifier", "classes": 3} if shape == "encoder" else {}
    bundle = random_model(shape, "word", 3, d=128, h=4, **classes)
    bundle.labels = ["bad", "good", "so-so"]
    at = bundle.config.attentions()[-1]
    given = GIVEN | {"at": at} | ({"target": TARGET} if shape == "encoder-decoder" else {})
    visitor = visit(Model(bundle), alone=True, viewport=PROJECTOR)
    page = visitor.page
    page.add_init_script(RECORDER)
    drawn = ["map", "links", *(["translation"] if shape == "encoder-decoder" else [])]
    small = {view: drawing_width(visitor, view, given) for view in drawn}
    enlarge(visitor)
    for view in drawn:
        assert drawing_width(visitor, view, given) > 1.1 * small[view], view
    for view, more in [*((view, {}) for view in VIEWS), *STEPS]:
        with subtests.test(f"{view} {more}"):
            visitor.go(view, **given | {key: value.format(at=at) for key, value in more.items()})
            assert page.evaluate(TOO_LARGE) == (["map is tall"] if view == "map" else [])
            assert page.evaluate(ABOVE, "frame") <= 130
            size, text = page.evaluate(SMALLEST)
            assert size >= 11, f"{text} has {size} px"
    visitor.go("attention", **given, cell="weights:3:2")
    pair, side = box_of(visitor, '[data-panel="pair"]'), box_of(visitor, "#side")
    assert pair["y"] + pair["height"] <= 720
    assert pair["x"] + pair["width"] <= side["x"]
    q = Model(bundle).trace(TEXT, given.get("target"))[f"{at}.q"][0, 1, 3].tolist()
    numbers = [float(text.replace("−", "-")) for text in page.evaluate(INSIDE, "strip q")[-len(q) :]]
    assert numbers == pytest.approx(q, abs=0.06)


CLIPPED = """[...document.querySelectorAll('.texts textarea')]
  .some((one) => one.scrollWidth > one.clientWidth || one.scrollHeight > one.clientHeight)"""
# The width of the page, that of the title that has the least room, and whether a text is clipped.
WIDTHS = f"""() => [document.documentElement.scrollWidth, Math.min(
  ...[...document.querySelectorAll('.panel > header > div:first-child')].map((one) => one.clientWidth)), {CLIPPED}]"""
LONG = "the chicken did not cross the road because it was too tired"


@pytest.mark.parametrize("is_large", [False, pytest.param(True, marks=pytest.mark.prove)])
def test_every_view_fits_every_screen(visit: Visit, is_large: bool) -> None:
    """A small screen, a tablet, and a zoom of 200 %, in normal or large type: nothing is wider than the window."""
    visitor = visit(MODELS["encoder-decoder"](), alone=True, viewport=PROJECTOR)
    visitor.go("text", text=TEXT, target=TARGET)
    if is_large:
        enlarge(visitor)
    for view in VIEWS:
        visitor.go(view, text=TEXT, target=TARGET)
        for width, height in ((1280, 720), (1024, 768), (800, 900), (640, 360)):
            visitor.page.set_viewport_size({"width": width, "height": height})
            wide, narrowest, is_clipped = visitor.page.evaluate(WIDTHS)
            assert wide <= width, f"{view}, {width}"
            assert is_large or not is_clipped, f"{view}, {width}: a text is clipped"
            assert narrowest > 150, f"{view}, {width}: a title has no room"
    for width in (1280, 1024):  # the longer text takes two lines
        visitor.page.set_viewport_size({"width": width, "height": 720})
        visitor.go("text", text=LONG, target=LONG, q=width % 5)
        assert not visitor.page.evaluate(CLIPPED), f"{width}: a long text is clipped"


@pytest.mark.parametrize("width", [640, 1024])
def test_a_derivation_does_not_cover_what_it_derives(visit: Visit, width: int) -> None:
    visitor = visit(MODELS["encoder-decoder"](), viewport={"width": width, "height": 768})
    visitor.go("residual", text=TEXT, target=TARGET, stack="decoder", q=2)
    number = visitor.page.locator('[data-panel="units"] .n').last
    visitor.act(number.click)
    subject, side = box_of(visitor, "main .n[data-on]"), box_of(visitor, "#side")
    is_left = subject["x"] + subject["width"] <= side["x"]
    assert is_left or subject["y"] + subject["height"] <= side["y"]
    assert subject["y"] >= visitor.page.evaluate(ABOVE, "frame")


def test_what_was_broken_stays_repaired(visit: Visit, subtests: pytest.Subtests) -> None:
    """Each part is a fault that the page once had."""
    model = Model(random_model("decoder", "word", 3, query_key_norm=True))
    visitor = visit(model, viewport={"width": 1280, "height": 420})
    page = visitor.page
    side = page.locator("#side")

    with subtests.test("derivations of q and k repeat no notes"):
        visitor.go("attention", text=TEXT, at="decoder.0.self", head=0, q=5, cell="q:5:1")
        notes = [note.inner_text() for note in side.locator(".note").all()]
        assert [note.split(":")[0].split(",")[0] for note in notes] == [
            "Normed", "Rotated to position 5", "Before that",
        ]  # fmt: skip
        assert not any(note.rstrip(".:")[-2:] in ("0N", "1R") for note in notes)
        assert "R" in (side.locator("math").text_content() or "")
        assert "rotated to position 5, gives it" in side.inner_text()

    with subtests.test("a new derivation opens at its top"):
        for cell in ("q:5:1", "k:2:1"):  # both are longer than the window
            visitor.go("attention", text=TEXT, at="decoder.0.self", head=0, q=5, cell=cell)
            assert side.evaluate("one => one.scrollTop") == 0
            side.evaluate("one => { one.scrollTop = one.scrollHeight; }")
            assert side.evaluate("one => one.scrollTop") > 100

    with subtests.test("a rule that is not allowed can be corrected"):
        visitor.go("next", text=TEXT, temperature="abc", top_p="7", top_k="-1", seed="1.5")
        assert page.locator(".error").count() == 0
        for key, wrong, right in RULES:
            field = page.locator(f'[data-key="rule {key}"]')
            field.fill(wrong)
            field.press("Tab")
            assert field.get_attribute("aria-invalid") == "true"
            assert "must be" in page.locator(".wrong").inner_text()
            field.fill(right)
            visitor.act(lambda f=field: f.press("Tab"))  # type: ignore[misc]
            assert f"{key}={right}" in page.url

    with subtests.test("Back with the focus in the box"):
        visitor.go("text", text="the cat")
        field = page.locator('[data-key="field text"]')
        field.fill("he is old")
        visitor.act(lambda: field.press("Enter"))
        visitor.act(page.go_back)
        assert page.evaluate("document.activeElement.dataset.key") == "field text"
        assert field.input_value() == "the cat"
        assert "cat" in said(visitor, '[data-panel="tokens decoder"]')

    with subtests.test("an emoji is one character"):
        visitor.go("text", text="\U0001f600\U0001f600 the cat", q=4)
        assert page.locator('[data-panel="token"] dd b').inner_text() == "cat"

    with subtests.test("a menu closes by Escape and elsewhere"):
        menu = page.locator('[data-panel="token"] details.menu')
        for is_key in (True, False):
            menu.locator("summary").click()
            assert menu.get_attribute("open") is not None
            page.keyboard.press("Escape") if is_key else page.mouse.click(600, 5)
            assert menu.get_attribute("open") is None

    with subtests.test("a score is said as it is computed"):
        visitor.go("attention", text=TEXT, at="decoder.0.self", head=1, q=5, k=2)
        figures = page.locator('[data-name="pair"] .n').all()
        product, again, scale, score = (
            float(one.get_attribute("data-value") or "nan") for one in figures[:4]
        )
        assert "score =" in said(visitor, '[data-name="pair"]')
        assert (product, product * scale) == pytest.approx((again, score), rel=1e-5)

    with subtests.test("a uniform row is pale"):
        A = model.trace(TEXT)["decoder.0.self.weights"][0]
        head, i = divmod(int(A.amax(-1).argmin()), A.shape[1])  # the row that is closest to uniform
        visitor.go("links", text=TEXT, at="decoder.0.self", head=head, q=i)
        strongest = int(A[head, i].argmax())
        painted = page.locator(f'[data-key="word {strongest}"]').evaluate("one => one.style.backgroundColor")
        expected = page.evaluate(
            "async x => { const c = await import('/page/parts/colour.js');"
            " return c.css(c.colourer({ kind: 'weights', largest: 1 })(x)); }",
            float(A[head, i, strongest]),
        )
        assert painted.replace(",", "") == expected.replace(",", "")

    with subtests.test("a single token is said in the singular"):
        visitor.go("text", text="")
        assert said(visitor, '[data-panel="tokens decoder"] .note').startswith("1 token.")

    with subtests.test("a text that is refused has a way back"):
        visitor.go("attention", text="the cat " * 3000)
        assert "This cannot be shown" in said(visitor, ".error")
        visitor.act(lambda: page.locator('[data-key="start over"]').click())
        assert page.locator(".error").count() == 0


def test_an_alignment_names_the_word_that_is_predicted(visit: Visit) -> None:
    model = MODELS["encoder-decoder"]()
    visitor = visit(model)
    visitor.go("translation", text=TEXT, target=TARGET, at="decoder.1.cross", head=1)
    Z = model.logits(*given_ids(model))[0, -1]
    words = [*TARGET.split(), model.tokenizer.piece(int(Z.argmax()))]
    labels = visitor.page.locator('[data-panel="alignment"] svg text.q')
    assert [labels.nth(k).text_content() for k in range(labels.count())] == words
    rows = visitor.page.locator('[data-panel="alignment"] tbody tr')
    assert [rows.nth(k).locator("td").first.text_content() for k in range(rows.count())] == words
    visitor.go("generation", text=TEXT)
    tokens = [one.inner_text() for one in visitor.page.locator('[data-key^="written"] bdi').all()]
    own = model.translate(TEXT)
    is_same = "".join(token for token in tokens if token != "</s>") == own.replace(" ", "")
    assert is_same or "found by beam search" in said(visitor, '[data-panel="steps"]')


def test_unknown_words_missing_views_and_the_opening(visit: Visit) -> None:
    visitor = visit(MODELS["decoder"]())
    page = visitor.page
    visitor.go("text", text="the Cat saw xyzzy")
    chips = [one.inner_text() for one in page.locator('[data-panel="tokens decoder"] bdi').all()]
    assert chips == ["<s>", "the", "Cat", "saw", "xyzzy"]
    assert "it knows cat" in said(visitor, ".notice")
    visitor.act(lambda: page.get_by_role("button", name="Write cat").click())
    assert page.locator('[data-key="field text"]').input_value() == "the cat saw xyzzy"
    for view, reason in (("translation", "no source and target"), ("classifier", "no classes")):
        link = page.locator(f'[data-key="view {view}"]')
        assert link.get_attribute("data-missing") is not None
        assert reason in (link.get_attribute("title") or "")
    assert page.locator("#views [data-missing]").count() == 2

    visitor.go("attention", text=TEXT)
    model = MODELS["decoder"]()
    A = model.trace(TEXT)["decoder.0.self.weights"][0]
    content = [len(word) >= 4 for word in ["", *TEXT.split()]]
    weight, head, i, j = max(
        (float(A[head, i, j]), head, i, j)
        for head in range(3) for i in range(len(content)) for j in range(i)
        if content[i] and content[j]
    )  # fmt: skip
    assert f"at=decoder.0.self&head={head}" in page.url
    assert visitor.number('[data-name="weight"]') == pytest.approx(weight)
    assert f"{TEXT.split()[i - 1]} looks at {TEXT.split()[j - 1]}" in said(visitor, '[data-panel="pair"] h2')
    assert "every number can be clicked" in said(visitor, "#side")


def test_a_model_of_dna_opens_with_dna(visit: Visit) -> None:
    (dna,) = CORPORA["dna"].examples("test", count=1)
    assert isinstance(dna, Labelled)
    visitor = visit(Model(classifier("dna", context=128)), alone=True)
    visitor.go("text")
    assert visitor.page.locator('[data-key="field text"]').input_value() == dna.text


def test_the_page_says_what_it_means(visit: Visit) -> None:
    model = MODELS["encoder"]()
    visitor = visit(model)
    page = visitor.page
    visitor.go("classifier", text=TEXT)
    best = model.classify([TEXT])[0].label
    assert f"without this word, class {best} is likelier" in said(visitor, '[data-panel="words"]')
    visitor.go("heads", text=TEXT)
    assert re.fullmatch(r"✓ equals the normal run \(difference [\d.e−-]+\)", said(visitor, "main .proof"))
    visitor.act(lambda: page.get_by_role("button", name="Open in Attention").click())
    assert selection(page.url)["view"] == "attention"
    visitor.go("attention", text=TEXT, off="scaling")
    assert said(visitor, "#changed").startswith("Changed model: scores not divided by √d_k × class ")
    assert said(visitor, "#changed").endswith(" Restore")


def test_keys_and_back(visit: Visit) -> None:
    visitor = visit(MODELS["decoder"](), alone=True)  # what is typed at the end is sent later
    page, key = visitor.page, visitor.page.keyboard
    visitor.go("attention", text=TEXT, at="decoder.0.self", head=1)
    key.press("?")
    assert "next stage" in page.locator("dialog#help").inner_text()
    key.press("Escape")
    page.locator("dialog#help").wait_for(state="hidden")
    stages = []
    for _ in range(3):
        visitor.act(lambda: key.press("ArrowRight"))
        stages.append(said(visitor, '[data-panel="bench"] h2'))
    assert stages == ["× V", "W_o", "From queries to the stream"]
    visitor.act(page.go_back)
    visitor.act(page.go_back)
    assert said(visitor, '[data-panel="bench"] h2') == "× V"
    for k, view in enumerate(VIEWS):
        if view != "attention":
            visitor.act(lambda k=k: key.press("1234567890-[]"[k]))  # type: ignore[misc]
            assert f"view={view}" in page.url
    visitor.act(lambda: key.press("4"))
    visitor.act(lambda: key.press("m"))
    assert "head decoder.0.self.1 muted" in said(visitor, "#changed")
    visitor.act(lambda: key.press("r"))
    assert not page.locator("#changed").is_visible()
    key.press("/")
    assert page.evaluate("document.activeElement.dataset.key") == "field text"
    key.type("4")
    assert "view=text" not in page.url


@pytest.mark.notes("N33", "N38", "N7")
def test_what_is_shown_of_losses_the_cache_the_stream_and_positions(visit: Visit) -> None:
    model = MODELS["decoder"]()
    visitor = visit(model)
    page, trace, ids = visitor.page, model.trace(TEXT), model.reader.ids(TEXT)
    visitor.go("next", text=TEXT, at="decoder.1.self", head=2)
    losses = (
        -trace["logits"][0, :-1].double().log_softmax(-1).gather(-1, torch.tensor(ids[1:])[:, None])[:, 0]
    )
    for i, id in enumerate(ids[1:]):
        assert visitor.number(f'[data-key="loss:{i}:{id}"]') == pytest.approx(float(losses[i]), rel=1e-5)
    assert visitor.number("[data-key=losses]") == pytest.approx(float(losses.mean()), rel=1e-5)
    for cell, value in ((f"loss:2:{ids[3]}", losses[2]), ("losses", losses.mean())):
        visitor.act(lambda cell=cell: page.locator(f'main [data-key="{cell}"]').click())  # type: ignore[misc]
        again = page.locator("[data-panel=derivation]").get_attribute("data-again")
        assert float(again or "nan") == pytest.approx(float(value), rel=1e-5)
    page.locator('[data-key="slide temperature"]').evaluate("one => { one.value = 2; }")
    visitor.act(lambda: page.locator('[data-key="slide temperature"]').dispatch_event("input"))
    P = (trace["logits"][0, -1] / 2).softmax(-1)
    best = int(P.argmax())
    shown = visitor.number(f'[data-key="heated:{len(ids) - 1}:{best}"]')
    assert shown == pytest.approx(float(P[best]), abs=1e-6)

    visitor.go("generation", text=TEXT, at="decoder.1.self", head=2, temperature=0, tokens=5, step=2)
    written = model.generate(TEXT, max_tokens=5, temperature=0.0, beam=1).tokens
    prompt = model.generator.prompt(TEXT).ids
    with torch.no_grad(), capture(model.module, "decoder.1.self.k", "decoder.1.self.v") as kept:
        model.module(Inputs(torch.tensor([[*prompt, *written[:4]]])))
    for letter in "kv":
        X = kept[f"decoder.1.self.{letter}"][0, 2]
        assert torch.tensor(visitor.matrix(f"cache {letter}")) == pytest.approx(X.flatten(), abs=1e-5)
    hidden = page.evaluate(
        "[...document.querySelectorAll('.matrix')].find(one => one.dataset.name === 'cache k').drawing.isHidden"
        f" ? [...Array({len(X)}).keys()].filter(i => document.querySelector('.matrix[data-name=\"cache k\"]')"
        f".drawing.isHidden(i * {X.shape[1]})) : []"
    )
    assert hidden == list(range(len(prompt) + 2, len(X)))
    visitor.act(lambda: page.locator('[data-key="play"]').click())
    page.wait_for_function("() => location.hash.includes('step=4')")
    visitor.settle()

    visitor.go("residual", text=TEXT, q=3)
    strips = page.locator('[data-panel="strips"] canvas')
    assert strips.count() == 5
    visitor.act(lambda: strips.last.press("ArrowRight"))
    captured = page.locator("[data-panel=derivation]").get_attribute("data-captured")
    assert float(captured or "nan") == pytest.approx(float(trace["decoder.1.residual.1"][0, 3, 1]), abs=1e-6)


def test_a_changed_text_is_drawn_after_three_requests(visit: Visit) -> None:
    """The pass, which comes with the pair to open with, and the tensors of the head, of queries and of keys."""
    visitor, sent = visit(MODELS["decoder"](), alone=True), list[str]()
    visitor.go("attention")
    visitor.page.on(
        "request", lambda request: sent.append(request.url.partition("/api/")[2].partition("?")[0])
    )
    box = visitor.page.locator('[data-key="field text"]')
    box.fill(TEXT)
    visitor.act(lambda: box.press("Enter"))
    assert len(sent) == 3, sent
    assert sorted(one.rpartition("/")[2] for one in sent) == ["passes", "tensors", "tensors"]


def test_what_takes_long_says_how_far_it_is(visit: Visit) -> None:
    visitor = visit(MODELS["decoder"](), alone=True)
    visitor.go("heads", text=TEXT)
    visitor.page.evaluate(
        """() => {
          const main = document.getElementById('main');
          window.heard = [];
          new MutationObserver(() => window.heard.push(main.dataset.progress)).observe(main, { attributes: true });
          let time = 0;
          performance.now = () => { time += 10000; return time; };  // a large model: ten seconds for a sublayer
        }"""
    )
    visitor.go("heads", text=TEXT, sort="moved")
    assert "Muting each head: 1 of 2 sublayers, about 20 s left" in visitor.page.evaluate("window.heard")
    assert visitor.page.evaluate("document.getElementById('main').dataset.progress ?? null") is None
    effects = visitor.page.locator('[data-panel="heads"] .thumb .n').all()
    values = [float(one.get_attribute("data-value") or "nan") for one in effects]
    assert len(values) == 6
    assert values == sorted(values, reverse=True)


@pytest.mark.notes("N14")
@pytest.mark.parametrize("shape", list(MODELS))
def test_swapped_words_show_what_positions_are_for(visit: Visit, shape: str) -> None:
    visitor = visit(MODELS[shape]())
    visitor.go("embeddings", text="the cat sat")
    visitor.act(lambda: visitor.page.locator('[data-key="swap"]').click())
    rows = visitor.page.locator('[data-panel="swap"] tbody tr')
    said = {row.locator("td").first.inner_text(): row.locator("td").last.inner_text() for row in rows.all()}
    parts = ["no positions"] if shape == "encoder" else ["no positions", "no positions, no mask"]
    assert list(said) == ["the model", *parts]
    assert said[parts[-1]] == "the same"
    assert said["the model"] == "different" or shape == "encoder-decoder"
    assert "cat the sat" in visitor.page.locator('[data-panel="swap"]').inner_text()
