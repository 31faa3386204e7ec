r"""Whether a value came from a result: what `when_argument_from` compares, and how.

A result is remembered as hashes of its words, of each two neighbouring words, and of its numbers.
The hash is Python's own, whose key is a new one in each process. A value came from results if all
its words do, and all its pairs; besides

- a word of it with one of ``@ . / : \`` in it does: an address, a URL, a path;
- the host of a URL does, without what is before its last two names;
- an IBAN does, whatever its blanks;
- a number does, as number or as text: `100`, `100.00`, `1,000` and `1.000` may be any of these.

Normal form: as in `otelhooks.policy.spoken`, but characters that cannot be seen are left out of
both sides, or are blanks. Escapes of JSON are what they stand for, or themselves. A word is a run
of letters and digits; in scripts without blanks, it is one letter.

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
    from otelhooks.policy.rules import Origins

__all__ = ["Known", "came_from", "outcome"]

MOST_CHARACTERS = 1_000_000
"""Most characters of a result that are read; of a longer one, everything counts."""

_MOST_VALUES = 10_000
"""Most values of a call that are looked at; a call with more of them is in doubt."""

_WORD = re.compile(r"[^\W_\u0e00-\U0010ffff]+|[^\W_]")
_NUMBER = re.compile(r"[0-9]+(?:[.,][0-9]+)*")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_IBAN = re.compile(r"(?<![a-z0-9])(?=([a-z]{2}[0-9]{2}(?:[ -]?[a-z0-9]){11,30}))")
_APART = re.compile(r"[\s,;\"'`<>()\[\]{}|]+")
_JOINED = re.compile(r"[^\W_][@./:\\]+[^\W_]")
_SCHEME = re.compile(r"[a-z][a-z0-9+-]*:")
_END_OF_HOST = re.compile(r"[/?#\\]")
_IN_QUERY = re.compile(r"[?&=#]")


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
            for parts in _ways(one):
                if any(known.is_from(label, parts) for label in found):
                    return True
    return False


_NO_CONTEXT = frozenset((UNKNOWN,))
_CONTAINERS = frozenset((list, tuple, set, frozenset))


# -- values ---------------------------------------------------------------------------------------


def _ways(value: Any) -> Iterator[Parts]:
    """Yield sets of parts; the value came from results that have all of one."""
    kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is str:
        for text in _forms(value):
            yield from _ways_of_text(text)
    elif kind is int or (kind is float and math.isfinite(value)):
        yield {_of_number(_digits(value))}
    else:
        yield frozenset()  # cannot be compared


def _ways_of_text(text: str) -> Iterator[Parts]:
    yield _chain(text)
    number = text.strip(" +-")
    if _NUMBER.fullmatch(number):
        for reading in _readings(number):
            yield {reading}
    for iban in _ibans(text):
        yield {iban}
    for word in _APART.split(text):
        for piece in {word, *_IN_QUERY.split(word)}:
            if _JOINED.search(piece):
                yield _chain(piece)
                yield from _ways_of_host(piece)


def _ways_of_host(word: str) -> Iterator[Parts]:
    """Yield the host of a URL, and the address of a mail that has more with it."""
    rest = word
    if scheme := _SCHEME.match(word):
        rest = word[scheme.end() :]
    is_url = rest.startswith(("//", "\\\\"))
    host = _END_OF_HOST.split(rest.lstrip("/\\") if is_url else rest, maxsplit=1)[0]
    if is_url:
        names = host.rpartition("@")[2].partition(":")[0].strip(".").split(".")
        if not names[-1].isdigit():  # else an address of numbers
            is_short = len(names[-1]) == 2 and len(names[-2:][0]) <= 3  # such as co.uk
            names = names[-3:] if is_short else names[-2:]
        host = ".".join(names)
    else:
        host = host.partition(":")[0]
        if not _JOINED.search(host):
            return
    if parts := _chain(host):
        yield parts


# -- results --------------------------------------------------------------------------------------


def outcome(result: Any, error: BaseException | None = None) -> Parts | None:
    """Return what the outcome of a tool call is remembered as; None if it cannot be read.

    Args:
        result: Anything that scripts may be given, see `otelhooks.policy.plain_values`.
        error: What the tool raised, if it failed.
    """
    from otelhooks.policy.plain_values import plain  # loads pydantic, which few starts need

    try:
        texts = list(_texts(plain(result)))
        for each in () if error is None else _causes(error):
            texts += (str(each), repr(each))
    except Exception:  # code of values and exceptions may raise anything
        return None
    pieces = cast("list[Any]", result) if type(result) is list else ()
    if pieces and all(type(each) is str for each in pieces):
        texts.append("".join(pieces))  # a stream
    if sum(map(len, texts)) > MOST_CHARACTERS:
        return None
    parts: set[int] = set()
    for text in texts:
        for form in _forms(text):
            parts |= _chain(form)
            parts.update(*map(_readings, set(_NUMBER.findall(form))))
            parts.update(_ibans(form))
    return parts


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and those that a traceback shows with it."""
    found: list[BaseException] = [error]
    for each in found:  # it grows
        yield each
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
            stack += one
        elif isinstance(one, str):
            yield one
        elif not isinstance(one, bool) and one is not None:
            yield _digits(one)


# -- parts ----------------------------------------------------------------------------------------


def _forms(text: str) -> Iterable[str]:
    """Return the normal forms of a text."""
    forms = {text}
    if "\\" in text:
        forms.add(_ESCAPE.sub(_escaped, text))
    return {_folded(form, filler) for form in forms for filler in ("", " ")}


def _escaped(found: re.Match[str]) -> str:
    if found[1]:
        return chr(int(found[1], 16))
    return " " if found[2] in "nrtbf" else found[2]


def _folded(text: str, filler: str) -> str:
    """Return a text in normal form, with something else for what cannot be seen."""
    if text.isascii():
        if text.isprintable():
            return text.lower()
    else:
        text = unicodedata.normalize("NFKC", text)
        text = unicodedata.normalize("NFKC", text.lower())
    unseen = {ord(char): filler for char in set(text) if is_unseen(char) and not char.isspace()}
    return (text.translate(unseen) if unseen else text).lower()


def _chain(text: str) -> Parts:
    """Return the hashes of words, and of each two neighbours."""
    words = _WORD.findall(text)
    parts = set(map(hash, words))
    parts.update(map(hash, itertools.pairwise(words)))
    return parts


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


def _readings(number: str) -> set[int]:
    """Return a number in digits as what it may be; the parts of a date, for example."""
    readings: set[int] = set()
    for thousands, point in (",.", ".,"):
        whole, _, part = number.partition(point)
        first, *groups = whole.split(thousands)
        if (part.isdigit() or not part) and all(len(group) == 3 for group in groups):
            readings.add(_of_number(f"{first}{''.join(groups)}.{part}"))
    return readings or set(map(_of_number, re.split("[.,]", number)))


def _of_number(digits: str) -> int:
    whole, _, part = digits.partition(".")
    return hash((whole.lstrip("0"), ".", part.rstrip("0")))


def _ibans(text: str) -> set[int]:
    """Return the IBANs with a right checksum."""
    found: set[int] = set()
    for match in _IBAN.finditer(text):
        compact = match[1].replace(" ", "").replace("-", "")
        head = int("".join(str(int(char, 36)) for char in compact[:4]))
        rest = 0  # modulo 97, see ISO 7064
        for length, char in enumerate(compact[4:], 5):
            digit = int(char, 36)
            rest = (rest * (100 if digit > 9 else 10) + digit) % 97
            if length >= 15 and (rest * 1_000_000 + head) % 97 == 1:
                found.add(hash((compact[:length], "IBAN")))
    return found
