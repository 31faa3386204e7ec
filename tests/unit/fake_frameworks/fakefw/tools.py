"""Classes and functions."""

from dataclasses import dataclass
from typing import Any

from fakefw.base import Root


def helper(x):
    return ("helper", x)


class Tool(Root):
    def run(self, x):
        return ("ran", x)

    async def arun(self, x):
        return ("aran", x)

    @classmethod
    def make(cls, x):
        return (cls.__name__, x)

    @staticmethod
    def plain(x):
        return ("plain", x)

    class Options:
        def read(self):
            return "options"

    level = 3


class Loud(Tool):
    def run(self, x):
        return ("loud", *super().run(x))


@dataclass
class FunctionTool:
    name: str
    invoke: Any
