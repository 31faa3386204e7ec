"""The entry, in a module that copies a function by name."""

from fakefw.tools import Tool, helper


class Agent:
    def run(self, x):
        return [Tool().run(x), helper(x)]
