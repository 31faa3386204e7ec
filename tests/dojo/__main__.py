"""AgentDojo, replayed without a model: ``python -m tests.dojo [MODE ...]``.

docs/measurements/agentdojo.md says what is measured, and what is not.
"""

from __future__ import annotations

import argparse
import multiprocessing

from tests.dojo.report import last_line, table, total
from tests.dojo.score import MODES, score
from tests.dojo.suites import NAMES, VERSION


def main() -> None:
    """Play every pair in every mode, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.dojo")
    parser.add_argument("modes", nargs="*", metavar="MODE", help=", ".join(MODES))
    modes = parser.parse_args().modes or MODES
    if unknown := sorted(set(modes) - set(MODES)):
        parser.error(f"unknown mode `{unknown[0]}`: use one of {', '.join(MODES)}")
    jobs = [(mode, suite) for mode in modes for suite in NAMES]
    # Each in a process of its own: what one leaves behind must not count in another.
    with multiprocessing.get_context("spawn").Pool(maxtasksperchild=1) as pool:
        scores = dict(zip(jobs, pool.map(score, jobs, chunksize=1), strict=True))
    print(f"AgentDojo {VERSION}, replayed without a model\n")
    print(*table(scores), sep="\n", end="\n\n")
    for mode in modes:
        print(last_line(mode, total({s: each for (m, s), each in scores.items() if m == mode})))


if __name__ == "__main__":
    main()
