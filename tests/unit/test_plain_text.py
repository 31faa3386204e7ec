"""Text of models and servers in terminals and logs: the class of B32 in issue 11.

Whatever its category, a character that cannot be seen, or that moves or reorders others, is spelled
out or taken out.
"""

from __future__ import annotations

import sys
import time
import unicodedata

import pytest

from otelhooks.approvals import terminal
from otelhooks.plain_text import columns_of, disguise, one_line, sanitize
from otelhooks.utils import interactive

UNSEEN = ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs")
LOOK_BLANK = "\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u180b\ufe0f\U000e0100\U0001d159"


class TestOneLine:
    def test_every_unseen_character_of_unicode_is_spelled_out(self) -> None:
        every = map(chr, range(sys.maxunicode + 1))
        unseen = {c for c in every if unicodedata.category(c) in UNSEEN} - {" "}
        assert [hex(ord(c)) for c in unseen if not one_line(c).isascii()] == []
        assert {one_line(c)[0] for c in unseen} == {"\\"}

    @pytest.mark.parametrize(
        "char",
        [*LOOK_BLANK, "\u061c", "\u00ad", "\u202e", "\u2066", "\u200b", "\U000e0041", "\ud800"],
    )
    def test_what_looks_blank_or_reorders_is_spelled_out(self, char: str) -> None:
        assert one_line(f"a{char}b") == f"a{ascii(char)[1:-1]}b"

    def test_a_line_end_does_not_begin_a_line(self) -> None:
        assert (
            one_line("a\r\nERROR forged\x85\x0b\u2028b\tc")
            == r"a\r\nERROR forged\x85\x0b\u2028b\tc"
        )

    def test_an_escape_sequence_is_shown_as_text(self) -> None:
        assert one_line("\x1b[2Ax\x9b1m\x07") == r"\x1b[2Ax\x9b1m\x07"

    def test_plain_text_in_any_language_stays(self) -> None:
        for text in ("run_command", "naïve café", "日本語", "שלום", "résume\u0301"):
            assert one_line(text) == text

    def test_marks_are_stacked_up_to_four_high(self) -> None:
        shown = one_line("a" + "\u0301" * 1_000)
        assert shown.count("\u0301") == 4
        assert shown.count(r"\u0301") == 996
        assert one_line("\u0301a") == r"\u0301a"  # it would be put onto the character before

    @pytest.mark.parametrize(
        "text",
        ["x" * 10_000_000, " " * 2_000, "漢" * 500, "\x1b" * 500, "e\u0301" * 500, "\x1b漢" * 90],
    )
    def test_a_long_text_is_cut_in_the_middle_to_its_columns(self, text: str) -> None:
        shown = one_line(text, 60)
        assert columns_of(shown) <= 60
        assert f"...({len(text)} characters)..." in shown

    def test_both_ends_of_a_long_text_stay(self) -> None:
        shown = one_line("rm -rf " + "/" * 100 + " #end", 50)
        assert shown.startswith("rm -rf //")
        assert shown.endswith("// #end")

    def test_a_text_that_fits_is_not_cut(self) -> None:
        assert one_line("x" * 60, 60) == "x" * 60
        assert one_line("漢" * 30, 60) == "漢" * 30

    def test_a_character_of_doubtful_width_counts_as_wide(self) -> None:
        assert columns_of("a漢±") == 5


class TestSanitize:
    @pytest.mark.parametrize(
        "char", [*LOOK_BLANK, "\u061c", "\u00ad", "\U000e0041", "\ue000", "\ud800"]
    )
    def test_what_is_unseen_is_taken_out(self, char: str) -> None:
        assert sanitize(f"a{char}b") == "ab"

    def test_tabs_and_line_feeds_stay(self) -> None:
        assert sanitize("a\n\tb\r\u2028c\xa0d") == "a\n\tbc d"

    def test_escape_sequences_are_taken_out_whole(self) -> None:
        assert sanitize("\x1b]0;title\x07a\x1b[31mb\x9b2Kc") == "abc"

    def test_the_other_paths_have_the_same_function(self) -> None:
        assert terminal.sanitize is sanitize
        assert interactive._sanitize_terminal_text is sanitize


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("p\u0430ypal", "letters of Cyrillic and Latin in one word"),
        ("\u0440\u0430\u0443\u0440\u0430l.com", "letters of Cyrillic and Latin in one word"),
        ("\u03bfpenai.com", "letters of Greek and Latin in one word"),
        ("g\uff4fogle", "letters of Fullwidth and Latin in one word"),
        ("g\U0001d428ogle", "letters of Latin and Mathematical in one word"),
        ("safe\u202egpj.exe", "invisible characters"),
        ("pay\u200dpal", "invisible characters"),
        ("a\u3164b", "invisible characters"),
        ("p\u0430y\u200b", "letters of Cyrillic and Latin in one word, invisible characters"),
    ],
)
def test_a_text_that_is_not_what_it_looks_like_is_told(text, why):
    assert disguise(text) == why


@pytest.mark.parametrize(
    "text",
    [
        "plain, 100%",
        "J\u00fcrgen na\u00efve \u0141\u00f3d\u017a",
        "\u043a\u043e\u0442.txt, api_\u043a\u043e\u0442, 5\u00b5m, \u0440\u0443\u0431 5",
        "Windows\u306e\u66f4\u65b0 \u30c6\u30b9\u30c8api \ud55c\uad6d\uc5b4OK \u4e2d\u6587abc",
        "\u2764\ufe0f \U0001f468\u200d\U0001f469\u200d\U0001f467",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "a\u00a0b\u2009c e\u0301",
    ],
)
def test_ordinary_texts_of_the_world_are_not(text):
    assert disguise(text) == ""


def test_a_megabyte_of_hostile_letters_takes_no_time():
    started = time.process_time()
    disguise("a\u0430" * 500_000)
    disguise("\u200d" * 1_000_000)
    assert time.process_time() - started < 2
