"""The pictures of README and docs, of runs and of text: ``python -m tests.pictures FOLDER``.

A picture has what it shows as text in its ``<desc>``, for readers that cannot see it. One is drawn
again only if a run shows something else than before, times aside: a run without changes leaves the
files as they are.
"""

from __future__ import annotations

import html
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.text import Text

from otelhooks.cli.picture import svg

__all__ = ["description", "draw"]

PIPELINE = """\
 a model asks for a tool call             your code calls a tool
              │                                     │
              ▼                                     ▼
 ┌─ 1  hooks decide ────────────────────────────────────────────┐
 │  pre_tool_call_decide: deny, or rewrite the arguments        │── deny ──┐
 └────────────────────────────┬─────────────────────────────────┘          │
 ┌─ 2  rules decide ──────────▼─────────────────────────────────┐          │
 │  on the final arguments: veto, deny, ask, allow              │── deny ──┤
 └────────────────────────────┬─────────────────────────────────┘          │
 ┌─ 3  limits, people ────────▼─────────────────────────────────┐          │
 │  counts; one question for every rule that asks               │── deny ──┤
 └────────────────────────────┬─────────────────────────────────┘          │
 ┌─ 4  records ───────────────▼─────────────────────────────────┐          │
 │  span with the verdict; audit record on disk                 │          │
 └────────────────────────────┬─────────────────────────────────┘          │
                              ▼                                            │
                        the tool runs                                      │
                              │                                            ▼
 ┌─ 5  hooks see the result ──▼─────────────────────────────────┐   span, event, audit
 │  on_tool_error, post_tool_call_transform, post_tool_call     │   record; the tool
 └────────────────────────────┬─────────────────────────────────┘   does not run
                              ▼                                            │
             result to the model, or to your code                          ▼
                                                                    reason to the model,
                                                                    Denied to your code
"""

_DESCRIPTION = re.compile(r"<desc>(.*?)</desc>", re.DOTALL)
_TIME = re.compile(r"(?<= )\d[\d.,]* (?:ms|s|min)(?![a-z])")


def draw(folder: Path, *, framework: str = "openai_agents") -> list[Path]:
    """Draw the pictures that differ from what they are drawn from, and return their paths.

    Args:
        folder: Holds ``trace.svg`` and ``pipeline.svg``, or will.
        framework: Whose agent the demonstration runs.
    """
    return _draw_trace(folder, framework) + _draw_pipeline(folder)


def _draw_trace(folder: Path, framework: str) -> list[Path]:
    with tempfile.TemporaryDirectory() as name:
        store, new = Path(name) / "store.db", Path(name) / "trace.svg"
        _otelhooks("demo", "--framework", framework, "--store", str(store))
        _otelhooks("trace", "show", "--store", str(store), "--svg", str(new))
        shown = _otelhooks("trace", "show", "--store", str(store))
        picture = new.read_text(encoding="utf-8")
    target = folder / "trace.svg"
    if target.is_file() and _said(description(target)) == _said(shown):
        return []
    _write(target, picture, shown)
    return [target]


def _draw_pipeline(folder: Path) -> list[Path]:
    target = folder / "pipeline.svg"
    if target.is_file() and description(target) == PIPELINE:
        return []
    _write(target, svg(Text(PIPELINE), "a tool call"), PIPELINE)
    return [target]


def _write(target: Path, picture: str, shown: str) -> None:
    described = f"<desc>{html.escape(shown, quote=False)}</desc>\n<style>"
    target.write_text(picture.replace("<style>", described, 1), encoding="utf-8")


def _otelhooks(*arguments: str) -> str:
    command = [sys.executable, "-m", "otelhooks", *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def description(picture: Path) -> str:
    """Return what a picture says that it shows, empty if nothing."""
    found = _DESCRIPTION.search(picture.read_text(encoding="utf-8"))
    return "" if found is None else html.unescape(found[1])


def _said(shown: str) -> str:
    """Return a tree without its heading, which has id and date, without times and line ends."""
    _, begin, tree = shown.partition("invoke_agent ")
    return " ".join(_TIME.sub("", f"{begin}{tree}").split())


if __name__ == "__main__":
    drawn = draw(Path(sys.argv[1]))
    print("\n".join(f"drew {path}" for path in drawn) or "no picture differs")
