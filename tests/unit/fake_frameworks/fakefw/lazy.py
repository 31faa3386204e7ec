"""Serves a name by `__getattr__`, which must not be triggered by looking for a seat."""

asked = []


def __getattr__(name):
    asked.append(name)
    raise AttributeError(name)
