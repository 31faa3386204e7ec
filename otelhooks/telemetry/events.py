"""Events: log records with a name, over the Logs API of OpenTelemetry.

::

    events = EventLog(logger_provider, version)
    events.emit(EVENT_POLICY_DECISION, WARN, attributes, context=context)
    events.rebind(logger_provider)
    if events.is_enabled: ...            # False: no listener, skip the work for content

Severities: `DEBUG`, `INFO`, `WARN`, `ERROR`, or None for an event that has none.

The Logs API is ``opentelemetry._logs``, whose name is private; only this module uses it. Its
``emit(exception=)`` is not used: an exception's text is content. Everything here is telemetry: it
fails open and is logged once per cause.

Source: semconv.md sections 5, 7 and 10.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from otelhooks.plain_text import encodable
from otelhooks.records import semconv
from otelhooks.records.failures import outline

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry._logs import Logger, LoggerProvider
    from opentelemetry.context import Context

_log = logging.getLogger("otelhooks.telemetry")

DEBUG = 5
INFO = 9
WARN = 13
ERROR = 17


class EventLog:
    """Emits events on one logger provider.

    Args:
        logger_provider: Target of the events; None: nowhere.
        version: Version of the instrumentation scope.
        attributes: Attributes of the instrumentation scope.
    """

    def __init__(
        self,
        logger_provider: LoggerProvider | None,
        version: str,
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        self._version = version
        self._attributes = dict(attributes or {})
        self._provider: LoggerProvider | None = None
        self._logger: Logger | None = None
        self._severities: dict[int, Any] = {}
        self._logged: set[str] = set()
        self.is_enabled: bool = False
        self.rebind(logger_provider)

    def rebind(
        self, logger_provider: LoggerProvider | None, attributes: Mapping[str, Any] | None = None
    ) -> None:
        """Move to another provider, or to other attributes.

        Args:
            logger_provider: The new provider.
            attributes: Attributes of the instrumentation scope; None for the present ones. The same
                ones at the same provider change nothing.
        """
        attributes = self._attributes if attributes is None else dict(attributes)
        is_same = logger_provider is self._provider and attributes == self._attributes
        if is_same and self._logger is not None:
            return
        self._attributes = attributes
        self._provider, self._logger, self.is_enabled = logger_provider, None, False
        if logger_provider is None:
            return
        try:
            from opentelemetry._logs import NoOpLogger, SeverityNumber

            self._severities = {number: SeverityNumber(number) for number in range(1, 25)}
            self._logger = logger_provider.get_logger(
                semconv.SCOPE_NAME, self._version, attributes=self._attributes or None
            )
            self.is_enabled = not isinstance(self._logger, NoOpLogger)
        except Exception as error:
            self._log_once(error, "no events: the logger provider gives no logger")

    def emit(
        self,
        name: str,
        severity_number: int | None,
        attributes: Mapping[str, Any],
        context: Context | None = None,
        body: Any = None,
    ) -> None:
        """Emit one event.

        Args:
            name: Event name.
            severity_number: 1 to 24, or None.
            attributes: May be nested; copied by the SDK.
            context: Its span gives trace and span id; None: the current context.
            body: Structured body, or None.
        """
        logger = self._logger
        if logger is None or not self.is_enabled:
            return
        try:
            logger.emit(
                event_name=name,
                severity_number=self._severities.get(severity_number or 0),
                attributes=encodable(dict(attributes)),
                context=context,
                body=encodable(body),
            )
        except Exception as error:
            self._log_once(error, "an event could not be emitted")

    def _log_once(self, error: Exception, message: str) -> None:
        cause = f"{message}: {type(error).__name__}"
        if cause not in self._logged:
            self._logged.add(cause)
            _log.error("%s: %s", message, outline(error))
