r"""Whether a value came from a result: what `when_argument_from` compares, and how.

A result is remembered as hashes of its words, of each two neighbouring words, and of its numbers.
The hash is Python's own, whose key is a new one in each process. A value came from results if all
its words do, and all its pairs; besides

- a word of it with one of ``@ . / : \`` in it does: an address, a URL, a path;
- the host of a URL or a name with dots does, without what is before the name that was registered.
  Clients read `https:/x`, tabs and line ends in a URL, and the dot of Chinese as well;
- the host of `git@host:path` does; that of an address does if results name only one above it;
- an IBAN does, whatever signs and tags are between its groups;
- a number does, as number or as text, with a currency or unit beside it: `100`, `100.00`, `1,000`,
  `1 000`, `1_000` and `1.000` may be any of these, with groups as in India or China as well. In a
  result, each part of `17,250,300` is one too;
- a telephone, card or account number of 7 digits or more does, whatever signs are between its
  groups; in a result, line ends, commas and wide gaps only join groups of 4 digits or more, and
  ``;``, ``:``, ``=`` and `<br>` three groups at least;
- it does with a blank for the T of a date and time.

Normal form: characters that cannot be seen are left out of both sides, or are blanks; then NFKC
and case folding, with digits of every script as ASCII ones. What is raised behind a digit belongs
to it, or is a footnote. Escapes of JSON are what they stand for, or themselves, also in JSON within
JSON. A word is a run of letters and digits; in scripts without blanks, it is one letter. A long run
without blanks and points, such as a picture in base64, is one word as a whole.

Decision code: in doubt a value came from there, so that a rule which denies such values denies.
"""

from __future__ import annotations

import decimal
import itertools
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast

from otelhooks.hooks.labels import UNKNOWN
from otelhooks.plain_text import is_unseen

if TYPE_CHECKING:
    from otelhooks.hooks.origins import Parts
    from otelhooks.policy.selector_values import Origins

__all__ = ["Known", "came_from", "outcome"]

MOST_CHARACTERS = 300_000
"""Most characters of a result, or a value, that are read; of a longer one, everything counts."""

_MOST_VALUES = 10_000
"""Most values of a call that are looked at; a call with more of them is in doubt."""

_WORD = re.compile(r"[^\W_\u0e00-\U0010ffff]+|[^\W_]")
_SHORTEST_BLOB = 256
_SHORTEST_WORD = 3
_BLOB = re.compile(rf"[a-z0-9+/_=-]{{{_SHORTEST_BLOB},}}")
_NUMBER = r"\.?[0-9]+(?:[.,][0-9]+)*"
_GROUPS = r"[0-9]{1,3}(?:[ '\u2019_][0-9]{3})+(?:[.,][0-9]+)?"
_LENGTHS = re.compile("3*|2*3|4*")
"""How many digits the groups behind the first one have: in the West, in India, in China."""
_BETWEEN_GROUPS = re.compile("[ '\u2019_]")
_IN_WORD, _LETTER = r"[^\W_\u0e00-\U0010ffff]", r"[^\W\d_\u0e00-\U0010ffff]"
_BEFORE, _AFTER = rf"(?<!{_IN_WORD}){_LETTER}{{0,5}}", rf"{_LETTER}{{0,8}}(?!{_IN_WORD})"
_NUMBERS = re.compile(f"{_BEFORE}({_NUMBER}){_AFTER}")
_GROUPED = re.compile(f"{_BEFORE}({_GROUPS}){_AFTER}")
_AMOUNT = re.compile(
    rf"[\W_]*[^\W\d_]{{0,5}}[^\w.]*({_GROUPS}|{_NUMBER})[\W_]*[^\W\d_]{{0,8}}[\W_]*"
)
_LONGEST_AMOUNT = 100
_BLOCKS = r"[0-9]{1,19}(?:[ ()./_|*+~\u00b7\u2010-\u2015-]{1,2}[0-9]{1,19})*"
_MARKUP = "</?[a-z][^<>]{0,64}>"
_SIGNS = rf"(?:{_MARKUP}|[\W_]){{1,16}}"
_LONG_BLOCKS = rf"[0-9]{{4,19}}(?:{_SIGNS}[0-9]{{4,19}})+"
_ALIKE = r"[0-9]{1,19}([;:=`]|<br ?/?>)[0-9]{1,19}(?:\1[0-9]{1,19})+"
_IN_BLOCKS = re.compile(f"(?<!{_IN_WORD}){_BLOCKS}(?!{_IN_WORD})")
_IN_LONG_BLOCKS = re.compile(f"(?<!{_IN_WORD}){_LONG_BLOCKS}(?!{_IN_WORD})")
_IN_BLOCKS_ALIKE = re.compile(f"(?<!{_IN_WORD}){_ALIKE}(?!{_IN_WORD})")
_LONG_NUMBER = re.compile(
    rf"[\W_]*[^\W\d_]{{0,5}}[^\w.]*([0-9]{{1,19}}(?:{_SIGNS}[0-9]{{1,19}})*)"
    r"[\W_]*[^\W\d_]{0,8}[\W_]*"
)
_POWER = r"([0-9]{1,19}(?:\.[0-9]{0,19})?|\.[0-9]{1,19})e([+-]?[0-9]{1,2})"
_POWERS = re.compile(f"(?<!{_IN_WORD}){_POWER}(?!{_IN_WORD})")
_IS_POWER = re.compile(rf"[\W_]*{_POWER}[\W_]*")
_MOST_BLOCKS = 8
_CARD_DIGITS = 19
_FEWEST_DIGITS = 7
_TRUNK = "(0)"
"""What is left out of `+49 (0)170` in calls from abroad."""
_RAISED = re.compile(
    r"(?<=\d)(?=[\u00b2\u00b3\u00b9\u00bc-\u00be\u2070-\u2089\u2150-\u215f\u2460-\u24ff\u2776-\u2793])"
)
_SEPARATORS = {0x066B: ".", 0x066C: ","}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_BLANKS = {"n": "\n", "r": "\r", "t": "\t", "b": " ", "f": " "}
_MOST_ESCAPED = 4
_IN_IBAN = re.compile(r"[\W_]")
_APART = r"[\W_]{0,32}"
_IBAN = re.compile(
    rf"(?:(?<![a-z0-9])|(?<=iban))(?=([a-z]{_APART}[a-z]{_APART}[0-9]{_APART}[0-9]"
    rf"(?:{_APART}[a-z0-9]){{11,30}}))"
)
_TOKEN = re.compile(r"[\w.@/\\:+~%-]+")
_ASCII_TOKEN = re.compile(r"[a-z0-9_.@/\\:+~%-]+")
_BETWEEN_PIECES = re.compile(":")
_BETWEEN_ADDRESSES = re.compile(r"[:/\\]")
_JOINED = re.compile(r"[^\W_][@./:\\]+[^\W_]")
_BEFORE_HOST = r"(?:(?<![/\\])[/\\]{2,}|(?<![a-z0-9])(?:https?|wss?|ftp):[/\\]*)"
_HOST = re.compile(rf"{_BEFORE_HOST}([\w.@:+~%-]+)")
_ASCII_HOST = re.compile(rf"{_BEFORE_HOST}([a-z0-9_.@:+~%-]+)")
_REMOTE = re.compile(r"@([\w.-]+):(?=[^\s:])")
_AT_HOST = re.compile(r"@([a-z0-9.-]+)")
_OTHER_DOT = re.compile("\u3002(?=[a-z0-9])")
_AS_CLIENTS_READ = {ord("\t"): None, ord("\n"): None, ord("\r"): None, 0x3002: "."}
_IN_TIME = re.compile(r"(?<=[0-9]{4}-[0-9]{2}-[0-9]{2})t(?=[0-9]{2}:)|(?<=:[0-9]{2})(?=z)")
_REGISTRIES = frozenset(
    "ac co com edu gob go gov id ltd me mil ne net nhs nic nom or org plc sch".split()
)
"""Second to last names of hosts, such as in `co.uk`, below which others register theirs."""
_MANY_MARKS = re.compile(rb"[^\0]{31,}")


class Known(Protocol):
    """What is known when a call is judged."""

    @property
    def labels(self) -> frozenset[str]:
        """Labels in force."""
        ...

    def is_from(self, label: str, parts: Parts) -> bool:
        """Return whether parts of a value came from results with a label that is in force."""
        ...


def came_from(args: Mapping[str, Any], selected: Origins, known: Known | None) -> bool:
    """Return whether a value of an argument came from a result with a label.

    Values are those at any depth, with the keys of dicts. A missing argument, None, a blank text
    and a container without values came from nowhere.

    Args:
        args: Arguments of a call.
        selected: Pairs of an argument and labels; one of them must fit.
        known: The operation's context; None if it is not known.
    """
    for name, labels in selected:
        if name in args and _has_one(args[name], labels, known):
            return True
    return False


def _has_one(value: Any, labels: Iterable[str], known: Known | None) -> bool:
    in_force = _NO_CONTEXT if known is None else known.labels
    found = [label for label in labels if label in in_force]
    if not found and UNKNOWN not in in_force:
        return False
    left, stack = _MOST_VALUES, [value]
    while stack:
        one = stack.pop()
        kind: Any = type(one)  # pyright: ignore[reportUnknownVariableType]
        left -= 1
        if not left:
            return True
        if kind is dict:
            stack += one
            stack += one.values()
        elif kind in _CONTAINERS:
            stack += one
        elif one is not None and not (kind is str and not one.strip()):
            if known is None or UNKNOWN in in_force:
                return True
            for parts, same_host in _ways(one):
                for label in found:
                    if known.is_from(label, parts) and not (
                        same_host and known.is_from(label, same_host)
                    ):
                        return True
    return False


_NO_CONTEXT = frozenset((UNKNOWN,))
_CONTAINERS = frozenset((list, tuple, set, frozenset))


# -- values ---------------------------------------------------------------------------------------


def _ways(value: Any) -> Iterator[tuple[Parts, Parts]]:
    """Yield sets of parts, each with another that may be empty.

    The value came from results that have all of the first and not all of the second.
    """
    kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is str:
        try:
            forms = _forms(value)
        except ValueError:  # it is too long
            forms = ("",)
        for text in forms:
            yield from ((parts, _NOTHING) for parts in _ways_of_text(text))
            yield from _ways_of_addresses(text)
    elif kind is int or (kind is float and math.isfinite(value)):
        yield {_of_number(_digits(value))}, _NOTHING
    else:
        yield _NOTHING, _NOTHING  # cannot be compared


_NOTHING: Parts = frozenset()


def _ways_of_text(text: str) -> Iterator[Parts]:
    yield _chain(text)
    yield _chain(_IN_TIME.sub(" ", text))
    if len(text) <= _LONGEST_AMOUNT:
        if amount := _AMOUNT.fullmatch(text):
            for reading in _readings(_BETWEEN_GROUPS.sub("", amount[1])):
                yield {reading}
        if power := _IS_POWER.fullmatch(text):
            yield {_of_power(*power.groups())}
        if number := _LONG_NUMBER.fullmatch(text.replace(_TRUNK, "")):
            digits = "".join(_blocks(number[1]))
            if len(digits) >= _FEWEST_DIGITS:
                yield {_of_number(digits)}
    for iban in _ibans(text):
        yield {iban}
    in_urls = _HOST.findall(text.translate(_AS_CLIENTS_READ))
    text = _OTHER_DOT.sub(".", text)
    for host in in_urls + _HOST.findall(text) + _ASCII_HOST.findall(text):
        yield from _ways_of_host(host.rpartition("@")[2].partition(":")[0])
    for host in _REMOTE.findall(text):
        yield from _ways_of_host(host)
    for token in {*_TOKEN.findall(text), *_ASCII_TOKEN.findall(text)}:
        is_address = "@" in token
        between = _BETWEEN_ADDRESSES if is_address else _BETWEEN_PIECES
        first, *others = between.split(token)
        for piece in {token, first, *(other.lstrip("/\\") for other in others)}:
            if _JOINED.search(piece):
                yield _chain(piece)
                host = re.split(r"[/\\]", piece, maxsplit=1)[0]
                if "." in host and not is_address:
                    yield from _ways_of_host(host)


def _ways_of_addresses(text: str) -> Iterator[tuple[Parts, Parts]]:
    for host in _AT_HOST.findall(_OTHER_DOT.sub(".", text)):
        for registered in _ways_of_host(host):
            yield registered, _chain(host)


def _ways_of_host(host: str) -> Iterator[Parts]:
    """Yield the name that was registered, for a host that may have more names before it."""
    names = host.strip(".").split(".")
    if not names[-1].isdigit():  # else it is an address of numbers
        is_below_registry = len(names[-1]) == 2 and len(names) > 2 and names[-2] in _REGISTRIES
        names = names[-3:] if is_below_registry else names[-2:]
    if parts := _chain(".".join(names)):
        yield parts


# -- results --------------------------------------------------------------------------------------


def outcome(result: Any, error: BaseException | None = None) -> Parts | None:
    """Return what the outcome of a tool call is remembered as; None if it cannot be read.

    Args:
        result: Anything that scripts may be given, see `otelhooks.policy.scripting.plain_values`.
        error: What the tool raised, if it failed.
    """
    from otelhooks.policy.scripting.plain_values import (
        plain,  # loads pydantic, which few starts need
    )

    parts: set[int] = set()
    left = MOST_CHARACTERS
    try:
        texts = _texts(plain(result))
        for text in texts if error is None else itertools.chain(texts, _said(error)):
            left -= len(text)
            if left < 0:
                return None
            for form in _forms(text):
                parts |= _chain(form)
                parts |= _chain(_IN_TIME.sub(" ", form))
                parts |= _numbers(form)
                parts |= _ibans(form)
    except Exception:  # code of values and exceptions may raise anything
        return None
    return parts


def _said(error: BaseException) -> Iterator[str]:
    """Yield the texts of an exception and of those that a traceback shows with it."""
    found: list[BaseException] = [error]
    for each in found:  # it grows
        yield str(each)
        yield repr(each)
        yield from map(str, getattr(each, "__notes__", ()))
        inner: Any = getattr(each, "exceptions", ())
        for one in (each.__cause__, each.__context__, *inner):
            if isinstance(one, BaseException) and not any(one is other for other in found):
                found.append(one)


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts and numbers of plain data, at any depth, with the keys of dicts."""
    stack: list[Any] = [value]
    while stack:
        one = stack.pop()
        if isinstance(one, dict):
            stack += one
            stack += one.values()
        elif isinstance(one, list):
            items = cast("list[Any]", one)
            stack += items
            pieces = [_piece(item) for item in items]
            if len(pieces) > 1 and all(pieces):  # a stream, or blocks of content
                yield "".join(pieces)
        elif isinstance(one, str):
            yield one
        elif not isinstance(one, bool) and one is not None:
            yield _digits(one)


def _piece(item: Any) -> str:
    """Return the text that an item of a list is or has; empty if it has none."""
    text = cast("dict[str, Any]", item).get("text") if isinstance(item, dict) else item
    return text if isinstance(text, str) else ""


# -- parts ----------------------------------------------------------------------------------------


def _forms(text: str) -> Iterable[str]:
    """Return the normal forms of a text.

    Raises:
        ValueError: It is too long.
    """
    forms = [text]
    while "\\" in forms[-1] and len(forms) <= _MOST_ESCAPED:
        forms.append(_unescaped(forms[-1]))
    found = {_folded(form, filler) for form in forms for filler in ("", " ")}
    if len(text) > MOST_CHARACTERS or max(map(len, found)) > 2 * MOST_CHARACTERS:
        msg = "a text of too many characters"
        raise ValueError(msg)
    return found


def _unescaped(text: str) -> str:
    found = _ESCAPE.sub(_escaped, text)
    return found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # joins their pairs


def _escaped(found: re.Match[str]) -> str:
    if found[1]:
        return chr(int(found[1], 16))
    return _BLANKS.get(found[2], found[2])


def _folded(text: str, filler: str) -> str:
    """Return a text in normal form, with something else for what cannot be seen."""
    if not (text.isascii() and text.isprintable()):
        text = _seen(text, filler)
    if not text.isascii():
        if filler:
            text = _RAISED.sub(filler, text)
        text = _seen(_composed(_composed(text).casefold()), filler)
        text = text.translate({ord(char): _ascii(char) for char in set(text)})
    return text.casefold()


def _ascii(char: str) -> str:
    """Return a digit, or what is between digits in Arabic, as ASCII; others as they are."""
    if char.isdecimal():
        return str(unicodedata.decimal(char))
    return _SEPARATORS.get(ord(char), char)


def _seen(text: str, filler: str) -> str:
    unseen = {ord(char): filler for char in set(text) if is_unseen(char) and not char.isspace()}
    return text.translate(unseen) if unseen else text


def _composed(text: str) -> str:
    """Return a text in NFKC, in linear time: only 30 marks in a row are looked at."""
    kept, end = "", 0
    for marks in _MANY_MARKS.finditer(bytes(map(unicodedata.combining, text))):
        kept += text[end : marks.start() + 30]
        end = marks.end()
    return unicodedata.normalize("NFKC", kept + text[end:])


def _chain(text: str) -> set[int]:
    """Return the hashes of words, and of each two neighbours."""
    parts: set[int] = set()
    if len(text) >= _SHORTEST_BLOB:
        parts.update(map(hash, _BLOB.findall(text)))
        text = _BLOB.sub(_without_noise, text)
    words = _WORD.findall(text)
    parts.update(map(hash, words))
    parts.update(map(hash, itertools.pairwise(words)))
    return parts


def _without_noise(blob: re.Match[str]) -> str:
    """Return a long run without the shortest words in it, which in base64 are there by chance.

    The first and the last word may belong to what the run touches, such as an address.
    """
    run = blob[0]
    words = _WORD.findall(run)
    inner = (word for word in words[1:-1] if len(word) >= _SHORTEST_WORD)
    kept = " ".join((*words[:1], *inner, *words[1:][-1:]))
    return f"{'' if run[0].isalnum() else ' '}{kept}{'' if run[-1].isalnum() else ' '}"


def _digits(number: float | decimal.Decimal) -> str:
    """Return a number in digits.

    Raises:
        ValueError: It would have too many.
    """
    exact = decimal.Decimal(repr(number)) if isinstance(number, float) else decimal.Decimal(number)
    if exact and abs(exact.adjusted()) > MOST_CHARACTERS:
        msg = f"a number with {exact.adjusted()} digits"
        raise ValueError(msg)
    return f"{exact.copy_abs():f}"


def _numbers(text: str) -> set[int]:
    """Return the numbers in a text as what they may be, such as the parts of a date."""
    parts: set[int] = set()
    for number in set(_NUMBERS.findall(text)):
        parts |= _readings(number)
        parts.update(_of_number(digits) for digits in re.split("[.,]", number) if digits)
    for number in set(_GROUPED.findall(text)):
        parts |= _readings(_BETWEEN_GROUPS.sub("", number))
    alike = (found[0] for found in _IN_BLOCKS_ALIKE.finditer(text))
    for number in {*_IN_BLOCKS.findall(text.replace(_TRUNK, "")), *alike}:
        parts |= _long_numbers(_blocks(number), _MOST_BLOCKS)
    for number in set(_IN_LONG_BLOCKS.findall(text)):
        parts |= _long_numbers(_blocks(number))
    parts.update(_of_power(*power) for power in _POWERS.findall(text))
    return parts


def _blocks(number: str) -> list[str]:
    return re.findall("[0-9]+", re.sub(_MARKUP, " ", number))


def _long_numbers(blocks: list[str], least: int = 1) -> set[int]:
    """Return what may be one number of several blocks, with others before and behind it.

    Args:
        blocks: Their digits.
        least: How many blocks are joined, also beyond the digits of a card.
    """
    found: set[int] = set()
    for start in range(len(blocks) - 1):
        digits = blocks[start]
        for count, block in enumerate(blocks[start + 1 : start + _CARD_DIGITS], 2):
            digits += block
            if count > least and len(digits) > _CARD_DIGITS:
                break
            if len(digits) >= _FEWEST_DIGITS:
                found.add(_of_number(digits))
    return found


def _readings(number: str) -> set[int]:
    """Return a number in digits as what it may be; nothing if only its parts are numbers."""
    readings: set[int] = set()
    for thousands, point in (",.", ".,"):
        whole, _, part = number.partition(point)
        first, *groups = whole.split(thousands)
        if (part.isdigit() or not part) and _LENGTHS.fullmatch(
            "".join(str(min(len(group), 9)) for group in groups)
        ):
            readings.add(_of_number(f"{first}{''.join(groups)}.{part}"))
    return readings


def _of_number(digits: str) -> int:
    whole, _, part = digits.partition(".")
    return hash((whole.lstrip("0"), ".", part.rstrip("0")))


def _of_power(number: str, power: str) -> int:
    return _of_number(_digits(decimal.Decimal(f"{number}e{power}")))


def _ibans(text: str) -> set[int]:
    """Return the IBANs with a right checksum, with markup and without."""
    found: set[int] = set()
    readings = {text, re.sub(_MARKUP, " ", text)}
    for match in itertools.chain.from_iterable(map(_IBAN.finditer, readings)):
        compact = _IN_IBAN.sub("", match[1])
        head = int("".join(str(int(char, 36)) for char in compact[:4]))
        rest = 0  # modulo 97, see ISO 7064
        for length, char in enumerate(compact[4:], 5):
            digit = int(char, 36)
            rest = (rest * (100 if digit > 9 else 10) + digit) % 97
            if length >= 15 and (rest * 1_000_000 + head) % 97 == 1:
                found.add(hash((compact[:length], "IBAN")))
    return found
