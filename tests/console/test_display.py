"""What others wrote cannot pass for something else on a page, nor become a part of it."""

from __future__ import annotations

import re
from html import unescape
from importlib import resources
from pathlib import Path

import pytest

from gateway.console import display
from gateway.console.differences import compare
from gateway.console.rendering import Renderer, StaticFiles, fill, is_local
from gateway.policy.service_defs import load_service_defs

CONSOLE = Path(str(resources.files("gateway.console")))
SERVICE_DEFS = Path(__file__).resolve().parents[2] / "rules" / "service_defs"
TEMPLATES = sorted((CONSOLE / "templates").glob("*.html"))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("SELECT 1\n\tFROM t", "SELECT 1\n\tFROM t"),
        ("naïve 数据 😀", "naïve 数据 😀"),
        ("a\u202eb\u202cc", "a⟨U+202E⟩b⟨U+202C⟩c"),
        ("a\u2066b\u2069", "a⟨U+2066⟩b⟨U+2069⟩"),
        ("a\u200bb\u00adc\ufeffd", "a⟨U+200B⟩b⟨U+00AD⟩c⟨U+FEFF⟩d"),
        ("a\x00b\x1b[31mc\x7f", "a⟨U+0000⟩b⟨U+001B⟩[31mc⟨U+007F⟩"),
        ("a\u00a0b\u3164c", "a⟨U+00A0⟩b⟨U+3164⟩c"),
        ("a\u2028b\r\nc\rd", "a⟨U+2028⟩b\nc⟨U+000D⟩d"),
        ("\ud800", "⟨U+D800⟩"),
        ("\U000e0041", "⟨U+E0041⟩"),
        ("e\u0301", "e\u0301"),
        ("e" + "\u0301" * 6, "e" + "\u0301" * 4 + "⟨U+0301⟩⟨U+0301⟩"),
    ],
)
def test_what_is_not_seen_is_shown(text: str, shown: str) -> None:
    assert display.reveal(text) == shown


def test_every_text_of_a_template_is_escaped_and_shown() -> None:
    renderer = Renderer([], StaticFiles())
    page = renderer.template(
        "login.html",
        following="/console/",
        fault="<script>alert(1)</script>\u202e",
        user="\"><img src=x onerror='alert(1)'>",
        oidc="",
        oidc_link="",
    )
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "⟨U+202E⟩" in page
    assert "\u202e" not in page


def test_a_form_sends_back_what_it_was_given() -> None:
    text = "\n\u200ba: <b>\u202e" + "x" * 30_000
    written = str(display.whole(text))
    assert unescape(written) == "\n" + text  # browsers leave out the first line break
    assert "<" not in written
    for template in TEMPLATES:
        for content in re.findall(r"<textarea[^>]*>(.*?)</textarea>", template.read_text(), re.DOTALL):
            assert content == "" or content.startswith("{{ whole("), template.name


def test_long_texts_are_cut() -> None:
    shown = display.finalize("x" * 30_000)
    assert isinstance(shown, str)
    assert shown.endswith("… (10,000 more characters)")
    assert display.cut("a\nb  c" + "d" * 200) == "a b c" + "d" * 114 + "…"


def test_marked_pieces_are_escaped() -> None:
    assert display.mark([(False, "a<b"), (True, "<i>\u200b")]) == "a&lt;b<mark>&lt;i&gt;⟨U+200B⟩</mark>"
    assert display.when("<b>") == "&lt;b&gt;"


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda one: one.name)
def test_templates_have_no_script_no_style_and_no_way_around_escaping(template: Path) -> None:
    text = template.read_text()
    assert not re.search(r"\|\s*safe\b|autoescape|Markup", text), "a text could become a part of the page"
    assert not re.search(r"\son\w+=[\"'{]|\sstyle\s*=|<style|javascript:", text, re.IGNORECASE)
    assert not re.search(r"<script(?![^>]*src=)", text), "no inline script"
    assert not re.search(r"https?://(?!www\.w3\.org)", text), "nothing comes from elsewhere"
    posts = re.findall(r'<form[^>]*method="post".*?</form>', text, re.DOTALL)
    assert all("{{ csrf() }}" in one for one in posts)
    for attributes in re.findall(r"<(?:input|select|textarea)\b([^>]*)>", text):
        labelled = re.search(r'type="(?:hidden|submit)"|aria-label|id="', attributes)
        assert labelled, f"no label for <input{attributes}>"
    assert text.count("<table") == text.count("<caption>")


def test_markup_is_made_in_two_modules_alone() -> None:
    found = {one.name for one in CONSOLE.rglob("*.py") if "Markup(" in one.read_text()}
    assert found <= {"display.py", "rendering.py"}


def test_scripts_of_ours_write_no_html() -> None:
    for script in (CONSOLE / "static").glob("*.js"):
        text = script.read_text()
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", text
        )


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("/console/events?event=1&x=%2F", True),
        ("/console/", True),
        ("/console", False),
        ("//evil.example/console/", False),
        ("/console/\n", False),
        ("/console/\\evil", False),
        ("https://evil.example/console/", False),
    ],
)
def test_addresses_of_ours(address: str, local: bool) -> None:
    assert is_local(address) is local


def test_addresses_are_filled_in_and_quoted() -> None:
    assert fill("/console/events/{event}", {"event": "a/../b?c"}) == "/console/events/a%2F..%2Fb%3Fc"
    found = fill("/x", {"user": "a&b=c", "empty": "", "columns": ("a", "b"), "flag": True})
    assert found == "/x?user=a%26b%3Dc&columns=a&columns=b&flag=true"


def test_spliced_parts_are_marked_on_both_sides() -> None:
    sent = "SELECT name FROM hr.employee WHERE id = 1"
    forwarded = "SELECT name FROM (SELECT mask(name) AS name FROM hr.employee) WHERE id = 1"
    left, right = compare(sent, forwarded)
    assert "".join(text for _, text in left) == sent
    assert "".join(text for _, text in right) == forwarded
    assert "".join(text for marked, text in right if not marked) == "".join(
        text for marked, text in left if not marked
    )
    assert any(marked and "mask" in text for marked, text in right)


def test_very_long_texts_are_compared_by_their_ends() -> None:
    sent = "a " * 5_000 + "x" + " b" * 5_000
    forwarded = "a " * 5_000 + " y z" * 5_000 + " b" * 5_000
    left, right = compare(sent, forwarded)
    assert "".join(text for _, text in left) == sent
    assert "".join(text for _, text in right) == forwarded


def test_masks_and_items_of_policies_are_told_in_words() -> None:
    assert display.name_mask("MASK_SHOW_LAST_4") == "only the last 4 characters"
    assert display.name_mask("MY_OWN") == "by the mask type MY_OWN"
    assert display.name_items("its `allow[0]` allows it") == "its 1st allow item allows it"
    assert display.name_items("mask[11]") == "12th mask item"
    assert display.name_items("its `deny_exceptions[1]`, `filters[2]` and x[3]") == (
        "its 2nd deny exception item, 3rd filter item and x[3]"
    )


@pytest.mark.parametrize("definition", ["hive", "spark"])
def test_each_type_of_mask_that_ships_has_words(definition: str) -> None:
    found = load_service_defs({f"{definition}.yaml": (SERVICE_DEFS / f"{definition}.yaml").read_text()})
    assert {one.name for one in found[definition].mask_types} <= display.MASKS.keys()
