"""`osmo-admin serve webhook`: the webhook server as a process of its own, with a certificate made elsewhere."""

from __future__ import annotations

import base64
import os
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from typer.testing import CliRunner

from osmo_admin.cli.server import app
from osmo_admin.cli.server_commands.certificate_secret import keep_certificate_secret
from osmo_admin.ops.files.certificates import copy_for_server, ensure_certificate
from osmo_admin.ops.programs import ports
from osmo_admin.ops.programs.errors import OperationError
from scheduling.kube.connection import resource_kinds
from tests.support.chart import NAMESPACE
from tests.support.fake_cluster import FakeCluster
from tests.support.kube_server import wait_for

HOST = f"osmo-osmo-admin-webhook.{NAMESPACE}.svc"


@pytest.fixture
def mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, bytes]], Path]:
    """Puts files into the folder `webhook` of a data directory; the temporary folder is the test's own."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    def write(files: dict[str, bytes]) -> Path:
        folder = tmp_path / "data" / "webhook"
        folder.mkdir(parents=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
        return folder

    return write


def test_the_certificate_of_the_chart_is_served(tmp_path: Path, mounted: Callable[[dict[str, bytes]], Path]) -> None:
    cluster = FakeCluster(namespaces=[NAMESPACE])
    keep_certificate_secret(cluster, NAMESPACE, "hooks", [HOST])
    secret = cluster.get(resource_kinds.SECRET, "hooks", namespace=NAMESPACE)["data"]
    folder = mounted({name: base64.b64decode(text) for name, text in secret.items()})
    key = serialization.load_pem_private_key((folder / "tls.key").read_bytes(), None)
    other_format = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    (folder / "tls.key").write_bytes(other_format)  # that of other tools, which the server itself does not read
    port = ports.choose_port("127.0.0.1", None)
    log = (tmp_path / "log").open("wb")
    environment = {
        **os.environ, "OSMO_SECRET_KEY": "k" * 10 + "0123456789" * 5, "OSMO_ALLOWED_HOSTS": f"localhost,{HOST}",
        "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none", "DJANGO_SETTINGS_MODULE": "osmo_admin.settings",
    }  # fmt: skip
    command = [sys.executable, "-m", "osmo_admin.cli.server", "serve", "webhook", "--port", str(port)]
    server = subprocess.Popen(
        [*command, "--data-dir", str(folder.parent)], stdout=log, stderr=log, env=environment, start_new_session=True
    )
    trust = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    trust.check_hostname = False  # the test has no name server; the name is compared below
    try:
        request = urllib.request.Request(f"https://127.0.0.1:{port}/health", headers={"Host": HOST})

        def answer() -> int:
            assert server.poll() is None, (tmp_path / "log").read_text()
            try:
                with urllib.request.urlopen(request, context=trust, timeout=30) as response:
                    return int(response.status)
            except OSError:
                return 0

        assert wait_for(answer, description="the webhook server answers") == 200
        assert (tmp_path / "osmo-admin-webhook" / "tls.crt").read_bytes() == (folder / "tls.crt").read_bytes()
    finally:
        server.terminate()
        server.wait(60)
        log.close()


def test_a_key_is_copied_in_the_format_of_the_server(
    mounted: Callable[[dict[str, bytes]], Path], tmp_path: Path
) -> None:
    made = ensure_certificate(tmp_path / "made", [HOST])
    files = {name: (tmp_path / "made" / name).read_bytes() for name in ("tls.crt", "tls.key", "ca.crt")}
    certificate, key = copy_for_server(mounted(files))
    assert certificate.read_bytes() == made.certificate.read_bytes()
    assert key.read_text().startswith("-----BEGIN PRIVATE KEY-----")
    assert (key.stat().st_mode & 0o777, key.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_missing_certificate_is_named(mounted: Callable[[dict[str, bytes]], Path]) -> None:
    folder = mounted({})
    done = CliRunner().invoke(app, ["serve", "webhook", "--data-dir", str(folder.parent)])
    assert done.exit_code == 1
    assert f"{folder} has no certificate for the webhook server" in done.output


def test_a_key_with_a_password_is_refused(mounted: Callable[[dict[str, bytes]], Path], tmp_path: Path) -> None:
    ensure_certificate(tmp_path / "made", [HOST])
    files = {name: (tmp_path / "made" / name).read_bytes() for name in ("tls.crt", "ca.crt")}
    folder = mounted({**files, "tls.key": b"-----BEGIN PRIVATE KEY-----\nnone\n-----END PRIVATE KEY-----\n"})
    with pytest.raises(OperationError, match="cannot be read"):
        copy_for_server(folder)
