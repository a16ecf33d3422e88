"""The server that clusters call, over TLS: slow clients hold no thread, and strangers without a certificate get in only
where none is demanded."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from osmo_admin.ops.files.certificates import ServerCertificate, ensure_certificate
from osmo_admin.ops.programs import process_commands
from osmo_admin.ops.programs.processes import start_child, stop_children
from tests.support.raw_http import connect, hold_connections, read_to_end, unfinished_post
from tests.support.services import ROOT
from tests.support.stack import Stack, find_free_port

pytestmark = pytest.mark.acceptance


class WebhookServer:
    """A running webhook server. `trust` is the context of a client without a certificate."""

    def __init__(self, stack: Stack, folder: Path, client_ca: Path | None = None) -> None:
        self.certificate: ServerCertificate = ensure_certificate(folder / "server", ["127.0.0.1"])
        self.port = find_free_port()
        command = process_commands.webhook_command(
            "127.0.0.1",
            self.port,
            self.certificate.certificate,
            self.certificate.key,
            client_ca=client_ca,
        )
        env = {**stack.env, "OSMO_BODY_TIMEOUT": "1"}
        self.child = start_child(process_commands.WEBHOOK, command, log=folder / "log", env=env, cwd=ROOT)
        stack.wait_until(self._listens, seconds=60, what="the webhook server listens")

    def _listens(self) -> bool:
        try:
            connect(self.port).close()
        except OSError:
            return False
        return True

    def trust(self, client: Path | None = None) -> ssl.SSLContext:
        """The client's side of TLS, with the certificate in the file `client`."""
        context = ssl.create_default_context(cadata=self.certificate.authority)
        if client is not None:
            context.load_cert_chain(client)
        return context

    def get(self, path: str, client: Path | None = None) -> httpx.Response:
        """One request."""
        return httpx.get(f"https://127.0.0.1:{self.port}{path}", verify=self.trust(client), timeout=60)

    def connect(self) -> ssl.SSLSocket:
        """A connection after the handshake."""
        return self.trust().wrap_socket(connect(self.port), server_hostname="127.0.0.1")


@pytest.fixture(scope="module")
def server(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebhookServer]:
    """A webhook server without client certificates."""
    running = WebhookServer(stack, tmp_path_factory.mktemp("webhook"))
    yield running
    stop_children([running.child], grace=5)


@pytest.mark.parametrize("count", [2, 60])
def test_unfinished_bodies_hold_no_thread(server: WebhookServer, count: int) -> None:
    with ExitStack() as stack:
        slow = [stack.enter_context(server.connect()) for _ in range(count)]
        for connection in slow:
            connection.sendall(unfinished_post("/webhooks/pod"))
        assert server.get("/health").status_code == 200
        assert server.get("/webhooks/pod").status_code == 405
        slow[0].settimeout(20)
        assert read_to_end(slow[0]).statuses == [408]


def test_unfinished_handshakes_hold_up_nobody(server: WebhookServer) -> None:
    with hold_connections(server.port, 300, b""), hold_connections(server.port, 100, b"\x16\x03\x01"):
        assert server.get("/health").status_code == 200


def test_other_addresses_are_refused_before_their_body_is_read(server: WebhookServer) -> None:
    with server.connect() as connection:
        connection.sendall(unfinished_post("/login/"))
        assert read_to_end(connection).statuses == [404]
    assert "Only /webhooks/ and /health are served here." in server.get("/api/version").text


def test_a_client_certificate_can_be_demanded(stack: Stack, tmp_path: Path) -> None:
    ours, foreign = make_client_certificate(tmp_path / "ours.pem"), make_client_certificate(tmp_path / "foreign.pem")
    server = WebhookServer(stack, tmp_path, client_ca=ours)
    try:
        assert server.get("/health", ours).status_code == 200
        for client in (None, foreign):
            with pytest.raises(httpx.TransportError):
                server.get("/health", client)
    finally:
        stop_children([server.child], grace=5)


def make_client_certificate(path: Path) -> Path:
    """A file with a certificate for a client, signed by itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, path.stem)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(certificate.public_bytes(Encoding.PEM) + private)
    return path
