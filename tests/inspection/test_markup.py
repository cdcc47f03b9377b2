"""Markup: whatever a text holds, a page stays whole and says the text."""

import xml.etree.ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from clearhead.inspection.markup import UNSEEN, Markup, joined, tag, text


@given(st.text(), st.text())
def test_a_text_comes_out_of_the_markup_as_it_went_in(inside: str, value: str) -> None:
    element = ET.fromstring(tag("p", inside, title=value))
    shown, title = (UNSEEN.sub("▯", plain) for plain in (inside, value))
    assert (element.text or "") == shown
    assert element.get("title") == title.replace("\n", " ").replace("\t", " ")


def test_markup_is_placed_as_it_is_and_text_is_not() -> None:
    assert tag("p", "a < b", tag("b", "&"), None, [1, 2.5, ["x"]]) == "<p>a &lt; b<b>&amp;</b>12.5x</p>"
    assert joined(Markup("<hr>"), "<hr>") == "<hr>&lt;hr&gt;"


def test_attributes() -> None:
    drawn = tag("rect", x=1.5, y=2, class_="a", text_anchor="end", rx=None, name='"')
    assert drawn == '<rect x="1.5" y="2" class="a" text-anchor="end" name="&quot;"/>'
    assert tag("meta", charset="utf-8") == '<meta charset="utf-8">'


def test_characters_that_hide_or_turn_text_are_boxed() -> None:
    assert text("a\x00b\u202ec\x1b[1m\ud800") == "a▯b▯c▯[1m▯"
    assert text("line\nline\ttab é 漢 🙂") == "line\nline\ttab é 漢 🙂"
