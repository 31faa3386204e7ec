"""What is registered for the end of a process, and rules until that end."""

import errno
import logging

import pytest

from otelhooks.process import exits


@pytest.fixture
def called(monkeypatch):
    monkeypatch.setattr(exits, "_functions", {})
    return []


def test_the_last_registered_is_called_first_and_each_once(called):
    functions = [lambda number=number: called.append(number) for number in range(3)]
    for function in [*functions, functions[0]]:
        exits.register(function)
    exits.unregister(functions[1])
    exits.end()
    exits.end()
    for function in functions:
        exits.unregister(function)
    assert called == [0, 2]


def test_one_that_fails_does_not_stop_the_others(called, caplog):
    def fail():
        raise OSError(errno.ENOSPC, "not told: /secret")

    functions = [lambda: called.append("first"), fail]
    for function in functions:
        exits.register(function)
    with caplog.at_level(logging.ERROR, "otelhooks"):
        exits.end()
    for function in functions:
        exits.unregister(function)
    assert called == ["first"]
    assert "no space left" in caplog.text
    assert "secret" not in caplog.text
