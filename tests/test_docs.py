"""What the documentation says is so: blocks run, names exist, no command or setting is left out."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import re
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

import otelhooks
from otelhooks import config
from otelhooks.cli import COMMANDS, cli
from otelhooks.hooks.base import HOOK_CLASSES, keyword
from otelhooks.records import semconv
from otelhooks.setup import catalogue, instrument
from otelhooks.store.reader import Store
from otelhooks.store.tree import render
from tests import guide
from tests.guide import Block

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
README = ROOT / "README.md"

_FENCE = re.compile(
    r"(?:^<!-- needs: (?P<needs>[^>]+?) -->\n)?"
    r'^```(?P<language>\w+)(?: title="(?P<title>[^"\n]+)")?\n(?P<code>.*?)^```$',
    re.MULTILINE | re.DOTALL,
)
_LINK = re.compile(r"(?<!!)\[[^\]]+\]\((?P<target>[^)\s]+)\)")
_DURATION = re.compile(r" \d[\d.,]* (?:ms|s|min)(?= |$)", re.MULTILINE)


def pages() -> list[Path]:
    """Return README, the other pages at the top, and all of docs."""
    return [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page, in order; a framework's page needs that framework."""
    text = page.read_text(encoding="utf-8")
    framework: tuple[str, ...] = ()
    if page.parent.name == "frameworks":
        packages = catalogue.adapter(page.stem).packages
        framework = tuple(package.distributions[0] for package in packages)
    return [
        Block(
            framework + tuple(name for name in re.split(r"[\s,]+", found["needs"] or "") if name),
            found["language"],
            found["title"] or "",
            text.count("\n", 0, found.start("code")) + 1,
            found["code"],
        )
        for found in _FENCE.finditer(text)
    ]


def prose(page: Path) -> str:
    """Return a page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def missing(needs: tuple[str, ...]) -> list[str]:
    """Return those distributions and programs that are not installed here."""

    def is_missing(name: str) -> bool:
        try:
            version(name)
        except PackageNotFoundError:
            return shutil.which(name) is None
        return False

    return [name for name in needs if is_missing(name)]


def run_page(page: Path, folder: Path) -> int:
    """Run the Python blocks of a page in one namespace, and compare the trees it shows.

    Args:
        page: A text block of it that starts with ``invoke_agent`` is the newest trace's tree.
        folder: Where the store is.

    Returns:
        How many blocks ran.
    """
    namespace: dict[str, Any] = {"__name__": "__docs__"}
    count, ran = 0, False
    for block in blocks(page):
        if block.language == "python":
            ran = not missing(block.needs)
            if ran:
                # Blank lines before it, so that a traceback names the line of the page.
                source = "\n" * (block.line - 1) + block.code
                exec(compile(source, str(page), "exec", dont_inherit=True), namespace)
                count += 1
        elif block.code.startswith("invoke_agent ") and ran:
            assert comparable(newest_tree(folder)) == comparable(block.code)
    return count


def newest_tree(folder: Path) -> str:
    """Return the tree of the newest trace in the store, without its heading."""
    handle = instrument._handle  # pyright: ignore[reportPrivateUsage]
    assert handle is not None
    handle.force_flush()
    trace = Store(folder / "store.db").trace("last")
    assert trace is not None
    tree = render(trace.spans, trace.events, width=200).plain
    return tree[tree.index("invoke_agent ") :]


def comparable(tree: str) -> list[str]:
    """Return the lines of a tree without durations and padding."""
    return [" ".join(_DURATION.sub(" ", line).split()) for line in tree.strip().splitlines()]


@pytest.fixture
def page_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of its own to run in, and nothing instrumented afterwards."""
    monkeypatch.chdir(tmp_path)
    # `Runner.run_sync` of openai-agents leaves the thread's loop open; this one can be closed.
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield tmp_path
    otelhooks.uninstrument()
    asyncio.set_event_loop(None)
    loop.close()


GUIDE = sorted((DOCS / "guide").glob("*.md"))
NOTEBOOK = DOCS / "guide" / "notebooks.md"
# Its pages start programs, which the fast tests do not: they run where the frameworks are.
GUIDE_NEEDS = ("openai-agents",)
with_python = [
    page
    for page in pages()
    if page not in GUIDE and any(block.language == "python" for block in blocks(page))
]


@pytest.mark.timeout(120)  # importing a framework takes long on a busy machine
@pytest.mark.parametrize("page", with_python, ids=name_of)
def test_the_python_blocks_of_a_page_run(page: Path, page_folder: Path) -> None:
    """In order and in one namespace; a block whose framework is not installed is left out."""
    if not run_page(page, page_folder):
        needs = {name for block in blocks(page) for name in missing(block.needs)}
        pytest.skip(f"needs {', '.join(sorted(needs))}")


@pytest.mark.timeout(300)  # it starts a program for each command that it shows
@pytest.mark.parametrize("page", [page for page in GUIDE if page != NOTEBOOK], ids=name_of)
def test_a_page_of_the_guide_runs(page: Path, page_folder: Path) -> None:
    """Files, cells and commands, in order and in one folder; commands print what is shown."""
    run = [block for block in blocks(page) if not missing(block.needs)]
    if needs := missing((*GUIDE_NEEDS, *guide.needs(run))):
        pytest.skip(f"needs {', '.join(needs)}")
    guide.run(run, page_folder, page)


@pytest.mark.timeout(300)  # it starts a kernel
def test_the_notebook_of_the_guide_shows_what_its_page_does(tmp_path: Path) -> None:
    """Its Python blocks are cells; a text block behind one is what is shown below it."""
    if needs := missing((*GUIDE_NEEDS, "ipykernel", "nbclient")):
        pytest.skip(f"needs {', '.join(needs)}")
    of_page = blocks(NOTEBOOK)
    shown = iter(guide.run_cells([each for each in of_page if each.language == "python"], tmp_path))
    output = ""
    for block in of_page:
        if block.language == "python":
            output = next(shown)
        else:
            guide.assert_alike(output, block.code, f"the cell above line {block.line}")


@pytest.mark.parametrize("page", GUIDE, ids=name_of)
def test_a_page_of_the_guide_begins_with_who_needs_it_and_five_lines(page: Path) -> None:
    """One sentence for one reader, then at most five lines that run."""
    _, who, *_ = page.read_text(encoding="utf-8").split("\n\n")
    first = blocks(page)[0]
    lines = [line for line in first.code.splitlines() if line.strip()]
    if first.language == "console":
        lines = [line for line in lines if line.startswith("$ ")]

    assert who.startswith("You ")
    assert re.search(r"[.:] [A-Z]", " ".join(who.split())) is None
    assert first.language in {"python", "console"}
    assert len(lines) <= 5


def test_the_readme_is_short() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 160


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    """To a file of the repository, and to a heading in it where they name one."""
    for found in _LINK.finditer(prose(page)):
        target = found["target"]
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{name_of(page)} links to `{target}`"
        if anchor:
            assert anchor in anchors(file), f"{name_of(page)} links to `{target}`"


def anchors(page: Path) -> set[str]:
    """Return the anchors that a page's headings have."""
    headings = re.findall(r"^#+ (.+)$", prose(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_reached_from_the_index() -> None:
    """Every page can be found."""
    reached, open_pages = set[Path](), [README, DOCS / "index.md"]
    while open_pages:
        page = open_pages.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        targets = (found["target"].partition("#")[0] for found in _LINK.finditer(prose(page)))
        local = ((page.parent / t).resolve() for t in targets if t and not re.match(r"[a-z]+:", t))
        open_pages += [file for file in local if file.is_file()]

    assert [name_of(page) for page in DOCS.rglob("*.md") if page not in reached] == []


STANDARDS = sorted((DOCS / "standards").glob("*.md"))


@pytest.mark.parametrize("page", STANDARDS, ids=name_of)
def test_every_row_about_a_standard_names_tests_that_exist(page: Path) -> None:
    """And claims no certificate."""
    text = page.read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if re.match(r"\| (?!nothing)[A-Z1]", line)]
    tests = ROOT / "tests"
    code = "\n".join(file.read_text(encoding="utf-8") for file in tests.rglob("*.py"))
    missing = [
        name for name in set(re.findall(r"`(test_\w+)`", text)) if f"def {name}(" not in code
    ]

    assert len(rows) >= 7
    assert [row for row in rows if "`test_" not in row and "| nothing |" not in row] == []
    assert missing == []
    assert re.findall(r"(?i)\b(?:compliant|compliance|certified|guarantees?)\b", text) == []


# -- commands ---------------------------------------------------------------------------------


def commands() -> dict[str, click.Command]:
    """Return every command and subcommand under the words that call it."""
    found: dict[str, click.Command] = {}
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        found[name] = command
        if isinstance(command, click.Group):
            found |= {f"{name} {sub}": each for sub, each in command.commands.items()}
    return found


@pytest.mark.parametrize("name", commands())
def test_every_command_has_help_and_is_documented(name: str) -> None:
    command = commands()[name]
    page = (DOCS / "cli.md").read_text(encoding="utf-8")

    assert command.help
    assert re.search(rf"^#+ `otelhooks {name}`$", page, flags=re.MULTILINE)
    section = page.split(f"# `otelhooks {name}`\n", 1)[1].split("\n#", 1)[0]
    assert f"otelhooks {name}" in section
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help
            assert parameter.opts[0] in section


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_commands_that_a_page_names_exist(page: Path) -> None:
    """In blocks for the terminal, and in backticks."""
    shells = [block.code for block in blocks(page) if block.language in {"console", "sh"}]
    shells = [re.sub(r"^\$ pip install .*", "", code, flags=re.MULTILINE) for code in shells]
    inline = re.findall(r"`([^`\n]+)`", prose(page))
    known = commands()
    for words in re.findall(r"(?:^|\s)otelhooks ([a-z]+(?: [a-z]+)?)", "\n".join(shells + inline)):
        first = words.partition(" ")[0]
        assert first in known, f"{name_of(page)}: `otelhooks {words}`"
        if isinstance(known[first], click.Group) and " " in words:
            assert words in known, f"{name_of(page)}: `otelhooks {words}`"


# -- settings, names, frameworks ----------------------------------------------------------------


def settings() -> dict[str, list[str]]:
    """Return the rows of the table of settings: name, variable, default, meaning."""
    text = (DOCS / "configuration.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines()]
    return {row[0].strip("` |"): row for row in rows if len(row) == 4 and row[0].startswith("`")}


@pytest.mark.parametrize("variable", config.VARIABLES)
def test_every_variable_is_documented_beside_its_setting(variable: str) -> None:
    row = settings()[variable.removeprefix(config.PREFIX).lower()]

    assert row[1] == f"`{variable}`"


@pytest.mark.parametrize("name", inspect.signature(otelhooks.instrument).parameters)
def test_every_parameter_is_documented_with_its_default(name: str) -> None:
    row = settings()[name]
    if name in config.Config.__annotations__:
        default = getattr(config.Config, name)
    else:
        default = inspect.signature(otelhooks.instrument).parameters[name].default
    default = getattr(default, "value", default)

    assert row[2].split(":")[0].strip("`") == ("none" if default in (None, ()) else str(default))


def test_no_setting_is_documented_that_does_not_exist() -> None:
    known = {variable.removeprefix(config.PREFIX).lower() for variable in config.VARIABLES}
    assert set(settings()) <= known | set(inspect.signature(otelhooks.instrument).parameters)


@pytest.mark.parametrize("hook_class", HOOK_CLASSES, ids=lambda cls: cls.__name__)
def test_every_hook_class_and_decorator_is_documented(hook_class: type) -> None:
    page = (DOCS / "hooks.md").read_text(encoding="utf-8")

    assert f"`{hook_class.__name__}`" in page
    assert f"`{keyword(hook_class)}`" in page


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_names_in_backticks_exist(page: Path) -> None:
    """Attributes, events and metrics are constants of semconv; dotted names can be imported."""
    wire = {value for name, value in vars(semconv).items() if name.isupper()}
    for name in re.findall(r"`((?:otelhooks|gen_ai|mcp)\.[\w.]+?)(?:\(.*?\))?`", prose(page)):
        is_of_user = name.startswith(semconv.CONTEXT_PREFIX)
        assert is_of_user or name in wire or exists(name), f"{name_of(page)} names `{name}`"


def exists(name: str) -> bool:
    """Return whether a dotted name leads to a module or to something in one."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:end]))
        except ImportError:
            continue
        for part in parts[end:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


@pytest.mark.parametrize("framework", catalogue.ADAPTERS)
def test_the_readme_names_the_range_of_every_package(framework: str) -> None:
    rows = [
        line for line in README.read_text(encoding="utf-8").splitlines() if line.startswith("| [")
    ]
    row = next(line for line in rows if f"frameworks/{framework}.md" in line)

    for package in catalogue.adapter(framework).packages:
        assert package.distributions[0] in row
        assert f"`{package.supported}`" in row
