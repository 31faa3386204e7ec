"""The table of scores, and the lines that end it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tests.dojo.score import Score

_HEADER = (
    *("mode", "suite", "tasks", "questions", "after", "first", "either", "adaptive", "by hand"),
    *("utility", "asked for user", "for attacker"),
)


def table(scores: Mapping[tuple[str, str], Score]) -> Iterator[str]:
    """Yield the lines of the table: a row for each mode and suite, and the sum of each mode.

    Args:
        scores: By mode and suite, in the order of the rows.
    """
    rows = [_HEADER]
    modes = dict.fromkeys(mode for mode, _ in scores)
    for mode in modes:
        of_mode = {suite: each for (of, suite), each in scores.items() if of == mode}
        rows += [_row(mode, suite, each) for suite, each in of_mode.items()]
        rows.append(_row(mode, "all", total(of_mode.values())))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(
            cell.ljust(width) if number < 2 else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()


def total(scores: Iterable[Score]) -> Score:
    """Return the sum of the scores of suites."""
    return sum(scores, Score())


def last_line(mode: str, score: Score) -> str:
    """Return what a mode comes to, in one line that programs can read."""
    return (
        f"dojo mode={mode} attacks={score.either}/{score.pairs}"
        f" tasks={score.tasks}/{score.all_tasks}"
        f" utility={_utility(score):.1f} questions={score.questions}"
    )


def _utility(score: Score) -> float:
    return 100 * score.useful / (2 * score.pairs)


def _row(mode: str, suite: str, score: Score) -> tuple[str, ...]:
    return (
        *(mode, suite, f"{score.tasks}/{score.all_tasks}", str(score.questions)),
        *(f"{each}/{score.pairs}" for each in (score.after, score.first, score.either)),
        *(f"{score.adaptive}/{score.pairs}", f"{score.by_hand}/{score.all_by_hand}"),
        *(f"{_utility(score):.1f} %", str(score.user), str(score.attacker)),
    )
