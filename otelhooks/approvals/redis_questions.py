"""Questions on a Redis server: of processes on several hosts. Needs ``otelhooks[redis]``.

A question is a hash of its fields, which Redis forgets after `KEPT_S`, and a sorted set lists them.
A key for each parked call holds the id of its latest question.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from otelhooks.approvals.questions import KEPT_S, Question, Questions
from otelhooks.store.redis_server import RedisServer

__all__ = ["RedisQuestions"]

_LIST, _EACH = "otelhooks:questions", "otelhooks:question:"
_PARKED = "otelhooks:parked:"

_PUT = """
if KEYS[3] then
  local id = redis.call('GET', KEYS[3])
  if id and redis.call('HGET', ARGV[4] .. id, 'taken') == '0' then return 0 end
  redis.call('SET', KEYS[3], ARGV[3], 'EX', ARGV[1])
end
redis.call('HSET', KEYS[1], unpack(ARGV, 5))
redis.call('EXPIRE', KEYS[1], ARGV[1])
redis.call('ZADD', KEYS[2], ARGV[2], ARGV[3])
if redis.call('TTL', KEYS[2]) < tonumber(ARGV[1]) then redis.call('EXPIRE', KEYS[2], ARGV[1]) end
return 1
"""
_CHANGE = """
for at = 2, 1 + 2 * ARGV[1], 2 do
  if redis.call('HGET', KEYS[1], ARGV[at]) ~= ARGV[at + 1] then return 0 end
end
redis.call('HSET', KEYS[1], unpack(ARGV, 2 + 2 * ARGV[1]))
return 1
"""
"""A script is one step for Redis: https://redis.io/docs/latest/develop/programmability/eval-intro/."""


class RedisQuestions(Questions):
    """The questions of one server and database.

    Args:
        address: ``redis://[user:password@]host:port/number``, or ``rediss://`` for TLS.

    Raises:
        ConfigError: The address or the server cannot be used, or the package is missing.
    """

    def __init__(self, address: str) -> None:
        server = RedisServer(address, "questions")
        self._redis, self._problems = server.client, server.problems
        with self._problems():
            self._redis.ping()

    def put(self, question: Question) -> bool:
        """Write a question down; Redis forgets it long after its end."""
        fields = {name: _text(value) for name, value in dataclasses.asdict(question).items()}
        kept_s = int(question.expires_at - question.asked_at) + KEPT_S
        pairs = [each for pair in fields.items() for each in pair]
        keys = [_EACH + question.id, _LIST, *([_PARKED + question.parked] * bool(question.parked))]
        args = (kept_s, question.asked_at, question.id, _EACH, *pairs)
        with self._problems():
            return bool(self._redis.eval(_PUT, len(keys), *keys, *args))

    def get(self, id: str) -> Question | None:
        """Return a question as it is kept, None if there is none with this id."""
        with self._problems():
            fields = self._redis.hgetall(_EACH + id)
        return _question(fields) if fields else None

    def of_parked(self, key: str) -> Question | None:
        """Return the question about a parked call whose answer has not been taken yet."""
        with self._problems():
            id = self._redis.get(_PARKED + key)
        found = self.get(id) if id else None
        return None if found is None or found.taken else found

    def kept(self) -> list[Question]:
        """Return all questions, the oldest first."""
        with self._problems():
            ids = self._redis.zrange(_LIST, 0, -1)
        found = {id: self.get(id) for id in ids}
        gone = [id for id, question in found.items() if question is None]
        if gone:
            with self._problems():
                self._redis.zrem(_LIST, *gone)
        return [question for question in found.values() if question is not None]

    def change(self, id: str, has: Mapping[str, str], fields: Mapping[str, Any]) -> bool:
        """Change fields of a question if others have these texts; return whether they had."""
        pairs = [_text(each) for pair in (*has.items(), *fields.items()) for each in pair]
        with self._problems():
            return bool(self._redis.eval(_CHANGE, 1, _EACH + id, len(has), *pairs))


_READ: dict[str, Callable[[str], Any]] = {
    "asked_at": float,
    "expires_at": float,
    "taken": lambda text: text == "1",
    "needs": int,
}


def _question(fields: Mapping[str, str]) -> Question:
    known = {each.name for each in dataclasses.fields(Question)}  # a later version may write more
    return Question(
        **{name: _READ.get(name, str)(text) for name, text in fields.items() if name in known}
    )


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)
