"""AgentDojo, replayed without a model: ``python -m tests.dojo [MODE ...]``.

docs/measurements/agentdojo.md says what is measured, and what is not.
"""

from __future__ import annotations

import argparse
import multiprocessing

from tests.dojo.report import last_line, table, total
from tests.dojo.score import MODES, SUITES, score


def main() -> None:
    """Play every pair in every mode, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.dojo")
    parser.add_argument("modes", nargs="*", metavar="MODE", help=", ".join(MODES))
    modes = parser.parse_args().modes or MODES
    if unknown := sorted(set(modes) - set(MODES)):
        parser.error(f"unknown mode `{unknown[0]}`: use one of {', '.join(MODES)}")
    # Each suite in a process of its own, which imports AgentDojo.
    with multiprocessing.get_context("spawn").Pool() as pool:
        of_suite = dict(zip(SUITES, pool.starmap(score, [(s, modes) for s in SUITES]), strict=True))
    scores = {(mode, suite): of_suite[suite][mode] for mode in modes for suite in SUITES}
    print("AgentDojo v1.2.2, replayed without a model\n")
    print(*table(scores), sep="\n", end="\n\n")
    for mode in modes:
        print(last_line(mode, total(found[mode] for found in of_suite.values())))


if __name__ == "__main__":
    main()
