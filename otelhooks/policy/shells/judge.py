"""Judges a text of commands: every command in it, whatever precedes it."""

from __future__ import annotations

import contextlib
import fnmatch
import itertools
import posixpath
import re
from collections.abc import Generator, Sequence
from types import TracebackType

from otelhooks.policy.shells.codes import code_in
from otelhooks.policy.shells.effects import check_effects, moves
from otelhooks.policy.shells.finding import (
    CACHES,
    ENDING,
    REMOVING,
    SEVERAL_FOUND,
    SUFFIX,
    cut,
    edits,
    found_by,
    kept_by,
    left_out_by,
    lists,
)
from otelhooks.policy.shells.kinds import ASSIGNED, HERE, MARKS, Folders, Kinds
from otelhooks.policy.shells.nodes import (
    Block,
    Node,
    Part,
    Redirect,
    Refused,
    Simple,
    Word,
    check,
    check_typed,
    is_call,
    is_literal,
    literal,
    nodes,
)
from otelhooks.policy.shells.options import (
    COMMIT,
    FOUND,
    GLOBS,
    NUMBER,
    PIPE,
    UNKNOWN,
    Argument,
    Reading,
    read,
)
from otelhooks.policy.shells.outputs import prints_commit, prints_number, prints_numbers
from otelhooks.policy.shells.places import ALL, WILD, Kept, Places, is_secret
from otelhooks.policy.shells.reader import parse
from otelhooks.policy.shells.table import Entry, table
from otelhooks.policy.shells.variables import Given, given_names, maybe_not_given

__all__ = ["Judge"]

_MOST_STEPS = 2_000
_MOST_CHARACTERS = 500_000
_MOST_FOLDERS = 16
_MOST_DEPTH = 8

_FREE = Entry(free=True)
_SPLITTING = re.compile(rf"[\s*?\[\\{MARKS}]")
_PATTERN = re.compile(rf"[{''.join(GLOBS.values())}][A-Za-z0-9_./{''.join(GLOBS.values())}-]*")
_PROGRAM = re.compile(r"[A-Za-z0-9_./+-]+|\[\[?|:|python -m")
_INSTALLED = re.compile(r"(?:(?!\.\./)[^/]+/)*\.?venv/bin/[^/]+")
"""A program of a directory where no command writes, which may be a link to one of the system."""
_TAR = re.compile("[a-eg-zA-Z]+f?")
"""Letters before all options: `f` takes the next word even as the first."""
_REPEATED = frozenset(("for", "loop", "pipe"))
_WRAPPERS = frozenset(("gradlew", "mvnw"))
"""Programs of the workspace that are what their name says, as all builds of a kind use them."""
_LOOPS = frozenset(("for", "loop"))
_READING = frozenset(("<", "<<", "<&", ">&"))
_ENDED = re.compile(rf"[{GLOBS['*']}][A-Za-z0-9_-]*\.[A-Za-z0-9_.-]+")
"""Patterns of names that, as options, are not known to `rm`, which does nothing then."""


class _Noted:
    """A context that notes what is refused in it."""

    def __init__(self, problems: dict[tuple[str, str], None]) -> None:
        self._problems = problems

    def __enter__(self) -> None: ...

    def __exit__(
        self, _type: object, error: BaseException | None, _trace: TracebackType | None
    ) -> bool:
        if isinstance(error, Refused):
            self._problems[error.kind, str(error)] = None
            return True
        return False


class Judge:
    """Collects what speaks against the commands of one call.

    Args:
        places: The places that it may use.
        programs: More programs that may run.

    Attributes:
        problems: Kind and sentence of each problem.
    """

    def __init__(self, places: Places, programs: frozenset[str] = frozenset()) -> None:
        self._kinds = Kinds(places, self._text)
        self.problems: dict[tuple[str, str], None] = self._kinds.problems
        self._places = places
        self._programs = programs
        self._table = table()
        self._left = _MOST_STEPS
        self._characters_left = _MOST_CHARACTERS
        self._depth = 0
        self._loops: dict[str, Argument] = {}
        self._given = Given()
        self._is_still = False
        self._is_one_find = False
        self._is_behind = False
        self._is_fed = False
        self._has_pipe = False

    def text(self, text: str, *, is_typed: bool = False) -> None:
        """Judge a text for a shell, or one that is typed into a terminal."""
        with _Noted(self.problems):
            self._kinds.path("look", ".", HERE)
            if is_typed:
                check_typed(text)
            self._text(text, HERE)
        if self._has_pipe and self._kinds.moved:
            why = "`<(...)` may still read while paths lead elsewhere: use two calls"
            self.problems["outside", why] = None

    def words(self, words: Sequence[str]) -> None:
        """Judge a program and its arguments, which no shell reads."""
        with _Noted(self.problems):
            self._kinds.path("look", ".", HERE)
            check(" ".join(words))
            self._program([Argument(word) for word in words], HERE, None)

    def _text(self, text: str, folders: Folders) -> None:
        node = parse(text)
        self.problems |= dict.fromkeys(("unread", why) for why in node.notes)
        others = [each for each in nodes(node) if not is_call(each, "find")]
        are_still = self._depth == 0 and all(map(self._keeps_names, others))
        finds = sum(is_call(each, "find") for each in nodes(node))
        self._is_still, self._is_one_find = are_still and finds == 0, are_still and finds == 1
        saved = self._loops, self._given
        given = given_names(node)
        self._loops, self._given = {}, given
        try:
            for name in given.loops:
                self._kinds.check_name(name)
            self._run(node, folders)
        finally:
            self._loops, self._given = saved
        unset = maybe_not_given(node, given.names)
        self.problems |= dict.fromkeys(("secret", why) for why in unset)

    # -- flow -----------------------------------------------------------------------------------

    def _keeps_names(self, node: Node) -> bool:
        """Return whether a node makes, moves and removes no file itself, and is not repeated."""
        if not all(
            r.operator in _READING or literal(r.word) == "/dev/null" for r in node.redirects
        ):
            return False
        if isinstance(node, Block):
            return node.kind not in _LOOPS
        return not node.words or literal(node.words[0]) in self._table.still

    def _run(self, node: Node, folders: Folders) -> tuple[Folders, Folders]:
        """Judge commands; return where the next may run if they succeed, and if they do not."""
        moved = self._kinds.moved
        with self._fed(node.redirects):
            after = self._once(node, folders)
        if self._kinds.moved and not moved and isinstance(node, Block) and node.kind in _REPEATED:
            self._once(node, folders)  # what was moved may be used by what precedes it
        return after

    def _once(self, node: Node, folders: Folders) -> tuple[Folders, Folders]:
        self._count_step()
        if len(folders) > _MOST_FOLDERS:
            raise Refused("unread", "there is too much to follow: write fewer `cd`")
        if isinstance(node, Simple):
            after = self._simple(node, folders, None)[0]
            return after, folders | after
        with _Noted(self.problems):
            self._redirects(node.redirects, folders)
        kind = node.kind
        if kind == "case":
            with _Noted(self.problems):
                self._argument(node.words[0], folders)
        if kind == "pipe":
            return self._pipe(node, folders)
        if kind == "for":
            return self._for(node, folders)
        if kind == "background":
            return self._behind(node.parts[0], folders)
        now, seen = folders, folders
        for part in node.parts:
            good, seen_there = self._run(part, now)
            seen |= seen_there
            now = good if kind == "and" else seen
        if kind == "subshell":
            return folders, folders
        if kind == "loop" and seen != folders:
            raise Refused("outside", "`cd` in a loop: put the loop's commands in `(...)`")
        return now, seen

    @contextlib.contextmanager
    def _fed(self, redirects: Sequence[Redirect], *, piped: bool = False) -> Generator[None]:
        """Note whether programs in a context read what the command itself says, maybe code."""
        saved = self._is_fed
        self._is_fed |= piped or any(
            each.operator == "<<" or any(part.kind == "pipe" for part in each.word)
            for each in redirects
        )
        try:
            yield
        finally:
            self._is_fed = saved

    def _count_step(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise Refused("unread", "there is too much to follow: write fewer commands")

    def _pipe(self, node: Block, folders: Folders) -> tuple[Folders, Folders]:
        seen, before = folders, None
        for index, part in enumerate(node.parts):
            with self._fed(part.redirects, piped=index > 0):
                if isinstance(part, Simple):
                    after, before = self._simple(part, folders, before)
                else:
                    after, before = self._run(part, folders)[1], None
            seen |= after
        return seen, seen

    def _for(self, node: Block, folders: Folders) -> tuple[Folders, Folders]:
        words = [self._argument(word, folders) for word in node.words]
        words = [
            Argument(NUMBER) if prints_numbers(word) else value
            for word, value in zip(node.words, words, strict=True)
        ]
        for value in words or [Argument(UNKNOWN)]:
            self._loops[node.name] = value
            if self._run(node.parts[0], folders)[1] != folders:
                raise Refused("outside", "`cd` in a loop: put the loop's commands in `(...)`")
        self._loops.pop(node.name, None)
        return folders, folders

    def _behind(self, node: Node, folders: Folders) -> tuple[Folders, Folders]:
        """Judge what continues behind ``&``: later calls may change where its paths lead."""
        within = list(nodes(node))
        programs = [each for each in within if isinstance(each, Simple) and not is_call(each, "cd")]
        if len(programs) > 1 or any(isinstance(n, Block) and n.kind in _LOOPS for n in within):
            raise Refused("unread", "more than one program behind `&`: write them into a script")
        self._is_behind = True
        return self._run(node, folders)

    def _check_behind(self, found: Reading) -> None:
        """Refuse a program that may use its paths later, but one of the workspace."""
        kinds = {kind for kind, _ in found.given}
        if found.name == "cd" or (kinds & {"command", "module"} and found.name != "xargs"):
            return
        if moves(found) or "shell" in kinds or not any(e.runs or e.free for e in found.entries):
            raise Refused("program", f"`{found.name}` runs no code of the workspace, behind `&`")

    # -- words ----------------------------------------------------------------------------------

    def _argument(self, word: Word, folders: Folders) -> Argument:
        """Return a word with what is known of it; judge the commands in it."""
        texts: list[str] = []
        splits, many = False, False
        for part in word:
            text = part.text
            if part.kind == "glob":
                text, many = GLOBS[text], True
            elif part.kind in {"variable", "changed"}:
                value = self._variable(part)
                text, splits = value.text, splits or value.splits
            elif part.node is not None:
                self._run(part.node, folders)
                if part.kind == "pipe":
                    self._check_pipe(part.node)
                    text = PIPE
                else:
                    text = NUMBER if prints_number(part.node) else UNKNOWN
                splits = splits or not (part.quoted or text == NUMBER)
            self._characters_left -= len(text) + 1
            if self._characters_left < 0:
                raise Refused("unread", "there is too much to follow: write fewer words")
            texts.append(text)
        is_bare = all(not each.quoted and each.text != "?" for each in word)
        splits = splits or (is_bare and {*texts} <= {"", NUMBER})  # it may be no word
        if prints_commit(word):
            return Argument(COMMIT)
        return Argument("".join(texts).replace(COMMIT, UNKNOWN), splits, many or splits)

    def _check_pipe(self, node: Node) -> None:
        """Refuse what may change something in `<(...)`, which continues beside later commands."""
        self._has_pipe = True
        for each in nodes(node):
            name = " ".join(map(literal, each.words[:2])) if isinstance(each, Simple) else ""
            if not self._keeps_names(each) and (each.redirects or name not in self._table.piped):
                raise Refused("program", "`<(...)` may only hold such as `sort` and `git show`")

    def _operand(self, word: Word, folders: Folders, program: str) -> Argument:
        """Return a word of a command; a pattern that begins it may be followed by names alone."""
        found = self._argument(word, folders)
        if word[0].kind != "glob" or not _PATTERN.fullmatch(found.text):
            return found
        is_plain = self._is_still and all(map(self._places.has_plain_names, folders))
        if is_plain or (program == "rm" and _ENDED.fullmatch(found.text)):
            return found._replace(text=f"./{found.text}")
        return found

    def _variable(self, part: Part) -> Argument:
        if part.text == "?" or (part.kind == "variable" and part.text in self._given.numbers):
            return Argument(NUMBER)
        value = self._loops.get(part.text) if part.kind == "variable" else None
        if value is not None and not value.splits:
            splits = not part.quoted and _SPLITTING.search(value.text) is not None
            return Argument(value.text, splits)
        if part.text not in self._given.names and part.text not in self._table.printed:
            raise Refused("secret", f"`${part.text}` is from the environment")
        return Argument(UNKNOWN, not part.quoted)

    def _redirects(self, redirects: Sequence[Redirect], folders: Folders) -> None:
        for each in redirects:
            target = self._argument(each.word, folders)
            if each.operator in {"<", ">", ">>"}:
                if target.many:
                    raise Refused(
                        "outside", f"`{target.text}`, where it is redirected, is not known"
                    )
                self._kinds.path("read" if each.operator == "<" else "write", target.text, folders)

    # -- commands -------------------------------------------------------------------------------

    def _simple(
        self, node: Simple, folders: Folders, before: Reading | None
    ) -> tuple[Folders, Reading | None]:
        """Judge a command; return where the next may run, and what it was read as."""
        with _Noted(self.problems):
            self._redirects(node.redirects, folders)
            for name, word in node.assigned:
                value = self._argument(word, folders)
                if node.words:
                    self._kinds.given(name, value, folders)
                else:
                    self._kinds.check_name(name)
            program = literal(node.words[0]) if node.words else ""
            words = [self._operand(word, folders, program) for word in node.words]
            if words:
                if words[0].text == "read" and not all(map(is_literal, node.words)):
                    raise Refused("unread", "`read` gives values to names that are not plain words")
                operators = {each.operator for each in node.redirects}
                if not operators.isdisjoint({"<", "<<", "<&"}):
                    before = None  # what is piped into it is not what it reads
                after, found = self._program(words, folders, before)
                return after, None if ">&" in operators else found
        return folders, None

    def _program(
        self, words: Sequence[Argument], folders: Folders, before: Reading | None
    ) -> tuple[Folders, Reading | None]:
        """Judge a program with its arguments; return what `_simple` does."""
        try:
            return self._command(words, folders, before)
        except Refused as error:
            if error.kind == "program" and words[0].text in self._table.network:
                raise Refused("network", str(error)) from error
            raise

    def _command(
        self, words: Sequence[Argument], folders: Folders, before: Reading | None
    ) -> tuple[Folders, Reading | None]:
        name, args, inner = words[0].text, words[1:], []
        if words[0].many or _PROGRAM.fullmatch(name) is None:
            raise Refused("unread", f"`{name}` is a program that is only known when it runs")
        if self._depth == _MOST_DEPTH:
            raise Refused("unread", "commands are nested too deep")
        if name == "find":
            args, inner = cut(args)
        if name == "tar" and args and not args[0].text.startswith("-"):
            if _TAR.fullmatch(args[0].text) is None:
                raise Refused("program", "`tar`: write `f` once, as the last letter, or `-`")
            args = [args[0]._replace(text=f"-{args[0].text}"), *args[1:]]
        found = read(name, self._entry(name, folders), args)._replace(args=words[1:])
        for entry in found.entries:
            asks = entry.asks and entry.shows.isdisjoint(found.options)
            if asks or not entry.fetches.isdisjoint(found.options):
                self._kinds.ask(f"`{found.name}` is asked about")
            if entry.feeds and self._is_fed:
                self._kinds.ask(f"what `{found.name}` gets to read is only in the command")
            if entry.runs or "/" in name:
                self._kinds.runs(found.name)
        if self._is_behind:
            self._check_behind(found)
        if name == "git" and not self._kinds.is_own(folders):
            self._kinds.runs(
                "git` with the settings of a directory that is not the workspace's own, `git"
            )
        elif name == "git" and self._places.has_programs_of_git:
            self._kinds.runs("git` with settings that name programs or files, `git")
        is_own = "/" in name and (found.entries == [_FREE] or not _INSTALLED.fullmatch(name))
        is_own = is_own and posixpath.basename(name) not in _WRAPPERS
        if is_own or found.name == "yarn run":
            self._code(found.name, args)
        elif found.entries != [_FREE]:
            for why in code_in([value for kind, value in found.operands if kind == "any"]):
                self._kinds.ask(why)
        self._runner(name, found)
        if is_own and found.entries != [_FREE]:
            self._values(read(name, _FREE, args), folders, None)
        if name == "npx":
            self._npx(found.name, folders)
        self._depth += 1
        try:
            self._values(found, folders, before)
            for index in found.taken:
                rest = [each for at, each in enumerate(args) if at != len(args) - index]
                self._program([words[0], *rest], folders, before)
            for each in dict.fromkeys(map(tuple, inner)):
                if self._is_one_find and len(inner) == 1 and edits(each):
                    self._on_each(each, found, folders)
                else:
                    self._on_found(each, found, folders, found_by(found, "-exec"))
        finally:
            self._depth -= 1
        if inner:
            found.options.add("-exec")
        self._kinds.moved = self._kinds.moved or moves(found)
        if name == "cd":
            after = {posixpath.join(each, found.operands[0][1].text) for each in folders}
            # To a shell `link/..` is the directory of the link, to the system that of its target.
            system = {each for each in after if ".." in each}
            return frozenset({*map(posixpath.normpath, after), *system}), found
        return folders, found

    def _entry(self, name: str, folders: Folders) -> Entry:
        """Return the entry of a program, which may be named by its path in the workspace."""
        plain = posixpath.basename(name)
        entry = self._table.programs.get(plain)
        if "/" in name:
            is_installed = entry is not None and _INSTALLED.fullmatch(name) is not None
            self._kinds.path("read", posixpath.dirname(name) if is_installed else name, folders)
            is_other = not is_installed and any(self._places.is_link(name, f) for f in folders)
            return _FREE if entry is None or is_other else entry
        if name in self._programs:
            return _FREE
        if entry is None:
            raise Refused("program", f"`{name}` is not on the list of programs")
        return entry

    def _code(self, name: str, args: Sequence[Argument]) -> None:
        """Ask about code in the arguments or the input of a program that may be an interpreter."""
        if self._is_fed or any(PIPE in each.text for each in args):
            self._kinds.ask(f"what `{name}` gets to read is only in the command")
        for why in code_in(args, may_interpret=True):
            self._kinds.ask(why)

    def _runner(self, name: str, found: Reading) -> None:
        """Ask about a subcommand of a program of the workspace that runs what it is given."""
        scripts = [v.text for kind, v in found.operands if kind in {"script", "own_script"}]
        for script in (*scripts, *([name] if "/" in name else ())):
            form = posixpath.basename(script).casefold().translate(WILD)
            runners = [self._table.runners[n] for n in fnmatch.filter(self._table.runners, form)]
            for each in found.args:
                is_wild = each.text != each.text.translate(WILD)
                if any(is_wild or runner.fullmatch(each.text) for runner in runners):
                    self._kinds.ask(f"`{script} {each.text}` is asked about")

    def _npx(self, name: str, folders: Folders) -> None:
        """Judge a program of `node_modules`, or ask: npx installs what is missing."""
        tool = f"node_modules/.bin/{name.removeprefix('npx ')}"
        if not all(self._places.has(tool, each) for each in folders):
            self._kinds.ask(f"`{name}` installs what is not in `node_modules`")
        for folder in folders:
            self._places.check("read", tool, folder)

    def _on_found(
        self, words: Sequence[Argument], finding: Reading, folders: Folders, names: str
    ) -> None:
        """Judge a command for what `find` prints; `names` is a form of it, if there is one."""
        if [each.text for each in words] in REMOVING and CACHES.fullmatch(names):
            return
        self._count_step()
        problems = len(self.problems)
        found = self._program(words, folders, None)[1]
        if len(self.problems) > problems or found is None:
            raise Refused("program", f"`{words[0].text}` may not run on what `find` finds")
        kinds = {kind for kind, value in found.given if value.text == FOUND}
        if kinds <= {"look"}:
            return
        kept = Kept((names,)) if kinds <= {"look", "read"} and ENDING.fullmatch(names) else ALL
        use = "linked" if SUFFIX.fullmatch(names) and not is_secret(names) else "found"
        for _, value in finding.operands:
            self._kinds.path(use, value.text, folders, kept)

    def _on_each(self, words: Sequence[Argument], finding: Reading, folders: Folders) -> None:
        """Judge a command for each file that `find` finds now, as nothing else makes files."""
        name, left_out = found_by(finding, "-exec"), left_out_by(finding, "-exec")
        if ENDING.fullmatch(name) is None:
            raise Refused("program", "`find -exec sed -i`: write `-name '*.x'`, and no `-o`")
        tops = [top for _, top in finding.operands if top.text != "!"]
        for folder, top in itertools.product(folders, tops):
            found = self._places.found(folder, top.text, name, left_out)
            for path in itertools.chain([f"{top.text}/{name.replace('*', 'x')}"], found):
                self._count_step()
                one = [Argument(path) if each.text == FOUND else each for each in words]
                self._program(one, frozenset((folder,)), None)

    # -- values ---------------------------------------------------------------------------------

    def _values(self, found: Reading, folders: Folders, before: Reading | None) -> None:
        """Judge the values and operands of a command."""
        commands = [value for kind, value in found.given if kind == "command"]
        modules = [value for kind, value in found.given if kind == "module"]
        while found.name == "env" and commands:
            assigned = ASSIGNED.fullmatch(commands[0].text)
            if assigned is None:
                break
            self._kinds.given(assigned[1], commands.pop(0)._replace(text=assigned[2]), folders)
        if found.name == "xargs":
            if before is None or not lists(before) or "-0" not in found.options:
                raise Refused("program", "`xargs`: write `find ... -print0 | xargs -0 ...`")
            names = found_by(before, "-print0")
            self._on_found([*commands, SEVERAL_FOUND], before, folders, names)
        elif commands or found.name == "env":
            if not commands:
                raise Refused("secret", "`env` prints the environment")
            if commands[0].text in {"cd", "read"}:
                raise Refused("program", f"`{commands[0].text}` is started by another program")
            self._program(commands, folders, None)
        if found.name == "cp" and re.search(
            f"ignore|{FOUND}", "".join(v.text for _, v in found.operands)
        ):
            self._places.trust_nothing()
        if modules:
            self._program([Argument("python -m"), *modules], folders, None)
        kept = kept_by(found)
        for kind, value in found.given:
            if kind not in {"command", "module"}:
                self._kinds.judge(kind, value, folders, kept)
        check_effects(found, self._kinds, folders)
