"""From a tool to the rules that can match it: dictionaries for names, a scan only for globs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from otelhooks import types
from otelhooks.hooks.calls import Call
from otelhooks.hooks.verdict import ALLOW
from otelhooks.policy.rules import Decision, Mode, Policy, Rule
from otelhooks.policy.selectors import EXACT, PATTERN, WILDCARD

__all__ = ["Index", "Match", "ServerList"]


class Match(NamedTuple):
    """A rule that can match a tool.

    Attributes:
        rule: The rule.
        level: Level at which it is tried for this tool, as `Rule.level`.
        is_greedy: Whether it is a deny or ask for a name that may not be the tool's: a bare name or
            glob if the tool is a server's, the name that the server gives itself, one of several
            canonical names, another split of ``a/b/c``. It never makes the verdict about that tool
            milder: such an ask counts only if the call would be allowed.
    """

    rule: Rule
    level: int
    is_greedy: bool = False


class ServerList:
    """The ``enabled_tools`` or ``disabled_tools`` of a server's configuration, as a deny.

    Args:
        config: Configuration of the server.
        mode: Mode of the set.

    Attributes:
        server: Name of the server.
        is_limiting: Whether the configuration has either list.
        rule: Rule that denies are recorded under.
    """

    __slots__ = ("_disabled", "_enabled", "is_limiting", "rule", "server")

    def __init__(self, config: types.BaseMcpServerConfig, *, mode: Mode) -> None:
        self.server: str = config.name
        self._enabled = None if config.enabled_tools is None else frozenset(config.enabled_tools)
        self._disabled = frozenset(config.disabled_tools or ())
        self.is_limiting: bool = self._enabled is not None or bool(self._disabled)
        name = f"{config.name}/{'disabled' if self._enabled is None else 'enabled'}_tools"
        policy = Policy(f"{config.name}/*", Decision.DENY, name=name, id=name, hide=True)
        self.rule: Rule = Rule(
            policy, order=-1, source="mcp_servers", version="", mode=mode, id=name
        )
        self.rule.level = 0  # like exact denies: no rule that names the tool lifts it

    def denies(self, tool: str) -> bool:
        """Return whether the lists exclude a tool."""
        return tool in self._disabled or (self._enabled is not None and tool not in self._enabled)


class Index:
    """All rules, by their tool part.

    Args:
        rules: Rules of one set.
        servers: Lists of its servers.
    """

    def __init__(self, rules: Iterable[Rule], servers: Iterable[ServerList]) -> None:
        self._servers = tuple(servers)
        self._local: dict[str, list[Rule]] = {}
        self._of_server: dict[tuple[str, str], list[Rule]] = {}
        self._of_any_server: dict[str, list[Rule]] = {}
        self._kinds: dict[str, list[Rule]] = {}
        self._local_globs: list[Rule] = []
        self._server_globs: list[Rule] = []
        self._wildcards: list[Rule] = []
        for rule in rules:
            selector = rule.selector
            if selector.specificity == WILDCARD:
                self._wildcards.append(rule)
            elif selector.kind is not None:
                self._kinds.setdefault(selector.kind, []).append(rule)
            elif selector.specificity != EXACT:
                globs = self._local_globs if selector.server is None else self._server_globs
                globs.append(rule)
            elif selector.server is None:
                self._local.setdefault(selector.tool, []).append(rule)
            else:
                key = (selector.server, selector.tool)
                self._of_server.setdefault(key, []).append(rule)
                self._of_any_server.setdefault(selector.tool, []).append(rule)

    def candidates(self, call: Call) -> list[Match]:
        """Return the rules that can match a call of a tool, in the order in which they are tried.

        Args:
            call: Its arguments and agent do not matter.
        """
        server, says = call.server or None, call.server_says or None
        is_of_server = server is not None or call.claimed_server or says is not None
        if call.claimed_server:
            # An adapter that sets both does not know the application's name: use the safe reading.
            server = None
        found: list[Rule] = []
        doubtful: list[Rule] = []
        bare: list[Rule] = []
        if server is not None:
            found, doubtful = self._named(call, server, says)
        elif is_of_server:
            found, doubtful = self._unnamed(call)
        else:
            todays_name = str(types.normalize_builtin_tool_name(call.name))
            if len(call.canonical) > 1:  # it is several things: an allow for one is not enough
                found = self._bare((call.name, todays_name))
                doubtful = self._bare(call.canonical)
            else:
                found = self._bare((call.name, todays_name, *call.canonical))
            if "/" in call.name:
                # A bridge may name a server's tool like this: what denies one denies the other.
                of_server, _, tool = call.name.partition("/")
                doubtful += self._of(of_server, tool)
                bare = self._bare((tool, tool.rpartition("/")[2]))
            found += self._kinds.get(call.kind or "", ())
        if is_of_server:
            bare = self._bare((call.name,))
        unique = {id(r): Match(r, _as_pattern(r.level), True) for r in _strict(bare)}
        unique |= {id(r): Match(r, r.level, True) for r in _strict(doubtful)}
        unique |= {id(r): Match(r, r.level) for r in (*found, *self._wildcards)}
        return sorted(unique.values(), key=lambda match: (match.level, match.rule.order))

    def _bare(self, names: Sequence[str]) -> list[Rule]:
        found = [rule for name in names for rule in self._local.get(name, ())]
        globs = self._local_globs
        return found + [r for r in globs if any(map(r.selector.fits_tool, names))]

    def _named(self, call: Call, server: str, says: str | None) -> tuple[list[Rule], list[Rule]]:
        """Return certain and doubtful rules for a tool of a server that the application named.

        The name that the server gives itself, and further names of the tool, such as the one that
        a model sees, match deny and ask rules only. So does a reading of ``a/b/c`` as tool ``b/c``
        of server ``a``, if the server is called ``a/b``: rules are read that way.
        """
        doubtful = self._bare(call.canonical)
        doubtful += [rule for name in call.canonical for rule in self._of(server, name)]
        if says is not None:
            doubtful += [r for n in (call.name, *call.canonical) for r in self._of(says, n)]
        if "/" in server:
            doubtful += self._of(*f"{server}/{call.name}".split("/", 1))
        found = [*self._of(server, call.name), *self._kinds.get(call.kind or "", ())]
        names = (server, says)
        lists = [s.rule for s in self._servers if s.server in names and s.denies(call.name)]
        return found + lists, doubtful

    def _unnamed(self, call: Call) -> tuple[list[Rule], list[Rule]]:
        """Return lists that deny a tool of an unnamed server, and rules of every server."""
        doubtful = self._bare(call.canonical)
        names = (call.name, *call.canonical)
        doubtful += [rule for name in names for rule in self._of_any_server.get(name, ())]
        doubtful += [r for r in self._server_globs if any(map(r.selector.fits_tool, names))]
        doubtful += self._kinds.get(call.kind or "", ())
        return [s.rule for s in self._servers if s.denies(call.name)], doubtful

    def _of(self, server: str, tool: str) -> list[Rule]:
        globs = [r for r in self._server_globs if r.selector.fits(server, tool)]
        return [*self._of_server.get((server, tool), ()), *globs]


def _as_pattern(level: int) -> int:
    """Return the level of a bare name for a server's tool: that of ``*/name``."""
    return level + 3 * PATTERN if 0 <= level < 3 * PATTERN else level


def _strict(rules: Iterable[Rule]) -> list[Rule]:
    return [rule for rule in rules if rule.decision != ALLOW]
