"""Numbers and lists in words."""

import pytest

from discreg.comparison.words import duration, listed, percent, printable


@pytest.mark.parametrize(
    ("names", "limit", "text"),
    [
        ([], None, ""),
        (["a"], None, "a"),
        (["a", "b"], None, "a and b"),
        (["a", "b", "c"], 3, "a, b and c"),
        (["a", "b", "c", "d"], 3, "a, b and 2 others"),
    ],
)
def test_names_are_listed_as_in_a_sentence(names, limit, text):
    assert listed(names, limit) == text


def test_a_share_has_its_sign_apart():
    assert percent(0.05) == "5\N{NO-BREAK SPACE}%"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(2e-5, "0.02 ms"), (0.0123, "12 ms"), (1.25, "1.2 s"), (90, "90.0 s"), (150, "2.5 min")],
)
def test_a_time_is_in_the_unit_that_suits_it(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Größe 5\N{NO-BREAK SPACE}% \\n 👩‍🔬", "Größe 5\N{NO-BREAK SPACE}% \\n 👩‍🔬"),
        ("\x1b[2J\x9b1A\r\a\x7f", r"\x1b[2J\x9b1A\r\x07\x7f"),
        ("two\nlines\tor\x85more", r"two\nlines\tor\x85more"),
        ("\u202egpj.exe\u2066", r"\u202egpj.exe\u2066"),
    ],
)
def test_control_characters_are_escaped_and_all_others_stay(text, shown):
    assert printable(text) == shown
