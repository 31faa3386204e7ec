"""All examples."""

from tests.examples import ai_harness, antigravity_python, antigravity_rust, go_agent, hedera
from tests.examples.example import EXAMPLES

__all__ = ["EXAMPLES", "ai_harness", "antigravity_python", "antigravity_rust", "go_agent", "hedera"]
