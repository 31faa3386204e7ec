"""Results of other packages' tests, compared with the table of README.md beside this file."""

from __future__ import annotations

import collections
import fnmatch
import re
from pathlib import Path

README = Path(__file__).parent / "README.md"


class Verdicts:
    """Results of tests, one per line; some of them cannot apply, with a reason."""

    def __init__(self, *subjects: str) -> None:
        """Read the rows of the table whose tests are of these subjects."""
        rows = re.findall(r"^\| `([\w./*]+)` \| (.+?) \|$", README.read_text("utf-8"), re.M)
        self.reasons = {row: why for row, why in rows if row.startswith(subjects)}
        self.used: set[str] = set()
        self.counts: dict[str, collections.Counter[str]] = {}

    def passed(self, subject: str, test: str) -> None:
        """Tell of a test that passed."""
        self._tell(subject, "passed", test, "")

    def failed(self, subject: str, test: str, text: str) -> None:
        """Tell of a test that failed, and whether it was meant to."""
        name = f"{subject}/{test}"
        row = next((row for row in self.reasons if fnmatch.fnmatchcase(name, row)), None)
        if row is None:
            self._tell(subject, "FAILED", test, f"\n{text}")
        else:
            self.used.add(row)
            self._tell(subject, "cannot apply", test, f": {self.reasons[row]}")

    def _tell(self, subject: str, word: str, test: str, more: str) -> None:
        self.counts.setdefault(subject, collections.Counter())[word] += 1
        print(f"{word:<13} {subject}/{test}{more}")

    def done(self, label: str) -> int:
        """Print a table; return 1 if a test failed, or one passes that cannot apply."""
        unused = sorted(set(self.reasons) - self.used)
        for row in unused:
            print(f"FAILED        {row} is listed as not applying, but nothing fails there")
        print(f"\n{label}")
        for subject, count in self.counts.items():
            print(subject, *(f"{number} {word}" for word, number in count.items()), sep="  ")
        return 1 if unused or any(count["FAILED"] for count in self.counts.values()) else 0
