"""Everything that an adapter is written with; docs/writing-an-adapter.md explains it.

An adapter writes one class for each kind of call in its framework: `ToolCall`, `ModelCall`, `Run`.
An object of such a class is one passage: it reads the framework's own arguments, calls the
framework's function and answers in the framework's form. `seat` names the functions, and `Adapter`
lists everything. The rest is done here: the switch, the runtime, plain functions and coroutines,
streams, sessions, forms of answers, refusals, and what happens when an adapter is wrong.
"""

from __future__ import annotations

from otelhooks.frameworks.kit.adapter import Adapter, Package, listen, seat
from otelhooks.frameworks.kit.builtins import BuiltIns
from otelhooks.frameworks.kit.models import ModelCall, Part, PartTable
from otelhooks.frameworks.kit.objects.classes import is_a, module, native, subclass
from otelhooks.frameworks.kit.passages import SKIP
from otelhooks.frameworks.kit.runs import Run
from otelhooks.frameworks.kit.tools import ToolCall

__all__ = [
    "SKIP",
    "Adapter",
    "BuiltIns",
    "ModelCall",
    "Package",
    "Part",
    "PartTable",
    "Run",
    "ToolCall",
    "is_a",
    "listen",
    "module",
    "native",
    "seat",
    "subclass",
]
