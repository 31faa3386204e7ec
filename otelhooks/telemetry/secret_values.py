"""Find the value behind the name of a secret, in JSON, code, YAML, commands and statements.

The value is a literal, a container, a block, or a word. A call with one literal has that as its
value; any other call or subscript is the value as a whole, and if a literal follows it, to the end
of the line.
"""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = ["extent", "find_gap", "value_before"]

_compiled = lru_cache(maxsize=64)(re.compile)

_LONGEST = 2048
"""Characters in which a call ends; one that does not is hidden so far, and to its line's end."""

_PREFIX = (  # of a literal in Python, C#, Rust, SQL
    r"(?:(?:[bBfFrRuUnNeEL]{1,2}|[uU]&|[@$]{1,2}|r#{1,4})(?=\\{0,31}[\"']))?"
)
_MARK = rf"{_PREFIX}(\\{{0,31}})([\"']|`{{1,3}}(?=[^`\r\n]{{1,512}}`))"
_OPENED = rf"{_MARK}|[\[{{]"
_QUOTE = r"\\{0,31}[\"']"
_GO_TYPE = r"\s{1,4}(?:string|\[\]byte)(?=\s{1,4}=)"
_SUBSCRIPT = rf"(?:{_QUOTE}|\[\w{{0,8}})\](?=[ \t]{{0,4}}=)"
_SHOWN = r"(?=\s{0,4}[:=]?\s{0,4}(?:[`\"']|\S{0,128}\d))"  # prose names things in bold, too
_COLOUR = r"(?:\x1b\[[\d;]{0,16}m)?"
_GAP = (
    rf"(?:{_SUBSCRIPT}|{_QUOTE}|{_GO_TYPE}|(?:\*\*|`){_SHOWN})?{_COLOUR}"
    rf"\s{{0,16}}(?::=|=>|={{1,3}}(?![=>])|[:=]|(?:\|\||&&|\?\?|\+|\?)[:=])"
    rf"(?:\*\*{_SHOWN}|(?!\*\*\s))\s{{0,16}}{_COLOUR}"
)
_OPTION_GAP = (  # in a command, or in the text of a list of arguments
    r"(?:\s{0,16}\\\r?\n\s{0,16}|\s{1,16})(?![\s-])"
    rf"|{_QUOTE}\s{{0,16}},\s{{0,16}}(?={_PREFIX}{_QUOTE}(?!-))"
)
_SETTER = r"(?i)(?<![a-z])(?:set|put|get|define)\w{0,24}\(\s{0,8}\\{0,31}[\"']\Z"
_SETTER_GAP = rf"{_QUOTE}\s{{0,16}},\s{{0,16}}(?={_MARK})"
_PAIR = (  # of a list of headers
    r"(?:(?:\A|[\[(,])\s{0,8}\(|(?:\[|\],)\s{0,8}\[)\s{0,8}[bu]?\\{0,31}[\"']\Z"
)
_PAIR_GAP = (
    rf"{_QUOTE}\s{{0,16}},\s{{0,16}}(?=[bu]?(?P<end>{_QUOTE})(?:(?!(?P=end))[^\n]){{1,2048}}"
    r"(?P=end)\s{0,8}[)\]])"
)
_SETS = r"(?:\A|\.)(?:set|with)[A-Z_]"
_SETS_GAP = rf"\(\s{{0,8}}(?={_PREFIX}{_QUOTE})"
_BRACE_GAP = rf"\{{\s{{0,8}}(?={_PREFIX}{_QUOTE})"  # C++, and with brackets behind a type
_DECLARED = r"\b(?:string|string_view|auto|char)[ \t]?[*&]?[ \t]\Z"
_BRACKET_GAP = rf"[({{]\s{{0,8}}(?={_PREFIX}{_QUOTE})"
_VARIABLE = (  # of a Dockerfile, Windows, csh, fish, Apache, nginx
    r"(?:(?:\A|\n)[ \t]{0,16}ENV|(?<![\w-])(?:setx|set[eE]nv|SetEnv|set[ \t]-\w{1,4}"
    r"|\w{1,16}_header|fastcgi_param|(?:git|npm|yarn|pnpm|aws)[ \t]config(?:ure)?"
    r"(?:[ \t](?:set|--\w{1,16})){0,3}))[ \t]{1,8}(?:\S{1,64}[:/])?\Z"
)
_VARIABLE_GAP = r"(?P<line>[ \t]{1,16})(?=[^\s=|&;])"

_NO_VALUE = (  # nothing, a placeholder of a statement, a type
    r"(?:[Nn]ull|NULL|None|nil|undefined|[?]\d{0,3}|%s|%\(\w{1,64}\)s|\$\d{1,3}"
    r"|(?:[Ss]tr(?:ing)?|SecretStr|bytes|int|number|bool(?:ean)?)(?![ \t]{0,8}[=|]))"
    r"(?=[\s,;)\]}\"'\\]|\Z)"
)
_NAMED_PLACE = r"(?<=\s=\s)[:@]\w{1,64}(?=[\s,;)\"'\\]|\Z)"
_IN_STATEMENT = r"(?i)\b(?:set|where|and)\b[^;'\"]{0,200}\Z"

_TYPE = r"&?(?:'static\s)?[A-Za-z_.]{1,64}(?:\[[^\]\n=]{0,64}\]{1,3}|<[^>\n=]{0,64}>{1,3})?[?!]?"
_TYPED = rf"(?<!=)(?<!=\s){_TYPE}(?:\s?\|\s?{_TYPE}){{0,4}}\s{{0,8}}=\s{{0,8}}"
_CALLED = r"(?:(?:new|await)\s{1,4}|\[\])?[\w.:]{0,64}!?[(\[{]"
_CALL = rf"(?![\[{{]){_CALLED}|\[\]\w{{1,32}}\("
_LITERAL = rf"(?:{_CALLED}\s{{0,64}}){{1,3}}{_MARK}"
_LITERAL_END = r"\\{0,31}[\"'`]{1,3}#{0,4}(?:[\s,]{0,64}[)\]}]){1,8}"
_GOES_ON = (  # up to a literal, unless a separator or the next field of an object comes first
    r"(?![ \t]{0,64}(?:[,;)\]}\r\n]|\Z)|[ \t]{1,64}\w{1,64}=(?!=)|[\"'`])"
    r"[^\r\n\"'`]{0,256}[\"'`]"
)
_PARTS = r"\\.|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\\n]|\\.)*`|[()\[\]{}]"
_LABEL = r"(?<=:[ \t])(?:[!&][\w!:./-]{1,64}[ \t]{1,8}){1,2}(?=[^\s=])"  # tags, anchors of YAML
_BLOCK = r"[|>][+-]?[1-9]?[+-]?[ \t]{0,16}(?:#[^\r\n]{0,256})?\r?\n"  # in YAML
_NESTED = r"(?:-[ \t]|[\"']?[\w.-]{1,64}[\"']?:(?:\s|\Z))"
_NAME, _VALUE = (rf"(?<![\w.-])(?:Parameter)?{word}" for word in ("(?:[Nn]ame|[Kk]ey)", "[Vv]alue"))
_NAMED = rf"{_NAME}(?:(?:{_QUOTE})?\s{{0,8}}[:=]\s{{0,8}}(?:{_QUOTE})?|>\s{{0,8}})\Z"
_NEXT = (  # between a name and its value: of a container or element, a command, YAML
    rf"(?:{_QUOTE}\s{{0,8}}[,;]?\s{{0,66}}(?:[\w:-]{{1,32}}=\"[^\"<>]{{0,64}}\"\s{{1,66}}){{0,4}}(?:{_QUOTE})?|,"
    r"|[ \t]{0,16}\r?\n[ \t]{1,66})"
)
_NAMED_GAP = (
    rf"(?P<named>{_NEXT}){_VALUE}s?(?:{_QUOTE})?\s{{0,8}}[:=][ \t]{{0,8}}(?=\S)"
    r"|(?P<content>\s{0,8}</(?:name|key)>\s{0,66}<(?:value|string)>"
    r"|[\"'][^<>]{0,64}>(?=[^<>]{1,1024}</(?:property|entry|string|param|field|item|setting)>))"
)
_VALUE_BEFORE = (
    rf"{_VALUE}(?:{_QUOTE})?\s{{0,8}}[:=][ \t]{{0,8}}"
    rf"(?:(?P<mark>{_QUOTE})(?P<quoted>(?:(?!(?P=mark)).)+)"
    r"|(?P<bare>[^\s\"'](?:[^\r\n]*[^\s])?)(?=[ \t]*\r?\n))"
    rf"{_NEXT}{_NAMED}"
)
_BARE_VALUE = r"[^\s,;&\"'\\}\])]+"
_WORDS = r"(?<==)[^\s;\"'\\](?:[^;=\r\n\"'\\]|=(?=[=;])){0,256}"
_FIELD = rf"{_WORDS}(?=;\s?[A-Za-z][A-Za-z _]{{1,31}}=)"  # of a connection
_LAST_FIELD = rf"{_WORDS}(?=;[ \t]{{0,8}}(?:[\"'\r\n]|\Z))"
_FIELD_BEFORE = r"=[^;=\r\n\"']{1,128};[ \t]?[\w .-]{0,64}\Z"
_ASSIGNED = r"(?:\A|[\s;&(])[\w.-]{0,64}\Z"
_WORD = (  # the rest of a word of a shell, whose pieces are quoted each in its own way
    r"(?=[\w\"'\\$])(?:'[^'\n]{0,512}'|\"(?:\\.|[^\"\\\n]){0,512}\"|\\ |\\'(?=')"
    r"|[^\s,;&|<>()\"'\\}\]]{1,512})+"
)
_KEY = r"[ \t]{0,64}(?:(?:-|export)[ \t]{1,4})?[\"']?[\w.-]"
_KEY_OF_LINE = rf"(?:\A|\n){_KEY}{{0,64}}\Z"
_FIELDS = {  # of YAML; of `.env` and INI files, with comments and sections
    ":": rf"{_KEY}{{1,64}}[\"']?:(?=\s|\Z)",
    "=": rf"(?:{_KEY}{{1,64}}[ \t]{{0,8}}=|[ \t]{{0,8}}[#;\[])",
}
_LINE_BEFORE = r"(?:\A|\n)%s[^\n]{0,256}\n\Z"
_WITH_LINE_AFTER = r"[^\n]{1,512}\n%s"
_LINE_END = r"[ \t]{0,64}(?:\r?\n|\Z)"
_PLAIN = rf"(?!{_PREFIX}{_QUOTE}|[^\r\n]*[(\[{{]{_LINE_END})"
_REST_OF_LINE = rf"{_PLAIN}[^\r\n]+?(?=[,;]?{_LINE_END}|[ \t]{{1,64}}#)"
_ONE_WORD = rf"{_PLAIN}(?!\S*[;&,][\w.-]{{1,64}}=)\S+?(?=[,;)]{{0,8}}{_LINE_END})"
_REST_OF_WORD = (  # up to another field
    r"(?!\S{0,256}[;&,][\w.-]{1,64}=)[^\s\"']{0,256}?[^\s\"',;:&|)}\]]"
    r"(?=[,;:&|)}\]]{0,8}(?:\s|\Z))"
)
_DEFAULT = r"[ \t]{1,4}(?:[?|]{2}|or)[ \t]{1,4}[^\r\n\"'`]{0,256}[\"'`]"
_CALL_WITH_TEXT = rf"(?:{_CALL})[^\r\n]*[\"'`]"
_BEGUN = r"\\{0,31}[\"'](?=(?:--[\w-]{1,64}=)?[\w.-]{0,64}\Z)"
_IN_QUOTES = (  # name and value together, up to another field
    r"(?P<mark>\\{0,31}[\"'])(?:(?:--[\w-]{1,64}=)?[\w.-]{1,130}=|[\w.]{1,64}-[\w.-]{1,64}:[ \t])"
    r"(?P<value>(?:(?!(?P=mark)|[;&,]\s?[\w.-]{1,64}=)(?:\\.|[^\r\n])){1,1024})"
    r"(?=(?P=mark)|[;&,]|\Z)(?P<closed>[\"'])?"
)
_ROW = r"(?:\A|\n)[ \t]{0,64}(?:[|\u2502][ \t]{0,16})?\Z"  # of a table
_ROW_GAP = (
    r"(?P<row>[ \t]{0,64}[|\u2502][ \t]{0,64}|\t[ \t]{0,16}| {2,64})"
    rf"(?=\S{{1,512}}{_LINE_END}|[^\r\n|\u2502]{{1,512}}[|\u2502]{_LINE_END})"
)
_CELL = rf"\S+(?={_LINE_END})|[^\r\n|\u2502]*[^\s|\u2502]"
_YAML_GAP = r"[\"']?:[ \t]{1,16}"
_PLAIN_VALUE = (  # of YAML; a type in code has one of these signs behind it
    r"(?![^\r\n]{0,256}(?: [=|] |,[ \t]*(?:[\r\n]|\Z)))"
    r"[^\s#&*!|>%@`\"'\[{(](?:(?![ \t]#|:[ \t\r\n])[^\r\n])*"
)
_WHOLE = {"content": r"[^<]+", "row": _CELL}
_HEADER_VALUE = (  # with the parameters of a digest or a signature
    r"(?:=\"[^\"\r\n\\]*\"|[^\r\n,;\"'\\}])+"
    r"(?:,\s{0,8}(?:[\w-]{1,64}=\"[^\"\r\n\\]*\"|(?:algorithm|nc|qop)=\w{1,64}))*"
)
_COOKIES = r"[^\r\n\"'\\}]+"
_BARE_VALUES = {"authorization": _HEADER_VALUE, "cookie": _COOKIES}
_BRACKET = r"[\[\]{}]"


def find_gap(text: str, before: str, name: str, end: int) -> re.Match[str] | None:
    """Find what is between the name of a secret and its value; None if no value follows.

    Args:
        text: The whole text.
        before: Its last characters before the name.
        name: The name, which ends at `end`.
        end: A position in `text`.
    """
    gap = _compiled(_GAP).match(text, end)
    if gap is None and name.startswith("-"):  # an option of a command: its value may follow
        gap = _compiled(_OPTION_GAP).match(text, end)
    if gap is None and before.endswith(("'", '"')):
        if _compiled(_SETTER).search(before):
            gap = _compiled(_SETTER_GAP).match(text, end)
        elif _compiled(_PAIR).search(before):
            gap = _compiled(_PAIR_GAP).match(text, end)
    if gap is None and _compiled(_SETS).search(name):
        gap = _compiled(_SETS_GAP).match(text, end)
    if gap is None and before.endswith((" ", "\t", ":", "/")):
        if _compiled(_VARIABLE).search(before):
            gap = _compiled(_VARIABLE_GAP).match(text, end)
        elif _compiled(_DECLARED).search(before):
            gap = _compiled(_BRACKET_GAP).match(text, end)
    if gap is None and _compiled(_NAMED).search(before):
        gap = _compiled(_NAMED_GAP).match(text, end)
    begin = end - len(name)
    if gap is None and _compiled(_ROW).search(text, max(0, begin - 96), begin):
        gap = _compiled(_ROW_GAP).match(text, end)
    return gap or _compiled(_BRACE_GAP).match(text, end)


def value_before(text: str, start: int, end: int) -> tuple[int, int]:
    """Find the value in front of the name of a secret, as in `value: x`, `name: DB_PASSWORD`.

    Args:
        text: The whole text.
        start: Where it begins that may be looked at.
        end: Where the name begins.

    Returns:
        Where the value starts and ends; the same place if there is none.
    """
    start = max(start, end - 256)
    if _compiled(_NAMED).search(text[max(start, end - 32) : end]):
        if found := _compiled(_VALUE_BEFORE).search(text, start, end):
            return found.span("quoted" if found["mark"] else "bare")
    return end, end


def extent(text: str, gap: re.Match[str], core: re.Match[str]) -> tuple[int, int]:
    """Find where the value behind a gap starts and ends, without its quotes.

    Args:
        text: The whole text.
        gap: What `find_gap` has found.
        core: The part of the name that shows that it names a secret.
    """
    start = gap.end()
    if gap.lastgroup in _WHOLE:
        whole = _compiled(_WHOLE[gap.lastgroup]).match(text, start)
        return whole.span() if whole else (start, start)
    if gap.lastgroup == "line":
        return start, _line_end(text, start)
    if _compiled(_NO_VALUE).match(text, start) or (
        _compiled(_NAMED_PLACE).match(text, start)
        and _compiled(_IN_STATEMENT).search(text, *_before(core, 256))
    ):
        return start, start
    if typed := _compiled(_TYPED).match(text, start):
        if found := _read(text, typed.end()):
            return found
    if "\n" in gap[0] and _compiled(_NESTED).match(text, start):
        is_key = _is_key_of_line(text, core)
        line = text.rfind("\n", 0, start) + 1
        return _block_extent(text, core.start(), line) if is_key else (start, start)
    label = _compiled(_LABEL).match(text, start)
    first = label.end() if label else start
    if whole := _assigned(text, gap, core):
        return whole
    is_word = gap[0] == "=" and _is_word_of_shell(text, core)
    if found := _read(text, first, is_inline="\n" not in gap[0]):
        is_literal = found[0] == first + 1 and text[found[1] : found[1] + 1] == text[first]
        if is_word and is_literal and (rest := _compiled(_WORD).match(text, found[1] + 1)):
            return start, rest.end()
        return (start if label else found[0]), found[1]
    if block := _compiled(_BLOCK).match(text, first):
        return _block_extent(text, core.start(), block.end())
    bare = _BARE_VALUES.get(core[0].lower(), _BARE_VALUE)
    is_yaml = _compiled(_YAML_GAP).fullmatch(gap[0]) is not None
    if bare is _BARE_VALUE and (
        (gap.lastgroup == "named" and "\n" in gap[0])
        or (is_yaml and _is_field(text, core, first, ":"))
    ):
        bare = rf"{_PLAIN_VALUE}|{_BARE_VALUE}"
    match = _compiled(_FIELD).match(text, first)
    if match is None and _compiled(_FIELD_BEFORE).search(text, *_before(core, 256)):
        match = _compiled(_LAST_FIELD).match(text, first)
    match = match or _compiled(bare).match(text, first)
    if match and is_word:
        match = _compiled(_WORD).match(text, match.end()) or match
    end = match.end() if match else first
    if bare is _BARE_VALUE and (is_word or (is_yaml and _is_key_of_line(text, core))):
        rest = _compiled(_REST_OF_WORD).match(text, end)
        end = rest.end() if rest else end
    if _compiled(_DEFAULT).match(text, end):
        end = _line_end(text, end)
    return (start, end) if end > first else (start, start)


def _before(core: re.Match[str], size: int) -> tuple[int, int]:
    return max(0, core.start() - size), core.start()


def _read(text: str, start: int, *, is_inline: bool = True) -> tuple[int, int] | None:
    """Find the extent of a literal, call or container; None if none of them starts here."""
    opened = _compiled(_OPENED).match(text, start)
    if opened and opened[2]:
        return _literal(text, opened, is_inline)
    if call := _compiled(_CALL).match(text, start):
        return _call(text, start, call.end())
    return (start, _closing_bracket(text, start + 1)) if opened else None


def _literal(text: str, opened: re.Match[str], is_inline: bool = True) -> tuple[int, int]:
    start = opened.end()
    escapes, quote = opened.group(1, 2)
    mark = f"{escapes}{quote}"
    if is_inline and text.startswith(mark * 2, start):  # no docstring of `class Token:`
        start += 2 * len(mark)
        end = text.find(mark * 3, start)
        return start, end if end >= 0 else len(text)
    return start, _closing_quote(text, start, len(escapes), quote)


def _call(text: str, start: int, inside: int) -> tuple[int, int]:
    """Find what to hide of a call: the only literal in it, or all of it and what it is part of."""
    at = inside
    if literal := _compiled(_LITERAL).match(text, start):
        first, at = _literal(text, literal)
        end = _compiled(_LITERAL_END).match(text, at)
        if first < at == len(text) or (end and not _compiled(_GOES_ON).match(text, end.end())):
            return first, at
    limit = min(at + _LONGEST, len(text))
    line = text.find("\n", at, limit)
    if line >= 0 and not text[at:line].rstrip().endswith((*"([{,",)) and line > inside:
        limit = line
    depth = 1
    for part in _compiled(_PARTS).finditer(text, inside, limit):
        depth += (part[0] in ("(", "[", "{")) - (part[0] in (")", "]", "}"))
        if depth == 0:
            goes_on = _compiled(_GOES_ON).match(text, part.end())
            return start, _line_end(text, part.end()) if goes_on else part.end()
    return start, _line_end(text, limit)


def _assigned(text: str, gap: re.Match[str], core: re.Match[str]) -> tuple[int, int] | None:
    """Find a value without quotes of its own: the rest of a line, or of what is quoted."""
    start, is_close = gap.end(), gap[0] == "="
    found = None
    if begun := _compiled(_BEGUN).search(text, *_before(core, 96)):
        if found := _compiled(_IN_QUOTES).match(text, begun.start()):
            first, last = found.span("value")
            rest = _compiled(_WORD).match(text, found.end()) if found["closed"] else None
            return first, rest.end() - rest[0].endswith(found["mark"]) if rest else last
    elif gap[0].strip(" \t") == "=" and _is_key_of_line(text, core):
        if not _is_field(text, core, start, "="):
            found = _compiled(_ONE_WORD).match(text, start) if is_close else None
        elif is_close or not _compiled(_CALL_WITH_TEXT).match(text, start):
            found = _compiled(_REST_OF_LINE).match(text, start)
    return found.span() if found else None


def _is_field(text: str, core: re.Match[str], value: int, sign: str) -> bool:
    """Return whether a name is the key of its line, with a line like it before or behind it."""
    before = text[max(0, core.start() - 512) : core.start()]
    line = before.rfind("\n") + 1
    return _is_key_of_line(text, core) and (
        _compiled(_LINE_BEFORE % _FIELDS[sign]).search(before[:line]) is not None
        or _compiled(_WITH_LINE_AFTER % _FIELDS[sign]).match(text, value) is not None
    )


def _is_key_of_line(text: str, core: re.Match[str]) -> bool:
    return _compiled(_KEY_OF_LINE).search(text, *_before(core, 256)) is not None


def _is_word_of_shell(text: str, core: re.Match[str]) -> bool:
    """Return whether a name begins a word of a command, outside of quotes."""
    first, last = _before(core, 512)
    line = text[first:last].rpartition("\n")[2]
    is_quoted = line.count('"') % 2 or line.count("'") % 2
    return not is_quoted and _compiled(_ASSIGNED).search(line) is not None


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return end if end >= 0 else len(text)


def _block_extent(text: str, key: int, start: int) -> tuple[int, int]:
    """Find the lines from `start` that are below a key in YAML: deeper, or items of its list."""
    line = text[text.rfind("\n", 0, key) + 1 : key]
    deeper = min(len(line) - len(line.lstrip(" -")), 64) + 1
    after = _compiled(rf"(?m)^(?! {{{deeper}}}| {{{deeper - 1}}}- |[ \t\r]*$)").search(text, start)
    block = text[start : after.start() if after else len(text)]
    return start + len(block) - len(block.lstrip()), start + len(block.rstrip())


def _closing_quote(text: str, start: int, escapes: int, quote: str) -> int:
    """Find the quote that ends a string of JSON that was escaped into JSON any number of times.

    A string that a quote after n backslashes opens ends at a quote after r of them, where r modulo
    2(n + 1) is n, unless it is doubled, as in SQL; all other quotes belong to the value. Without
    such a quote, the text was cut off and the value extends to its end.
    """
    mark = "\\" * escapes + quote
    position = text.find(quote, start)
    while position >= 0:
        first = position
        while first > start and text[first - 1] == "\\":
            first -= 1
        if (position - first) % (2 * (escapes + 1)) == escapes:
            if position - escapes == start or not text.startswith(mark, position + len(quote)):
                return position - escapes
            position += len(mark)
        position = text.find(quote, position + 1)
    return len(text)


def _closing_bracket(text: str, start: int) -> int:
    """Find the end of a container whose opening bracket is just before `start`."""
    depth = 1
    for match in _compiled(_BRACKET).finditer(text, start):
        depth += 1 if match.group() in "[{" else -1
        if depth == 0:
            return match.end()
    return len(text)
