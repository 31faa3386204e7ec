"""Questions that one process asks, and another one answers.

Decision code: fails closed. An answer contains the hash of the question that the approver saw, and
counts only if the process that waits has asked exactly that. Each question is answered once. No
process waits for that of a parked call: the one that resumes the call takes the answer, once.

Where questions are kept is a `Questions` with five steps: `store_questions` in the local store, and
`redis_questions` on a Redis server.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from otelhooks.errors import ConfigError
from otelhooks.plain_text import is_unseen, one_line

__all__ = ["KEPT_S", "Answer", "Question", "Questions", "check", "is_role"]

KEPT_S = 7 * 86_400
"""How long questions that have ended are listed, in seconds."""

_NAME = 60  # most columns of a name that is quoted

_OPEN = {"status": "pending"}
_ENDED = {"approved", "rejected"}


@dataclass(frozen=True, slots=True)
class Question:
    """A call that waits for an approver, or no longer does.

    Attributes:
        id: Eight hexadecimal digits.
        asked_at: Seconds since the Unix epoch.
        expires_at: When no answer denies; seconds since the epoch.
        status: ``pending``, ``approved``, ``rejected``, ``expired`` or ``withdrawn``.
        tool: Name of the tool.
        about: What is asked, as JSON text: the call, its agent, its rule, and the program. Empty
            once the question has ended, because arguments are content.
        approver: Who has answered, or has approved so far, comma-separated; empty if no one has.
        roles: For which role each of them has approved, comma-separated, if the question asks for
            roles.
        kind: ``human``, or ``service`` if one of them is.
        edit: Arguments that the approver changed, as JSON text; empty for none, `{}` once taken.
        seen: `digest` of the question that the approver saw.
        taken: Whether the process that asked, or resumed the call, has the answer.
        needs: How many must approve.
        parked: Key of a call whose run is parked; empty if its process waits for the answer.
    """

    id: str
    asked_at: float
    expires_at: float
    status: str
    tool: str
    about: str
    approver: str = ""
    kind: str = ""
    edit: str = ""
    seen: str = ""
    taken: bool = False
    needs: int = 1
    parked: str = ""
    roles: str = ""

    @property
    def digest(self) -> str:
        """Hash of what is asked."""
        return hashlib.sha256(f"{self.id} {self.tool} {self.about}".encode()).hexdigest()

    @property
    def facts(self) -> dict[str, Any]:
        """What is asked: ``args``, ``server``, ``agent``, ``rule``, ``reason``, ``program``..."""
        return json.loads(self.about) if self.about else {}

    @property
    def by(self) -> str:
        """Who has answered or approved, each with the role for which they have."""
        if not self.roles:
            return self.approver
        pairs = zip(self.approver.split(", "), self.held, strict=False)
        return ", ".join(f"{name} ({role})" for name, role in pairs)

    @property
    def held(self) -> list[str]:
        """Roles for which people have approved."""
        return self.roles.split(", ") if self.roles else []

    @property
    def missing(self) -> list[str]:
        """Roles for which someone has yet to approve; empty if any approver will do."""
        wanted: list[str] = self.facts.get("roles", [])
        return list((Counter(wanted) - Counter(self.held)).elements())

    @property
    def wanted(self) -> str:
        """Who must approve, in words; empty if any one approver will do."""
        roles = self.facts.get("roles", ())
        return " and ".join(roles) or (str(self.needs) if self.needs > 1 else "")


@dataclass(frozen=True, slots=True)
class Answer:
    """How a question ended.

    Attributes:
        status: ``approved`` or ``rejected``; what else ends a question gives no answer.
        approver: Who answered.
        edit: Arguments that they changed.
        kind: ``human`` or ``service``.
        roles: Roles of the approver. Who hands in the answer vouches for name and roles.
    """

    status: str
    approver: str = ""
    edit: dict[str, Any] | None = None
    kind: str = "human"
    roles: tuple[str, ...] = ()


class Questions:
    """Where questions are kept."""

    def prepare(self) -> None:
        """Check, before the first question at the latest, that questions can be kept here.

        Raises:
            ConfigError: They cannot.
        """

    # -- what a place does: each step is atomic, and raises ConfigError on failure --------------

    def put(self, question: Question) -> bool:
        """Keep a question for `KEPT_S` after it has ended.

        Returns:
            Whether it is kept: not if `of_parked` has one for the same parked call.
        """
        raise NotImplementedError

    def get(self, id: str) -> Question | None:
        """Return a question as it is kept, None if there is none with this id."""
        raise NotImplementedError

    def of_parked(self, key: str) -> Question | None:
        """Return the question about a parked call whose answer has not been taken yet."""
        raise NotImplementedError

    def kept(self) -> list[Question]:
        """Return all questions, the oldest first."""
        raise NotImplementedError

    def change(self, id: str, has: Mapping[str, str], fields: Mapping[str, Any]) -> bool:
        """Change fields of a question if others have these texts; return whether they had."""
        raise NotImplementedError

    # -- what is done with them ---------------------------------------------------------------

    def answer_of(self, question: Question) -> Answer | None:
        """Return how a question ended, None if it has not yet; an answer counts as taken.

        Args:
            question: As it was asked.

        Raises:
            ConfigError: The answer is for another question, or the question is gone.
        """
        found = self.get(question.id)
        if found is None:
            raise ConfigError(
                f"question {question.id} was removed from its store before it was answered",
                hint="let the agent call the tool again",
            )
        if found.status == "pending":
            return None
        answer = _answer_in(found, question)
        if found.status in _ENDED:
            self.change(question.id, {"status": found.status}, _taken(found))
        return answer

    def parked(self, key: str) -> Question | None:
        """Return the question about a parked call, as `of_parked` does; expired if it has."""
        found = self.of_parked(key)
        if found is None or (now := _as_of_now(found)).status == found.status:
            return found
        self.change(found.id, _OPEN, {"status": now.status})
        return dataclasses.replace(found, status=now.status)

    def take(self, question: Question, now: Question) -> Answer | None:
        """Take the answer of a parked question that has ended; None if it was taken meanwhile.

        Args:
            question: As it is kept.
            now: As it would be asked now.

        Raises:
            ConfigError: The answer is for another call.
        """
        has = {"status": question.status, "taken": "0"}
        if not self.change(question.id, has, _taken(question)):
            return None
        if question.status == "approved" and _shown(question) != _shown(now):
            raise _for_another(question)
        needs = max(question.needs, now.needs)
        return _answer_in(question, dataclasses.replace(question, needs=needs))

    def withdraw(self, question: Question) -> None:
        """End a question that no one waits for any more, if it is still open."""
        is_over = time.time() + 1 >= question.expires_at  # who waits may stop a little early
        status = "expired" if is_over else "withdrawn"
        self.change(question.id, _OPEN, {"status": status, "about": ""})

    def answer(self, question: Question, answer: Answer) -> str:
        """Answer a question that is open; return its status now.

        It stays ``pending`` if more must approve, who do not change arguments any more.

        Args:
            question: As it was shown to the approver.
            answer: For the call that the approver saw.

        Raises:
            ConfigError: It has been answered, by this approver or by all; has expired, or was
                withdrawn; asks for a role that the approver does not have; or an edit would change
                what others have approved.
        """
        by = answer.approver.strip()
        while True:
            now = self.pending(question.id)
            roles = check(now, answer)
            before = now.approver.split(", ") if now.approver else []
            is_approved = answer.status == "approved"
            is_enough = not is_approved or len(before) + 1 >= now.needs
            fields: dict[str, Any] = {
                "status": answer.status if is_enough else "pending",
                "approver": ", ".join([*before, by]) if is_approved else by,
                "roles": roles,
                "kind": now.kind if is_approved and now.kind == "service" else answer.kind,
                "edit": "" if answer.edit is None else json.dumps(answer.edit),
                "seen": question.digest,
            }
            if is_enough and not now.parked:
                fields["about"] = ""  # who waits knows it
            if before and now.seen != question.digest:
                raise _for_another(question)
            if self.change(question.id, {**_OPEN, "approver": now.approver}, fields):
                return fields["status"]

    def all(self) -> list[Question]:
        """Return the questions of the last days, the oldest first."""
        return [_as_of_now(one) for one in self.kept()]

    def find(self, id: str) -> Question:
        """Return a question.

        Args:
            id: Its id, or the first digits of it, if no other has them.

        Raises:
            ConfigError: There is none with this id, or several.
        """
        if (exact := self.get(id)) is not None:
            return _as_of_now(exact)
        found = [one for one in self.kept() if id and one.id.startswith(id)]
        if len(found) == 1:
            return _as_of_now(found[0])
        what = "several questions start with" if found else "there is no question"
        raise ConfigError(
            f"{what} `{one_line(id)}`", hint="list them with `otelhooks approvals list --all`"
        )

    def pending(self, id: str) -> Question:
        """Return a question that is open.

        Raises:
            ConfigError: There is none with this id, or it has ended.
        """
        question = self.find(id)
        if question.status != "pending":
            by = f" by {question.by}" if question.by else ""
            raise ConfigError(
                f"question {id} is already {question.status}{by}",
                hint="list what is open with `otelhooks approvals list`",
            )
        return question


def _as_of_now(question: Question) -> Question:
    """Return a question as expired if it has: a killed process does not withdraw its own."""
    if question.status != "pending" or time.time() < question.expires_at:
        return question
    return dataclasses.replace(question, status="expired", about="")


def _taken(question: Question) -> dict[str, Any]:
    """Return the fields of a question whose answer was taken; arguments are kept no longer."""
    return {"taken": True, "about": "", "edit": "{}" if question.edit else ""}


def is_role(name: str) -> bool:
    """Return whether a text can name one role, or one approver."""
    return bool(name.strip()) and "," not in name and not any(map(is_unseen, name))


def _folded(name: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def check(question: Question, answer: Answer) -> str:
    """Return for which roles people have approved, with an answer that an open question takes.

    Raises:
        ConfigError: It does not take it; see `Questions.answer`.
    """
    by = answer.approver.strip()
    if not is_role(by):
        raise ConfigError(
            f"`{one_line(answer.approver)}` is not the name of one approver",
            hint="name one, without a comma",
        )
    if _folded(by) in map(_folded, question.approver.split(", ")):
        raise ConfigError(
            f"{by} has approved question {question.id} already",
            hint="someone else must approve it as well",
        )
    if answer.edit is not None and question.needs > 1:
        raise ConfigError(
            f"question {question.id} needs {question.needs} approvers of the same call",
            hint="deny it, and let the agent call again",
        )
    return _roles(question, answer) if answer.status == "approved" else ""


def doubts(question: Question, edit: Mapping[str, Any] | None) -> str:
    """Return what to warn an approver of: names and types in an edit that the call does not have.

    The tool may take them: a question does not know its parameters. If a name is misspelt, many
    frameworks drop it, and the person would have changed nothing; a rule or tool that gets a text
    for a number fails.
    """
    args: Mapping[str, Any] = question.facts.get("args", {})
    found = [_added(args, edit or {})]
    for name, value in (edit or {}).items():
        was, is_now = _kind(args.get(name)), _kind(value)
        if was and is_now and was != is_now:
            found.append(
                f"`{one_line(name, _NAME)}` is {was} in the call, and {is_now} in the edit"
            )
    return "; ".join(filter(None, found))


def _kind(value: Any) -> str:
    """Return what a value in JSON is, in words; empty for null."""
    return _KINDS.get(type(value).__name__, "")


_KINDS = {
    "bool": "a boolean",
    "int": "a number",
    "float": "a number",
    "str": "a text",
    "list": "a list",
    "dict": "an object",
}


def _added(args: Mapping[str, Any], edit: Mapping[str, Any]) -> str:
    new, has = (
        ", ".join(f"`{one_line(name, _NAME)}`" for name in names)
        for names in ([name for name in edit if name not in args], args)
    )
    return new and f"the call does not have {new}; it has {has or 'no arguments'}"


def _roles(question: Question, answer: Answer) -> str:
    """Return for which roles people have approved, with that of one more answer.

    Raises:
        ConfigError: The approver has none of the roles that are missing.
    """
    missing = question.missing
    if not missing:
        return ""
    role = next((role for role in answer.roles if role in missing), None)
    if role is None:
        raise ConfigError(
            f"question {question.id} waits for the approval of {' and '.join(missing)}",
            hint="someone with that role must approve it, such as by `--role`; anyone may deny it",
        )
    return ", ".join(filter(None, (question.roles, role)))


def _shown(question: Question) -> list[Any]:
    """Return what an approver reads of a call, and which roles must approve."""
    names = ("args", "server", "agent", "rule", "roles")
    return [question.tool, *(question.facts.get(name) for name in names)]


def _answer_in(found: Question, question: Question) -> Answer:
    """Return the answer in a question as it is kept, if it is for the question that was asked."""
    if found.status not in _ENDED:
        return Answer(found.status)
    by = len(found.approver.split(", ")) if found.status == "approved" else question.needs
    roles: list[str] = question.facts.get("roles", [])
    is_right = found.status != "approved" or sorted(found.held) == sorted(roles)
    if found.seen != question.digest or by < question.needs or not is_right:
        raise _for_another(question)
    edit = json.loads(found.edit) if found.edit else None
    return Answer(found.status, found.by, edit, found.kind)


def _for_another(question: Question) -> ConfigError:
    return ConfigError(
        f"the answer to question {question.id} is for another call, and does not count",
        hint="another program changes questions: let only this user write where they are kept",
    )
