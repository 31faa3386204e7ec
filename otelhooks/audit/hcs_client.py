"""The client that sends records: the given one, the tool call's own, or the environment's."""

from __future__ import annotations

import importlib
import threading
from typing import TYPE_CHECKING, Any, cast

from otelhooks.audit.hcs_topic import Unsent
from otelhooks.process.environment import HEDERA_VARIABLES, hedera_operator

if TYPE_CHECKING:
    from collections.abc import Callable

_HINT = f"give `logging_client`, or set {', '.join(HEDERA_VARIABLES[:2])} and {HEDERA_VARIABLES[2]}"


class Clients:
    """Finds the client, or creates it. Thread-safe.

    Args:
        given: An SDK `Client`, a function that returns one, or None.
    """

    def __init__(self, given: Any) -> None:
        is_function = callable(given) and not hasattr(given, "operator_account_id")
        self._make = cast("Callable[[], Any] | None", given if is_function else None)
        self._client: Any = None if is_function else given
        self._offered: Any = None
        self._lock = threading.Lock()

    def offer(self, client: Any) -> None:
        """Use the client of a tool call as long as there is no other."""
        self._offered = self._offered or client

    @property
    def is_known(self) -> bool:
        """Whether there is a client, or can be."""
        return bool(self._client or self._offered or self._make or hedera_operator())

    def get(self) -> Any:
        """Return the client.

        Raises:
            Unsent: There is none, or it has no operator to pay and sign.
        """
        with self._lock:
            if self._client is None:
                own = self._make and _made(self._make)
                self._client = own or self._offered or _from_variables()
            client = self._client
        if getattr(client, "operator_account_id", None) is None:
            raise Unsent("the client has no operator", hint=_HINT, is_passing=False)
        return client

    def start_anew_in_child(self) -> None:
        """Forget clients that a forked child inherited: their connections belong to the parent."""
        self._lock = threading.Lock()
        self._client = self._offered = None


def _made(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except Exception as error:  # its text may contain a key
        raise Unsent(
            f"the function given as `logging_client` raised {type(error).__name__}",
            hint="it has to return an SDK client with an operator",
            is_passing=isinstance(error, OSError),
        ) from None


def _from_variables() -> Any:
    found = hedera_operator()
    if found is None:
        raise Unsent("there is no client to send audit records with", hint=_HINT, is_passing=False)
    account, key, network = found
    sdk: Any = importlib.import_module("hiero_sdk_python")
    client = sdk.Client(sdk.Network(network.lower()))
    try:
        client.set_operator(sdk.AccountId.from_string(account), sdk.PrivateKey.from_string(key))
    except ValueError:  # its text may contain the key
        raise Unsent(
            "OPERATOR_ID or OPERATOR_KEY cannot be read",
            hint="an account is `0.0.12345`, a key its DER text in hex",
            is_passing=False,
        ) from None
    return client
