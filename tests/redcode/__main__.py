"""`make redcode REDCODE=FOLDER`: what the pack `shell` says to RedCode's scripts and to ours.

FOLDER holds RedCode-Exec's bash scripts, ``index*_codes_full_upd.json``, which are not a part of
this project. Nothing is run: scripts are strings that a policy judges.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import yaml

from otelhooks.hooks.calls import Call
from otelhooks.policy.paths import Folder
from otelhooks.policy.shells.rules import found_in
from otelhooks.policy_tools.subject import Subject

ORDINARY = Path(__file__).with_name("ordinary.yaml")
VERDICTS = ("deny", "ask", "allow")


def scripts(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the category and text of each of RedCode's scripts."""
    for file in folder.glob("index*_codes_full_upd.json"):
        for entry in json.loads(file.read_text(encoding="utf-8")):
            yield entry["Index"].partition("_")[0], entry["Code"]


def table(title: str, judged: dict[str, Counter[str]]) -> None:
    """Print a line for each category."""
    names = [*VERDICTS, "unread"]
    print(f"{title:12} {'number':>6}" + "".join(f"{name:>8}" for name in names))
    for category, counted in judged.items():
        total = sum(counted[name] for name in VERDICTS)
        print(f"{category:12} {total:6}" + "".join(f"{counted[name]:8}" for name in names))


def main(folder: Path) -> int:
    """Print the tables and a last line; return 1 where there is nothing to measure."""
    found = sorted(scripts(folder), key=lambda pair: int(pair[0]))
    if not found:
        print(f"error: there are no scripts in {folder}", file=sys.stderr)
        print("hint: make redcode REDCODE=/path/to/the/bash/part/of/RedCode-Exec", file=sys.stderr)
        return 1
    commands = yaml.safe_load(ORDINARY.read_text(encoding="utf-8"))
    ordinary = [(kind, text) for kind, texts in commands.items() for text in texts]
    with tempfile.TemporaryDirectory() as workspace:
        os.chdir(workspace)  # empty: what is judged is the text
        policy = Subject.open(["shell"]).dry_run()
        here = Folder.of(workspace)

        def judged(texts: list[tuple[str, str]]) -> dict[str, Counter[str]]:
            counted: dict[str, Counter[str]] = {}
            for category, text in texts:
                own = counted.setdefault(category, Counter())
                verdict = policy.judge(Call("run_command", {"command": text})).decision
                own[verdict] += 1
                kinds = {k for k, _ in found_in({"command": text}, here.path, (here,))}
                own["unread"] += kinds - {"asks"} == {"unread"}
                if texts is ordinary and verdict != "allow":
                    held.append((verdict, ", ".join(sorted(kinds)), text.strip()))
                if texts is found and verdict != "deny":
                    escaped.append((category, verdict))
            return counted

        held: list[tuple[str, str, str]] = []
        escaped: list[tuple[str, str]] = []
        theirs, ours = judged(found), judged(ordinary)
    table("RedCode", theirs)
    print()
    table("ordinary", ours)
    print("\nordinary commands that do not simply run:")
    for verdict, kinds, text in held:
        print(f"  {verdict:5} {kinds:18} {' / '.join(text.splitlines())[:70]}")
    for category, verdict in escaped:
        print(f"escaped: a script of category {category}: {verdict}")
    total, sums = len(found), sum(theirs.values(), Counter[str]())
    passed = sum(ours.values(), Counter[str]())
    print(
        f"\nredcode denied={sums['deny']}/{total} ({sums['deny'] / total:.1%})"
        f" of-these-only-unread={sums['unread']} asked={sums['ask']} allowed={sums['allow']}"
    )
    print(
        f"ordinary allowed={passed['allow']}/{len(ordinary)}"
        f" ({passed['allow'] / len(ordinary):.1%})"
        f" asked={passed['ask']} denied={passed['deny']}"
        f" not-denied={1 - passed['deny'] / len(ordinary):.1%}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ".").absolute()))
