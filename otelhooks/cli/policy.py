"""``otelhooks policy``: write, check, test, understand and change policies."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from otelhooks.cli import ExitCode
from otelhooks.cli.options import named
from otelhooks.cli.since import since_ns
from otelhooks.errors import ConfigError
from otelhooks.plain_text import counted, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from otelhooks.policy_tools.recorded import Source
    from otelhooks.policy_tools.sources import OfService
    from otelhooks.policy_tools.subject import Subject


class _Policy(click.types.StringParamType):
    """A policy's name; a variable may contain several, separated by commas."""

    envvar_list_splitter = ","


_VARIABLE = "OTELHOOKS_POLICIES"

_policies = click.argument(
    "policies", nargs=-1, type=_Policy(), envvar=_VARIABLE, metavar="[POLICY]..."
)
policy_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--policy",
    "policies",
    multiple=True,
    type=_Policy(),
    envvar=_VARIABLE,
    metavar="POLICY",
    help="A file, a folder, a pack or module:attribute; may be repeated."
    " Default: $OTELHOOKS_POLICIES.",
)
_servers = click.option(
    "--mcp-servers",
    "servers",
    envvar="OTELHOOKS_MCP_SERVERS",
    default="",
    metavar="MODULE:ATTRIBUTE",
    help="MCP server configurations, whose tool lists are checked. Default:"
    " $OTELHOOKS_MCP_SERVERS.",
)
_traces = click.argument("traces", default="", metavar="[TRACES]")
_since = click.option(
    "--since",
    metavar="TIME",
    help="Only calls of the last 90m, 24h or 7d, or since a date. Default: 24h for a "
    "server, else all.",
)
_service = click.option("--service", metavar="NAME", help="Only calls of this program; a glob.")
_limit = click.option(
    "--limit",
    metavar="NUMBER",
    type=click.IntRange(min=1),
    default=1_000,
    show_default=True,
    help="Maximum number of traces to read from a server.",
)
headers_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="NAME=VALUE",
    help="Header for every request to a server, such as a token; may be repeated.",
)
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
_json_array = click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")


@click.group()
def policy() -> None:
    """Write, check, test, understand and change policies.

    POLICY is a file, a folder, a pack (governed, owasp-agentic, shell, tool-output), or
    module:attribute; default: $OTELHOOKS_POLICIES. These commands only read: they do not enforce a
    policy, ask a person, run a tool or count towards a limit.
    """


@policy.command("check")
@_policies
@click.option(
    "--require",
    metavar="KEYS",
    default="",
    help="Keys that every hook file and rule must have, such as priority,description,"
    "severity; `audit`: every tool call and result is audited.",
)
@click.option(
    "--store",
    "with_store",
    is_flag=True,
    help="Learn the tools of MCP servers from the calls in the local store.",
)
@_servers
@_json_array
def check_command(
    policies: tuple[str, ...], require: str, with_store: bool, servers: str, as_json: bool
) -> None:
    """Find rules and hooks that never decide or never match.

    POLICY is as in `otelhooks policy --help`. Also finds rules that contradict each other, ask
    without an approval channel, or wait for labels that no rule adds, and reports every error in
    files that do not load. Exit code 0: no findings, or only warnings; 1: errors; 2: a file cannot
    be loaded.
    """
    from otelhooks.policy_tools import check, hook_lint

    stores = [name for name in policies if with_store and name.endswith(".db")]
    if stores:
        raise ConfigError(
            f"`--store` of `policy check` takes no path, such as `{one_line(stores[0])}`",
            hint="name another store in OTELHOOKS_STORE",
        )
    subject = _open(policies)
    calls = _source("", None, 1).calls() if with_store else ()
    keys = tuple(word.strip() for word in require.split(",") if word.strip())
    has_channel = bool(os.environ.get("OTELHOOKS_APPROVALS"))
    findings = [
        *check.lint_rules(subject.table(), check.KnownTools(_configured(servers), calls)),
        *check.lint_needs(subject.table(), subject.gates, subject.labels, has_channel=has_channel),
        *hook_lint.lint_hooks(subject),
        *hook_lint.missing(subject, keys),
    ]
    if as_json:
        _print_json([dataclasses.asdict(finding) for finding in findings])
    else:
        for finding in findings:
            click.echo(_clean(str(finding)))
    errors = sum(finding.severity == "error" for finding in findings)
    said = f"{counted(errors, 'error')}, {counted(len(findings) - errors, 'warning')}"
    click.echo(f"{subject.size}: {said}", err=True)
    sys.exit(ExitCode.NO if errors else ExitCode.OK)


@policy.command("test")
@_policies
@click.option(
    "--cases",
    "files",
    multiple=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file of cases; default: those in `cases` beside each policy. May be repeated.",
)
@click.option(
    "--junit",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the results to this file, as JUnit XML.",
)
@click.option("--verbose", "-v", is_flag=True, help="List the passed cases as well.")
def test_command(
    policies: tuple[str, ...], files: tuple[Path, ...], junit: Path | None, verbose: bool
) -> None:
    """Run the test cases of policies.

    POLICY is as in `otelhooks policy --help`. A case is a call or an event, the verdict it must
    get, and the rule that must decide. Exit code 0: all passed; 1: some failed; 2: a file cannot be
    used, or has no cases.
    """
    from otelhooks.policy_tools import trials, words

    results = list(trials.run(_named(policies), files))
    for result in results:
        if result.is_red or verbose:
            for line in words.of_result(result):
                click.echo(_clean(line))
    if junit is not None:
        try:
            junit.write_text(trials.junit(results), encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"`{junit}` cannot be written: {error.strerror or error}") from error
    red = sum(result.is_red for result in results)
    click.echo(f"{counted(len(results), 'case')}: {len(results) - red} green, {red} red", err=True)
    sys.exit(ExitCode.NO if red else ExitCode.OK)


@policy.command("explain")
@click.argument("call", nargs=-1, required=True, metavar="CALL")
@policy_option
@click.option("--server", help="Your application's name for the tool's MCP server.")
@click.option("--agent", help="The calling agent, or a path of agents: lead/researcher.")
@click.option("--labels", metavar="LABELS", help="Labels in force, separated by commas.")
@click.option("--prompt", metavar="TEXT", help="What the user said.")
@click.option("--user", metavar="ID", help="The user.")
@click.option(
    "--role", "roles", multiple=True, metavar="ROLE", help="A role of the user; may be repeated."
)
@click.option("--tenant", metavar="NAME", help="The user's tenant.")
@_servers
@_json
def explain_command(
    call: tuple[str, ...],
    policies: tuple[str, ...],
    servers: str,
    server: str | None,
    agent: str | None,
    labels: str | None,
    prompt: str | None,
    user: str | None,
    roles: tuple[str, ...],
    tenant: str | None,
    as_json: bool,
) -> None:
    """Show how policies decide about one call, and why.

    CALL is a tool and its arguments, `run_command CommandLine="rm -rf /"`, or one JSON object
    with `tool` and `args`.

    Exit code 0: allowed, or a person is asked; 1: denied.
    """
    from otelhooks.policy_tools import words
    from otelhooks.policy_tools.explain import explain, read_call_text

    given = [word for word in (labels or "").split(",") if word]
    about_user = {"id": user, "roles": roles, "tenant": tenant}
    found, known = read_call_text(
        call,
        server=server,
        agent=None if agent is None else agent.rpartition("/")[2],
        branch=agent,
        labels=given or None,
        prompt=prompt,
        user={key: value for key, value in about_user.items() if value} or None,
    )
    policy = _open(policies).dry_run(_configured(servers), guarded=True)
    explanation = explain(policy, found, known)
    if as_json:
        _print_json(words.explanation_as_data(explanation))
    else:
        for line in words.of_explanation(explanation):
            click.echo(_clean(line))
    sys.exit(ExitCode.NO if explanation.judgement.decision == "deny" else ExitCode.OK)


@policy.command("replay")
@_traces
@policy_option
@_since
@_service
@_limit
@headers_option
@_servers
@click.option(
    "--all", "show_all", is_flag=True, help="List every changed call, not only ten for each tool."
)
@_json
def replay_command(
    traces: str,
    policies: tuple[str, ...],
    since: str | None,
    service: str | None,
    limit: int,
    headers: tuple[str, ...],
    servers: str,
    show_all: bool,
    as_json: bool,
) -> None:
    """List recorded calls that other policies decide differently.

    TRACES is a store, a file of OTLP JSON, jaeger+http://HOST:16686 or tempo+http://HOST:3200;
    default: the local store.

    Exit code 0: no verdict changes; 1: some do; 2: a source or policy cannot be used.
    """
    from otelhooks.policy_tools import words
    from otelhooks.policy_tools.replay import replay
    from otelhooks.policy_tools.sources import OfService

    subject = _open(policies)
    source = OfService(_source(traces, since, limit, headers), service)
    result = replay(source.calls(), subject.dry_run(_configured(servers)))
    _tell_services(source)
    if not result.calls:
        raise ConfigError("no tool calls there", hint="run the program under otelhooks first")
    if as_json:
        _print_json(words.replay_as_data(result, source))
    else:
        for line in words.of_replay(result, source, show_all=show_all):
            click.echo(_clean(line))
    sys.exit(ExitCode.NO if result.changes else ExitCode.OK)


@policy.command("diff")
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@_json_array
def diff_command(old: str, new: str, as_json: bool) -> None:
    """Show rules and hooks that were added, removed or changed.

    OLD and NEW are each a file, a folder, a pack or module:attribute.

    Exit code 0: no differences; 1: differences.
    """
    from otelhooks.policy_tools import words
    from otelhooks.policy_tools.diff import diff

    notes = diff(_open((old,)), _open((new,)))
    if as_json:
        _print_json(words.diff_as_data(notes))
    else:
        for line in words.of_diff(notes):
            click.echo(_clean(line))
        if not notes:
            click.echo("nothing differs", err=True)
    sys.exit(ExitCode.NO if notes else ExitCode.OK)


@policy.command("learn")
@_traces
@_since
@_service
@_limit
@headers_option
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the draft to this new file, and its cases to the folder `cases` beside it.",
)
def learn_command(
    traces: str,
    since: str | None,
    service: str | None,
    limit: int,
    headers: tuple[str, ...],
    output: Path | None,
) -> None:
    """Draft a policy from recorded tool calls.

    Tools that worked are allowed, and all others denied. Tools that a person was asked about get an
    ask rule; tools that were denied, or never worked, are left out.

    TRACES is a store, a file of OTLP JSON, jaeger+http://HOST:16686 or tempo+http://HOST:3200;
    default: the local store.
    """
    from otelhooks.policy_tools.learn import learn
    from otelhooks.policy_tools.scaffold import write_new
    from otelhooks.policy_tools.sources import OfService

    source = OfService(_source(traces, since, limit, headers), service)
    draft = learn(source.calls())
    _tell_services(source)
    if output is None:
        click.echo(draft.policy(), nl=False)
        return
    cases = output.parent / "cases" / f"{output.stem}.yaml"
    for path in write_new({output: draft.policy(), cases: draft.suite()}):
        click.echo(f"wrote {path}", err=True)
    click.echo(f"hint: read it, then run `otelhooks policy test {output}`", err=True)


@policy.command("new")
@click.argument("name")
@click.option("--yaml", "is_yaml", is_flag=True, help="Write rules in YAML instead of a hook file.")
@click.option("--event", default="tool.pre", show_default=True, help="Event of the hook file.")
@click.option(
    "--dir",
    "folder",
    default=".",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to write to.",
)
def new_command(name: str, is_yaml: bool, event: str, folder: Path) -> None:
    """Write a new policy and its first case.

    Writes a hook file, or with --yaml a file of rules, for you to fill in. Exit code 2: the file
    exists already, or the event is unknown.
    """
    from otelhooks.policy_tools.scaffold import new_policy, write_new

    for path in write_new(new_policy(name, folder, is_yaml=is_yaml, event=event)):
        click.echo(f"wrote {path}", err=True)


@policy.command("schema")
@click.option(
    "--markdown", is_flag=True, help="Print the reference of the file formats as Markdown."
)
def schema_command(markdown: bool) -> None:
    """Print the JSON Schema of YAML policies.

    Editors use it to complete and check policy files.
    """
    from otelhooks.policy.files import schema

    if markdown:
        click.echo(schema.markdown(), nl=False)
    else:
        click.echo(json.dumps(schema.json_schema(), indent=2))


@policy.command("export")
@_policies
@click.option(
    "--leave-out",
    is_flag=True,
    help="Leave out rules that YAML cannot express, and name them in a comment.",
)
def export_command(policies: tuple[str, ...], leave_out: bool) -> None:
    """Print the rules that are loaded as one YAML policy.

    POLICY is as in `otelhooks policy --help`. Hook files are not included. Exit code 2: some rules
    cannot be written in YAML, such as conditions in Python.
    """
    from otelhooks.policy.files.export import export

    subject = _open(policies)
    click.echo(export(subject.table(), subject.gates, leave_out=leave_out), nl=False)
    click.echo(f"loaded: {subject.size}", err=True)


# -- what commands share ------------------------------------------------------------------------


def _named(policies: tuple[str, ...]) -> tuple[str, ...]:
    """Return the named policies.

    Raises:
        ConfigError: No policy is named.
    """
    named = tuple(name.strip() for name in policies if name.strip())
    if not named:
        raise ConfigError(
            "no policy is named",
            hint="name a file, a folder, a pack such as `governed` or module:attribute, or set"
            f" {_VARIABLE}",
        )
    return named


def _open(policies: tuple[str, ...]) -> Subject:
    from otelhooks.policy_tools.subject import Subject

    return Subject.open(_named(policies))


def _configured(servers: str) -> tuple[Any, ...]:
    """Return the configurations of MCP servers that a text names."""
    from otelhooks.config.values import objects

    return objects(servers, named("servers"))


def _source(traces: str, since: str | None, limit: int, headers: Iterable[str] = ()) -> Source:
    from otelhooks.policy_tools.sources import open_source

    return open_source(
        traces or os.environ.get("OTELHOOKS_STORE", ""),
        since_ns=None if since is None else since_ns(since),
        limit=limit,
        headers=header_pairs(headers),
    )


def header_pairs(headers: Iterable[str]) -> dict[str, str]:
    """Return what the texts of ``--header`` say.

    Raises:
        ConfigError: One is not NAME=VALUE.
    """
    pairs = [header.partition("=") for header in headers]
    if not all(name and sign for name, sign, _ in pairs):
        raise ConfigError("a header is not NAME=VALUE", hint="write --header X-Scope-OrgID=team")
    return {name: value for name, _, value in pairs}


def _tell_services(source: OfService) -> None:
    if len(source.services) > 1:
        names = ", ".join(f"`{one_line(name or '(none)')}`" for name in sorted(source.services))
        click.echo(
            f"otelhooks: warning: these are calls of {len(source.services)} programs: {names}\n"
            "hint: --service NAME takes those of one",
            err=True,
        )


def _clean(line: str) -> str:
    """Return a line that is safe for a terminal; files below this folder as relative paths."""
    here = f"{Path.cwd()}{os.sep}"
    return "\n".join(map(one_line, line.replace(here, "").split("\n")))


def _print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, default=str))
