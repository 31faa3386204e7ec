"""Runs a page of docs/guide as its reader would: files are written, cells and commands are run.

In order, in one folder:

- a block with a title, such as ``yaml title="policies/prod.yaml"``, is written to that file;
- ``python`` without a title is run here, in one namespace for the page, and what it prints must be
  what the ``text`` block behind it shows, if there is one;
- the ``$`` lines of a ``console`` block are run by a shell in a terminal; what each prints must be
  what the lines below it show. ``...`` on a line of its own is any number of words; times, ids and
  versions may differ. A command that fails is followed by ``$ echo $?``. What is shown behind a
  question that ends in ``[n]:`` is typed there. What runs in the background ends with its block;
- the port 8765 is one that is free;
- ``pip install`` names what the page needs. It is not run; a page that lacks something is left out.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import select
import shlex
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.ports import free_ports

ENDS_WITHIN_S = 100
COLUMNS = 110
PORT = "8765"

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")
_ASKED = re.compile(r"\[n\]: (?P<answer>\w+)$", re.MULTILINE)
_MARK = "\x1e"
# What openai-agents says at its end where there is no key.
_NO_KEY = "OPENAI_API_KEY is not set, skipping trace export"
_VARIES = {
    "TIME": r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?Z?|\b\d{8}T\d+Z",
    "DURATION": r"\b\d[\d.,]* ?(?:ns|µs|ms|s|min)\b",
    "PATH": r"(?<![\w.])(?:/[\w.+-]+){2,}",
    "VERSION": r"\b\d+\.\d+\.\d+\b",
    "ID": r"\b(?=[a-f]*\d)[0-9a-f]{8,64}\b",
}


class Block(NamedTuple):
    """A fenced block of a page.

    Attributes:
        needs: What it says must be installed: distributions, and programs on the path.
        language: Behind the fence.
        title: The file that it is, if it is one.
        line: Its first line in the page.
        code: Its text.
    """

    needs: tuple[str, ...]
    language: str
    title: str
    line: int
    code: str


class Command(NamedTuple):
    """What is typed behind a prompt, and what is shown below it."""

    text: str
    shown: str


def commands(block: Block) -> list[Command]:
    """Return the commands of a console block; a line with `> ` goes on with the one before."""
    found: list[tuple[list[str], list[str]]] = []
    for line in block.code.splitlines():
        if line.startswith("$ "):
            found.append(([line[2:]], []))
        elif line.startswith("> ") and not found[-1][1]:
            found[-1][0].append(line[2:])
        else:
            found[-1][1].append(line)
    return [Command("\n".join(typed), "\n".join(shown)) for typed, shown in found]


def installs(command: str) -> list[str]:
    """Return the distributions that a command installs with pip; other commands install none."""
    if not command.startswith("pip install "):
        return []
    return [re.split(r"[\[<>=~!]", word)[0] for word in shlex.split(command)[2:]]


def needs(blocks: Sequence[Block]) -> tuple[str, ...]:
    """Return the distributions that a page's `pip install` lines name."""
    console = (each for block in blocks if block.language == "console" for each in commands(block))
    return tuple(name for command in console for name in installs(command.text))


def run(blocks: Sequence[Block], folder: Path, page: Path) -> None:
    """Run those blocks, in order.

    Args:
        blocks: Of a page, whose `pip install` lines are satisfied here.
        folder: Working directory, empty at first.
        page: Where they are from, for tracebacks.
    """
    namespace: dict[str, Any] = {"__name__": "__docs__"}
    printed = ""
    (port,) = free_ports(1)
    for block in blocks:
        block = block._replace(code=block.code.replace(PORT, str(port)))
        if block.title:
            file = folder / block.title
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.code, encoding="utf-8")
        elif block.language == "python":
            output = io.StringIO()
            source = "\n" * (block.line - 1) + block.code
            with contextlib.redirect_stdout(output):
                exec(compile(source, str(page), "exec", dont_inherit=True), namespace)
            printed = output.getvalue()
        elif block.language == "console":
            run_console(block, folder)
        elif block.language == "text":
            assert_alike(printed, block.code, f"the cell above line {block.line}")
        else:
            raise AssertionError(f"line {block.line}: nothing runs this {block.language} block")


def run_cells(blocks: Sequence[Block], folder: Path) -> list[str]:
    """Run the Python blocks of a page as the cells of one notebook, in a kernel of its own.

    Returns:
        What each shows below it: what it prints to stdout, and its last value.
    """
    import nbclient
    import nbformat.v4 as form

    cells = [form.new_code_cell(each.code) for each in blocks]
    notebook = form.new_notebook(cells=cells)
    client = nbclient.NotebookClient(notebook, timeout=ENDS_WITHIN_S, kernel_name="python3")
    client.execute(cwd=str(folder), env=_environment(folder))
    return ["".join(map(_shown, cell.outputs)) for cell in notebook.cells]


def _environment(folder: Path) -> dict[str, str]:
    """Return what a reader's shell has: the local store is in the user's folder."""
    given = {name: value for name, value in os.environ.items() if name != "OTELHOOKS_STORE"}
    return given | {
        "HOME": str(folder),
        "NO_COLOR": "1",
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "TERM": "dumb",
    }


def _shown(output: Any) -> str:
    if output.output_type == "stream":
        return "" if output.name == "stderr" else output.text  # it comes when it comes
    return f"{output.data['text/plain']}\n"


def run_console(block: Block, folder: Path) -> None:
    """Run the commands of a block in one shell, and compare what each prints."""
    typed = [each for each in commands(block) if not installs(each.text)]
    if not typed:
        return
    script = "\n".join(
        f"{each.text}\ns=$?; printf '{_MARK}%s{_MARK}' $s; (exit $s)" for each in typed
    )
    seen = _terminal(script, [a["answer"] for a in _ASKED.finditer(block.code)], folder)
    results = re.findall(f"(.*?){_MARK}(\\d+){_MARK}", seen, re.DOTALL)
    assert len(results) == len(typed), f"the shell of line {block.line} ended early:\n{seen}"
    after = [each.text for each in typed[1:]] + [""]
    for command, (output, status), following in zip(typed, results, after, strict=True):
        assert_alike(output, command.shown, f"`{command.text}` at line {block.line}")
        is_said = following == "echo $?"
        assert status == "0" or is_said, f"`{command.text}` exits with {status}:\n{output}"


def _terminal(script: str, answers: list[str], folder: Path) -> str:
    """Return what a shell shows that runs a script; each answer is typed at its question."""
    import fcntl  # Windows has none of these three, and no bash
    import pty
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    shell = subprocess.Popen(
        ["bash", "--norc", "-c", script],
        cwd=folder,
        env=_environment(folder),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    seen, until = "", time.monotonic() + ENDS_WITHIN_S
    try:
        for piece in _pieces(ours, shell):
            assert time.monotonic() < until, f"the commands do not end:\n{seen}"
            seen += piece
            if answers and seen.endswith("[n]: "):
                os.write(ours, f"{answers.pop(0)}\n".encode())
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()
        os.close(ours)
    return seen.replace("\r\n", "\n")


def _pieces(terminal: int, shell: subprocess.Popen[bytes]) -> Iterator[str]:
    """Yield what is shown, and an empty text now and then, until the shell has ended."""
    while True:
        has_ended = shell.poll() is not None
        if select.select([terminal], [], [], 0 if has_ended else 0.2)[0]:
            try:
                yield os.read(terminal, 65536).decode(errors="replace")
            except OSError:  # Linux says so when the last one has closed the other end
                return
        elif has_ended:
            return
        else:
            yield ""


def assert_alike(seen: str, shown: str, where: str) -> None:
    """Compare an output with the one of a page, by words: a tree's lines break where they will."""
    words = _words(shown)
    pattern = "".join(r".*" if word == _REST else rf"(?:^|\s){re.escape(word)}" for word in words)
    text = " ".join(_words(seen))
    assert re.fullmatch(pattern, text, re.DOTALL), (
        f"{where} prints\n{seen}\nand is shown to print\n{shown}"
    )


_REST = "<rest>"


def _words(text: str) -> list[str]:
    text = _ANSI.sub("", text).replace(_NO_KEY, "")
    for name, pattern in _VARIES.items():
        text = re.sub(pattern, name, text)
    text = re.sub(r"^\.\.\.$", _REST, text, flags=re.MULTILINE)
    return text.replace("│", " ").split()
