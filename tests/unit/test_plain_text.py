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
        assert one_line("".join(unseen)).count("\\") == len(unseen)
        assert one_line("".join(unseen)).isascii()

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


TWINS = "characters that look like ASCII"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("p\u0430ypal", "letters of Cyrillic and Latin in one word"),
        ("\u0440\u0430\u0443\u0440\u0430l.com", "letters of Cyrillic and Latin in one word"),
        ("\u03bfpenai.com", "letters of Greek and Latin in one word"),
        ("g\uff4fogle", "letters of Fullwidth and Latin in one word"),
        ("g\U0001d428ogle", "letters of Latin and Mathematical in one word"),
        ("paypa\u217c.com", "letters of Latin and Symbols in one word"),  # roman numerals
        ("pay\u2174al", "letters of Latin and Symbols in one word"),
        ("PAYPA\u216c", "letters of Latin and Symbols in one word"),
        ("\u2113ogin", "letters of Latin and Symbols in one word"),
        ("\u00aapple", "letters of Latin and Symbols in one word"),
        ("g\u00ba\u00bagle", "letters of Latin and Symbols in one word"),
        ("\ufb01le.txt", "letters of Latin and Symbols in one word"),
        ("l\U0001d7e2gin", TWINS),  # digits
        ("l\u06f0gin", TWINS),
        ("g\u0966\u0966gle", TWINS),
        ("1\u06f00", TWINS),
        ("g\u24de\u24degle", TWINS),
        ("evil.com\u2215bank.com", TWINS),  # slashes
        ("evil.com\u2044.bank.com", TWINS),
        ("evil.c\u2100.bank.com", TWINS),
        ("https://bank.com\uff0fx", TWINS),
        ("etc\uff0fpasswd.bak", TWINS),
        ("evil.com\uff1f.bank.com", TWINS),
        ("C:\uff3cx", TWINS),
        ("bank\u2024com", TWINS),  # dots
        ("bank\uff0ecom", TWINS),
        ("ann\uff20b.org", TWINS),
        ("p\u0430y bank\u2024com", f"letters of Cyrillic and Latin in one word, {TWINS}"),
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
        "caf\u00e9 \u00fcber na\u00efve",
        "\u0130stanbul \u0141\u00f3d\u017a \u00c5ngstr\u00f6m \u0153uvre",
        "it\u2019s \u201cso\u201d, \u00abso\u00bb;",
        "a\u2013b\u2014c, co\u2010op\u2011ed, wait\u2026what, a\u00b7b",
        "Foo\u2122 Foo\u2122-Bar Foo\u2122Bar \u00a9 2024,",
        "Bar\u00ae, 5 \u20ac/kg, \u00a31.50, a\u20acb",
        "m\u00b2 x\u00b2y H\u2082O CO\u2082e 10\u207b\u00b3",
        "x\u1d62 a\u2260b 2\u00d73 a\u2192b \u221ax 20\u00b0C",
        "1\u00aa 3\u00baA n\u00ba5 N\u00ba 5 n.\u00ba",
        "M\u00aa Jos\u00e9, \u2116 5, \u216b, Type\u2161, BA\u2163+",
        "1\u20442, 1\u22152, 500m\u2113, 5\u339e, 20\u2103, \u2460a b\u2461",
        "\u4f7f\u7528API\uff1aOpenAI\uff0cGPT\uff08Plus\uff09\u3002Then",
        "\u53ef\u4ee5\uff1fYes\uff01No",
        "v1.0\u4e2d\u6587\uff1fYes",
        "ON\uff0fOFF Windows\uff0fMac \uff34\uff25\uff33\uff34 Windows\uff11\uff10 \uff14K",
        "\u06f1\u06f2 \u0628\u0627\u0632\u06cc iPhone\u06f1\u06f3,",
        "\u0968\u0966\u0968\u096a API v\u0968",
        "ok\U0001f44d go\U0001f680now \U0001f1e9\U0001f1ea \u24c2 \u2139\ufe0f Info 1\ufe0f\u20e3",
    ],
)
def test_ordinary_texts_of_the_world_are_not(text):
    assert disguise(text) == ""


def test_a_megabyte_of_hostile_letters_takes_no_time():
    started = time.process_time()
    disguise("a\u0430" * 500_000)
    disguise("\u200d" * 1_000_000)
    disguise(("." + "a" * 63) * 10_000 + "\uff0f" * 100_000)
    assert time.process_time() - started < 2
