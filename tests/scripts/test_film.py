"""The pictures of the README: columns stand where they stood, and a first look shows the result."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from tests.scripts.test_fetch import load_script

film = load_script("film")
Scene = film.Scene
_SVG = "{http://www.w3.org/2000/svg}"


def columns(picture: str) -> dict[str, float]:
    """Of each piece of text in a picture."""
    texts = ElementTree.fromstring(picture).iter(f"{_SVG}text")
    return {
        each.text or "": (float(each.attrib["x"]) - film.MARGIN) / film.ADVANCE for each in texts
    }


def visible(picture: str, seconds: float) -> set[str]:
    """What is seen after so long."""
    found = set()
    for group in ElementTree.fromstring(picture).iter(f"{_SVG}g"):
        first, *lasts = map(float, re.findall(r"([\d.]+)s", group.attrib["style"]))
        if first <= seconds < first + sum(lasts or [float("inf")]) - 1e-6:
            found.add(group[0].text or "")
    return found


def test_space_is_kept_by_place_and_not_by_characters() -> None:
    found = columns(film.still(["def f():", "    return  1  # <one>"], 40, "caption"))
    assert found["def f():"] == 0
    assert found["return"] == pytest.approx(4)
    assert found["1"] == pytest.approx(12)
    assert found["# <one>"] == pytest.approx(15)


def test_a_film_begins_and_ends_with_what_it_is_for() -> None:
    picture = film.film([Scene(5, ["begin"]), Scene(6, ["middle"]), Scene(9, ["result"])], 40, "")
    seen = [visible(picture, seconds) for seconds in (0, 2.6, 3.6, 6.6, 100)]
    assert seen == [{"result"}, {"begin"}, {"middle"}, {"result"}, {"result"}]
    groups = ElementTree.fromstring(picture).iter(f"{_SVG}g")
    without_motion = [each[0].text for each in groups if each.attrib["class"] == "from"]
    assert without_motion == ["result"]


def test_screens_are_cut_where_the_cursor_goes_home() -> None:
    drawn, rest = film.scenes([(0.5, "\x1b[Hone\r\n"), (1.5, "\x1b[Htwo\x1b[?1049l\nafter\n")])
    assert [(scene.when, scene.rows[0]) for scene in drawn] == [(0.5, "one"), (1.5, "two")]
    assert rest.strip() == "after"


def test_what_a_terminal_is_too_narrow_for_goes_on_in_the_next_row() -> None:
    assert film.growing([(0, "abc"), (1, "def\ng")], 4)[-1].rows == ["abcd", "ef", "g"]


def test_a_screenshot_fills_the_window_for_its_time() -> None:
    shots = [Scene(1.0, ["$ up"]), Scene(3.0, [""], b"one"), Scene(6.0, [""], b"two")]
    picture = film.film(shots, 40, "caption")
    at = {
        image.attrib["href"]: group.attrib["style"]
        for group in ElementTree.fromstring(picture).iter(f"{_SVG}g")
        for image in group.iter(f"{_SVG}image")
    }
    assert at["data:image/png;base64,b25l"] == "animation-delay:4.50s;animation-duration:3.00s"
    assert [style for href, style in at.items() if href.endswith("dHdv")] != []
    assert "$ up" in visible(picture, 3)
    assert "$ up" not in visible(picture, 5)
