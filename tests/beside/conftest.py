"""Plays each program once, in a forked child: the frameworks, slow to import, are there already."""

from __future__ import annotations

import functools
import importlib
import json
import multiprocessing
from typing import Any

import pytest

from tests.beside.play import main

SLOW = {"openai_agents": ("agents",), "langchain": ("langchain.agents", "langchain_openai")}


@functools.cache
def _played(asked: str) -> dict[str, Any]:
    for module in SLOW[json.loads(asked)["framework"]]:
        importlib.import_module(module)
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=lambda: there.send(main(json.loads(asked))))
    child.start()
    there.close()
    try:
        assert here.poll(60), "the program hangs"
        return here.recv()  # EOFError: the program failed, and said why on stderr
    finally:
        child.kill()
        child.join()


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a program with a framework, peers and arguments of `otelhooks.instrument`."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    def run(framework: str, *peers: str, first: str = "", **settings: Any) -> dict[str, Any]:
        asked = {"framework": framework, "peers": peers, "first": first, "otelhooks": settings}
        return _played(json.dumps(asked, sort_keys=True))

    return run
