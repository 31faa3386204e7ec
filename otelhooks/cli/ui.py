"""`otelhooks ui`: the console in a browser."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from otelhooks.cli import options
from otelhooks.cli.policy import header_pairs, headers_option, policy_option
from otelhooks.errors import ConfigError

if TYPE_CHECKING:
    from types import FrameType


@click.command()
@options.store("path")
@click.option(
    "--approvals",
    "questions",
    metavar="redis://HOST:PORT/NUMBER",
    help="Where questions are kept, if not in the store.",
)
@click.option(
    "--port",
    metavar="NUMBER",
    type=click.IntRange(0, 65_535),
    default=8321,
    show_default=True,
    help="The port to listen on; 0 for any.",
)
@options.person("approver", "Who answers")
@options.roles
@policy_option
@click.option(
    "--candidate",
    multiple=True,
    metavar="POLICY",
    help="Policies to compare with: what they would have decided. May be repeated.",
)
@click.option(
    "--audit",
    envvar="OTELHOOKS_AUDIT",
    metavar="PATH",
    help="The audit trail; default: $OTELHOOKS_AUDIT, then this user's.",
)
@click.option("--jaeger", metavar="URL", help="Read traces from this Jaeger, not from the store.")
@click.option("--tempo", metavar="URL", help="Read traces from this Tempo, not from the store.")
@headers_option
@click.option(
    "--grafana", default="", metavar="URL", help="Link each run to the same trace in this Grafana."
)
@click.option(
    "--view-only",
    is_flag=True,
    help="For viewers: show questions, but answer none, and stop nothing.",
)
def ui(
    path: Path | None,
    questions: str | None,
    port: int,
    approver: str | None,
    roles: tuple[str, ...],
    policies: tuple[str, ...],
    candidate: tuple[str, ...],
    audit: str | None,
    jaeger: str | None,
    tempo: str | None,
    headers: tuple[str, ...],
    grafana: str,
    view_only: bool,
) -> None:
    """Watch calls and answer questions in a browser.

    Prints the address first. It contains a token, which is new at each start, and works on this
    machine only: to use the console from elsewhere, forward the port, for example with `ssh -L`.
    Ctrl-C ends it.
    """
    try:
        import uvicorn

        from otelhooks.ui.app import create_app
        from otelhooks.ui.site import Settings
    except ImportError as error:
        raise ConfigError(
            f"the console needs the package `{error.name}`", hint="install `otelhooks[ui]`"
        ) from None
    from otelhooks.policy_tools.subject import Subject
    from otelhooks.store import schema

    for names in filter(None, (policies, candidate)):
        Subject.open(names)
    is_named = (
        click.get_current_context().get_parameter_source("path") is ParameterSource.COMMANDLINE
    )
    if path and is_named and not path.exists():
        raise schema.StoreError(path, "missing")
    if jaeger and tempo:
        raise ConfigError("--jaeger and --tempo exclude each other", hint="leave out one of them")
    server = ("jaeger", jaeger) if jaeger else ("tempo", tempo) if tempo else None
    name = approver or options.user_name()
    if "," in name:
        raise ConfigError(f"`{name}` is not one approver", hint="name one, without a comma")
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(("127.0.0.1", port))
            listening.listen()
        except OSError as error:
            raise ConfigError(
                f"port {port} cannot be used: {error.strerror}", hint="name another with --port"
            ) from None
        settings = Settings.of_start(
            store=path or schema.default_store_path(),
            questions=questions,
            port=listening.getsockname()[1],
            approver=name,
            roles=roles,
            can_answer=not view_only,
            policies=policies,
            candidate=candidate,
            audit=audit,
            server=server,
            headers=header_pairs(headers),
            grafana=grafana,
            listening=_listening(),
        )
        app = create_app(settings)
        click.echo(settings.address)
        click.echo("otelhooks ui: open this address; Ctrl-C ends it", err=True)

        class Server(uvicorn.Server):
            def handle_exit(self, sig: int, frame: FrameType | None) -> None:
                app.state.site.over.set()  # or the end would wait for streams, which have none
                super().handle_exit(sig, frame)

        config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False)
        with contextlib.suppress(KeyboardInterrupt):  # how uvicorn passes on a Ctrl-C
            Server(config).run(sockets=[listening])


_SHORTEST = 20


def _listening() -> str:
    """Return the token of programs that read ``/events``; empty for none."""
    token = os.environ.get("OTELHOOKS_EVENTS_TOKEN", "").strip()
    if token and len(token) < _SHORTEST:
        raise ConfigError(
            f"OTELHOOKS_EVENTS_TOKEN has fewer than {_SHORTEST} characters",
            hint="take what `python -c 'import secrets; print(secrets.token_urlsafe())'` prints",
        )
    return token
