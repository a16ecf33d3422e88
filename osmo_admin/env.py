"""The settings of the operator, read once, with names, types, defaults and meanings in one place.

Values come from the environment; values that a running `osmo-admin up` generated (addresses, secret key) come from
`runtime.json` in the data directory, so that other commands use the same servers. A wrong value stops the start
with a message that names the variable.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, fields
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from environs import EnvError, ValidationError, validate

from osmo_admin.provider_env import DIRECTORIES, PROVIDERS, read_all_providers
from osmo_admin.settings_sections import SettingsReader, SettingsSection, read_by, read_path
from pools.domain.configuration.cluster_addresses import LOOPBACK, AddressRule
from pools.sign_on.providers import SignOnProvider

RUNTIME_FILE = "runtime.json"

__all__ = ["RUNTIME_FILE", "SECTIONS", "SECTIONS_OF_NAMES", "Env", "EnvError", "load_environment"]


class PasswordLogin(StrEnum):
    """Whose password logs in."""

    ALL = "all"
    ADMINS = "admins"


ADDRESSES = SettingsSection(
    "Addresses and secrets",
    elsewhere={
        "OSMO_ADMIN_PASSWORD": "the password of the user `admin`, if there is no user yet; the preparation of the "
        "database alone reads it",
    },
)
LOGINS = SettingsSection("Logins", "Identity providers (`OSMO_SSO…`) and directories (`OSMO_LDAP…`) are at the end.")
LIMITS = SettingsSection("Limits of each user", "A request above a limit is refused with 429 and the numbers.")
WORK = SettingsSection("Work")
CLUSTERS = SettingsSection(
    "Clusters",
    elsewhere={
        "OSMO_WEBHOOK_PORT": "the port of the webhook server of `osmo-admin up`, over TLS",
        "OSMO_WEBHOOK_URL": "the address of the webhook server for clusters, without `--service` or `--url`",
        "OSMO_WEBHOOK_AUTHORITY": "the file of the authority that has signed the certificate of the webhook server",
    },
)
NOTICES = SettingsSection("Notices")
HISTORY = SettingsSection("How long what is kept", "[backup.md](backup.md) says what stays longer.")
SERVING = SettingsSection(
    "Serving",
    elsewhere={
        "PROMETHEUS_MULTIPROC_DIR": "an empty folder that web processes share, for their metrics; `osmo-admin up` "
        "and `serve web` make one",
    },
)
GIT = SettingsSection(
    "The configuration in Git",
    "Options of `osmo-admin diff`, `apply` and `follow` ([git.md](git.md)).",
    {
        "OSMO_CONFIG_FILE": "the mounted file of `osmo-admin follow`",
        "OSMO_CONFIG_SOURCE": "the name of the repository",
        "OSMO_CONFIG_COMMIT": "the commit of the files",
    },
)
SECTIONS = (ADDRESSES, LOGINS, LIMITS, WORK, CLUSTERS, NOTICES, HISTORY, SERVING, GIT)
"""All variables except those of providers and directories, for the documents."""
SECTIONS_OF_NAMES = (PROVIDERS, DIRECTORIES)
"""Those of each provider and each directory, without the beginning of their names."""
_at_least = validate.Range


def _are_networks(texts: list[str]) -> None:
    try:
        AddressRule.of(texts)
    except ValueError as error:
        message = "Networks or addresses are expected, separated by commas, as 10.0.0.0/8."
        raise ValidationError(message) from error


def _is_mail_url(text: str) -> None:
    if text and not text.startswith(("mailto://", "mailtos://")):
        raise ValidationError("An address as mailtos://USER:PASSWORD@HOST:587?from=osmo@example.com is expected.")


def _can_trace_to(text: str) -> None:
    if text and not text.startswith(("http://", "https://")):
        raise ValidationError("The address of a collector is expected, as http://collector:4318/v1/traces.")
    if text and (find_spec("opentelemetry") is None or find_spec("opentelemetry.exporter") is None):
        raise ValidationError("Traces need the extra tracing: pip install 'osmo-admin[tracing]'.")


def _is_web_address(text: str) -> None:
    if text and not text.startswith(("http://", "https://")):
        raise ValidationError("An http:// or https:// address is expected.")


def _are_origins(texts: list[str]) -> None:
    for text in texts:
        _is_web_address(text)


def _is_slack_token(text: str) -> None:
    if text and not text.startswith("xoxb-"):
        raise ValidationError("The token of a bot is expected; it begins with xoxb-.")


@dataclass(frozen=True, slots=True)
class Env:
    """The settings of the operator, each with its variable, its default, its meaning (a part of a sentence with the
    unit) and its bounds, in the order of the page of settings. Durations are in seconds unless the name says otherwise.
    """

    data_dir: Path | None = ADDRESSES.path("OSMO_ADMIN_HOME", "the data directory of `osmo-admin up`")
    secret_key: str = ADDRESSES.text(
        "OSMO_SECRET_KEY",
        "",
        "50 or more random characters, the same for all processes; without it nothing is served. `osmo-admin up` "
        "makes one",
    )
    secret_key_fallbacks: list[str] = ADDRESSES.texts(
        "OSMO_SECRET_KEY_FALLBACKS",
        [],
        "replaced keys: data that they encrypted can still be read ([backup.md](backup.md))",
    )
    database_url: str = ADDRESSES.text(
        "DATABASE_URL",
        "",
        "`postgresql://…` of the role of the processes, PostgreSQL 15 or newer. Without it `osmo-admin up` starts "
        "an embedded server",
    )
    owner_database_url: str = ADDRESSES.text(
        "OSMO_OWNER_DATABASE_URL",
        "",
        "the same database with the role that owns the tables, for migrations alone ([database.md](database.md))",
    )
    redis_url: str = ADDRESSES.text(
        "REDIS_URL",
        "",
        "`redis://…`, `rediss://…` or `unix://…` of Redis or Valkey. Without it `osmo-admin up` starts an embedded "
        "server",
    )
    public_url: str = ADDRESSES.text(
        "OSMO_PUBLIC_URL", "", "the address for users, which begins links in notices and in answers"
    )
    docs_url: str = ADDRESSES.text(
        "OSMO_DOCS_URL", "", "the address of these documents, to which the menu of a person links", _is_web_address
    )
    allowed_hosts: list[str] = ADDRESSES.texts(
        "OSMO_ALLOWED_HOSTS",
        ["localhost", "127.0.0.1", "[::1]"],
        "the host names under which the server is reached",
    )
    secure: bool = ADDRESSES.switch(
        "OSMO_SECURE", False, "TLS ends at a proxy: cookies and links for https only ([serving.md](serving.md))"
    )
    proxy_count: int = ADDRESSES.integer(
        "OSMO_PROXY_COUNT",
        0,
        "proxies in front of the server, whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed",
        _at_least(min=0),
    )
    gateways: list[str] = ADDRESSES.texts(
        "OSMO_GATEWAYS",
        [],
        "addresses or networks of processes `osmo mcp --listen` alone, which say whose request they pass on "
        "([agents.md](agents.md))",
        _are_networks,
    )
    csrf_trusted_origins: list[str] = ADDRESSES.texts(
        "OSMO_CSRF_TRUSTED_ORIGINS",
        [],
        "further origins from which forms are accepted, with their scheme",
        _are_origins,
    )
    sign_on_providers: tuple[SignOnProvider, ...] = read_by(read_all_providers)
    password_login: PasswordLogin = LOGINS.word(
        "OSMO_PASSWORD_LOGIN",
        PasswordLogin.ALL,
        "`admins`: only an account with the role osmo-admin logs in with a password",
    )
    sign_on_check_interval: float = LOGINS.number(
        "OSMO_SSO_CHECK_INTERVAL",
        60.0,
        "seconds after which a provider or directory confirms each person again",
        _at_least(min=5, max=3600),
    )
    sign_on_grace: float = LOGINS.number(
        "OSMO_SSO_GRACE",
        600.0,
        "seconds for which a sign-on is believed while the provider does not answer",
        _at_least(min=60, max=86_400),
    )
    max_login_failures: int = LOGINS.integer(
        "OSMO_MAX_LOGIN_FAILURES",
        100,
        "failed logins of one address within 15 minutes, with any names (behind a proxy set `OSMO_PROXY_COUNT`, or "
        "all users have its address); ten of one name at one address lock that name there",
        _at_least(min=10),
    )
    max_live_workflows: int = LIMITS.integer(
        "OSMO_MAX_LIVE_WORKFLOWS", 5_000, "workflows that have not ended", _at_least(min=1)
    )
    max_submissions_per_minute: int = LIMITS.integer(
        "OSMO_MAX_SUBMISSIONS_PER_MINUTE",
        0,
        "workflows that are submitted within a minute; 0: no limit",
        _at_least(min=0),
    )
    max_tokens: int = LIMITS.integer("OSMO_MAX_TOKENS", 100, "access tokens", _at_least(min=1))
    max_notice_targets: int = LIMITS.integer(
        "OSMO_MAX_NOTICE_TARGETS",
        20,
        "destinations of notices, also of each pool and of the installation",
        _at_least(min=1),
    )
    max_stored_answers: int = LIMITS.integer(
        "OSMO_MAX_STORED_ANSWERS", 20_000, "stored answers to requests with an `Idempotency-Key`", _at_least(min=1)
    )
    max_stored_bytes: int = LIMITS.integer(
        "OSMO_MAX_STORED_BYTES", 64 * 2**20, "their bytes together", _at_least(min=1)
    )
    max_answer_bytes: int = LIMITS.integer("OSMO_MAX_ANSWER_BYTES", 2**20, "the bytes of one", _at_least(min=1))
    max_tasks: int = WORK.integer("OSMO_MAX_TASKS", 20, "tasks of a workflow", _at_least(min=1))
    max_pods: int = WORK.integer("OSMO_MAX_PODS", 1000, "pods of a PodGroup, 2000 at most", _at_least(min=1, max=2000))
    lock_timeout_ms: int = WORK.integer(
        "OSMO_LOCK_TIMEOUT_MS",
        3000,
        "milliseconds for which a change waits for a lock before it is answered 503",
        _at_least(min=1),
    )
    reconcile_interval: float = WORK.number(
        "OSMO_SETTLE_INTERVAL",
        5.0,
        "simulated backends: seconds between scheduling cycles without an event",
        _at_least(min=0.1),
    )
    simulated_runtime: float = WORK.number(
        "OSMO_SIMULATED_RUNTIME",
        60.0,
        "simulated backends: seconds for which a task runs without a label that says otherwise",
        _at_least(min=0),
    )
    approval_hours: int = WORK.integer(
        "OSMO_APPROVAL_HOURS",
        72,
        "hours after which a requested approval expires ([approvals.md](approvals.md))",
        _at_least(min=1, max=2160),
    )
    sync_interval: float = CLUSTERS.number(
        "OSMO_SYNC_INTERVAL", 30.0, "seconds between two checks of the queues of a cluster", _at_least(min=0.1)
    )
    cluster_calls_per_second: float = CLUSTERS.number(
        "OSMO_CLUSTER_CALLS_PER_SECOND", 50.0, "requests to one API server", _at_least(min=1)
    )
    kubeconfig_dir: Path | None = CLUSTERS.path(
        "OSMO_KUBECONFIG_DIR",
        "the folder (a mounted Secret) of the kubeconfig files that backends may name",
    )
    cluster_addresses: list[str] = CLUSTERS.texts(
        "OSMO_CLUSTER_ADDRESSES",
        list(LOOPBACK),
        "networks that a sent kubeconfig may name although such addresses (loopback, link-local, unspecified, "
        "metadata) are refused; with `OSMO_SECURE` none",
        _are_networks,
    )
    webhook_client_ca: str = CLUSTERS.text(
        "OSMO_WEBHOOK_CLIENT_CA", "", "the file of the authority of the only clients that the webhook server serves"
    )
    mail_url: str = NOTICES.text(
        "OSMO_MAIL_URL",
        "",
        "the mail server: `mailtos://USER:PASSWORD@HOST:587?from=osmo@example.com`, without TLS `mailto://…` "
        "([notices.md](notices.md))",
        _is_mail_url,
    )
    slack_token: str = NOTICES.text(
        "OSMO_SLACK_TOKEN", "", "the token of a bot of Slack (`xoxb-…`), for direct messages", _is_slack_token
    )
    notice_addresses: list[str] = NOTICES.texts(
        "OSMO_NOTICE_ADDRESSES",
        [],
        "networks in which destinations may be although they are inside, where they are refused otherwise",
        _are_networks,
    )
    notice_retention_days: int = NOTICES.integer(
        "OSMO_NOTICE_RETENTION_DAYS", 30, "days for which notices are kept", _at_least(min=2)
    )
    audit_retention_days: int = HISTORY.integer(
        "OSMO_AUDIT_RETENTION_DAYS",
        0,
        "days of the audit trail, more than those of the record of use, which follows from it; 0: for ever",
        _at_least(min=0),
    )
    usage_retention_days: int = HISTORY.integer(
        "OSMO_USAGE_RETENTION_DAYS", 731, "days of the record of use", _at_least(min=1)
    )
    decision_retention_days: int = HISTORY.integer(
        "OSMO_DECISION_RETENTION_DAYS", 30, "days of the decisions of the scheduler", _at_least(min=2)
    )
    idempotency_hours: int = HISTORY.integer(
        "OSMO_IDEMPOTENCY_HOURS",
        24,
        "hours of the answers to requests with an `Idempotency-Key`",
        _at_least(min=1, max=720),
    )
    db_pool_size: int = SERVING.integer(
        "OSMO_DB_POOL_SIZE",
        0,
        "connections to PostgreSQL that a process keeps; 0: one for each thread",
        _at_least(min=0),
    )
    body_timeout: float = SERVING.number(
        "OSMO_BODY_TIMEOUT",
        10.0,
        "seconds within which the body of a request has to arrive, else 408",
        _at_least(min=0.1, max=600),
    )
    body_limit_mb: int = SERVING.integer(
        "OSMO_BODY_LIMIT_MB", 16, "MiB of a body at most, else 413", _at_least(min=1, max=1024)
    )
    event_streams: int = SERVING.integer(
        "OSMO_EVENT_STREAMS",
        500,
        "event streams (`/api/events`) of each web process; further clients poll",
        _at_least(min=1),
    )
    metrics_public: bool = SERVING.switch(
        "OSMO_METRICS_PUBLIC", False, "`/metrics` needs no login, else one of a user who may read all pools"
    )
    metrics_port: int = SERVING.integer(
        "OSMO_METRICS_PORT",
        0,
        "a port at which `serve worker` and `serve clusters` answer `/metrics` with their own counters, without a "
        "login; 0: none ([watching.md](watching.md))",
        _at_least(min=0),
    )
    traces_url: str = SERVING.text(
        "OSMO_TRACES_URL",
        "",
        "the collector of traces, OTLP over HTTP ([watching.md](watching.md))",
        _can_trace_to,
    )
    traces_share: float = SERVING.number(
        "OSMO_TRACES_SHARE", 1.0, "the share of traces that begin here, 0 to 1", _at_least(min=0, max=1)
    )
    log_format: str = SERVING.text(
        "OSMO_LOG_FORMAT",
        "console",
        "`json` for programs: one object in each line ([serving.md](serving.md#log-lines))",
        validate.OneOf(["console", "json"]),
    )
    debug: bool = SERVING.switch("OSMO_DEBUG", False, "never on a server that others reach")
    dev_login: bool = SERVING.switch(
        "OSMO_DEV_LOGIN", False, "believes the header `x-osmo-user`; never on a server that others reach"
    )
    read_variables: frozenset[str] = frozenset()
    """The names of all variables that the server knows."""


def _apply_runtime_defaults(data_dir: Path | None) -> None:
    """Use the values that `osmo-admin up` wrote to `runtime.json` as defaults; the real environment wins. If that names
    another database, the file is of another installation, whose owner, broker and key are not for this one."""
    if data_dir is None or not (path := data_dir / RUNTIME_FILE).is_file():
        return
    known = json.loads(path.read_text())
    if os.environ.get("DATABASE_URL") not in {None, "", known.get("DATABASE_URL")}:
        return
    for name, value in known.items():
        os.environ.setdefault(name, str(value))


def load_environment() -> Env:
    """Read the environment. Raises :class:`EnvError` with the variable's name."""
    reader = SettingsReader()
    _apply_runtime_defaults(read_path(reader, "OSMO_ADMIN_HOME"))
    found: dict[str, Any] = {
        each.name: each.metadata["read"](reader) for each in fields(Env) if "read" in each.metadata
    }
    found["public_url"] = found["public_url"].rstrip("/")
    if not reader.list("OSMO_CLUSTER_ADDRESSES", []):
        found["cluster_addresses"] = [] if found["secure"] else list(LOOPBACK)
    elsewhere = {each.name for section in SECTIONS for each in section.variables}
    return Env(**found, read_variables=frozenset(reader.names | elsewhere))
