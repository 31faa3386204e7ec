"""``otelhooks init``: from a project's folder to a first policy with cases, in three questions."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from otelhooks.errors import ConfigError
from otelhooks.plain_text import counted, one_line

if TYPE_CHECKING:
    from otelhooks.cli.project.draft import Answers
    from otelhooks.cli.project.survey import Started, Survey

_SPANS = ("local", "collector", "none")
_MODES = ("monitor", "enforce")
_SET = {
    "local": "",
    "collector": "OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 ",
    "none": "OTEL_SDK_DISABLED=true ",
}
"""What is set before a command, by where spans go."""

_SHOWN = 12
"""Most tools, and most files that could not be read, that are listed."""


class _Word(click.Choice[str]):
    """One of a few words; the error for a misspelt one names the nearest."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        near = get_close_matches(str(value).lower(), list(self.choices), n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        return super().get_invalid_choice_message(value, ctx) + hint


@click.command()
@click.option(
    "--deny",
    multiple=True,
    metavar="TOOLS",
    help="Tools to deny, separated by commas: names, `server/tool`, globs, `kind:shell`.",
)
@click.option("--ask", multiple=True, metavar="TOOLS", help="Tools that a person must approve.")
@click.option(
    "--spans",
    type=_Word(_SPANS, case_sensitive=False),
    help="Where traces go: a file on this machine, a collector, or nowhere. Default: local.",
)
@click.option(
    "--mode",
    type=_Word(_MODES, case_sensitive=False),
    help="Only record what the rules decide, or enforce it. Default: monitor.",
)
@click.option(
    "--dir",
    "folder",
    default=".",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The project's folder; default: the current one.",
)
@click.option("--yes", "-y", is_flag=True, help="Ask no questions; use the defaults.")
@click.option("--force", is_flag=True, help="Replace an existing policy and its cases.")
def init(
    deny: tuple[str, ...],
    ask: tuple[str, ...],
    spans: str | None,
    mode: str | None,
    folder: Path,
    yes: bool,
    force: bool,
) -> None:
    """Write a first policy for the agents in a folder.

    Reads the Python files of a project without running them, finds their frameworks and tools, asks
    three questions, and writes policies/agents.yaml with its cases. Then it prints the line to add
    to your program. A flag answers its question; without a terminal, no question is asked.

    Exit code 2: the file exists already, or cannot be written, or there is no Python file.
    """
    from otelhooks.cli.project import draft
    from otelhooks.cli.project.survey import survey
    from otelhooks.policy_tools.scaffold import write_new

    targets = _targets(folder, force=force)
    found = survey(folder)
    if not found.files and not found.unread:
        raise ConfigError(
            f"there is no Python file in `{one_line(folder)}`",
            hint="run it in your project's folder, or name that with --dir; `otelhooks policy new`"
            " writes a policy without a project",
        )
    for text in _found(found):
        click.echo(text)
    asks = not yes and sys.stdin.isatty()
    is_answered = (deny or ask) and spans and mode
    if not (asks or yes or is_answered):
        click.echo("There is no terminal: these are the default answers.", err=True)
    wanted, usual = _rules(found, deny, ask, asks=asks), draft.suggested(found)
    named = [tool for tool in (*wanted[0], *wanted[1]) if tool not in (*usual[0], *usual[1])]
    for tool in _unknown(found, named):
        click.echo(
            f"otelhooks: warning: no file defines `{one_line(tool)}`\n"
            "hint: keep the rule if the tool is a framework's, or else correct its name",
            err=True,
        )
    answers = draft.Answers(
        *wanted,
        spans or _choose("2. Where do traces go?", _SPANS, asks=asks),
        mode or _choose("3. Only record what the rules decide, or enforce it?", _MODES, asks=asks),
    )
    texts = (draft.policy(answers), draft.suite(answers, found))
    for path in write_new(dict(zip(targets, texts, strict=True)), replace=force):
        click.echo(f"wrote {one_line(path)}", err=True)
    for text in _next(answers, found, folder):
        click.echo(text)


def _targets(folder: Path, *, force: bool) -> list[Path]:
    """Return where policy and cases go.

    Raises:
        ConfigError: They are there already, or a link leads out of the folder.
    """
    from otelhooks.cli.project.draft import CASES, POLICY

    targets = [folder / POLICY, folder / CASES]
    for path in targets:
        if not path.parent.resolve().is_relative_to(folder.resolve()):
            raise ConfigError(
                f"`{path.parent}` is a link that leads out of the folder",
                hint="remove the link, or run `otelhooks init` where it leads",
            )
        if path.is_file() and not force:
            raise ConfigError(
                f"`{path}` already exists",
                hint="edit it, or let `--force` replace policy and cases",
            )
    return targets


# -- what was found -------------------------------------------------------------------------------


def _found(found: Survey) -> Iterator[str]:
    """Yield what the files say, and what they could not say."""
    yield f"Read {counted(found.files, 'Python file')}."
    if found.frameworks:
        yield "\nFrameworks"
    for each in found.frameworks:
        version = f"{each.version or 'not installed here'}"
        where = each.where if each.is_imported else f"{each.where}, and no file imports it"
        guard = ""
        if not each.supported:
            guard = "  NOT GUARDED: decorate its tools with @otelhooks.tool"
        elif not each.is_guarded:
            guard = f"  NOT GUARDED: versions {each.supported} are"
        yield f"  {each.distribution} {version}  ({one_line(where)}){guard}"
    if not found.frameworks:
        yield "No agent framework was found: decorate your own tools with @otelhooks.tool,"
        yield "see help(otelhooks.tool). `otelhooks doctor --all` lists what is guarded."
    if found.tools:
        yield "\nTools"
    for tool in found.tools[:_SHOWN]:
        yield f"  {one_line(tool.name)}  ({one_line(tool.path)}:{tool.line})"
    if len(found.tools) > _SHOWN:
        yield f"  and {len(found.tools) - _SHOWN} more"
    for tool in found.unnamed[:_SHOWN]:
        place = f"{one_line(tool.path)}:{tool.line}"
        yield f"  left out, because a rule with this name is about other tools: {place}"
    for name, reason in found.unread[:_SHOWN]:
        yield f"not read: {one_line(name)}: {one_line(reason)}"
    if len(found.unread) > _SHOWN:
        yield f"not read: {len(found.unread) - _SHOWN} more"
    if found.is_cut:
        yield "not read: more files than this command looks at; name tools of those yourself"


# -- questions ------------------------------------------------------------------------------------


def _rules(
    found: Survey, deny: Sequence[str], ask: Sequence[str], *, asks: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return tools to deny and tools to ask about.

    Raises:
        ConfigError: A flag names what no rule can name.
    """
    from otelhooks.cli.project.draft import suggested

    if deny or ask:
        given = _checked(found, _split(deny), _split(ask))
        for tool, near in _doubts(found, (*given[0], *given[1])):
            click.echo(
                f"otelhooks: warning: no file defines `{one_line(tool)}`: did you mean"
                f" `{one_line(near)}`?",
                err=True,
            )
        return given
    usual = suggested(found)
    if not asks:
        return usual
    rules = zip(("deny", "ask"), usual, strict=True)
    text = one_line(", ".join(f"{verb} {tool}" for verb, tools in rules for tool in tools))
    question = "\n1. Which tools are denied, and about which is a person asked? (or: nothing)\n  "
    while True:
        said: str = click.prompt(question, default=text, err=True)
        if said == text or said.strip().lower() in ("y", "yes"):
            return usual
        try:
            deny, ask = _checked(found, *_spoken(said))
            return _checked(found, _corrected(found, deny), _corrected(found, ask))
        except ConfigError as error:
            click.echo(str(error), err=True)


def _corrected(found: Survey, wanted: Sequence[str]) -> list[str]:
    """Return names of tools, those that may be misspelt as the user wants them."""
    near = dict(_doubts(found, wanted))
    return [
        near[tool]
        if tool in near
        and click.confirm(
            f"No file defines `{one_line(tool)}`. Take `{one_line(near[tool])}` instead?",
            default=True,
            err=True,
        )
        else tool
        for tool in wanted
    ]


def _spoken(said: str) -> tuple[list[str], list[str]]:
    """Read an answer such as ``deny delete_file, ask send_email, pay``.

    Raises:
        ConfigError: It names no verb.
    """
    lists: dict[str, list[str]] = {"deny": [], "ask": []}
    if said.strip().lower() in ("nothing", "none", "no"):
        return [], []
    verb = ""
    for part in re.split(r"[,;]|\band\s+(?=(?:deny|ask)\b)", said):
        first, _, rest = part.strip().partition(" ")
        if first.lower() in lists:
            verb, part = first.lower(), rest
        elif not verb:
            raise ConfigError(
                f"`{one_line(first)}` is neither `deny` nor `ask`",
                hint="write: deny delete_file, ask send_email",
            )
        if part.strip():
            lists[verb].append(part.strip())
    return lists["deny"], lists["ask"]


def _split(given: Sequence[str]) -> list[str]:
    return [part.strip() for text in given for part in text.split(",") if part.strip()]


def _checked(
    found: Survey, deny: Sequence[str], ask: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return both lists, without repetitions.

    Raises:
        ConfigError: A tool cannot be named so, is in both, or is several without commas.
    """
    from otelhooks.policy.selectors import Selector

    names = {tool.name for tool in found.tools}
    for tool in (*deny, *ask):
        Selector(tool)
        # Frameworks have tools with blanks in their names, such as `Delegate work to coworker`.
        words = [] if tool in names else tool.split()
        if len(words) > 1 and any("_" in word or word in names for word in words):
            raise ConfigError(
                f"`{one_line(tool)}` is not one tool",
                hint="write commas between tools: deny delete_file, ask send_email, pay",
            )
        if tool in deny and tool in ask:
            raise ConfigError(
                f"`{tool}` is both denied and asked about",
                hint="the deny comes first: name it once",
            )
    return tuple(dict.fromkeys(deny)), tuple(dict.fromkeys(ask))


def _doubts(found: Survey, wanted: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield what may be misspelt, a name that no file defines, and the name that may be meant."""
    names = [tool.name for tool in found.tools]
    for tool in wanted:
        near = get_close_matches(tool, names, n=1, cutoff=0.8)
        if near and tool not in names:
            yield tool, near[0]


def _unknown(found: Survey, wanted: Sequence[str]) -> Iterator[str]:
    """Yield plain names that no file defines, and that are like none that a file defines."""
    names = {tool.name for tool in found.tools} | dict(_doubts(found, wanted)).keys()
    for tool in wanted:
        if tool not in names and _PLAIN.fullmatch(tool):
            yield tool


_PLAIN = re.compile(r"[\w. -]+")
"""Neither `server/tool`, which no file of the project defines, nor a glob or kind."""


def _choose(question: str, words: Sequence[str], *, asks: bool) -> str:
    """Ask for one of a few words; the first is the default."""
    if not asks:
        return words[0]
    kind = _Word(words, case_sensitive=False)
    chosen: str = click.prompt(f"\n{question}", default=words[0], type=kind, err=True)
    return chosen


# -- what to do next ------------------------------------------------------------------------------


def _next(answers: Answers, found: Survey, folder: Path) -> Iterator[str]:
    """Yield the line to add, where to add it, and three commands."""
    from otelhooks.cli.called import command, python
    from otelhooks.cli.project.draft import POLICY, line

    entry, started = found.entry, found.started
    start = "" if entry is None else entry.path
    if started is not None:
        yield from _on_top(answers, started)
        if entry is not None and start != started.path and not started.is_imported:
            yield (
                f"\nNo file imports {one_line(started.path)}. If you start another one, such as"
                f" {one_line(start)}, add this line there:\n"
            )
            yield f"    {line(answers, imports=entry.imports)}"
            start = started.path
    elif entry is None:
        yield "\nAdd this line to the file that you start, below its imports:\n"
        yield f"    {line(answers, imports=False)}"
    else:
        place = "as its first line"
        if entry.line:
            place = f"below its imports, so after line {entry.line}"
        yield f"\nAdd this line to {one_line(entry.path)}, {place}:\n"
        yield f"    {line(answers, imports=entry.imports)}"
        if entry.others:
            others = ", ".join(map(one_line, entry.others[:_SHOWN]))
            yield f"\nIf you start another file, such as {others}, add it there."
    before, otelhooks = _SET[answers.spans], command()
    program = _program(start) if start and one_line(start) == start else "your_program.py"
    last = {
        "local": f"{otelhooks} trace show",
        "collector": f"{before}{otelhooks} doctor --telemetry",
        "none": f"{otelhooks} doctor",
    }
    yield "\nThen, in the project's folder:\n" if folder != Path() else "\nThen:\n"
    yield f"    {otelhooks} policy test {POLICY}"
    yield f"    {before}{python()} {program}"
    yield f"    {last[answers.spans]}"
    if answers.ask:
        yield "\nQuestions are asked at the terminal; without one, they are denied."
        yield "For other ways to ask see help(otelhooks.approvals)."
    if answers.mode == "monitor":
        yield f"\nNothing is stopped until {POLICY} says `mode: enforce`."


def _on_top(answers: Answers, started: Started) -> Iterator[str]:
    """Yield how the call of ``instrument()`` that exists takes the policy as well."""
    from otelhooks.cli.project.draft import arguments, completed

    there = f"\n{one_line(started.path)}:{started.call.lineno} calls instrument() already"
    text = completed(answers, started)
    if any(keyword.arg is None for keyword in started.call.keywords):
        yield f"{there}. Add to the settings that it is given:\n"
        yield f"    {arguments(answers)}"
    elif text:
        is_bound = started.module or "otelhooks." not in text
        below = "" if is_bound else ", below `import otelhooks`"
        yield f"{there}. Make that call{below}:\n"
        yield f"    {one_line(text)}"
    else:
        yield f"{there}, with this policy."


def _program(path: str) -> str:
    """Return what Python is given to run a file, as text for a shell."""
    import shlex

    package, _, name = path.rpartition("/")
    if name == "__main__.py" and package:
        return f"-m {shlex.quote(package.replace('/', '.'))}"
    return shlex.quote(f"./{path}" if path.startswith("-") else path)
