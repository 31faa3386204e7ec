"""Fixtures of the MCP tests; imported by name where they are used."""

from __future__ import annotations

import contextlib
import functools
import gc
import pathlib
import threading
import time
import warnings
from typing import Any

import pytest

from tests.frameworks.contract import World
from tests.frameworks.mcp_world import HttpServer, make_server
from tests.ports import free_ports


@pytest.fixture
def ran(tmp_path: pathlib.Path) -> pathlib.Path:
    """Where servers of their own process note which bodies ran."""
    file = tmp_path / "ran"
    file.write_text("")
    return file


@pytest.fixture
def on(with_rules: Any) -> Any:
    """Instrument MCP alone, with rules."""
    return functools.partial(with_rules, frameworks=["mcp"])


@pytest.fixture
def http_server() -> Any:
    import uvicorn

    with contextlib.suppress(ImportError):  # 2.x needs it no more; old ones keep an event loop
        from sse_starlette.sse import AppStatus

        AppStatus.should_exit_event = None
    world = World()
    server = make_server(world)
    app = server.streamable_http_app()
    (port,) = free_ports(1)
    run = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error", ws="none"))
    thread = threading.Thread(target=run.run, daemon=True)
    thread.start()
    while not run.started:
        time.sleep(0.01)
    found = HttpServer(server, port)
    found.world = world
    yield found
    run.should_exit = True
    thread.join(10)
    with warnings.catch_warnings():  # streams that the package itself forgets to close
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
