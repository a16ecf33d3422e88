"""The checks of what a process can reach, made by the process itself. Each check answers within seconds and raises
nothing."""

from __future__ import annotations

import shutil
import smtplib
import socket
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import redis
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection

from osmo_admin.doctor.findings import Finding
from osmo_admin.monitoring import heartbeat
from osmo_admin.monitoring.health import count_missing_migrations
from osmo_admin.ops.programs import process_commands
from osmo_admin.provider_env import setting_prefix
from pools.database.statements import execute_sql
from pools.domain.errors import DomainError
from pools.models import Backend
from pools.sign_on import directories, openid
from pools.sign_on.providers import LdapDirectory, OpenIdProvider

OLDEST_POSTGRESQL = 15
MAX_CLOCK_SKEW = 5.0  # seconds; logins allow 60, leases and promises of starts less
LEAST_FREE = 0.1  # of a disk
CERTIFICATE_DAYS = 14
MAIL_SECONDS = 5.0

Check = Callable[[], Iterator[Finding]]


def check_database() -> Iterator[Finding]:
    """Reach, version, migrations, and the difference between the clocks of the database and of this machine."""
    try:
        before = time.time()
        there, number, is_standby = execute_sql(
            "SELECT extract(epoch FROM clock_timestamp())::float8, current_setting('server_version_num')::int,"
            " pg_is_in_recovery()"
        ).fetchone()
        here = (before + time.time()) / 2
        missing = count_missing_migrations()
    except DatabaseError as problem:
        yield Finding(
            "database", "", False, f"The database does not answer ({type(problem).__name__}).",
            "Check DATABASE_URL, and whether PostgreSQL runs and takes connections; the log has the error.",
        )  # fmt: skip
        return
    version = number // 10_000
    yield Finding("database", "", True, f"PostgreSQL {version} answers.")
    if version < OLDEST_POSTGRESQL:
        message = f"PostgreSQL {OLDEST_POSTGRESQL} or newer is needed; this is {version}."
        yield Finding("database", "version", False, message, "Move the database to a newer server (docs/backup.md).")
    if is_standby:
        message = "DATABASE_URL leads to a standby, which takes no changes."
        yield Finding("database", "role", False, message, "Name the primary, or make the standby the primary.")
    yield _migrations(missing)
    skew = abs(there - here)
    yield Finding(
        "clock", "", skew <= MAX_CLOCK_SKEW,
        f"The clocks of the database and of this machine differ by {skew:.1f} s.",
        "" if skew <= MAX_CLOCK_SKEW else "Let both machines follow the same time server (chrony, systemd-timesyncd).",
    )  # fmt: skip


def _migrations(missing: int) -> Finding:
    if not missing:
        return Finding("migrations", "", True, "All migrations are applied.")
    message = f"{missing} {'migration is' if missing == 1 else 'migrations are'} not applied."
    return Finding("migrations", "", False, message, "Run: osmo-admin manage migrate")


def check_broker() -> Iterator[Finding]:
    """Whether the broker answers and takes writes."""
    try:
        heartbeat.write_to_redis()
    except redis.RedisError as problem:
        yield Finding(
            "broker", "", False, f"The broker does not answer, or takes no writes ({type(problem).__name__}).",
            "Check REDIS_URL, whether Redis or Valkey runs, its memory and its disk.",
        )  # fmt: skip
    else:
        yield Finding("broker", "", True, "The broker answers and takes writes.")


def check_providers() -> Iterator[Finding]:
    """Each OpenID provider: its metadata and its keys, read anew."""
    for provider in settings.OSMO.sign_on_providers:
        if isinstance(provider, OpenIdProvider):
            yield _answered(
                "provider", provider.name, partial(openid.ask_again, provider),
                f"The provider {provider.name} answers with its metadata and keys.",
                f"Compare {setting_prefix(provider)}ISSUER, name resolution, the proxy and the firewall on the way.",
            )  # fmt: skip


def check_directories() -> Iterator[Finding]:
    """Each directory (LDAP): a connection, with TLS, and a bind with our account."""
    for directory in settings.OSMO.sign_on_providers:
        if isinstance(directory, LdapDirectory):
            yield _answered(
                "directory", directory.name, partial(directories.try_connection, directory),
                f"The directory {directory.name} takes our account.",
                f"Compare {setting_prefix(directory)}URLS, BIND_DN and BIND_PASSWORD, and the authority of its "
                "certificate.",
            )  # fmt: skip


def _answered(check: str, subject: str, ask: Callable[[], None], answer: str, advice: str) -> Finding:
    try:
        ask()
    except DomainError as problem:
        return Finding(check, subject, False, problem.message, advice)
    return Finding(check, subject, True, answer)


def check_mail() -> Iterator[Finding]:
    """The mail server of OSMO_MAIL_URL: connection, encryption and login; no mail is sent."""
    if not settings.OSMO.mail_url:
        return
    try:
        _greet_mail_server(settings.OSMO.mail_url)
    except smtplib.SMTPAuthenticationError:
        message = "The mail server refuses our login."
    except (OSError, smtplib.SMTPException) as problem:
        message = f"The mail server cannot be used ({type(problem).__name__})."
    else:
        yield Finding("mail", "", True, "The mail server answers and takes our login.")
        return
    yield Finding("mail", "", False, message, "Compare OSMO_MAIL_URL with the server: host, port, encryption, login.")


def _greet_mail_server(url: str) -> None:
    import apprise  # noqa: PLC0415  (loaded by the process that sends notices only)
    from apprise.plugins.email import SecureMailMode  # noqa: PLC0415

    mail: Any = apprise.Apprise.instantiate(url)
    if mail is None:
        raise smtplib.SMTPException("unreadable")
    is_tls = mail.secure and mail.secure_mode == SecureMailMode.SSL
    kind = smtplib.SMTP_SSL if is_tls else smtplib.SMTP
    with kind(mail.smtp_host, mail.port, timeout=MAIL_SECONDS) as server:
        if mail.secure and not is_tls:
            server.starttls(context=ssl.create_default_context())
        if mail.user and mail.password:
            try:
                server.login(mail.user, mail.password)
            except smtplib.SMTPException:  # some servers hang up
                raise smtplib.SMTPAuthenticationError(535, b"") from None
        else:
            server.noop()


def check_clusters() -> Iterator[Finding]:
    """Each Kubernetes backend: API server, rights, definitions of KAI, as the connection test of its page."""
    from scheduling.services.kubernetes.connection_test import connection_report  # noqa: PLC0415  (loads the client)

    try:
        backends = list(Backend.objects.filter(kind=Backend.Kind.KUBERNETES).order_by("name"))
        for backend in backends:
            report = connection_report(backend)
            failed = [each for each in report.checks if not each.is_ok and each.is_required]
            if not failed:
                yield Finding("cluster", backend.name, report.is_ok, report.message)
            for each in failed:
                advice = f"Read the page Cluster sync, or run: osmo-admin sync --backend {backend.name} --dry-run"
                yield Finding("cluster", backend.name, False, f"{each.message.rstrip('.')}.", advice)
    except DatabaseError:
        yield Finding("cluster", "", False, "The clusters are not known without the database.", "See: database")


def free_disks() -> Iterator[tuple[str, Path, float]]:
    """Name, folder and free part of the disks with the data directory and with temporary files."""
    folders = {"temporary files": Path(tempfile.gettempdir())}
    if settings.OSMO.data_dir is not None and settings.OSMO.data_dir.is_dir():
        folders["data directory"] = settings.OSMO.data_dir
    for name, folder in folders.items():
        facts = shutil.disk_usage(folder)
        yield name, folder, facts.free / facts.total if facts.total else 1.0


def check_disks() -> Iterator[Finding]:
    """Whether these disks have room."""
    for name, folder, free in free_disks():
        yield Finding(
            "disk", name, free >= LEAST_FREE, f"{free:.0%} of the disk of {folder} are free.",
            "" if free >= LEAST_FREE else "Free space there, or enlarge the disk; a full one stops the database.",
        )  # fmt: skip


def check_certificate() -> Iterator[Finding]:
    """The end of the certificate of the webhook server, where this process can read it."""
    end = webhook_certificate_end()
    if end is None:
        return
    days = (end - datetime.now(UTC)).total_seconds() / 86_400
    ok = days > CERTIFICATE_DAYS
    state = f"ends in {days:.0f} days" if days > 0 else "has ended"
    advice = "" if ok else "Renew it (docs/kubernetes.md, “Webhooks”); osmo-admin up does so when it starts."
    yield Finding(
        "certificate", "webhook", ok, f"The certificate of the webhook server {state}, on {end:%Y-%m-%d}.", advice
    )


def webhook_certificate_end() -> datetime | None:
    """When the certificate of the webhook server ends; None where there is none."""
    from cryptography import x509  # noqa: PLC0415

    if settings.OSMO.data_dir is None:
        return None
    try:
        text = (settings.OSMO.data_dir / "webhook" / "tls.crt").read_bytes()
        return x509.load_pem_x509_certificate(text).not_valid_after_utc
    except (OSError, ValueError):
        return None


# The checks of each kind of process: what it needs for its own work.
_EVERY: tuple[Check, ...] = (check_database, check_broker, check_disks)
CHECKS: dict[str, tuple[Check, ...]] = {
    process_commands.WEB: (*_EVERY, check_providers, check_directories),
    process_commands.WORKER: (*_EVERY, check_providers, check_directories, check_mail, check_clusters),
    process_commands.BEAT: _EVERY,
    process_commands.CLUSTERS: (*_EVERY, check_clusters, check_certificate),
    process_commands.WEBHOOK: (*_EVERY, check_certificate),
}
# Too dear for every few minutes, or known otherwise: clusters have metrics of their own, mail has its notices.
ONLY_ON_REQUEST = (check_mail, check_clusters)


def run_checks(kind: str, *, all_of_them: bool) -> list[Finding]:
    """The findings of a process of this kind, tried from here and now."""
    found: list[Finding] = []
    with closing(connection):
        for check in CHECKS[kind]:
            if all_of_them or check not in ONLY_ON_REQUEST:
                found += check()
    return found


def host_name() -> str:
    """The name of this machine or pod."""
    return socket.gethostname()
