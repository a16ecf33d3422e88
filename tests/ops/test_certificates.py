"""The certificate of the webhook server: created once, renewed in time, not valid for other hosts."""

from __future__ import annotations

import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from osmo_admin.ops.files.certificates import RENEW_BEFORE, SERVER_LIFETIME, ensure_certificate, read_certificate
from osmo_admin.ops.programs.errors import OperationError

NOW = datetime.now(UTC)


def test_created_once_and_private(tmp_path: Path) -> None:
    made = ensure_certificate(tmp_path / "webhook", ["hooks.example", "10.0.0.7"])
    assert made.hosts == {"hooks.example", "10.0.0.7"}
    assert 363 <= made.days_left() <= 365
    assert ensure_certificate(tmp_path / "webhook", ["hooks.example"]) == made
    for path in (tmp_path / "webhook").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "webhook").stat().st_mode) == 0o700


def test_another_host_is_added_and_the_authority_stays(tmp_path: Path) -> None:
    first = ensure_certificate(tmp_path, ["a.example"])
    second = ensure_certificate(tmp_path, ["b.example"])
    assert second.hosts == {"a.example", "b.example"}
    assert second.authority == first.authority


def test_renewed_in_its_last_month_under_the_same_authority(tmp_path: Path) -> None:
    first = ensure_certificate(tmp_path, ["a.example"])
    early = NOW + SERVER_LIFETIME - RENEW_BEFORE - timedelta(days=1)
    assert ensure_certificate(tmp_path, ["a.example"], now=early) == first
    late = NOW + SERVER_LIFETIME - RENEW_BEFORE + timedelta(days=1)
    renewed = ensure_certificate(tmp_path, ["a.example"], now=late)
    assert renewed.expires_at > first.expires_at
    assert renewed.authority == first.authority


def test_an_authority_near_its_end_is_replaced(tmp_path: Path) -> None:
    first = ensure_certificate(tmp_path, ["a.example"])
    later = ensure_certificate(tmp_path, ["a.example"], now=NOW + timedelta(days=3500))
    assert later.authority != first.authority


def test_the_chain_and_the_key_belong_together(tmp_path: Path) -> None:
    made = ensure_certificate(tmp_path, ["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.certificate, made.key)  # raises when they do not
    leaf = x509.load_pem_x509_certificate(made.certificate.read_bytes())
    leaf.verify_directly_issued_by(x509.load_pem_x509_certificate(made.authority.encode()))
    assert made.key.read_text().startswith("-----BEGIN PRIVATE KEY-----"), "PKCS #8"
    assert load_pem_private_key(made.key.read_bytes(), None)


def test_a_missing_certificate_is_none(tmp_path: Path) -> None:
    assert read_certificate(tmp_path) is None


@pytest.mark.parametrize("name", ["tls.crt", "ca.crt"])
def test_a_damaged_file_is_named(tmp_path: Path, name: str) -> None:
    ensure_certificate(tmp_path, ["a.example"])
    (tmp_path / name).write_text("garbage")
    with pytest.raises(OperationError, match=name):
        ensure_certificate(tmp_path, ["b.example"])
