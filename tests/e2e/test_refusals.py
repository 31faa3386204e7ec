"""Who does not show the token, or the right certificate, gets nothing in; by HTTP and by gRPC."""

from __future__ import annotations

import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from otelhooks.records import semconv
from tests.e2e.asking import Jaeger, eventually
from tests.e2e.sending import Sender
from tests.e2e.stack.process import Process
from tests.e2e.stack.stack import Stack

DENY = {semconv.POLICY_DECISION: semconv.DECISION_DENY}


@pytest.mark.parametrize("token", [None, "", "wrong", "Bearer"])
@pytest.mark.parametrize("signal", ["traces", "logs", "metrics"])
def test_http_without_the_token_is_unauthorized(
    token: str | None, signal: str, stack: Stack
) -> None:
    sender = Sender(stack.url("OTELCOL_HTTP_PORT"), token, "stranger")

    assert sender.post(f"/v1/{signal}", b"") == 401


@pytest.mark.parametrize("token", [None, "", "wrong"])
def test_grpc_without_the_token_is_unauthenticated(token: str | None, stack: Stack) -> None:
    channel = grpc.insecure_channel(f"127.0.0.1:{stack.settings['OTELCOL_GRPC_PORT']}")

    with channel, pytest.raises(grpc.RpcError) as refused:
        export(channel, stack, token)

    assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED


def test_what_was_refused_is_not_in_the_store(stack: Stack, jaeger: Jaeger) -> None:
    stranger = Sender(stack.url("OTELCOL_HTTP_PORT"), "wrong", "stranger")
    refused, trace_id = stranger.request("refused", DENY, 1)
    assert stranger.post("/v1/traces", refused.SerializeToString()) == 401

    known = Sender(stack.url("OTELCOL_HTTP_PORT"), stack.token, "known").span("taken", DENY)

    eventually(lambda: jaeger.trace(known))
    assert jaeger.trace(trace_id) == []


# --- Mutual TLS ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with two authorities, and for each a certificate: ``NAME.crt`` and ``NAME.key``."""
    folder = tmp_path_factory.mktemp("certificates")
    for authority, name in (("ours", "server"), ("ours", "client"), ("theirs", "stranger")):
        if not (folder / f"{authority}.crt").exists():
            openssl(folder, "req", "-x509", "-subj", f"/CN={authority}", *new_key(authority))
        openssl(folder, "req", "-subj", f"/CN={name}", *new_key(name, "csr"))
        (folder / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost")
        signed = ("x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.crt", "-days", "1")
        by = ("-CA", f"{authority}.crt", "-CAkey", f"{authority}.key", "-CAcreateserial")
        openssl(folder, *signed, *by, "-extfile", "names")
    return folder


def new_key(name: str, kind: str = "crt") -> tuple[str, ...]:
    return ("-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.{kind}")


def openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(("openssl", *arguments), cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def mutual(stack: Stack, certificates: Path) -> Iterator[Process]:
    """A collector with the TLS overlay on top, that sends to the stack's trace store."""
    settings = {
        "OTELCOL_CERT": str(certificates / "server.crt"),
        "OTELCOL_KEY": str(certificates / "server.key"),
        "OTELCOL_CLIENT_CA": str(certificates / "ours.crt"),
    }
    collector = stack.collector("otelcol-tls", ("single.yaml", "tls.yaml"), settings)
    collector.start()
    yield collector
    collector.stop()


CLIENTS = ("client", "stranger", None)


@pytest.mark.parametrize("client", CLIENTS)
def test_http_needs_a_certificate_of_our_authority(
    client: str | None, mutual: Process, certificates: Path, stack: Stack
) -> None:
    context = ssl.create_default_context(cafile=str(certificates / "ours.crt"))
    if client:
        context.load_cert_chain(certificates / f"{client}.crt", certificates / f"{client}.key")
    request = urllib.request.Request(
        f"https://127.0.0.1:{mutual.environment['OTELCOL_HTTP_PORT']}/v1/traces",
        b"",
        {"Content-Type": "application/x-protobuf", "Authorization": f"Bearer {stack.token}"},
        method="POST",
    )

    def send() -> int:
        with urllib.request.urlopen(request, context=context, timeout=10) as answer:
            return answer.status

    if client == "client":
        assert send() == 200
    else:
        with pytest.raises((urllib.error.URLError, OSError), match=r"(?i)alert|reset|certificate"):
            send()


@pytest.mark.parametrize("client", CLIENTS)
def test_grpc_needs_a_certificate_of_our_authority(
    client: str | None, mutual: Process, certificates: Path, stack: Stack
) -> None:
    pair = (
        [(certificates / f"{client}.{kind}").read_bytes() for kind in ("key", "crt")]
        if (client)
        else [None, None]
    )
    credentials = grpc.ssl_channel_credentials((certificates / "ours.crt").read_bytes(), *pair)
    address = f"127.0.0.1:{mutual.environment['OTELCOL_GRPC_PORT']}"

    with grpc.secure_channel(address, credentials) as channel:
        if client == "client":
            export(channel, stack, stack.token)
        else:
            with pytest.raises(grpc.RpcError) as refused:
                export(channel, stack, stack.token)
            assert refused.value.code() == grpc.StatusCode.UNAVAILABLE


def test_a_certificate_does_not_replace_the_token(
    mutual: Process, certificates: Path, stack: Stack
) -> None:
    pair = [(certificates / f"client.{kind}").read_bytes() for kind in ("key", "crt")]
    credentials = grpc.ssl_channel_credentials((certificates / "ours.crt").read_bytes(), *pair)
    address = f"127.0.0.1:{mutual.environment['OTELCOL_GRPC_PORT']}"

    with grpc.secure_channel(address, credentials) as channel:
        with pytest.raises(grpc.RpcError) as refused:
            export(channel, stack, "wrong")
        assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED


def test_plain_text_does_not_reach_a_collector_with_tls(mutual: Process, stack: Stack) -> None:
    url = f"http://127.0.0.1:{mutual.environment['OTELCOL_HTTP_PORT']}"

    assert Sender(url, stack.token, "plain").post("/v1/traces", b"") == 400


def export(channel: grpc.Channel, stack: Stack, token: str | None) -> None:
    """Send one span over gRPC."""
    request, _ = Sender("", None, "over-grpc").request("call", DENY, 1)
    shown = (("authorization", f"Bearer {token}"),) if token is not None else ()
    TraceServiceStub(channel).Export(request, metadata=shown, timeout=10)
