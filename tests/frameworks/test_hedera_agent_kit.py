"""The adapter of the Hedera Agent Kit: the contract on every path, and the proof."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("hedera_agent_kit")

import otelhooks
from tests import test_docs as docs
from tests.frameworks.contract import Contract
from tests.frameworks.hedera_world import (
    HAS_ADK,
    HAS_MCP,
    OLD,
    OneStep,
    Overriding,
    Phased,
    adk_path,
    agent_path,
    api_path,
    direct_path,
    langchain_path,
    mcp_path,
    path,
)

NO_MCP = "" if HAS_MCP else "no server for MCP before 3.2"
NO_ADK = "" if HAS_ADK else "no tools for ADK before 3.3"
ESCAPES = {
    "exception_that_escapes": "it ends the server's task; the client sees a cancelled scope only"
}
PACKED = dict.fromkeys(
    ("rewrite", "ask", "arguments_changed_after_the_decision"),
    "at the server's seat the parameters lie one level deeper",
)


def of_any(name: str) -> str:
    return f"*/{name}"


class TestContract(Contract):
    """The kit alone, on each way to a tool."""

    framework = "hedera_agent_kit"
    paths = (
        path("api", api_path(OneStep), errors="raised"),
        path("api_trio", api_path(OneStep), errors="raised", backend="trio"),
        path("api_phased", api_path(Phased), skip=OLD),
        path("direct", direct_path(OneStep), errors="raised"),
        path("direct_phased", direct_path(Phased), skip=OLD),
        path("override", direct_path(Overriding), skip=OLD),
        path("langchain_tool", langchain_path(OneStep), errors="raised"),
        path("langchain_agent", agent_path(Phased), skip=OLD),
        path("adk_tool", adk_path(Phased), skip=OLD or NO_ADK),
        path("mcp_server", mcp_path(Phased), skip=OLD or NO_MCP, lacks=ESCAPES),
    )


class TestContractBesideLangchain(Contract):
    """With langchain's adapter, whose seat is the first: judged once, one span."""

    framework = "hedera_agent_kit"
    also = ("langchain",)
    paths = (
        path("tool", langchain_path(OneStep), errors="raised"),
        path("tool_phased", langchain_path(Phased), skip=OLD),
        path("agent", agent_path(OneStep), has_run=True, has_model=True, errors="raised"),
        path("agent_phased", agent_path(Phased), skip=OLD, has_run=True, has_model=True),
    )


class TestContractBesideMcp(Contract):
    """With the adapter of MCP, whose seats are the first: judged once, one span."""

    framework = "hedera_agent_kit"
    also = ("mcp",)
    paths = (
        path(
            "server",
            mcp_path(Phased),
            skip=OLD or NO_MCP,
            selector=of_any,
            lacks={**ESCAPES, **PACKED},
        ),
    )


def test_the_proof_holds_while_otelhooks_is_on_and_only_then() -> None:
    from otelhooks.frameworks.hedera_agent_kit.scripted import prove

    otelhooks.instrument(frameworks=["hedera_agent_kit"])
    proof = prove()
    assert proof.proved, proof.paths
    assert len(proof.paths) == (2 if OLD else 4)
    otelhooks.uninstrument()
    assert not prove().proved


@pytest.mark.skipif(bool(OLD), reason=OLD)
def test_the_blocks_of_its_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here, since the environment of the other pages cannot hold the kit."""
    monkeypatch.chdir(tmp_path)
    page = docs.DOCS / "frameworks" / "hedera_agent_kit.md"
    assert docs.run_page(page, tmp_path) == len(
        [block for block in docs.blocks(page) if block.language == "python"]
    )
