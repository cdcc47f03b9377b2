"""Chat templates are programs of strangers: none takes long, takes much, or gets out."""

import time
from typing import Any

import pytest

from clearhead.errors import InputError
from clearhead.text.tokenizers import render
from clearhead.text.tokenizers.render import LARGEST_TEMPLATE, Renderer

USER = [{"role": "user", "content": "x"}]


def rendered(template: str, **names: Any) -> str:
    return Renderer(template).render(USER, True, names)


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        (
            "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
            "took too long",
        ),
        ("{% for i in range(99999) %}{{ 'ab' * 9999 }}{% endfor %}", "more than 16,777,216 characters"),
        ("{{ 'a' * 10 ** 10 }}", "too much memory"),
        ("{{ range(10 ** 9) }}", "Range too big"),
        ("{{ messages.__class__.__mro__ }}", "unsafe"),
        ("{{ cycler.__init__.__globals__.os.system('true') }}", "unsafe"),
        ("{{ messages.append(1) }}", "unsafe"),
        ("{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}", "recursion"),
        ("{% include '/etc/passwd' %}", "no loader"),
        ("{{ raise_exception('not so') }}", "template fails: not so"),
        ("{% if %}", "Expected an expression"),
        ("a" * (LARGEST_TEMPLATE + 1), "262,145 characters"),
    ],
)
def test_a_hostile_template_is_refused_within_its_bounds(
    template: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever started the process does not have to end it: it ends itself."""
    monkeypatch.setattr(render, "SECONDS", 60.0)
    start = time.monotonic()
    with pytest.raises(InputError, match=reason):
        rendered(template)
    assert time.monotonic() - start < 30  # most of it is the start of the process on a busy machine


def test_what_transformers_offers_is_there() -> None:
    assert rendered("{{ messages | tojson }}") == '[{"role": "user", "content": "x"}]'
    assert rendered("{{ strftime_now('%Y') }}").isdigit()
    assert rendered("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}") == "01"
    assert rendered("{% generation %}{{ bos_token }}{% endgeneration %}", bos_token="<s>") == "<s>"
    assert (
        rendered("{% set ns = namespace(n=0) %}{% set ns.n = 4 %}{{ ns.n }}{{ tools is defined }}")
        == "4False"
    )


def test_a_renderer_works_again_after_a_failure() -> None:
    made = Renderer("{% if stop %}{{ raise_exception('no') }}{% endif %}{{ messages[0].content }}")
    assert made.render(USER, True, {}) == "x"
    with pytest.raises(InputError, match="no"):
        made.render(USER, True, {"stop": True})
    assert made.render(USER, True, {}) == "x"
    process = made._process
    assert process is not None
    process.kill()
    with pytest.raises(InputError, match="its process was killed"):
        made.render(USER, True, {})
    assert made.render(USER, True, {}) == "x"
