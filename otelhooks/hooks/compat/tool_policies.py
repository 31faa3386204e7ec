"""Ready-made policies that are bound to tools.

Names and texts are those of the Hedera Agent Kit (Source: hedera-agent-kit 3.4.2, ``policies``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, cast

from otelhooks.hooks.compat.tool_bound import AbstractPolicy
from otelhooks.hooks.stages import StageParams

__all__ = ["MaxRecipientsPolicy", "RejectToolPolicy"]

Counter = Callable[[Any], int]


class RejectToolPolicy(AbstractPolicy):
    """Always blocks some tools.

    Args:
        relevant_tools: Exact names; ``"*"`` means all.
    """

    name = "Reject Tool Policy"

    def __init__(self, relevant_tools: Collection[str]) -> None:
        self.relevant_tools = relevant_tools

    async def should_block_pre_tool_execution(
        self, context: Any, params: StageParams, method: str
    ) -> bool:
        """Block."""
        return True


class MaxRecipientsPolicy(AbstractPolicy):
    """Blocks a transfer or airdrop to more recipients than allowed.

    It counts the recipients of the kit's six tools that transfer or airdrop, in the arguments of
    the call and as the kit has normalized them. A tool whose recipients cannot be counted is
    blocked.

    Args:
        max_recipients: Most recipients that are allowed; 0 or more.
        additional_tools: Further tools that it is bound to.
        custom_strategies: Tool name -> function that counts the recipients in the arguments (a
            dict; in the Hedera Agent Kit its normalized parameters).

    Raises:
        TypeError: An argument has another type.
        ValueError: `max_recipients` is below 0.
    """

    name = "Max Recipients Policy"

    def __init__(
        self,
        max_recipients: int,
        additional_tools: Sequence[str] | None = None,
        custom_strategies: Mapping[str, Counter] | None = None,
    ) -> None:
        if isinstance(max_recipients, bool) or not isinstance(max_recipients, int):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"`max_recipients` is {max_recipients!r}, not a whole number")
        if max_recipients < 0:
            raise ValueError(f"`max_recipients` is {max_recipients}: it must be 0 or more")
        if isinstance(additional_tools, str):
            raise TypeError(
                f"`additional_tools` is {additional_tools!r}: it must be a list of names"
            )
        self.max_recipients: int = max_recipients
        self.description: str = f"Limits the maximum number of recipients to {max_recipients}"
        self.counters: dict[str, Counter] = {**_COUNTERS, **(custom_strategies or {})}
        self.relevant_tools: Collection[str] = [*_COUNTERS, *(additional_tools or ())]

    async def should_block_post_params_normalization(
        self, context: Any, params: StageParams, method: str
    ) -> bool:
        """Count and compare.

        Raises:
            ValueError: The recipients cannot be counted.
        """
        counter = self.counters.get(method)
        if counter is None:
            msg = f"no strategy counts the recipients of `{method}`: add one to `custom_strategies`"
            raise ValueError(msg)
        count: Any = counter(params.normalized_params)
        if isinstance(count, bool) or not isinstance(count, int):
            raise ValueError(f"the counter of `{method}` returned {count!r}, not a whole number")
        return count > self.max_recipients


def _given(params: Any, *fields: str) -> Any:
    """Return the field that arguments have, or the first that an object has.

    Raises:
        ValueError: They have none of the fields, or arguments have several: the tool reads only
            one, and a model could send another one to be counted.
    """
    if isinstance(params, dict):
        args = cast("dict[str, Any]", params)
        if args.keys() == {"kwargs"} and isinstance(args["kwargs"], dict):
            return _given(args["kwargs"], *fields)  # the form of the kit's MCP tools
        found = [args[field] for field in (*fields, "kwargs") if field in args]
        if len(found) > 1 or "kwargs" in args:
            raise ValueError("recipients are given in more than one place")
    else:
        found = [getattr(params, field) for field in fields if hasattr(params, field)]
    if not found:
        listed = " or ".join(f"`{field}`" for field in fields)
        raise ValueError(f"no {listed} in it; count it in `custom_strategies`")
    return found[0]


def _receivers(entries: Any) -> int:
    """Count receiving accounts in a list of entries, or in a map of account to amount."""
    if isinstance(entries, dict):
        return sum(1 for amount in cast("dict[Any, Any]", entries).values() if amount > 0)
    if not isinstance(entries, list):
        raise ValueError(f"recipients are {type(entries).__name__}, not a list")
    return len({_account(entry) for entry in cast("list[Any]", entries)})


def _account(entry: Any) -> str:
    if isinstance(entry, dict):
        return str(cast("dict[str, Any]", entry)["account_id"])
    return str(entry.account_id)


def _transfers(params: Any) -> int:
    return _receivers(_given(params, "hbar_transfers", "transfers"))


def _approved_transfers(params: Any) -> int:
    return _receivers(_given(params, "hbar_approved_transfers", "transfers"))


def _airdrop(params: Any) -> int:
    return _listed(_given(params, "token_transfers", "recipients"))


def _tokens(params: Any) -> int:
    given = _given(params, "ft_approved_transfer", "transfers")
    return sum(map(_receivers, _by_token(given))) if isinstance(given, dict) else _receivers(given)


def _nfts(params: Any) -> int:
    return _of_tokens(_given(params, "nft_transfers", "recipients"))


def _approved_nfts(params: Any) -> int:
    return _of_tokens(_given(params, "nft_approved_transfer", "recipients"))


def _of_tokens(given: Any) -> int:
    return sum(map(_listed, _by_token(given))) if isinstance(given, dict) else _listed(given)


def _by_token(transfers: Any) -> Collection[Any]:
    return cast("dict[Any, Any]", transfers).values()


def _listed(entries: Any) -> int:
    if not isinstance(entries, (list, tuple)):
        raise ValueError(f"recipients are {type(entries).__name__}, not a list")
    return len(cast("list[Any]", entries))


_COUNTERS: dict[str, Counter] = {
    "transfer_hbar_tool": _transfers,
    "transfer_hbar_with_allowance_tool": _approved_transfers,
    "airdrop_fungible_token_tool": _airdrop,
    "transfer_fungible_token_with_allowance_tool": _tokens,
    "transfer_non_fungible_token_with_allowance_tool": _approved_nfts,
    "transfer_non_fungible_token_tool": _nfts,
}
"""The kit's own tools."""
