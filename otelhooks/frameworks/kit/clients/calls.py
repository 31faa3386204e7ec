# pyright: basic
"""Model calls at a client's own seat, where a loop that no adapter knows reads the answer.

A client runs no tools. So each call in an answer is judged before the loop sees the answer, like a
call at a tool's own seat. A denied one does not reach the loop: the model is asked again, with the
reason as the call's result, or reads the reason with the results of the answer's other calls. What
a tool seat then runs with the same id, name and arguments keeps the same verdict.

If the loop got hold of a denied call all the same, its next request contains the result: that is a
coverage gap, and under ``strict=True`` the request is not sent. Decision code: fails closed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

from opentelemetry import context as otel_context
from opentelemetry.context import attach, detach

from otelhooks.errors import Denied
from otelhooks.frameworks.kit import json_text
from otelhooks.frameworks.kit.models import ModelCall, Part
from otelhooks.frameworks.kit.passages import SKIP
from otelhooks.frameworks.kit.unjudged import could_deny
from otelhooks.hooks.calls import Call
from otelhooks.hooks.drive import Raised
from otelhooks.hooks.said import Message, spoken_in
from otelhooks.hooks.verdict import refusal
from otelhooks.pipeline import runtime
from otelhooks.pipeline.answers import (
    Answers,
    AnswerSeat,
    Asked,
    Owner,
    digest_of,
    frame_of,
    returned,
    stopped_since,
)
from otelhooks.pipeline.drivers import Closed, Operation
from otelhooks.pipeline.frames import Op, current_scope
from otelhooks.pipeline.runtime import Runtime
from otelhooks.pipeline.runtime import log as _log
from otelhooks.pipeline.tool_call import tool
from otelhooks.plain_text import LOGGED, one_line
from otelhooks.process import forks
from otelhooks.records import semconv
from otelhooks.telemetry.quiet import report
from otelhooks.types import ModelResponse

__all__ = ["IN_PART", "ON_DENIED", "Call", "ClientCall", "UnreadCall"]

ON_DENIED = ("tell", "drop", "raise")
"""The values of the option ``on_denied``, the default first."""

_SENT = "unless the client or `otelhooks.call_tool` runs it, a result is seen when it is sent"
IN_PART = {"tool.post": _SENT}
"""For `Adapter`: the loop is often the application's own."""

_MOST_TIMES = 5
"""How often one request is repeated because every call in its answer was denied."""

_TEXT = "arguments"
_lock = forks.held_over_forks()


class ClientCall(ModelCall):
    """One request for a model's answer, in JSON, made by code that no adapter guards.

    ``messages`` are those of the request. An answer's `parts` that are calls have the model's text
    of the arguments as ``text``, or none if the API has them as data; results have a text.

    Attributes:
        holds_calls: Whether calls in a stream must wait, because one could be denied.
        must_read: Whether an answer that cannot be read is an error, because something could deny a
            call in it, or change it.
        must_retell: Whether a consumer may read items of a stream otherwise than `joined`, which
            sets it: then it gets items that tell what was judged.
    """

    words = (
        "said with_calls with_result with_args repeats shows joined events asked_for can_tell "
        "passes must_retell origin bare"
    )
    must = ("read", "call", "answer", "bare", "said", "with_calls", "with_result", "with_args")
    seat: ClassVar[AnswerSeat]
    holds_calls = must_read = False
    must_retell = False
    serves_others = True
    _is_left = False
    _origins: Mapping[int, tuple[Any, Any]] = MappingProxyType({})

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.seat = AnswerSeat(cls.framework)

    # -- what an adapter writes ---------------------------------------------------------------

    def bare(self, answer: Any) -> Any:
        """Return an answer without what repeats its text, or tells how the model came to it."""
        raise NotImplementedError

    def said(self, answer: Any) -> list[Any]:
        """Return the messages by which a later request repeats an answer."""
        raise NotImplementedError

    def with_calls(
        self, messages: list[Any], at: int, calls: Sequence[tuple[Any, str, str]]
    ) -> list[Any]:
        """Return messages with further calls and their results.

        Args:
            messages: Of a request.
            at: Which of them repeats the answer, or the end of it.
            calls: The API's part, the id, and the text of the result of each.
        """
        raise NotImplementedError

    def with_result(self, message: Any, part: Part, text: str) -> Any:
        """Return a message with another text in one of its results."""
        raise NotImplementedError

    def with_args(self, part: Part, args: dict[str, Any], text: str) -> Any:
        """Return the API's part for a call with other arguments: as data, and as JSON text."""
        raise NotImplementedError

    def repeats(self, index: int) -> bool:
        """Return whether `with_calls` may add to a message in which there is an id of a call."""
        return any(part.kind == "call" for part in self.parts(self.messages[index]))

    def asked_for(self, part: Part) -> Call:
        """Return a call of an answer as rules see it, without its arguments."""
        return Call(part.name, {}, part.id or None)

    def can_tell(self, part: Part) -> bool:
        """Return whether a call can have a text as its result; otherwise the reason follows."""
        return bool(part.id)

    def passes(self, request: str) -> Any:
        """Report a request about which no rule is asked; return what `read` returns.

        It is logged, or refused under ``strict=True``, as soon as anything can deny.

        Args:
            request: What asks a model, and how.
        """
        rt = runtime.active()
        if rt is None or not rt.loaded.can_deny or self.is_inner():
            return SKIP
        if self.is_unsupported:
            return None
        text = f"{request}, which no rule is asked about"
        if rt.refuses:
            self.function = functools.partial(_refuse, text)
        else:
            rt.warn_once(text, "%s", text)
        return SKIP

    def joined(self, events: list[Any]) -> Any:
        """Return the answer that the items of a stream tell."""
        raise NotImplementedError

    def events(self, data: Any, shown: list[Any]) -> Iterable[Any]:
        """Return the items that tell an answer to a consumer that has some of them."""
        raise NotImplementedError

    def shows(self, event: Any) -> str:
        """Return what an item of a stream shows: ``text``, ``call``, or nothing yet."""
        raise NotImplementedError

    # -- what the kit makes of it -------------------------------------------------------------

    def steps(self, rt: Runtime) -> Operation:
        context = otel_context.get_current()
        # The model may ask for any tool, also for one that this request does not offer.
        place = frame_of(rt, context)
        self.holds_calls = could_deny(place.branch, None, frozenset())
        scope = current_scope()
        self.must_read = rt.loaded.can_deny or (scope is not None and scope.widens)
        said: tuple[Message, ...] = ()
        is_quiet = not rt.loaded.listens and scope is None and rt.candidate is None
        if place.outer is None and not is_quiet and rt.listens(scope):  # a run or call knows better
            said = self._spoken(place)  # as the loop sent it: hooks may add what others wrote
        with _lock:
            answers = rt.answers = rt.answers or Answers()
        owner = Owner.of(rt, place, context)
        if (refused := (yield from self._check(rt, answers, place.session.id))) is not None:
            return refused
        for _ in range(_MOST_TIMES + 1):
            before, self.first_chunk_ns = self.messages, 0
            self._events, self._held, self._is_closed, self.must_retell = [], [], False, False
            raw = yield from self._watched(context, ModelCall.steps(self, rt))
            if type(raw) is Raised or self._is_left:
                return raw
            parts = list(self.parts(raw))
            found = yield from self._watched(context, self._judge(rt, place, owner, parts, said))
            denied = [(part, asked) for part, asked in found if asked.reason is not None]
            if found:
                _, judged = zip(*found, strict=True)
                answers.book(*judged)
            if not denied:
                return self._allowed(raw, parts, found)
            how = "raise" if rt.raise_on_deny else self.option("on_denied")
            reasons = [asked.reason or "" for _, asked in denied]
            if how == "raise":
                return Raised(refusal(reasons[0], denied[0][1].verdict))
            kept = self._kept(parts, found)
            left = [asked for _, asked in found if asked.reason is None]
            told = [(part.native, asked.id, asked.reason or "") for part, asked in denied]
            can_tell = how != "drop" and all(self.can_tell(part) for part, _ in denied)
            if can_tell and left:
                left[-1].beside = tuple(told)
                return self.composed(kept, raw)
            if self.has_shown or not can_tell:
                return self.composed([*kept, *_texts(reasons)], raw)
            messages = [*before, *self.said(self.composed(kept, raw))]
            self.messages = self.with_calls(messages, len(messages) - 1, told)
            self.is_rewritten = True
        return Raised(refusal(reasons[0], denied[0][1].verdict))

    # -- streams ------------------------------------------------------------------------------

    _shown = 0
    _told: Any = None
    _note_next: Any = None

    @property
    def has_shown(self) -> bool:
        """Whether the consumer of a stream has something of the present answer."""
        return self._shown > 0

    @classmethod
    def needs(cls, kind: str) -> tuple[str, ...]:
        return ()

    def event_of(self, item: Any) -> Any:
        """Return an item of a stream in the form that `shows`, `joined` and `events` use."""
        return item

    def driver(self, run: Callable[..., Any]) -> Callable[..., Any]:
        driver = super().driver(run)
        return functools.partial(driver, on_first=lambda: None, release=self.release)

    def release(self, item: Any) -> Iterable[Any]:
        """Return what the loop may have: calls only when they were judged, texts at once.

        If a hook may change the answer, texts wait as well.
        """
        if not self._events:
            self._note_next = self.note_first_chunk()
        elif self._note_next is not None:
            self._note_next()
        event = self.event_of(item)
        self._events.append(event)
        what = self.shows(event) if self.holds_calls else "text"
        self._is_closed = self._is_closed or what == "call" or self.holds()
        self._held.append(item)
        if self._is_closed or not (what or self._shown):
            return ()
        ready, self._held = self._held, []
        self._shown = len(self._events)
        return ready

    def whole(self, seen: Any) -> Any:
        try:
            self._told = self.as_answer(self._events)
        except Exception as error:
            self.unreadable(error)
            self._told = self.as_answer([])
        return self._told

    def unreadable(self, error: Exception) -> None:
        """Raise the error of reading an answer, if a call that a rule denies may be in it."""
        if self.must_read:
            raise error
        report("an answer", error)

    def as_answer(self, events: list[Any]) -> Any:
        """Return what the events of a stream say, as one answer; see `joined`."""
        return self.joined(events)

    def told(self, result: Any) -> list[Any]:
        if result is self._told and not (self.must_retell and self._held):
            return self._held
        return list(self.events(result, self._events[: self._shown]))

    # -- answers ------------------------------------------------------------------------------

    def args_of(self, part: Part) -> dict[str, Any]:
        return json_text.read(part.text, _TEXT) if part.text else dict(part.args or {})

    def rewritten(self, part: Part, new: Part) -> Part:
        if new.name != part.name:
            return new._replace(native=self._made_from(part, self.table.make(new)))
        text = json_text.write(part.text, _TEXT, new.args, True) if part.text else ""
        return part._replace(native=self._made_from(part, self.with_args(part, new.args, text)))

    def changed(self, raw: Any, response: Any) -> Any:
        made = super().changed(raw, response)
        told = (part.text for part in self.parts(raw) if part.kind == "text")
        new = response.text if isinstance(response, ModelResponse) else str(response)
        return made if new == self.table.between.join(told) else self.bare(made)

    def _made_from(self, part: Part, native: Any) -> Any:
        self._origins = {**self._origins, id(native): (native, self.origin(part.native))}
        return native

    def origin(self, native: Any) -> Any:
        """Return the part of the model's answer that was changed to one; itself if it was not."""
        return self._origins.get(id(native), (native, native))[1]

    def _watched(self, context: Any, operation: Operation) -> Operation:
        """Run an operation where this one began, wherever a stream's consumer is by now."""
        value: Any = None
        go_on: Any = operation.send
        while True:
            token = attach(context)
            try:
                effect = go_on(value)
            except StopIteration as stop:
                return stop.value
            finally:
                detach(token)
            go_on = operation.send
            try:
                value = yield effect
            except GeneratorExit:
                operation.close()
                raise
            except BaseException as error:
                go_on, value = operation.throw, error
            self._is_left = self._is_left or type(value) is Closed

    def _judge(
        self,
        rt: Runtime,
        place: Op,
        owner: Owner,
        parts: list[Part],
        said: tuple[Message, ...],
    ) -> Operation:
        stops = rt.stopped
        judged: list[tuple[Part, Call, tuple[str, str], Asked]] = []
        for part in parts:
            if part.kind == "call":
                call = self.asked_for(part)
                call.args = self.args_of(part)
                call.raw = part.text or None
                given = digest_of(call.name, call.args)
                call.said = said
                judged.append((part, call, given, (yield from tool(rt, self.seat, call))))
        found: list[tuple[Part, Asked]] = []
        for part, call, given, asked in judged:
            if rt.stopped is not stops:  # the answer waited for people, or a hook
                asked = yield from stopped_since(rt, self.seat, call, asked)
            asked.given, asked.session, asked.owner = given, place.session.id, owner
            asked.said = said
            found.append((part, asked))
        return found

    def _spoken(self, place: Op) -> tuple[Message, ...]:
        """Return what the user said in the request."""
        speaker = place.session.context.speaker()
        texts = map(spoken_in, self.natives())
        return tuple(Message(text, speaker) for text in texts if text is not None)

    def _allowed(self, raw: Any, parts: list[Part], found: list[tuple[Part, Asked]]) -> Any:
        kept = self._kept(parts, found)
        is_same = all(one is part for one, part in zip(kept, parts, strict=True))
        return raw if is_same else self.composed(kept, raw)

    def _kept(self, parts: list[Part], found: list[tuple[Part, Asked]]) -> list[Part]:
        """Return an answer's parts without denied calls, with the approved arguments."""
        by = {id(part): asked for part, asked in found}
        kept: list[Part] = []
        for part in parts:
            asked = by.get(id(part))
            if asked is None:
                kept.append(part)
            elif asked.reason is None:
                args, text, is_changed = asked.args, part.text, asked.digest != asked.given
                if text:
                    text = json_text.write(text, _TEXT, args, is_changed)
                    is_changed = text != part.text
                if is_changed:
                    native = self._made_from(part, self.with_args(part, args, text))
                    part = part._replace(native=native)
                kept.append(part)
        return kept

    # -- results in the next request ----------------------------------------------------------

    def _check(self, rt: Runtime, answers: Answers, session: str) -> Operation:
        """Look at the results in the request; return a refusal, or None if it may be sent."""
        calls: dict[tuple[str, str], Part] = {}
        beside: dict[int, tuple[Any, ...]] = {}
        for index, message in enumerate(self.messages):
            for part in self.parts(message):
                if part.kind not in ("call", "result"):
                    continue
                if part.kind == "call":
                    calls[_place(part)] = calls[part.id, ""] = part
                asked = _asked(answers, session, part.id, calls.get(_place(part)))
                if asked is None:
                    continue
                if asked.beside:
                    beside[index] = beside.get(index) or asked.beside
                if part.kind == "call" or asked.is_judged:
                    continue
                if asked.reason is not None:
                    if self._tell_gap(rt, asked):
                        reason = f"The result of `{asked.name}` was not sent: {asked.reason}"
                        return Raised(refusal(reason, asked.verdict))
                    continue
                heard = asked.heard  # once: other requests may send the same result meanwhile
                if heard is None or heard[0] != hash(part.text):
                    text = yield from returned(rt, self.framework, asked, part.text)
                    if type(text) is Raised:
                        return text  # what could not be checked is not sent
                    answers.close(asked)
                    told = None if text == part.text else str(text)
                    heard = asked.heard = hash(part.text), told
                if heard[1] is not None:
                    message = self.with_result(message, part, heard[1])
                    self.messages[index], self.is_rewritten = message, True
        for index in sorted(beside, reverse=True):
            if self.repeats(index):
                # Denied calls come back beside those that the loop was shown, each with its reason.
                self.messages = self.with_calls(self.messages, index, beside[index])
                self.is_rewritten = True
        return None

    def _tell_gap(self, rt: Runtime, asked: Asked) -> bool:
        """Report that a denied tool ran; return whether the request is refused."""
        rt.instruments.coverage_gaps.cell({semconv.ADAPTER_FRAMEWORK: self.framework}).add(1, None)
        _log.error(
            "coverage gap: tool `%s` (%s) was denied, and the loop sent a result of it",
            one_line(asked.name, LOGGED),
            self.framework,
        )
        asked.is_judged = not rt.refuses  # reported once
        return rt.refuses


class UnreadCall(ClientCall):
    """A request in a form that nothing here reads: `read` returns what `passes` does."""

    must = ("read",)


def _refuse(text: str, *args: Any, **kwargs: Any) -> Any:
    raise Denied(text)


def _texts(reasons: Iterable[str]) -> list[Part]:
    return [Part("text", text=reason) for reason in reasons]


def _place(part: Part) -> tuple[str, str]:
    """Return what a result and its call share: the id, or without one the name, if it has it."""
    return part.id, "" if part.id else part.name


def _asked(answers: Answers, session: str, id: str, told: Part | None) -> Asked | None:
    """Return a call that an answer asked for, given the part of the request that repeats it.

    A request that does not repeat it has a provider that keeps the conversation.
    """
    if told is None:
        return answers.find(session, id)
    args: Any = json_text.read(told.text, _TEXT) if told.text else told.args or {}
    return answers.find(session, id, digest_of(told.name, args))
