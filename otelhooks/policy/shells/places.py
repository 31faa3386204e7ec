"""Follows the paths of commands: links are resolved, and patterns looked up."""

from __future__ import annotations

import fnmatch
import functools
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from otelhooks.policy.paths import Folder, real_path
from otelhooks.policy.shells.nodes import Refused
from otelhooks.policy.shells.options import COMMIT, FOUND, GLOBS, NUMBER, PIPE, TOP, UNKNOWN

__all__ = ["ALL", "MOST_FILES", "TREES", "WILD", "Kept", "Places", "is_secret"]

MOST_FILES = 20_000
_MOST_PATTERNS = 200
_MOST_OF_NAME = 255
_OTHERS = frozenset(".git .venv venv node_modules".split())
"""Directories of git and of packages, which are left out where a directory is searched for keys: no
command writes there, so that nothing else gets such a name."""

_PACKAGES = _OTHERS | {"site-packages", "dist-packages"}
_GIT = re.compile(r"\.git(?:\.\w+|[-_]g?z)?", re.IGNORECASE)
"""What belongs to git, also compressed: a file `.git` says where a repository is."""
_RG_IGNORE = frozenset((".ignore", ".rgignore"))
_CHANGING = frozenset((*_RG_IGNORE, ".gitignore", ".git"))
"""Names in a directory with which git and rg may read what they leave out otherwise."""

_SECRET = re.compile(
    r"\.env([._~-](?!(example|sample|template|dist)$).*)?|.*\.env|\.dev\.vars.*"
    r"|(id|ssh_host)_(rsa|dsa|ecdsa|ed25519)(?!.*\.pub$).*"
    r"|.*\.(pem|key|p12|pfx|jks|keystore|kdbx|ppk|ovpn|kubeconfig|tfstate|tfvars(\.json)?)"
    r"|\.(netrc|pgpass|my\.cnf|mylogin\.cnf|vault-token|git-credentials|npmrc|pypirc|terraformrc|s3cfg|boto"
    r"|htpasswd|ssh|aws|gnupg|kube|docker|dockercfg|dockerconfigjson|azure|gcloud|password-store|envrc|git)"
    r"|_netrc|kubeconfig|\.?credentials(\..*)?|\.?secrets?"
    r"|secrets?(\..*)?\.(ya?ml|json|toml|env|ini|txt)|.*[._-]credentials\.(ya?ml|json|toml|ini|txt|csv)"
    r"|(client_secret|.*service[_-]?account|.*adminsdk).*\.json|\.?vault[_-]pass(word)?(\.txt)?"
    r"|\.?\w*_history|\.(z?history|histfile|lesshst|viminfo)|shadow",
    re.IGNORECASE,
)
_PLAIN_SETTING = re.compile(
    r"\s*(?:[#;].*|\[(?:core|user|init|pull|push|fetch|color|commit"
    r"|(?:remote|branch|submodule)(?: \"[^\"\]]*\")?)\]"
    r"|(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode"
    r"|symlinks|autocrlf|eol|url|pushurl|fetch|tagopt|prune|merge|rebase|remote|pushremote|name|email"
    r"|active|ui|default|defaultbranch|followtags|autosetupremote|ff|gpgsign|vscode-merge-base"
    r"|gh-(?:merge-base|resolved))\s*=.*)?",
    re.IGNORECASE,
)
"""Lines of git's settings that name no program, and no file with more settings."""
_SOURCE = re.compile(
    r"(?!python)[^.]+|.*\.(?:pyi?|pyw|pyx|ipynb|go|tf|tfvars|[cm]?[jt]sx?|vue|json|css|scss|html"
    r"|md|ya?ml)",
    re.IGNORECASE,
)
"""What linters and formatters open: some look for programs among files without an ending too."""
_KEPT = re.compile(r"(?:[~#]|\.(?:bak|backup|old|orig|save|sw[a-z]))+$", re.IGNORECASE)
"""What editors and people put behind the name of a file to keep another version of it."""
_PASSWORD = re.compile(r"://[^/@\s]+:[^/@\s]*@|(?<!ssh)://[^/@\s]+@|extraheader", re.IGNORECASE)
_USER_SETTINGS = ("~/.gitconfig", "~/.config/git/config")
_PLAIN_LINE = re.compile(r"[A-Za-z0-9_.-]+(?:\*[A-Za-z0-9_.-]*){0,2}|\*[A-Za-z0-9_.-]+")
"""Lines of `.gitignore` that git and rg read alike, in time that is linear."""
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./+-]*")
_PLAIN_NAME = re.compile(r"[\w.][\w.,+ -]*")
WILD = str.maketrans({mark: sign for sign, mark in GLOBS.items()})


class _Tree(NamedTuple):
    """How a program uses a directory.

    Attributes:
        hidden: Whether it reads what is hidden.
        ignored: Whether it reads what is ignored.
        secrets: Whether it reads secrets, as it reads all files.
        links: The files that it opens where they are links: none, sources, or all.
        folders: Whether it enters directories behind links.
        moves: Whether it puts links at another place, where those that climb lead elsewhere.
        others: Whether it enters directories of git and of packages.
    """

    hidden: bool = True
    ignored: bool = True
    secrets: bool = True
    links: Literal["", "sources", "all"] = ""
    folders: bool = False
    moves: bool = False
    others: bool = False

    def opens(self, name: str) -> bool:
        """Return whether it opens a file that is a link of this name."""
        is_source = self.links == "sources" and _SOURCE.fullmatch(name) is not None
        return is_source or self.links == "all"


TREES = {
    "tree": _Tree(),
    "linked": _Tree(links="all", folders=True),
    "found": _Tree(links="all", folders=True, others=True),
    "visible": _Tree(hidden=False, ignored=False),
    "tracked": _Tree(ignored=False),
    "opened": _Tree(secrets=False, links="sources"),
    "entered": _Tree(secrets=False, links="sources", folders=True),
    "filled": _Tree(secrets=False, links="all", folders=True),
    "moved": _Tree(secrets=False, moves=True),
    "copied": _Tree(links="all", folders=True, moves=True),
}
"""Kinds of paths that are read with all that is in them."""


def _text(file: Path) -> str:
    """Return what a file begins with, or nothing."""
    try:
        with file.open(encoding="utf-8", errors="replace") as opened:
            return opened.read(MOST_FILES)
    except OSError:
        return ""


class _Names(NamedTuple):
    """The names of some lines of `.gitignore`."""

    plain: frozenset[str]
    patterns: re.Pattern[str]

    @classmethod
    def of(cls, lines: Sequence[str]) -> _Names:
        names = [line for line in lines if _PLAIN_LINE.fullmatch(line)]
        forms = [fnmatch.translate(name) for name in names if "*" in name]
        return cls(frozenset(names), re.compile("|".join(forms[:_MOST_PATTERNS]) or "(?!)"))

    def has(self, name: str) -> bool:
        """Return whether a name is among them."""
        return name in self.plain or self.patterns.match(name) is not None


class Kept(NamedTuple):
    """What a program keeps of a directory.

    Attributes:
        only: It reads files of these names only, each with ``*`` at its beginning or without; none
            for all files.
        without: It does not enter directories of these names.
    """

    only: tuple[str, ...] = ()
    without: frozenset[str] = frozenset()

    def has(self, name: str) -> bool:
        """Return whether it reads a file of this name."""
        return not self.only or any(fnmatch.fnmatchcase(name, form) for form in self.only)


ALL = Kept()


def is_secret(name: str) -> bool:
    """Return whether a file or directory of this name may hold keys, passwords or a history."""
    if len(name) > _MOST_OF_NAME:
        return True  # a pattern: no file has such a name
    return _SECRET.fullmatch(_KEPT.sub("", name).removeprefix("#")) is not None


class Places:
    """The places that one call may use.

    Args:
        start: Where its commands run, absolute.
        workspaces: Directories that paths may lead to.
    """

    def __init__(self, start: str, workspaces: Sequence[Folder]) -> None:
        self.start = start
        self._workspaces = workspaces
        self._left = MOST_FILES
        self._trusts = True
        self._left_out = ""
        self._plain: dict[str, bool] = {}

    def trust_nothing(self) -> None:
        """Take no files for ignored, since what is ignored may change, maybe at the same time.

        Raises:
            Refused: One was taken for ignored before.
        """
        self._trusts = False
        if self._left_out:
            raise Refused("secret", f"`{self._left_out}` may be ignored no more: use two calls")

    def check_addresses(self, folder: str) -> None:
        """Refuse to print addresses if git's settings have a password in one."""
        here = Path(os.path.realpath(os.path.join(self.start, folder)))
        settings = [Path("/etc/gitconfig"), *(Path(each).expanduser() for each in _USER_SETTINGS)]
        for each in (here, *here.parents):
            settings.append(each / ".git" / "config")
            link = _text(each / ".git")
            if link:  # a file, in a worktree or submodule
                git = each / link.removeprefix("gitdir:").strip()
                settings += [git / "config", git.parent.parent / "config"]
        if any(_PASSWORD.search(_text(each)) for each in settings):
            raise Refused("secret", "git's settings have a password in an address")

    def has(self, name: str, folder: str) -> bool:
        """Return whether a directory, relative to the start, has something of this name."""
        return os.path.lexists(os.path.join(self.start, folder, name))

    def is_link(self, name: str, folder: str) -> bool:
        """Return whether a name in a directory is a link."""
        return os.path.islink(os.path.join(self.start, folder, name))

    @functools.cached_property
    def has_programs_of_git(self) -> bool:
        """Whether the settings of the repository may name programs, or files with settings."""
        try:
            with open(os.path.join(self.start, ".git", "config"), encoding="utf-8") as file:
                return not all(map(_PLAIN_SETTING.fullmatch, file.read().split("\n")))
        except FileNotFoundError:
            return False
        except (OSError, ValueError):
            return True

    def has_plain_names(self, folder: str) -> bool:
        """Return whether no name in a directory could be an option, an address or an assignment."""
        if folder not in self._plain:
            self._plain[folder] = self._lists_plain_names(folder)
        return self._plain[folder]

    def _lists_plain_names(self, folder: str) -> bool:
        try:
            names = os.listdir(os.path.join(self.start, folder))
        except OSError:
            return False
        self._left -= len(names)
        return self._left >= 0 and all(map(_PLAIN_NAME.fullmatch, names))

    def found(self, folder: str, top: str, name: str, left_out: Sequence[str]) -> Iterator[str]:
        """Yield the paths that `find` prints, and maybe more.

        Args:
            folder: Where it runs, relative to the start.
            top: Where it looks.
            name: Form of the names that it takes.
            left_out: Forms of paths that it does not take.

        Raises:
            Refused: A name is not plain, or there are too many.
        """
        if not _PLAIN_PATH.fullmatch(top):
            raise Refused("unread", "`find`: write directories of letters, without patterns")
        self.check("look", top, folder)
        due = [top]
        while due:
            place = due.pop()
            here = os.path.join(self.start, folder, place)
            for each in () if os.path.islink(here) else self._names(here):
                path = f"{place.rstrip('/')}/{each}"
                is_left_out = any(fnmatch.fnmatchcase(path, form) for form in left_out)
                if not is_left_out and fnmatch.fnmatchcase(each, name):
                    if not _PLAIN_NAME.fullmatch(each):
                        raise Refused("unread", "`find` finds a name with other signs than letters")
                    yield path
                is_empty = any(
                    form.endswith("*") and fnmatch.fnmatchcase(f"{path}/", form)
                    for form in left_out
                )
                if not is_empty and os.path.isdir(os.path.join(here, each)):
                    due.append(path)

    def check(self, use: str, path: str, folder: str, kept: Kept = ALL) -> None:
        """Refuse a path that may not be used.

        Args:
            use: ``look`` (is it there, its name), ``read``, ``write``, ``remove``, or one of
                `TREES`.
            path: The path, with marks of `otelhooks.policy.shells.options`.
            folder: Where the command runs, relative to the start, with marks.
            kept: What it keeps of a directory that is read.

        Raises:
            Refused: It may not.
        """
        if (path in {PIPE, FOUND} and use in {"read", "look", *TREES}) or (
            path == "/dev/null" and use != "remove"
        ):
            return
        if path == TOP:
            path, folder = self._top(folder), ""
        if any(mark in path for mark in (UNKNOWN, NUMBER, COMMIT, PIPE, FOUND)):
            raise Refused("outside", f"`{path}` is a path that is only known when the command runs")
        shown = path.translate(WILD)
        if path[:1] in {"~", "@"}:
            raise Refused("outside", f"`{shown}` may be read as another path: write it from `./`")
        if "://" in path:
            raise Refused("network", f"`{shown}` is an address")
        if re.search(r"\$|%\w+%", path):
            raise Refused("outside", f"`{shown}` may be read as another path")
        if ":" in (path if use == "write" else path.split("/")[0]):
            raise Refused("network", f"`{shown}` may be on another host: write it from `./`")
        whole = os.path.join(folder, path)
        self._look(whole.count("/"))
        begin, *matches = self._matches(whole, shown, is_new=use == "write")
        is_all = use == "remove" and not whole.split("/")[-1].strip("".join(GLOBS.values()))
        is_plain = not self._is_wild(whole) or use == "look" or is_all
        self._place(use if is_plain else "read", begin, shown, kept)
        for place in matches:
            self._place(use, place, shown, kept)

    def _top(self, folder: str) -> str:
        """Return the directory, relative to the start, of the repository that git finds in one."""
        here = Path(os.path.realpath(os.path.join(self.start, folder)))
        top = next((each for each in (here, *here.parents) if self.has(".git", str(each))), here)
        return os.path.relpath(top, os.path.realpath(self.start))

    def _matches(self, path: str, shown: str, *, is_new: bool) -> Iterator[str]:
        """Yield the fixed beginning of a path and, if it is a pattern, what it matches now.

        Something new may be in each directory in which its pattern is looked up: a loop's variable
        has names of another one.
        """
        parts = path.split("/")
        first = next((i for i, part in enumerate(parts) if self._is_wild(part)), len(parts))
        fixed = path[: sum(len(part) + 1 for part in parts[:first])]
        begin = os.path.join(self.start, fixed)
        yield begin
        if first == len(parts):
            return
        for part in parts[first:]:
            if part == ".." or (self._is_wild(part) and part.startswith(".")):
                raise Refused("outside", f"`{shown}` may lead out of the workspace")
            if is_secret(part.translate(WILD)):
                raise Refused("secret", f"`{shown}` may hold secrets")
        yield from self._expanded(begin, parts[first:], is_new=is_new)

    @staticmethod
    def _is_wild(part: str) -> bool:
        return any(mark in part for mark in GLOBS.values())

    def _expanded(self, folder: str, parts: Sequence[str], *, is_new: bool) -> Iterator[str]:
        if not parts:
            yield folder
        elif not self._is_wild(parts[0]):
            inner = os.path.join(folder, parts[0])
            yield from self._expanded(inner, parts[1:], is_new=is_new)
        else:
            self._inside(folder, folder)
            if is_new:
                yield folder
            form = re.compile(fnmatch.translate(parts[0].translate(WILD)), re.DOTALL)
            for name in self._names(folder):
                if form.match(name) and not name.startswith("."):
                    inner = os.path.join(folder, name)
                    yield from self._expanded(inner, parts[1:], is_new=is_new)

    def _names(self, folder: str) -> list[str]:
        try:
            names = os.listdir(folder)
        except OSError:  # there is nothing, or it is not a directory
            return []
        self._look(len(names))
        return names

    def _look(self, files: int) -> None:
        self._left -= files + 1
        if self._left < 0:
            raise Refused("asks", "there are too many files to look at")

    def _inside(self, place: str, shown: str) -> str:
        """Return the directory of the workspace that a place is in."""
        try:
            real = real_path(place)
        except (OSError, ValueError):  # a loop of links, or no access
            raise Refused("outside", f"`{shown}` cannot be resolved") from None
        for each in self._workspaces:
            if each.contains(real):
                return os.path.relpath(real, each.path)
        raise Refused("outside", f"`{shown}` leads out of the workspace")

    def _place(self, use: str, place: str, shown: str, kept: Kept = ALL) -> None:
        inside = self._inside(place, shown)
        parts = inside.split(os.sep)
        named = [each for each in os.path.normpath(shown).split("/") if each]
        if use == "remove" and parts == ["."]:
            raise Refused("outside", "the workspace itself")
        if use == "look":
            return
        if any(map(_GIT.fullmatch, (*parts, *named))):
            raise Refused("secret" if use == "read" else "outside", "`.git` belongs to git")
        if use == "write" and any(re.match("-.", each) for each in (*parts, *named)):
            raise Refused("outside", f"`{shown}` could be an option of a later command")
        if use in {"write", "remove"} and "ignore" in f"{parts[-1]} {named[-1:]}".casefold():
            self.trust_nothing()
        if any(map(is_secret, (*parts, *named))):
            raise Refused("secret", f"`{shown}` may hold secrets")
        if use == "write" and not _PACKAGES.isdisjoint(map(str.casefold, parts + named)):
            raise Refused("outside", f"`{shown}` is a directory of packages")
        if use == "write" and self._is_searched(os.path.realpath(place)):
            raise Refused("outside", f"`{shown}` is where shells look for programs")
        if use in TREES:
            self._tree(TREES[use], place, kept)

    @functools.cached_property
    def _searched(self) -> set[str]:
        return {os.path.realpath(each) for each in os.get_exec_path() if os.path.isabs(each)}

    def _is_searched(self, real: str) -> bool:
        """Return whether shells look for programs at a place, beside it, or below what is new."""
        if not self._searched.isdisjoint((real, os.path.dirname(real))):
            return True
        below = any(each.startswith(real + os.sep) for each in self._searched)
        return below and not os.path.lexists(real)

    def _tree(self, how: _Tree, top: str, kept: Kept) -> None:
        """Refuse a directory that has secrets in it, or links that lead out."""
        if how.moves and os.path.islink(top):
            self._moved(top, 0)
            return
        top, start = os.path.realpath(top), os.path.realpath(self.start)
        trusted = not how.ignored and self._trusted(top, start)
        due, seen = [top], {top}
        while due:
            folder = due.pop()
            names = self._names(folder)
            trusted = trusted and (folder == start or _CHANGING.isdisjoint(names))
            ignored = self._ignored[folder == start] if trusted else None
            for name in names:
                path = os.path.join(folder, name)
                if name in kept.without and os.path.isdir(path):
                    continue
                if name == ".git" and how.secrets and how.ignored and kept.has("config"):
                    if _PASSWORD.search(_text(Path(path, "config"))):
                        raise Refused("secret", "`.git/config` has a password in an address")
                if name in _OTHERS and not how.others:
                    continue
                is_hidden = trusted and not how.hidden and name.startswith(".")
                if is_hidden or (ignored is not None and ignored.has(name)):
                    if is_secret(name) or os.path.isdir(path):
                        self._left_out = name
                    continue
                if how.secrets and is_secret(name) and (kept.has(name) or os.path.isdir(path)):
                    raise Refused("secret", f"`{name}` in this directory may hold secrets")
                is_link, is_folder = os.path.islink(path), os.path.isdir(path)
                if is_link and how.moves:
                    self._moved(path, path.count(os.sep, len(top) + 1))
                if is_link and (how.folders if is_folder else how.opens(name)):
                    self._place("read", path, name)
                    path = os.path.realpath(path)
                if is_folder and (how.folders or not is_link) and path not in seen:
                    seen.add(path)
                    due.append(path)

    @staticmethod
    def _moved(link: str, depth: int) -> None:
        """Refuse a link that climbs to more directories than are moved with it."""
        if os.readlink(link).split("/").count("..") > depth:
            raise Refused("outside", f"`{os.path.basename(link)}` is a link that climbs")

    def _trusted(self, folder: str, start: str) -> bool:
        """Return whether only `.gitignore` of the start says what of a directory is ignored."""
        if not self._trusts or self._has_exceptions:
            return False
        if not Folder.of(start).contains(folder):
            return False
        while folder != start:
            if not _CHANGING.isdisjoint(self._names(folder)):
                return False
            folder = os.path.dirname(folder)
        return _RG_IGNORE.isdisjoint(self._names(start))

    @functools.cached_property
    def _lines(self) -> list[str]:
        """Lines of `.gitignore` as git reads them; ``!`` if it is a link, too long or no text.

        A file with two names is a link: by the other one the same text may change it.
        """
        path = os.path.join(self.start, ".gitignore")
        try:
            with open(path, encoding="utf-8-sig", newline="\n") as file:
                text, names = file.read(MOST_FILES), os.fstat(file.fileno()).st_nlink
        except FileNotFoundError:
            return []
        except (OSError, ValueError):
            return ["!"]
        if len(text) == MOST_FILES or os.path.islink(path) or names > 1:
            return ["!"]
        return [line.removesuffix("\r").rstrip(" ") for line in text.split("\n")]

    @functools.cached_property
    def _has_exceptions(self) -> bool:
        return any(line.startswith("!") for line in self._lines)

    @functools.cached_property
    def _ignored(self) -> tuple[_Names, _Names]:
        """The names that git ignores, whatever they are: below the start, and in it."""
        lines = self._lines if self.has(".git", "") else []
        return _Names.of(lines), _Names.of([line.removeprefix("/") for line in lines])
