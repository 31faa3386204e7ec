"""``otelhooks doctor``: which frameworks are guarded here, and how far."""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import os
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import click

from otelhooks import __version__
from otelhooks.cli import ExitCode
from otelhooks.cli.doctor_rows import (
    columns,
    coverage,
    fitted,
    gaps,
    installed,
    more,
    problems,
)
from otelhooks.cli.policy import policy_option
from otelhooks.config import Config, load
from otelhooks.patching.adapters import ABSENT
from otelhooks.patching.builtin import BuiltIn
from otelhooks.plain_text import counted, sanitize
from otelhooks.records import semconv
from otelhooks.setup import catalogue, guarded, tracers
from otelhooks.setup.kinds import HINT, unmatched

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from otelhooks.patching.patches import Adapter, Coverage
    from otelhooks.setup.policies import Policies


class Proof(Protocol):
    """What ``prove_all`` reports of one framework: whether a denied body did not run."""

    framework: str
    version: str
    proved: bool
    detail: str


@click.command()
@click.option("--all", "show_all", is_flag=True, help="Show every detail, not only one screen.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
@click.option(
    "--prove",
    is_flag=True,
    help="Run a scripted agent on each framework and check that a deny holds.",
)
@click.option("--telemetry", is_flag=True, help="Only send a test verdict and show how far it got.")
@click.option(
    "--trace-store",
    envvar="OTELHOOKS_TRACE_STORE",
    metavar="URL",
    help="Jaeger's or Tempo's HTTP API, for --telemetry; default: $OTELHOOKS_TRACE_STORE.",
)
@click.option(
    "--collector-metrics",
    envvar="OTELHOOKS_COLLECTOR_METRICS",
    metavar="URL",
    help="The collector's own metrics, for --telemetry; default: $OTELHOOKS_COLLECTOR_METRICS.",
)
@policy_option
def doctor(
    show_all: bool,
    as_json: bool,
    prove: bool,
    telemetry: bool,
    trace_store: str | None,
    collector_metrics: str | None,
    policies: tuple[str, ...],
) -> None:
    """Show which frameworks are guarded.

    Imports every supported framework that is installed here, patches it as `instrument()` with a
    deny rule would, and shows its version, state and seats (functions that otelhooks wraps), what
    is wrong, and what no seat covers. With policies, it also lists hook files whose event never
    fires here and rules for a kind that no tool here has. --all adds frameworks that are not
    installed, supported versions, tools with a canonical name or a kind, and the details of what is
    not covered.

    --telemetry sends a test verdict the way real ones go: to the collector that the OTEL_ variables
    name, and from there to the trace store. It is a deny in monitor mode, so no alert counts it.

    Installed agent frameworks and model clients that no adapter guards are listed as well, except
    clients that a listed framework depends on.

    Exit code 1: a framework is not fully guarded; a proof failed, or there was nothing to prove;
    the test verdict did not arrive; or a policy can deny, and an installed framework or client has
    no adapter and is not turned off by a setting.
    """
    if telemetry:
        _follow_verdict(as_json, trace_store, collector_metrics)
        return
    config = load(policies=list(policies))
    rows, failures = examine()
    others, can_deny = _others(config)
    proofs: Sequence[Proof] = ()
    if prove:
        proofs = importlib.import_module("otelhooks.frameworks.proof").prove_all()
    tools = {name: _built_in(catalogue.adapter(name)) for name in catalogue.ADAPTERS}
    parts = [
        (name, what, how)
        for name in catalogue.ADAPTERS
        for what, how in catalogue.adapter(name).in_part
    ]
    loaded = _load(policies)
    unfired = () if loaded is None or loaded.files is None else loaded.files.unfired
    idle = () if loaded is None else _unmatched(loaded, rows)
    misspelt = _misspelt(config, loaded)
    pins = _pins(config)
    if as_json:
        report = _report(rows, failures, tools)
        report["in_part"] = [
            {"framework": name, "what": what, "how_far": how} for name, what, how in parts
        ]
        report["not_guarded"] = [other._asdict() for other in others]
        report["tracers"] = [tracer._asdict() for tracer in tracers.installed()]
        report["openai_agents_sends_traces"] = tracers.sends_traces()
        report["approval_timeout"] = config.approval_timeout
        report["mcp_pins"] = pins
        report["unfired"] = [{"hook": name, "event": event} for name, event in unfired]
        report["unmatched"] = [{"rule": rule, "tool": tool} for rule, tool in idle]
        report["misspelt"] = [
            {"rule": rule, "policy": policy, "tool": tool} for rule, policy, tool in misspelt
        ]
        if prove:
            report["proofs"] = [
                {key: getattr(proof, key) for key in Proof.__annotations__} for proof in proofs
            ]
        click.echo(json.dumps(report, indent=2))
    else:
        wrong = [
            *_not_guarded(others, can_deny=can_deny),
            *_traced(config),
            *_not_fired(unfired),
            *_not_matched(idle),
            *_not_met(misspelt),
            *_pinned(pins),
        ]
        if show_all:
            lines = [
                *coverage(rows),
                *problems(rows, failures),
                *wrong,
                *_tools(tools),
            ]
            lines += [*_not_covered(rows), *_in_part(parts), *_questions(config)]
        else:
            here = [row for row in rows if row.state not in ABSENT]
            lines = [
                *installed(here),
                *problems(here, failures, is_short=True),
                *wrong,
            ]
            lines += [*gaps(here), *more(rows)]
        if prove:
            lines += _proofs(proofs)
        for line in fitted(lines, show_all=show_all):
            click.echo(sanitize(line))
    is_guarded = all(_is_fine(row) for row in rows) and all(proof.proved for proof in proofs)
    if not is_guarded or (prove and not proofs) or (others and can_deny):
        raise SystemExit(ExitCode.NO)


def _follow_verdict(as_json: bool, trace_store: str | None, collector_metrics: str | None) -> None:
    """Send a test verdict and show each hop as soon as it is known."""
    from otelhooks.config import load
    from otelhooks.telemetry.probe import Hop, follow

    hops: list[Hop] = []
    for hop in follow(load(), trace_store, collector_metrics):
        hops.append(hop)
        if not as_json:
            state = "ok" if hop.is_reached else "NOT REACHED"
            first, *others = sanitize(hop.detail).splitlines()
            click.echo(f"{hop.name:<20}  {state:<11}  {first}")
            for line in others:
                click.echo(f"  {line}")
    is_whole = all(hop.is_reached for hop in hops)
    if as_json:
        click.echo(json.dumps({"telemetry": [hop._asdict() for hop in hops]}, indent=2))
    elif is_whole and trace_store is None:
        click.echo("trace store           not asked    give its address with --trace-store")
    if not is_whole:
        raise SystemExit(ExitCode.NO)


def examine() -> tuple[tuple[Coverage, ...], dict[str, str]]:
    """Patch and import every installed framework, look, and put everything back.

    Returns:
        The coverage, and the error of each module that could not be imported.
    """
    failures: dict[str, str] = {}
    with _quiet(), _offline():
        try:
            guarded.install(strict=True)
            for _ in range(2):  # an import in a circle may fail where it begins, but not again
                for name in guarded.modules():
                    try:
                        importlib.import_module(name)
                        failures.pop(name, None)
                    except Exception as error:
                        failures[name] = repr(error)
            return guarded.coverage(), failures
        finally:
            guarded.uninstall()


@contextlib.contextmanager
def _quiet() -> Generator[None]:
    """Suppress log lines whose content is in the report."""
    logger = logging.getLogger("otelhooks.instrumentation")
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before


@contextlib.contextmanager
def _offline() -> Generator[None]:
    """Keep the imports of frameworks from the network, where their adapters know how."""
    wanted = {
        name: value
        for framework in catalogue.ADAPTERS
        for name, value in catalogue.adapter(framework).offline.items()
        if name not in os.environ
    }
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name in wanted:
            os.environ.pop(name, None)


def _is_fine(row: Coverage) -> bool:
    """Return whether a package is guarded, absent, or known as not covered (then it refuses)."""
    if row.state in ABSENT or row.supported == "none":
        return True
    return row.state == "patched" and not any(seat.state == "displaced" for seat in row.seats)


def _built_in(adapter: Adapter) -> list[BuiltIn]:
    """Return the framework's own tools that rules know by more than a name."""
    return sorted({t._replace(path="") for t in adapter.built_in.values() if t.canonical or t.kind})


def _shown(tool: BuiltIn) -> dict[str, Any]:
    """Return what users see of a built-in tool: not the parameter that adapters read."""
    return {key: value for key, value in tool._asdict().items() if key != "path"}


def _report(
    rows: tuple[Coverage, ...], failures: dict[str, str], tools: dict[str, list[BuiltIn]]
) -> dict[str, Any]:
    return {
        "version": __version__,
        "frameworks": [row.to_dict() for row in rows],
        "failed_imports": failures,
        "built_in_tools": {
            name: [_shown(tool) for tool in listed] for name, listed in tools.items()
        },
    }


class Other(NamedTuple):
    """An installed agent framework or model client that no adapter guards."""

    framework: str
    distribution: str
    version: str


def _others(config: Config) -> tuple[list[Other], bool]:
    """Return those that the settings do not turn off, and whether anything can deny."""
    from otelhooks.hooks.registry import HookSet
    from otelhooks.setup import ungoverned
    from otelhooks.setup.handle import registered, split
    from otelhooks.setup.policies import Policies

    _, off = catalogue.wanted(config.frameworks)
    others = [Other(known.name, *found) for known, *found in ungoverned.installed(off)]
    rules, objects = split(config.policies)
    policies = Policies.load(rules, config)
    hooks = registered([*policies.hooks, *objects, *config.hooks])
    # No question is asked here, so any approver will do.
    table = policies.table(config.replace(approvals=("anybody",), allow_policy_writes=True))
    can_deny = HookSet(each for _, found in hooks for each in found).can_deny or table.can_deny
    return others, can_deny


def _not_guarded(others: Sequence[Other], *, can_deny: bool) -> Iterator[str]:
    if not others:
        return
    yield "\nInstalled, not guarded (no rule is asked about what they do)"
    yield from columns([(f"  {each.framework}", *each[1:]) for each in others])
    if can_deny:
        names = ",".join(f"{each.framework}=off" for each in others)
        yield "hint: decorate their tools with @otelhooks.tool (see help(otelhooks.tool));"
        yield f"      OTELHOOKS_FRAMEWORKS={names} says that you know"


def _traced(config: Config) -> Iterator[str]:
    found = list(tracers.installed())
    if found:
        yield "\nInstalled, can trace the same agents"
        yield from columns([(f"  {each.distribution}", each.version) for each in found])
        if config.sources["spans"] == "default":
            yield 'hint: set spans="annotate" in programs that switch one on: one span a call'
    if tracers.sends_traces():
        yield "\nTraces of others"
        yield "  openai-agents sends its own, with prompts and results, to OpenAI"
        yield "hint: OPENAI_AGENTS_DISABLE_TRACING=1 or agents.set_tracing_disabled(True) stops it"


def _tools(tools: dict[str, list[BuiltIn]]) -> Iterator[str]:
    yield "\nBuilt-in tools (a rule for one of the words on the right matches the tool on the left)"
    table = [
        (f"  {framework}", tool.name, ", ".join(_words(tool)))
        for framework, listed in tools.items()
        for tool in listed
    ]
    yield from columns(table) if table else ["  none"]


def _words(tool: BuiltIn) -> Iterator[str]:
    yield from tool.canonical
    if tool.kind is not None:
        yield f"kind:{tool.kind}"
    if tool.is_hosted:
        yield "runs at the provider"


def _not_covered(rows: tuple[Coverage, ...]) -> Iterator[str]:
    yield "\nNot covered"
    table = [(f"  {row.framework}", what, why) for row in rows for what, why in row.not_covered]
    yield from columns(table) if table else ["  nothing known"]


def _in_part(parts: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    yield "\nIn part (events of hook files, and rules)"
    table = [(f"  {name}", what, how) for name, what, how in parts]
    yield from columns(table) if table else ["  nothing known"]


def _load(policies: tuple[str, ...]) -> Policies | None:
    if not policies:
        return None
    from otelhooks.policy_tools.subject import Subject

    return Subject.open(policies).policies


def _misspelt(config: Config, loaded: Policies | None) -> list[tuple[str, ...]]:
    """Return rule, policy and a tool's name for the warnings of programs in the local store.

    With policies, only for rules that they still contain.
    """
    from otelhooks.store.reader import Store
    from otelhooks.store.schema import StoreError

    try:
        events = Store(config.store).events(semconv.EVENT_RULE_UNMATCHED)
    except StoreError:
        return []  # there is none, or `otelhooks trace` reports what is wrong with it
    names = (semconv.POLICY_RULE_TOOL, semconv.POLICY_ID, semconv.GEN_AI_TOOL_NAME)
    told = {tuple(str(event.attributes.get(name, "")) for name in names) for event in events}
    written = None if loaded is None else {rule.tool for rule in loaded.written}
    return sorted(each for each in told if written is None or each[0] in written)


def _not_met(misspelt: Sequence[tuple[str, ...]]) -> Iterator[str]:
    if misspelt:
        yield "\nRules that met no tool, their policy, and a tool that may be meant (local store)"
        yield from columns([(f"  {rule}", *others) for rule, *others in misspelt])


def _not_fired(unfired: Sequence[tuple[str, str]]) -> Iterator[str]:
    if unfired:
        yield "\nHook files that never run (nothing here fires their event)"
        yield from columns([(f"  {name}", event) for name, event in unfired])


def _unmatched(policies: Policies, rows: tuple[Coverage, ...]) -> tuple[tuple[str, str], ...]:
    """Return label and tool of rules for a kind that no tool of the installed frameworks has."""
    names = dict.fromkeys(row.framework for row in rows if row.state not in ABSENT)
    adapters = [catalogue.adapter(name) for name in names]
    return tuple((rule.label, rule.tool) for rule in unmatched(policies.written, adapters))


def _not_matched(rules: Sequence[tuple[str, str]]) -> Iterator[str]:
    if rules:
        yield "\nRules that match nothing (no framework that is installed here has such a tool)"
        yield from columns([(f"  {label}", tool) for label, tool in rules])
        yield f"  hint: {HINT}"


def _pins(config: Config) -> dict[str, Any] | None:
    """Return what is approved of MCP servers, and which servers have a name but no approved tool.

    Raises:
        ConfigError: The file cannot be used.
    """
    from otelhooks.setup.handle import load_pins

    approved, place = load_pins(config), config.mcp_pins
    if approved is None or place is None:
        return None
    return {
        "file": str(place.path),
        "is_there": place.path.exists(),
        "mode": place.mode,
        "tools": {server: len(tools) for server, tools in approved.items()},
        "not_pinned": [s.name for s in config.mcp_servers or () if not approved.get(s.name)],
    }


def _pinned(pins: dict[str, Any] | None) -> Iterator[str]:
    if pins is None:
        return
    yield f"\nPinned definitions of MCP tools (mcp_pins: {pins['mode']})"
    state = "" if pins["is_there"] else "  MISSING: no MCP tool is approved"
    yield f"  {pins['file']}{state}"
    yield from columns([(f"  {name}", counted(n, "tool")) for name, n in pins["tools"].items()])
    for name in pins["not_pinned"]:
        yield f"  {name}  NOT PINNED: none of its tools is approved"


def _questions(config: Config) -> Iterator[str]:
    yield "\nQuestions of ask rules"
    source = config.sources["approval_timeout"]
    yield f"  no answer within {config.approval_timeout:g} s denies (approval_timeout: {source})"


def _proofs(proofs: Sequence[Proof]) -> Iterator[str]:
    yield "\nProofs (a scripted agent calls a denied tool; its body must not run)"
    table = [
        (f"  {proof.framework}", proof.version, "proved" if proof.proved else "NOT PROVED")
        for proof in proofs
    ]
    for line, proof in zip(columns(table), proofs, strict=True):
        yield f"{line}  {proof.detail}".rstrip()
    if not proofs:
        yield "  nothing was proved: no supported framework is installed"
