"""The paths and commands in a call's arguments, wherever and in whatever form they appear.

One reader for `workspace_only`, the guard of policy files and the functions ``named.paths`` and
``named.commands`` of hook files. A path is the value of an argument with a known name, at any
depth; a key of a mapping in such an argument; or a file that the text of a patch is about. A JSON
text is also read as its content, since servers decode such texts after rules have decided.

What it cannot see: paths in arguments with other names (except as `Role.TEXT`), in formats other
than JSON and patches, and what a tool makes up by itself.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, cast

import pydantic

from otelhooks.policy.commands import shell_words
from otelhooks.records.canonical_tools import BuiltinTools

__all__ = [
    "PATH_ARGUMENTS",
    "Found",
    "Role",
    "is_command",
    "is_shell",
    "patched",
    "texts",
    "use",
    "walk",
]

BASE_ARGUMENTS = (
    "base_dir",
    "base_directory",
    "base_path",
    "chdir",
    "cwd",
    "dir",
    "dir_path",
    "directories",
    "directory",
    "directory_path",
    "dirs",
    "folder",
    "folder_path",
    "folders",
    "project_root",
    "repo_path",
    "root",
    "root_dir",
    "root_directory",
    "root_path",
    "search_directory",
    "search_path",
    "work_dir",
    "working_dir",
    "working_directory",
    "workspace_root",
)
"""Arguments that other, relative paths of the same call may be relative to."""

PATH_ARGUMENTS = (
    *BASE_ARGUMENTS,
    "abs_path",
    "absolute_file_path",
    "absolute_path",
    "config_file",
    "config_path",
    "dest",
    "dest_path",
    "destination",
    "destination_path",
    "dst",
    "dst_path",
    "file",
    "file_name",
    "file_names",
    "file_path",
    "file_paths",
    "file_uri",
    "files",
    "fname",
    "from_path",
    "full_path",
    "image_path",
    "in_file",
    "input_dir",
    "input_file",
    "input_path",
    "local_path",
    "log_file",
    "move_path",
    "move_to",
    "moved_to",
    "new_file",
    "new_file_path",
    "new_path",
    "notebook_path",
    "old_file",
    "old_file_path",
    "old_path",
    "out_dir",
    "out_file",
    "out_path",
    "output_dir",
    "output_directory",
    "output_file",
    "output_path",
    "path",
    "path_name",
    "paths",
    "relative_path",
    "rename_to",
    "save_as",
    "save_path",
    "save_to",
    "source",
    "source_file",
    "source_path",
    "sources",
    "src",
    "src_path",
    "target",
    "target_file",
    "target_path",
    "targets",
    "to_path",
    "uri",
)
"""Arguments that are paths, at any depth; ``AbsolutePath`` and ``absolute-path`` are the same."""

_CONTENT_ARGUMENTS = (
    "code",
    "code_content",
    "code_edit",
    "content",
    "contents",
    "description",
    "explanation",
    "file_content",
    "file_contents",
    "file_text",
    "insert_text",
    "instruction",
    "instructions",
    "message",
    "new_content",
    "new_str",
    "new_string",
    "new_text",
    "old_content",
    "old_str",
    "old_string",
    "old_text",
    "replacement",
    "replacement_content",
    "target_content",
    "text",
)


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name).casefold()


_PATHS = frozenset(map(_plain, PATH_ARGUMENTS))
_BASES = frozenset(map(_plain, BASE_ARGUMENTS))
_CONTENTS = frozenset(map(_plain, _CONTENT_ARGUMENTS))


class Role(enum.Enum):
    """The role of a value in the arguments."""

    BASE = "base"
    """A directory that other paths of the call may be relative to."""
    PATH = "path"
    PATCHED = "patched"
    """A file that the text of a patch creates, changes, moves or deletes."""
    TEXT = "text"
    """Any other value."""
    CONTENT = "content"
    """Content that is written to, or searched in, a file named beside it."""


class Found(NamedTuple):
    """A value in the arguments of a call.

    Attributes:
        argument: Name of the argument that it is, or that contains it.
        value: The unchanged value; nearly always a text.
        role: Its role.
    """

    argument: str
    value: Any
    role: Role


class _Pairs(tuple[tuple[str, Any], ...]):
    """An object of JSON; if a name occurs twice, both values count."""

    __slots__ = ()


def _items(value: Any) -> list[tuple[str, Any]] | None:
    """Return the items of a container of named values; None for anything else."""
    if isinstance(value, _Pairs):
        return list(value)
    if isinstance(value, Mapping):
        mapping = cast("Mapping[Any, Any]", value)
        return [(str(key), item) for key, item in mapping.items()]
    if isinstance(value, pydantic.BaseModel):
        return list({**value.__dict__, **(value.__pydantic_extra__ or {})}.items())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(f.name, getattr(value, f.name)) for f in dataclasses.fields(value)]
    return None


def _listed(value: Any) -> list[Any] | None:
    """Return the items of a list or set; None for anything else."""
    if isinstance(value, (list, tuple, set, frozenset)):
        return list(cast("Iterable[Any]", value))
    return None


def _decoded(text: str) -> Any:
    """Return the content of a JSON text; None for any other text."""
    if not text.lstrip().startswith(("{", "[", '"')):
        return None
    try:
        return json.loads(text, object_pairs_hook=_Pairs)
    except ValueError:
        return None


def walk(
    value: Any, argument: str = "", role: Role = Role.TEXT, *, beside: bool = False
) -> Iterator[Found]:
    """Yield the values in arguments, at any depth.

    Args:
        value: The arguments, or the value of one.
        argument: Name of that argument.
        role: Role of that argument. Everything in a path is a path, except for known other
            arguments.
        beside: Whether a path is named beside it, or beside what contains it.

    Raises:
        RecursionError: They are nested too deep, or contain themselves.
    """
    items, listed = _items(value), _listed(value)
    if items is not None:
        yield from _walk_items(items, argument, role, beside)
    elif listed is not None:
        for item in listed:
            yield from walk(item, argument, role, beside=beside)
    elif value is not None:
        yield Found(argument, value, role)
        if isinstance(value, str) and role is not Role.CONTENT:
            yield from walk(_decoded(value), argument, role, beside=beside)
            yield from (Found(argument, path, Role.PATCHED) for path in patched(value))


def _walk_items(
    items: list[tuple[str, Any]], argument: str, role: Role, beside: bool
) -> Iterator[Found]:
    in_path = role in {Role.BASE, Role.PATH}
    named = [(_plain(name), name, value) for name, value in items]
    beside |= any(p not in _CONTENTS if in_path else p in _PATHS for p, _, _ in named)
    for plain, name, value in named:
        own, inner, is_beside = argument if in_path else name, role, beside
        if plain in _CONTENTS and beside and isinstance(value, str):
            inner = Role.CONTENT
        elif plain in _PATHS:
            inner, is_beside = Role.BASE if plain in _BASES else Role.PATH, False
        elif in_path and plain not in _CONTENTS:
            yield Found(own, name, Role.PATH)  # such as `files={"a.txt": ...}`
            inner, is_beside = Role.CONTENT if _has_lines(value) else role, True
        elif _LOOKS_LIKE_PATH.search(name):
            yield Found(own, name, Role.TEXT)
        yield from walk(value, own, inner, beside=is_beside)


_LOOKS_LIKE_PATH = re.compile(r"[/\\.%]")


def _has_lines(value: Any) -> bool:
    return isinstance(value, str) and "\n" in value.strip()


# -- patches ----------------------------------------------------------------------------------

_HEADER = re.compile(
    r"""^[ \t]*(?:
        \*\*\*[ \t]*(?:(?:add|update|delete)[ \t]+file|move[ \t]+to)[ \t]*:(?P<whole>.+)
      | (?:\+\+\+[ \t]|---[ \t](?=.*\n[ \t]*\+\+\+[ \t])|\*\*\*[ \t](?=.*\n[ \t]*---[ \t])
          |(?:rename|copy)[ \t]+(?:from|to)[ \t]|index:)(?P<strip>.+)
      | diff[ \t]+--git[ \t](?P<two>.+)
    )$""",
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
_LONGEST_PATH = 4096


def patched(text: str) -> Iterator[str]:
    """Yield the files that a text is about, if it is a patch.

    For each file of a unified diff, also the forms without its first folders: each tool decides how
    many of them (``a/``, ``b/``) it strips.
    """
    for header in _HEADER.finditer(text):
        if header["whole"] is not None:
            yield header["whole"].strip()
            continue
        two = header["two"]
        for path in (header["strip"],) if two is None else two.split():
            path = path.split("\t")[0].strip()
            if path.startswith('"'):
                path = shell_words.unescaped(path.strip('"'))
            if path != "/dev/null" and len(path) <= _LONGEST_PATH:
                parts = path.split("/")
                yield from ("/".join(parts[start:]) for start in range(len(parts)))


# -- what is done, and commands ---------------------------------------------------------------

_READING_TOOLS = frozenset(
    ("view_file", "list_directory", "search_directory", "find_file", "read_url_content")
)
_CANONICAL = frozenset((*(tool.value for tool in BuiltinTools), "code_execution"))
"""Names by which an adapter says what a tool does; others are only further names of it."""
_READING = frozenset(
    ("cat fetch find get glob grep head list ls query read search show stat tail tree view").split()
)
_READING_THINGS = _READING | frozenset(
    (
        "a all and by code content contents dir directories directory document documents entries"
        " file filename files folder folders for hook hooks image images in info lines many media"
        " metadata multiple name of page pages path pattern policies policy regex rules size sizes"
        " status symbol text the web with workspace"
    ).split()
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W_a-zA-Z]+")


def use(name: str, kind: str | None = None, canonical: Iterable[str] = ()) -> str:
    """Return what a tool does to the files that it gets: ``read`` or ``write``.

    The adapter's knowledge comes first, then the words of the name, which must all be known:
    `search_replace` does not only search. Unknown tools write.
    """
    if kind is not None or not _CANONICAL.isdisjoint(canonical):
        reads = kind == "file_read" or not _READING_TOOLS.isdisjoint(canonical)
    else:
        words = [word.lower() for word in _WORD.findall(name)]
        reads = bool(words) and words[0] in _READING and _READING_THINGS.issuperset(words)
    return "read" if reads else "write"


_SHELL_TOOLS = frozenset(
    (
        "bash cmd command exec execcommand execrun execute executebash executecommand"
        " executeshell localshell managetask monitor powershell runbash runcommand runcommands"
        " runinterminal runshell runshellcommand runterminalcmd sendinput sendkeys"
        " sendtoterminal sh shell shellcommand shelltool terminal terminalinput typeinterminal"
        " writestdin writetoterminal zsh"
    ).split()
)
_COMMAND_ARGUMENTS = frozenset(
    "bashcommand chars cmd cmdline command commandline commands shellcommand stdin".split()
)


def is_shell(name: str, args: Any, kind: str | None = None, canonical: Iterable[str] = ()) -> bool:
    """Return whether a tool runs commands: by its adapter, its name, or an argument.

    Input for a running program (``write_stdin``) counts, since that may be a shell.
    """
    return (
        kind == "shell"
        or "run_command" in canonical
        or not _SHELL_TOOLS.isdisjoint(map(_plain, (name, *canonical)))
        or any(is_command(key) for key, _ in _items(args) or ())
    )


def is_command(argument: str) -> bool:
    """Return whether an argument of this name is a command, or input for a running program."""
    return _plain(argument) in _COMMAND_ARGUMENTS


def texts(value: Any, argument: str = "") -> Iterator[tuple[str, str]]:
    """Yield every text in arguments with the name of its argument; a list of words as one text."""
    items, listed = _items(value), _listed(value)
    if items is not None:
        for name, item in items:
            if argument:
                yield argument, name
            yield from texts(item, argument or name)
    elif listed is not None:
        yield argument, " ".join(item for item in listed if isinstance(item, str))
        for item in listed:
            yield from texts(item, argument)
    elif isinstance(value, str):
        yield argument, value
        yield from texts(_decoded(value), argument)
