"""What is registered for the end of a process, called as at the end of a child."""

import logging

import pytest

from otelhooks import _exits


@pytest.fixture
def called(monkeypatch):
    monkeypatch.setattr(_exits, "_functions", {})
    return []


def test_the_last_registered_is_called_first_and_each_once(called):
    functions = [lambda number=number: called.append(number) for number in range(3)]
    for function in [*functions, functions[0]]:
        _exits.register(function)
    _exits.unregister(functions[1])
    _exits._end()
    _exits._end()
    for function in functions:
        _exits.unregister(function)
    assert called == [0, 2]


def test_one_that_fails_does_not_stop_the_others(called, caplog):
    def fail():
        raise OSError("no space left")

    functions = [lambda: called.append("first"), fail]
    for function in functions:
        _exits.register(function)
    with caplog.at_level(logging.ERROR, "otelhooks"):
        _exits._end()
    for function in functions:
        _exits.unregister(function)
    assert called == ["first"]
    assert "no space left" in caplog.text
