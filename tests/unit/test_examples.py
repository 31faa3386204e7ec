"""Every example in a loop without a framework; the catalogue names all of them."""

from __future__ import annotations

import re
from pathlib import Path

from tests.examples.by_hand import ByHand
from tests.examples.catalogue import CATALOGUE
from tests.examples.documents import EXAMPLES
from tests.examples.performance import Examples

NAMED = [name for entries in CATALOGUE.values() for entry in entries for name in entry.tests]


class TestExamples(Examples):
    host = ByHand()


def test_every_example_is_in_the_catalogue() -> None:
    assert EXAMPLES.keys() - set(NAMED) == set()


def test_whatever_the_catalogue_names_is_there() -> None:
    root = Path(__file__).parents[2]
    missing = []
    for name in set(NAMED) - EXAMPLES.keys():
        file, _, test = name.partition("::")
        path = root / file
        if not path.is_file() or not re.search(rf"def {test}\(", path.read_text()):
            missing.append(name)
    assert missing == []
