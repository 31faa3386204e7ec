"""Questions that are posted to a URL, and answers that come back to one of yours.

Both are signed as Standard Webhooks say: HMAC-SHA256 of id, time and body, under a shared secret.
Source: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md

Decision code: an answer counts only if its signature, its time and the hash of its question are
right. Posting is not decision code: the question waits where it is kept, whether or not it arrives.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import http.client
import json
import logging
import os
import secrets
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

from otelhooks.approvals.layout import argument, mark
from otelhooks.approvals.places import questions_at
from otelhooks.approvals.questions import Answer, Question
from otelhooks.errors import ConfigError
from otelhooks.hooks.own_threads import spawn
from otelhooks.plain_text import LOGGED, one_line

__all__ = ["Webhook", "receive_answer"]

log: logging.Logger = logging.getLogger("otelhooks.approvals")

_TOLERANCE_S = 300
"""How old a signature may be, in seconds."""

_TIMEOUT_S = 10.0
_PAUSES_S = (0.0, 1.0, 5.0, 25.0)
"""Seconds before each attempt to post."""

_MOST_ARGUMENTS, _LINE, _TEXT = 20, 200, 2_900
"""Sizes of a message: Slack takes 3,000 characters in a text."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Makes a redirect an error: following it would send a GET without the question."""

    def redirect_request(self, *args: Any, **given: Any) -> None:
        """Return no request."""


_OPENER = urllib.request.build_opener(_NoRedirect)


class Webhook:
    """Posts each question of a `Queue` to a URL: `Queue(notify=Webhook(...))`.

    Secrets in arguments are masked. Posts that fail are repeated for half a minute, and then
    logged; the question waits all the same.

    Args:
        url: ``https://...``, or ``http://`` for this machine.
        secret: Signs what is posted: ``whsec_`` and the base64 text of 24 to 64 bytes. Slack and
            Teams check no signature, so it is not needed for them.
        form: ``json``, or a message for an incoming webhook of ``slack`` or ``teams``.
        link: Page of yours on which the question is answered; ``{id}`` in it becomes its id.

    Raises:
        ConfigError: One of them cannot be used.
    """

    def __init__(
        self,
        url: str,
        *,
        secret: str = "",
        form: Literal["json", "slack", "teams"] = "json",
        link: str = "",
    ) -> None:
        parts = urllib.parse.urlsplit(url)
        is_here = parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1")
        if not parts.hostname or not (parts.scheme == "https" or is_here):
            raise ConfigError(
                "the URL of a webhook does not start with `https://`",  # its path may be a secret
                hint="write `https://HOST/...`, or `http://localhost:PORT/...`",
            )
        if form not in _FORMS:
            raise ConfigError(
                f"`{form}` is not a form of a message", hint=f"use one of {', '.join(_FORMS)}"
            )
        if form == "json" and not secret:
            raise ConfigError(
                "a webhook has no secret to sign with",
                hint="give secret=, such as one of `openssl rand -base64 32` after `whsec_`",
            )
        self._url, self._host, self._link = url, parts.hostname, link
        self._key = _key_of(secret) if secret else None
        self._message: Callable[[Question, str], dict[str, Any]] = _FORMS[form]

    def __call__(self, question: Question) -> None:
        """Post a question on a thread of its own."""
        spawn("otelhooks-webhook", self._post, question)

    def _post(self, question: Question) -> None:
        link = self._link.replace("{id}", question.id)
        body = json.dumps(self._message(question, link)).encode()
        problem = ""
        for pause_s in _PAUSES_S:
            time.sleep(pause_s)
            headers = {"Content-Type": "application/json", "User-Agent": "otelhooks"}
            if self._key is not None:
                headers |= _signed(self._key, f"msg_{question.id}", int(time.time()), body)
            request = urllib.request.Request(self._url, data=body, headers=headers)
            try:
                with _OPENER.open(request, timeout=_TIMEOUT_S):
                    return
            except urllib.error.HTTPError as error:
                problem = f"HTTP {error.code}"
                error.close()
                if error.code < 500 and error.code not in (408, 429):
                    break
            except (OSError, http.client.HTTPException) as error:
                problem = type(error).__name__
        log.error(
            "`%s` was not notified that `%s` waits for an answer: %s",
            self._host,
            one_line(question.tool, LOGGED),
            problem,
        )


def receive_answer(
    body: bytes,
    headers: Mapping[str, str],
    *,
    secret: str,
    place: str | os.PathLike[str] | None = None,
) -> None:
    """Answer a question by a signed request that your web application has received.

    The body is JSON: ``{"type": "approval.answered", "data": {"id", "digest", "status",
    "approver"}}``. ``id`` and ``digest`` are those that `Webhook` posted; ``status`` is
    ``approved`` or ``rejected``. Besides, ``data`` may say ``approver_type``, ``human`` or
    ``service``, the default, ``edit``, an object of changed arguments, and ``roles``, a list of
    those that the approver has: your application vouches for name and roles.

    Args:
        body: As it was received: the signature is for these bytes.
        headers: Of the request, with ``webhook-id``, ``webhook-timestamp``, ``webhook-signature``.
        secret: As given to `Webhook`, or another one.
        place: As given to `Queue`.

    Raises:
        PermissionError: The signature is wrong, or older than five minutes. Answer with HTTP 401.
        ConfigError: The body cannot be read, or the question is not open. Answer with HTTP 400.
    """
    _check(_key_of(secret), body, {name.lower(): text for name, text in headers.items()})
    data = _data_of(body)
    questions = questions_at(place)
    question = questions.pending(data["id"])
    if data["digest"] != question.digest:
        raise ConfigError(
            f"the answer to question {question.id} is for another call",
            hint="send the `digest` that came with the question",
        )
    kind = data.get("approver_type", "service")
    roles = tuple(data.get("roles", ()))
    edit = data.get("edit")
    questions.answer(question, Answer(data["status"], data["approver"], edit, kind, roles))


def _data_of(body: bytes) -> dict[str, Any]:
    """Return what an answer says."""
    try:
        data: Any = json.loads(body)["data"]
        texts = [data[name] for name in ("id", "digest", "status", "approver")]
        is_right = all(isinstance(text, str) and text for text in texts)
        is_right &= isinstance(data.get("edit"), (dict, type(None)))
        is_right &= data["status"] in ("approved", "rejected")
        is_right &= data.get("approver_type", "service") in ("human", "service")
        is_right &= isinstance(data.get("roles", []), list)
    except (ValueError, TypeError, LookupError, AttributeError):
        is_right, data = False, None
    if not is_right:
        raise ConfigError(
            "the body is not an answer",
            hint='send {"data": {"id", "digest", "status": "approved" or "rejected", "approver"}}',
        )
    return cast("dict[str, Any]", data)


# -- signatures --------------------------------------------------------------------------------


def _key_of(secret: str) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except binascii.Error:
        key = b""
    if not 24 <= len(key) <= 64:
        raise ConfigError(
            "the secret of a webhook is not the base64 text of 24 to 64 bytes",
            hint="make one with `openssl rand -base64 32`, and write `whsec_` before it",
        )
    return key


def _signed(key: bytes, id: str, at: int, body: bytes) -> dict[str, str]:
    """Return the headers that sign a body."""
    digest = hmac.new(key, _bytes(f"{id}.{at}.") + body, hashlib.sha256).digest()
    signature = f"v1,{base64.b64encode(digest).decode()}"
    return {"webhook-id": id, "webhook-timestamp": str(at), "webhook-signature": signature}


def _check(key: bytes, body: bytes, headers: Mapping[str, str]) -> None:
    given = headers.get("webhook-timestamp", "")
    if not given:
        raise PermissionError("the answer is not signed: it has no `webhook-timestamp`")
    at = int(given) if given.isascii() and given.isdigit() and len(given) < 20 else 0
    if abs(time.time() - at) > _TOLERANCE_S:
        raise PermissionError(
            "the answer was signed more than 5 minutes ago, or in the future: sign it again"
        )
    expected = _signed(key, headers.get("webhook-id", ""), at, body)["webhook-signature"]
    found = headers.get("webhook-signature", "").split(" ")
    if not any(secrets.compare_digest(_bytes(each), _bytes(expected)) for each in found):
        raise PermissionError("the signature of the answer is wrong")


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")  # a header may have any character


# -- messages ----------------------------------------------------------------------------------


def _json(question: Question, link: str) -> dict[str, Any]:
    facts = _masked(question)
    data = {
        "id": question.id,
        "tool": question.tool,
        "arguments": facts["args"],
        **{name: facts[name] for name in ("server", "agent", "rule", "reason", "session", "trace")},
        "program": facts["program"],
        "roles": facts.get("roles", []),
        "masked": facts != question.facts,
        "marked": {
            key: why[2:-1] for key, value in facts["args"].items() if (why := mark(key, value))
        },
        "expires_at": question.expires_at,
        "digest": question.digest,
        "link": link,
    }
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(question.asked_at))
    return {"type": "approval.requested", "timestamp": at, "data": data}


def _slack(question: Question, link: str) -> dict[str, Any]:
    """Return a message of blocks; its texts are plain, so that no argument becomes a link.

    Source: https://docs.slack.dev/reference/block-kit/blocks/section-block/.
    """
    title, text = _texts(question, link)
    blocks: list[dict[str, Any]] = [
        {"type": "section", "text": {"type": "plain_text", "text": each, "emoji": False}}
        for each in (title, text)
    ]
    if link:
        label = {"type": "plain_text", "text": "Answer"}
        button = {"type": "button", "text": label, "url": link}
        blocks.append({"type": "actions", "elements": [button]})
    return {"text": "A tool call waits for an answer", "blocks": blocks}


def _teams(question: Question, link: str) -> dict[str, Any]:
    """Return an Adaptive Card; text runs are plain, so that no argument becomes a link.

    Source: https://adaptivecards.io/explorer/RichTextBlock.html.
    """
    body = [
        {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": each}]}
        for each in "\n".join(_texts(question, link)).split("\n")
    ]
    card: dict[str, Any] = {"type": "AdaptiveCard", "version": "1.4", "body": body}
    if link:
        card["actions"] = [{"type": "Action.OpenUrl", "title": "Answer", "url": link}]
    kind = "application/vnd.microsoft.card.adaptive"
    return {"type": "message", "attachments": [{"contentType": kind, "content": card}]}


_FORMS = {"json": _json, "slack": _slack, "teams": _teams}


def _texts(question: Question, link: str) -> tuple[str, str]:
    """Return the title of a message, and one line for each thing to know."""
    facts = _masked(question)
    args: dict[str, Any] = facts["args"]
    known = ("reason", "server", "agent", "rule")
    lines = [f"{name.capitalize()}: {facts[name]}" for name in known if facts[name]]
    shown = list(args.items())[:_MOST_ARGUMENTS]
    lines += [
        f"{argument(key)}{mark(key, value)} = {json.dumps(value, ensure_ascii=False)}"
        for key, value in shown
    ]
    if question.wanted:
        lines.append(f"{question.wanted} must approve.")
    if facts != question.facts:
        lines.append("Some of it is masked: read the whole call where you answer.")
    if len(shown) < len(args):
        lines.append(f"... and {len(args) - len(shown)} more arguments")
    if not link:
        lines.append(f"Answer with: otelhooks approvals approve {question.id}")
    title = f"{facts['program'] or 'An agent'} wants to call {question.tool}"
    text = "\n".join(one_line(line, _LINE) for line in lines)
    return one_line(title, _LINE), text if len(text) <= _TEXT else f"{text[:_TEXT]}..."


def _masked(question: Question) -> dict[str, Any]:
    from otelhooks.telemetry.masking import Redactor

    return Redactor().mask(question.facts)
