"""What the contract was played on: a report of a run, the table of all, and the README's rows.

As a pytest plugin (``-p tests.frameworks.paths --paths-to FILE``) it writes what each path of the
contract passed, failed or lacks. Run as a program it prints the reports of a folder, which are
named after their locks, as a table of frameworks, paths and versions::

    python -m tests.frameworks.paths FOLDER          exits with 1 if the README's rows differ
    python -m tests.frameworks.paths FOLDER --write  writes them
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from otelhooks.setup import catalogue

__all__ = ["FEATURES", "main", "performed", "row"]

README = Path(__file__).parents[2] / "README.md"
FEATURES = ("sync", "async", "stream", "parallel", "sub-agent", "MCP")
"""Columns of the README's table, in its order."""

Report = dict[str, dict[str, dict[str, Any]]]
"""Framework to path to ``features``, ``passed``, ``failed``, and ``lacks`` by reason."""

_performed: set[tuple[str, str]] = set()


def performed(path: str, feature: str) -> None:
    """Note that a path was run as ``sync`` or ``async``."""
    _performed.add((path, feature))


# -- the plugin -------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of a report."""
    parser.addoption("--paths-to", default="", help="write what the contract was played on")
    parser.addoption("--paths-only", action="store_true", help="run nothing but the contract")


def pytest_configure(config: pytest.Config) -> None:
    """Report this run if it was asked for."""
    if target := config.getoption("--paths-to"):
        config.pluginmanager.register(_Reporter(Path(target)))


class _Reporter:
    def __init__(self, target: Path) -> None:
        self._target = target
        self._usual: dict[str, tuple[str, ...]] = {}
        self._of: dict[str, dict[str, Any]] = {}
        self._report: Report = defaultdict(dict)

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Function]
    ) -> None:
        others: list[pytest.Function] = []
        for item in items:
            path = getattr(getattr(item, "callspec", None), "params", {}).get("path")
            if not hasattr(path, "chunks"):
                others.append(item)
                continue
            usual = self._usual.setdefault(item.cls.framework, item.cls.also)
            beside = "" if item.cls.also == usual else f" beside {', '.join(item.cls.also)}"
            fresh: dict[str, Any] = {"features": [], "passed": 0, "failed": 0, "lacks": {}}
            entry = self._report[item.cls.framework].setdefault(path.name + beside, fresh)
            self._of[item.nodeid] = {"entry": entry, "path": path, "test": item.originalname}
        if config.getoption("--paths-only"):
            items[:] = [item for item in items if item.nodeid in self._of]
            config.hook.pytest_deselected(items=others)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if (of := self._of.get(report.nodeid)) is None:
            return
        entry, path = of["entry"], of["path"]
        if report.failed:
            entry["failed"] += 1
        elif report.skipped:
            why = str(report.longrepr[2]).removeprefix("Skipped: ")  # type: ignore[index]
            entry["lacks"][why] = entry["lacks"].get(why, 0) + 1
        elif report.when == "call":
            entry["passed"] += 1
            found = {feature for name, feature in _performed if name == path.name}
            found |= {"stream"} if path.chunks is not None else set()
            found |= {"sub-agent"} if path.subagent else set()
            is_mcp = "mcp" in path.name or "/" in path.selector("tool")
            found |= {"MCP"} if is_mcp else set()
            found |= {"parallel"} if of["test"] == "test_parallel" else set()
            entry["features"] = sorted(found.union(entry["features"]))

    def pytest_sessionfinish(self) -> None:
        self._target.write_text(json.dumps(self._report, indent=1), encoding="utf-8")


# -- the table --------------------------------------------------------------------------------


def table(reports: dict[str, Report]) -> Iterator[str]:
    """Yield the lines of the table: each framework's paths, a column for each of its locks."""
    frameworks: dict[str, list[str]] = defaultdict(list)
    for lock, report in reports.items():
        for framework in report:
            frameworks[framework].append(lock)
    for framework, locks in sorted(frameworks.items()):
        columns = {lock: reports[lock][framework] for lock in locks}
        names = dict.fromkeys(name for paths in columns.values() for name in paths)
        wide = max(map(len, names), default=0) + 2
        yield f"\n{framework:{wide}}" + "".join(f"{lock:26}" for lock in locks).rstrip()
        reasons: dict[str, list[str]] = defaultdict(list)
        for name in names:
            cells = [_cell(paths.get(name)) for paths in columns.values()]
            yield f"{name:{wide}}" + "".join(f"{cell:26}" for cell in cells).rstrip()
            for lock, paths in columns.items():
                for why in paths.get(name, {}).get("lacks", ()):
                    if name not in reasons[f"{lock}: {why}"]:
                        reasons[f"{lock}: {why}"].append(name)
        for why, of in reasons.items():
            more = f" and {len(of) - 6} more" if len(of) > 6 else ""
            yield f"  lacking, {why}: {', '.join(of[:6])}{more}"


def _cell(entry: dict[str, Any] | None) -> str:
    if entry is None:
        return "-"
    counts = {word: entry[word] for word in ("passed", "failed")}
    counts["lacking"] = sum(entry["lacks"].values())
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count)


def row(framework: str, title: str, features: Iterable[str]) -> str:
    """Return a framework's row of the README's table; ``title`` is its first cell."""
    distributions: dict[str, list[str]] = defaultdict(list)
    for package in catalogue.adapter(framework).packages:
        distributions[str(package.supported)].append(package.distributions[0])
    packages = "; ".join(
        f"{', '.join(names)}{', each' if len(names) > 1 else ''} `{versions}`"
        for versions, names in distributions.items()
    )
    words = ["yes" if feature in features else "no" for feature in FEATURES]
    return f"| {' | '.join([title, packages, *words])} |"


def readme(reports: dict[str, Report], text: str) -> str:
    """Return the README with the rows of all frameworks that a newest version was played on."""
    lines = text.splitlines()
    features: dict[str, set[str]] = defaultdict(set)
    for lock, report in reports.items():
        for framework, paths in report.items():
            if lock.endswith("-latest"):
                features[framework].update(*(entry["features"] for entry in paths.values()))
    for framework, found in features.items():
        page = f"docs/frameworks/{framework}.md"
        at = [i for i, line in enumerate(lines) if line.startswith("| [") and page in line]
        if not at:
            msg = (
                f"README.md has no row that links to {page}: add `| [Title]({page}) |` to its table"
            )
            raise SystemExit(msg)
        lines[at[0]] = row(framework, lines[at[0]].split("|")[1].strip(), found)
    return "\n".join(lines) + "\n"


def main(folder: str, option: str = "") -> int:
    """Print the table of a folder's reports; compare or write the README's rows."""
    files = sorted(Path(folder).glob("*.json"))
    reports: dict[str, Report] = {
        file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files
    }
    print("\n".join(table(reports)))
    entries = [
        e for report in reports.values() for paths in report.values() for e in paths.values()
    ]
    total = {word: sum(entry[word] for entry in entries) for word in ("passed", "failed")}
    print(f"\n{len(entries)} paths, {total['passed']} passed, {total['failed']} failed")
    old = README.read_text(encoding="utf-8")
    new = readme(reports, old)
    if option == "--write":
        README.write_text(new, encoding="utf-8")
    elif new != old:
        print("error: rows of the table in README.md are not what the contract was played on")
        print("hint: `make paths` writes them")
    return int(bool(total["failed"]) or not total["passed"] or (new != old and not option))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
