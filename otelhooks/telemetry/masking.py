"""Remove secrets from content before it is recorded.

::

    redactor = Redactor.of(config.redact)     # True, False, patterns, a callable, or a Redactor
    redactor.mask(value)                      # a JSON-like copy of any value, secrets replaced
    redactor.mask_text(text)                  # the same for a text

Masked are: values under keys that name a secret (``password``, ``client_secret``, ``api_key``,
``authorization``, ...) at any depth of nested containers, of JSON text and of JSON text escaped
into JSON text, also as ``key=value``, ``key: value``, ``--key value`` and ``<key>value</key>`` in
running text, in literals such as ``b"..."`` too, as two items of a list of arguments, as fields of
named tuples, in typed assignments and blocks of YAML, and as pairs such as ``{"name": "DB_PASS",
"value": ...}``, or ``("X-Api-Key", ...)`` in a list; passwords that programs take as an option of
one letter (see `otelhooks.telemetry.secret_options`), and in SQL and .netrc files; user and
password in base64, as docker and npm keep them; bearer tokens, API keys with a known prefix, JSON
web tokens, private keys, passwords and tokens in URLs (see `otelhooks.secret_forms`), card numbers
that pass the Luhn check; e-mail addresses on request. Keys of mappings are masked by these forms
too. Already
masked text stays as it is.

Time is bounded: every pattern is linear in the length of the text, containers are read up to
`MAX_DEPTH` levels and `MAX_NODES` values. Masking is telemetry, but it fails towards hiding: if a
user's pattern or callable raises, the whole text is hidden.
"""

from __future__ import annotations

import base64
import bisect
import json
import logging
import math
import re
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, TypeAlias, TypeGuard, cast

from otelhooks.errors import ConfigError
from otelhooks.records.arguments import as_number
from otelhooks.records.failures import outline
from otelhooks.secret_forms import FORMS
from otelhooks.telemetry import secret_options, secret_statements, secret_values
from otelhooks.telemetry.secret_names import KINDS_OF_KEYS, names_secret
from otelhooks.telemetry.secret_options import in_arguments

_log = logging.getLogger("otelhooks.telemetry")

MASK = "[MASKED]"
MAX_DEPTH = 64
MAX_NODES = 100_000

Rule: TypeAlias = "str | re.Pattern[str] | Callable[[str], str]"

# Keys under which a record keeps a name, with its value beside it, as in lists of variables.
_NAMES = ("name", "key", "Name", "Key", "ParameterKey")
_VALUES = frozenset(("value", "Value", "values", "ParameterValue"))
# Keys of a program, and of its arguments, as configurations of MCP servers have them.
_PROGRAMS = ("command", "program", "cmd", "executable")
_ARGUMENTS = frozenset(("args", "arguments", "argv"))
# Keys under which docker and npm keep user and password in base64.
_LOGINS = ("auth", "_auth")

_compiled = lru_cache(maxsize=64)(re.compile)
"""Compile on first use: most processes record no content, and patterns cost time at import."""


def _is_secret_pair(item: object) -> TypeGuard[Sequence[object]]:
    """Return whether an item of a list is a name and a secret, as in lists of HTTP headers."""
    if not isinstance(item, (list, tuple)) or len(cast("Sequence[object]", item)) != 2:
        return False
    name, value = cast("Sequence[object]", item)
    return names_secret(name, value) and not _is_empty(value)


def _is_empty(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value)


_SHORTEST = 8
"""Shorter texts contain no form of a secret."""

_BEARER = r"(?i)\bbearer\s{1,8}[A-Za-z0-9._~+/-]{16,}=*"
_QUOTE = r"(?:\\{0,31}[\"'])?"
_BASIC = (  # after a scheme, or as in configurations of docker and npm
    rf"(?i)(\bbasic\s|(?<![a-z0-9])auth{_QUOTE}\s{{0,8}}[:=]\s{{0,8}}{_QUOTE})"
    r"([A-Za-z0-9+/]{8,}={0,2})"
)
_CARD = r"(?a)(?<![\d.])[2-6](?:[ -]?\d){12,18}(?!\d)"
_EMAIL = r"(?a)(?<![\w.%+-])[\w.%+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"

_BEFORE_KEY = "|".join(rf"(?<={word}{sign}key)" for word in KINDS_OF_KEYS for sign in ("", "[_-]"))
_KEY_CORE = (  # each part starts with a letter: a search for lookbehinds takes twice the time
    r"(?i)p(?:assw|assphrase|asscode|wd|(?:ass(?<=[a-z0-9][_-]pass)|w(?<![a-z]pw))(?![a-z])"
    r"|(?-i:(?<=[a-z0-9]P)(?:ass|w)(?![A-Za-z]))"
    r"|ass(?<![a-z]pass)(?=(?:\\{0,31}[\"'])?\s{0,8}[:=]\s{0,8}\\{0,31}[\"']))"  # tests pass, too
    rf"|secret|credential|authorization|cookie|token|key(?:{_BEFORE_KEY})"
)
_KEY_CORES = ("pass", "pw", "secret", "credential", "authorization", "cookie", "token", "key")
_KEY_CHARACTERS = string.ascii_letters + string.digits + "_.-"
_KEY_RIGHT = r"(?a)[\w.-]{0,64}"
_TAG = r"<(?:[\w.-]{1,64}:)?\Z"
_TAG_END = r"(?:\s[^<>]{0,256})?>"
_CLOSING_TAG = r"<\\?/([\w.:-]+)"
_CDATA = "<![CDATA["
_CDATA_END = r"\]\]>"


class Redactor:
    """Masks secrets in values and texts.

    Args:
        is_on: False: nothing is masked, values are only made JSON-like.
        patterns: Regular expressions whose matches are masked, or callables that get a text and
            return it masked; applied after the built-in patterns, in order.
        emails: Mask e-mail addresses too.

    Raises:
        ConfigError: A pattern is not a regular expression.

    Example:
        >>> Redactor().mask({"user": "ann", "apiKey": "k-1"})
        {'user': 'ann', 'apiKey': '[MASKED]'}
    """

    def __init__(
        self, *, is_on: bool = True, patterns: Iterable[Rule] = (), emails: bool = False
    ) -> None:
        self.is_on = is_on
        self._emails = emails
        self._rules = [_compile(pattern) for pattern in patterns]
        self._has_logged = False

    @classmethod
    def of(cls, setting: object) -> Redactor:
        """Create a redactor from the setting ``redact``.

        Args:
            setting: True or None (built-in patterns), False (no masking), a pattern or callable, a
                list of them (besides the built-in ones), or a `Redactor`.

        Raises:
            ConfigError: The setting is not one of these.
        """
        if isinstance(setting, Redactor):
            return setting
        if setting is None or isinstance(setting, bool):
            return cls(is_on=setting is not False)
        if isinstance(setting, (list, tuple)):
            return cls(patterns=cast("Iterable[Rule]", setting))
        return cls(patterns=(cast("Rule", setting),))

    def mask(self, value: object) -> Any:
        """Copy a value as JSON-like data with secrets replaced.

        Args:
            value: Anything. Containers are copied, other objects become their masked text,
                bytes their length; parts beyond the limits of depth and size are left out.

        Returns:
            None, bool, int, finite float, str, list or dict with str keys.
        """
        return self._mask(value, 0, [MAX_NODES])

    def _mask(
        self, value: object, depth: int, budget: list[int], program: Sequence[object] = ()
    ) -> Any:
        """Mask a value; a list may be the arguments of a program."""
        budget[0] -= 1
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._mask_string(_text_of(value), depth, budget)
        if isinstance(value, int):
            number = as_number(value)
            is_short = self.is_on and number is value
            is_card = is_short and _is_card(int.__repr__(value).lstrip("-"))
            return MASK if is_card else number
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
        if depth >= MAX_DEPTH or budget[0] <= 0:
            return "[left out]"
        try:
            if isinstance(value, (bytes, bytearray, memoryview)):
                return f"[{memoryview(cast('bytes', value)).nbytes} bytes]"
            if isinstance(value, Mapping):
                return self._mask_mapping(cast("Mapping[object, object]", value), depth, budget)
            if isinstance(value, tuple) and (named := _named(cast("tuple[object, ...]", value))):
                return list(self._mask_mapping(named, depth, budget).values())
            if isinstance(value, (list, tuple, set, frozenset)):
                items = cast("Iterable[object]", value)
                return self._mask_items(items, depth, budget, program)
        except Exception as error:  # the value's own code may raise anything
            return _without_text(cast("object", value), error)
        return self._mask_string(_text_of(value), depth, budget)

    def _mask_items(
        self, value: Iterable[object], depth: int, budget: list[int], program: Sequence[object]
    ) -> list[Any]:
        items: list[Any] = []
        hidden: dict[int, int] = {}
        if self.is_on and isinstance(value, (list, tuple)):
            arguments = [*program, *cast("Sequence[object]", value)[: budget[0]]]
            hidden = in_arguments(arguments, lambda name: names_secret(name, ""))
        for index, item in enumerate(value, len(program)):
            if budget[0] <= 0:
                break
            if index in hidden:
                items.append(f"{str(item)[: hidden[index]]}{MASK}")
            elif self.is_on and _is_secret_pair(item):
                items.append([self._mask(item[0], depth + 2, budget), MASK])
            else:
                items.append(self._mask(item, depth + 1, budget))
        return items

    def _mask_mapping(
        self, value: Mapping[object, object], depth: int, budget: list[int]
    ) -> dict[str, Any]:
        copy: dict[str, Any] = {}
        numbers: dict[str, int] = {}
        is_pair = self.is_on and any(names_secret(value.get(name), "") for name in _NAMES)
        program = _program(value) if self.is_on else ()
        for key, item in value.items():
            if budget[0] <= 0:
                break
            name = key if isinstance(key, str) else _text_of(key)
            is_secret = self.is_on and (
                names_secret(name, item)
                or (is_pair and name in _VALUES)
                or (name in _LOGINS and isinstance(item, str) and _is_login(item))
            )
            shown = self._mask_key(name, copy, numbers)
            if is_secret and not _is_empty(item):
                copy[shown] = MASK
            else:
                ran = program if name in _ARGUMENTS else ()
                copy[shown] = self._mask(item, depth + 1, budget, ran)
        return copy

    def _mask_key(self, name: str, others: Mapping[str, Any], numbers: dict[str, int]) -> str:
        """Return a key with masked secrets, made different from the other keys.

        Args:
            name: The key.
            others: Those before it.
            numbers: The last number that each masked key was given.
        """
        is_plain = not self.is_on or (len(name) < _SHORTEST and not self._rules)
        shown = masked = name if is_plain else self._mask_forms(name)
        while shown in others:
            numbers[masked] = numbers.get(masked, 1) + 1
            shown = f"{masked} ({numbers[masked]})"
        return shown

    def mask_text(self, text: str) -> str:
        """Replace secrets in a text, which may be or contain JSON."""
        return self._mask_string(text, 0, [MAX_NODES])

    def _mask_string(self, text: str, depth: int, budget: list[int]) -> str:
        if not self.is_on or not text:
            return text
        if depth < MAX_DEPTH and text.lstrip()[:1] in ("{", "["):
            try:
                parsed = json.loads(text)
            except (ValueError, RecursionError):
                pass  # not JSON, or cut off: the search for keys in running text handles it
            else:
                masked = self._mask(parsed, depth + 1, budget)
                if masked == parsed:
                    return text
                return json.dumps(masked, separators=(",", ":"), ensure_ascii=False)
        return self._mask_forms(text, keys=True)

    def _mask_forms(self, text: str, *, keys: bool = False) -> str:
        """Mask texts in the form of a secret, and on request the values of secret keys."""
        for marker, pattern in FORMS if len(text) >= _SHORTEST else ():
            if marker in text:
                text = _compiled(pattern).sub(MASK, text)
        lower = text.lower()
        if "bearer" in lower:
            text = _compiled(_BEARER).sub(MASK, text)
        if "basic" in lower or "auth" in lower:
            text = _compiled(_BASIC).sub(_mask_basic, text)
        text = _compiled(_CARD).sub(_mask_card, text)
        if keys:
            text = secret_options.cover(text, MASK)
            if any(
                word in lower for word in ("password", "identified", "insert", "replace", "upsert")
            ):
                text = secret_statements.cover(text, MASK)
        if keys and any(core in lower for core in _KEY_CORES):
            text = _mask_keys(text)
        if self._emails and "@" in text:
            text = _compiled(_EMAIL).sub(MASK, text)
        for rule in self._rules:
            try:
                text = rule(text)
            except Exception as error:
                if not self._has_logged:
                    self._has_logged = True
                    _log.error("`redact` failed, a text is hidden: %s", outline(error))
                return MASK
        return text


def _compile(pattern: Rule) -> Callable[[str], str]:
    if isinstance(pattern, (str, re.Pattern)):
        try:
            compiled = re.compile(pattern)
        except re.error as error:
            raise ConfigError(
                f"redact has a pattern `{pattern}` that is not a regular expression: {error}",
                hint="escape special characters, or give a callable",
            ) from error
        return lambda text: compiled.sub(MASK, text)
    if callable(pattern):
        return lambda text: str(pattern(text))
    raise ConfigError(
        f"redact cannot be `{pattern}`", hint="use True, False, a pattern, a callable or a list"
    )


def _named(value: tuple[object, ...]) -> dict[object, object]:
    """Return the fields of a named tuple; empty for any other."""
    names = cast("tuple[object, ...]", getattr(type(value), "_fields", ()))
    return dict(zip(names, value, strict=True)) if len(names) == len(value) else {}


def _program(value: Mapping[object, object]) -> Sequence[object]:
    """Return the last words of the program that a mapping names beside its arguments, if any."""
    given = next((value[name] for name in _PROGRAMS if name in value), ())
    if isinstance(given, str):
        return given[-256:].split()
    return cast("Sequence[object]", given)[-8:] if isinstance(given, (list, tuple)) else ()


def _text_of(value: object) -> str:
    try:
        return str(value)
    except Exception as error:
        return hex(value) if isinstance(value, int) else _without_text(value, error)


def _without_text(value: object, error: Exception) -> str:
    # A broken __str__ is the application's problem; content only observes the value.
    _log.debug("a value has no text: %s", outline(error))
    return f"[{type(value).__name__}]"


def _is_card(digits: str) -> bool:
    """Check the length and the Luhn sum of a card number."""
    if not 13 <= len(digits) <= 19 or digits[0] not in "23456":
        return False
    doubled = (int(digit) * 2 for digit in digits[-2::-2])
    total = sum(map(int, digits[-1::-2])) + sum(n - 9 if n > 9 else n for n in doubled)
    return total % 10 == 0


def _mask_basic(match: re.Match[str]) -> str:
    """Mask user and password in base64, but keep ordinary words."""
    return f"{match[1]}{MASK}" if _is_login(match[2]) else match[0]


def _is_login(value: str) -> bool:
    """Return whether a text is user and password in base64."""
    encoded = value.rstrip("=")
    try:
        decoded = base64.b64decode(f"{encoded}{'=' * (-len(encoded) % 4)}")
    except ValueError:
        return False
    return b":" in decoded and decoded.decode("utf-8", "replace").isprintable()


def _mask_card(match: re.Match[str]) -> str:
    digits = match.group().replace(" ", "").replace("-", "")
    return MASK if _is_card(digits) else match.group()


def _mask_keys(text: str) -> str:
    """Mask the values of secret keys in running text, JSON fragments and escaped JSON."""
    pieces: list[str] = []
    done = 0  # everything before is in `pieces`
    elements = _Elements(text)
    find_core = _compiled(_KEY_CORE).search
    core = find_core(text)
    while core is not None:
        start, resume = core.start(), core.end()
        right = cast("re.Match[str]", _compiled(_KEY_RIGHT).match(text, resume))
        before = text[max(0, start - 130, done) : start]
        left = before[max(len(before) - 64, len(before.rstrip(_KEY_CHARACTERS))) :]
        before = before[: len(before) - len(left)]
        name = left + text[start : right.end()]
        gap = secret_values.find_gap(text, before, name, right.end())
        is_tag = gap is None and _compiled(_TAG).search(before)
        if names_secret(name, ""):
            if gap is not None:
                first, last = secret_values.extent(text, gap, core)
            elif is_tag:
                first, last = elements.extent(right.end(), name)
            else:
                first, last = secret_values.value_before(text, done, start - len(left))
            if last > first and text[first:last] not in ("null", "None"):
                pieces += (text[done:first], MASK)
                done, resume = last, max(last, resume)
        core = find_core(text, max(resume, right.end() if gap is None else resume))
    pieces.append(text[done:])
    return "".join(pieces)


class _Elements:
    """Elements in a text; each part of it is read once, however many elements begin before it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._ends: dict[int, tuple[int, str]] = {}

    def extent(self, start: int, name: str) -> tuple[int, int]:
        """Find where the content of an element starts and ends.

        A name in brackets may be just a word. The text may be cut off in the content, if that is
        one word.

        Args:
            start: Position after the element's name.
            name: Name of the element, without its namespace.
        """
        tag = _compiled(_TAG_END).match(self._text, start)
        if tag is None:
            return start, start
        first = tag.end()
        last, closed = self._end(first)
        if last == len(self._text):
            is_content = self._text.startswith(_CDATA, first) or (
                first >= self._last_word and _compiled(r"\w").match(self._text, first) is not None
            )
        else:
            is_content = closed == name and bool(self._text[first:last].strip())
        return (first, last) if is_content else (start, start)

    def _end(self, start: int) -> tuple[int, str]:
        """Return where content ends that starts here, and the name of the tag that closes it."""
        text, place, passed = self._text, start, list[int]()
        while place not in self._ends:
            passed.append(place)
            if text.startswith(_CDATA, place):
                index = bisect.bisect(self._cdata_ends, place + len(_CDATA) + 2)
                place = self._cdata_ends[index] if index < len(self._cdata_ends) else len(text)
            elif text.startswith("<", place) or place == len(text):
                tag = _compiled(_CLOSING_TAG).match(text, place)
                self._ends[place] = place, tag[1].rpartition(":")[2] if tag else ""
            else:
                following = text.find("<", place)
                place = following if following >= 0 else len(text)
        found = self._ends[place]
        self._ends.update(dict.fromkeys(passed, found))
        return found

    @cached_property
    def _cdata_ends(self) -> list[int]:
        return [found.end() for found in _compiled(_CDATA_END).finditer(self._text)]

    @cached_property
    def _last_word(self) -> int:
        """Position of the last run of characters without blanks, up to the end of the text."""
        places = range(len(self._text) - 1, -1, -1)
        return next((place for place in places if self._text[place].isspace()), -1) + 1
