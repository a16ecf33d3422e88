"""The certificate of the webhook server that Kubernetes calls: our own certificate authority, and a server certificate
signed by it.

DIR/webhook/ holds `ca.crt`, `ca.key`, `tls.crt`, `tls.key` (all 0600). The authority is valid for ten years, so that
its bundle in the clusters stays valid while server certificates, valid for one year, are renewed.
"""

from __future__ import annotations

import ipaddress
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from osmo_admin.ops.files.data_directory import write_private_file
from osmo_admin.ops.programs.errors import OperationError

AUTHORITY_LIFETIME = timedelta(days=3650)
SERVER_LIFETIME = timedelta(days=365)
RENEW_BEFORE = timedelta(days=30)
_CLOCK_SKEW = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class ServerCertificate:
    """A server certificate on disk. `authority` is the PEM that its callers must trust."""

    certificate: Path
    key: Path
    authority: str
    hosts: frozenset[str]
    expires_at: datetime

    def days_left(self) -> int:
        """Whole days until it expires; negative afterwards."""
        return (self.expires_at - datetime.now(UTC)).days


def ensure_certificate(
    folder: Path, hosts: Iterable[str], *, now: datetime | None = None, lifetime: timedelta = SERVER_LIFETIME
) -> ServerCertificate:
    """The certificate for these hosts (names or addresses). It is created or renewed if it is missing, lacks a host or
    expires within 30 days; a new one is valid for `lifetime`. Raises OperationError for files that cannot be read."""
    now = now or datetime.now(UTC)
    required = frozenset(hosts)
    stored = read_certificate(folder)
    if stored is not None and required <= stored.hosts and stored.expires_at - now > RENEW_BEFORE:
        return stored
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as problem:
        raise OperationError(
            f"No certificate for {', '.join(sorted(required))} can be made in {folder}: {problem}."
        ) from (problem)
    if not os.access(folder, os.W_OK):
        have = (
            f"names {', '.join(sorted(stored.hosts))} and expires on {stored.expires_at:%Y-%m-%d}"
            if stored
            else "is missing"
        )
        raise OperationError(
            f"The certificate in {folder} {have}; one for {', '.join(sorted(required))} is needed, and the folder "
            "cannot be written. Renew it where it comes from (the Secret of the webhook server)."
        )
    authority, authority_key = _ensure_authority(folder, now)
    hosts_now = sorted(required | (stored.hosts if stored else frozenset()))
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        _certificate_builder("osmo-admin webhooks", authority.subject, key.public_key(), now, lifetime)
        .add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts_now]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    write_private_file(folder / "tls.key", _key_pem(key))
    write_private_file(folder / "tls.crt", _pem(certificate))
    created = read_certificate(folder)
    assert created is not None
    return created


def read_certificate(folder: Path) -> ServerCertificate | None:
    """The stored certificate, or None. Raises OperationError if it cannot be read."""
    paths = [folder / name for name in ("tls.crt", "tls.key", "ca.crt")]
    if not all(path.exists() for path in paths):
        return None
    try:
        certificate = x509.load_pem_x509_certificate(paths[0].read_bytes())
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound) as problem:
        raise OperationError(f"{paths[0]} cannot be read ({problem}). Remove {folder} to make a new one.") from problem
    hosts = {*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))}
    return ServerCertificate(
        paths[0], paths[1], paths[2].read_text(), frozenset(hosts), certificate.not_valid_after_utc
    )


def copy_for_server(folder: Path) -> tuple[Path, Path]:
    """Certificate and key of `folder`, copied into a private temporary folder in the formats that the server reads.

    A mounted Secret changes under a running server, and comes from tools that write other formats of a key (PKCS #1).
    The copy has a fixed place, `osmo-admin-webhook` in the temporary folder, so that a probe can compare the two.
    Raises OperationError if there is no certificate, or if another user owns that place.
    """
    stored = read_certificate(folder)
    if stored is None:
        raise OperationError(
            f"{folder} has no certificate for the webhook server: tls.crt, tls.key and ca.crt are needed there. "
            "Mount a Secret, or make one: osmo-admin webhook manifest BACKEND --url https://HOST:PORT"
        )
    copy = Path(tempfile.gettempdir()) / "osmo-admin-webhook"
    copy.mkdir(mode=0o700, exist_ok=True)
    if copy.is_symlink() or copy.stat().st_uid != os.geteuid():
        raise OperationError(f"{copy} belongs to another user. Remove it, or name another folder in TMPDIR.")
    try:
        key = serialization.load_pem_private_key(stored.key.read_bytes(), None)
    except (OSError, ValueError, TypeError) as problem:
        raise OperationError(
            f"{stored.key} cannot be read ({problem}). A private key without a password is needed."
        ) from (problem)
    write_private_file(copy / "tls.key", _key_pem(key))
    write_private_file(copy / "tls.crt", stored.certificate.read_text())
    return copy / "tls.crt", copy / "tls.key"


def _ensure_authority(folder: Path, now: datetime) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    certificate_path, key_path = folder / "ca.crt", folder / "ca.key"
    if certificate_path.exists() and key_path.exists():
        try:
            certificate = x509.load_pem_x509_certificate(certificate_path.read_bytes())
            key = serialization.load_pem_private_key(key_path.read_bytes(), None)
        except (OSError, ValueError) as problem:
            message = f"{certificate_path} cannot be read ({problem}). Remove {folder} to make a new one."
            raise OperationError(message) from problem
        if isinstance(key, ec.EllipticCurvePrivateKey) and certificate.not_valid_after_utc - now > SERVER_LIFETIME:
            return certificate, key
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "osmo-admin webhook authority")])
    certificate = (
        _certificate_builder("osmo-admin webhook authority", name, key.public_key(), now, AUTHORITY_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(_authority_key_usage(), critical=True)
        .sign(key, hashes.SHA256())
    )
    write_private_file(key_path, _key_pem(key))
    write_private_file(certificate_path, _pem(certificate))
    return certificate, key


def _certificate_builder(
    subject: str, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, lifetime: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + lifetime)
    )


def _authority_key_usage() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: PrivateKeyTypes) -> str:
    """The key in PKCS #8, the only format that the web server reads."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
