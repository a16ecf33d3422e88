"""The settings of the operator, read once, with names, types and defaults in one place.

Values come from the environment; values that a running `osmo-admin up` generated (addresses, secret key) come from
`runtime.json` in the data directory, so that other commands use the same servers. A wrong value stops the start
with a message that names the variable.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path

from environs import Env as Reader
from environs import EnvError, ValidationError, validate

from osmo_admin.provider_env import read_all_providers
from pools.domain.configuration.cluster_addresses import LOOPBACK, AddressRule
from pools.sign_on.providers import SignOnProvider

RUNTIME_FILE = "runtime.json"

__all__ = ["RUNTIME_FILE", "Env", "EnvError", "load_environment"]


class PasswordLogin(StrEnum):
    """Whose password logs in."""

    ALL = "all"
    ADMINS = "admins"


@dataclass(frozen=True, slots=True)
class Env:
    """The settings of the operator. Durations are in seconds unless the name says otherwise."""

    database_url: str
    owner_database_url: str
    redis_url: str
    secret_key: str
    secret_key_fallbacks: list[str]
    data_dir: Path | None
    debug: bool
    dev_login: bool
    allowed_hosts: list[str]
    csrf_trusted_origins: list[str]
    public_url: str
    secure: bool
    proxy_count: int
    gateways: list[str]
    db_pool_size: int
    lock_timeout_ms: int
    log_format: str
    reconcile_interval: float
    simulated_runtime: float
    kubeconfig_dir: Path | None
    cluster_addresses: list[str]
    notice_addresses: list[str]
    notice_retention_days: int
    max_notice_targets: int
    mail_url: str
    slack_token: str
    sync_interval: float
    cluster_calls_per_second: float
    max_tasks: int
    max_pods: int
    max_live_workflows: int
    max_submissions_per_minute: int
    max_tokens: int
    max_login_failures: int
    max_stored_answers: int
    max_stored_bytes: int
    max_answer_bytes: int
    usage_retention_days: int
    audit_retention_days: int
    decision_retention_days: int
    idempotency_hours: int
    approval_hours: int
    body_timeout: float
    body_limit_mb: int
    event_streams: int
    metrics_public: bool
    metrics_port: int
    traces_url: str
    traces_share: float
    webhook_client_ca: str
    sign_on_providers: tuple[SignOnProvider, ...]
    sign_on_check_interval: float
    sign_on_grace: float
    password_login: PasswordLogin
    read_variables: frozenset[str] = frozenset()
    """The names of all variables that were looked for."""


class _Recorder(Reader):
    """Knows which variables were looked for."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def _get_key(self, key: str, *, omit_prefix: bool = False) -> str:
        name = str(super()._get_key(key, omit_prefix=omit_prefix))
        self.names.add(name)
        return name


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


def _are_networks(texts: list[str]) -> None:
    try:
        AddressRule.of(texts)
    except ValueError as error:
        raise ValidationError(f"Networks or addresses are expected, separated by commas: {error}.") from error


def _is_mail_url(text: str) -> None:
    if text and not text.startswith(("mailto://", "mailtos://")):
        raise ValidationError("An address as mailtos://USER:PASSWORD@HOST:587?from=osmo@example.com is expected.")


def _can_trace_to(text: str) -> None:
    if text and not text.startswith(("http://", "https://")):
        raise ValidationError("The address of a collector is expected, as http://collector:4318/v1/traces.")
    if text and (find_spec("opentelemetry") is None or find_spec("opentelemetry.exporter") is None):
        raise ValidationError("Traces need the extra tracing: pip install 'osmo-admin[tracing]'.")


def _is_slack_token(text: str) -> None:
    if text and not text.startswith("xoxb-"):
        raise ValidationError("The token of a bot is expected; it begins with xoxb-.")


def _as_path(text: str) -> Path | None:
    """An empty text is not a path: `Path("")` would be the current folder."""
    return Path(text) if text else None


def load_environment() -> Env:
    """Read the environment. Raises :class:`EnvError` with the variable's name."""
    read = _Recorder()
    data_dir = _as_path(read.str("OSMO_ADMIN_HOME", ""))
    _apply_runtime_defaults(data_dir)
    at_least = validate.Range
    return Env(
        database_url=read.str("DATABASE_URL", ""),
        owner_database_url=read.str("OSMO_OWNER_DATABASE_URL", ""),
        redis_url=read.str("REDIS_URL", ""),
        secret_key=read.str("OSMO_SECRET_KEY", ""),
        secret_key_fallbacks=read.list("OSMO_SECRET_KEY_FALLBACKS", []),
        data_dir=data_dir,
        debug=read.bool("OSMO_DEBUG", False),
        dev_login=read.bool("OSMO_DEV_LOGIN", False),
        allowed_hosts=read.list("OSMO_ALLOWED_HOSTS", ["localhost", "127.0.0.1", "[::1]"]),
        csrf_trusted_origins=read.list("OSMO_CSRF_TRUSTED_ORIGINS", []),
        public_url=read.str("OSMO_PUBLIC_URL", "").rstrip("/"),
        secure=read.bool("OSMO_SECURE", False),
        proxy_count=read.int("OSMO_PROXY_COUNT", 0, validate=at_least(min=0)),
        gateways=read.list("OSMO_GATEWAYS", [], validate=_are_networks),
        db_pool_size=read.int("OSMO_DB_POOL_SIZE", 0, validate=at_least(min=0)),
        lock_timeout_ms=read.int("OSMO_LOCK_TIMEOUT_MS", 3000, validate=at_least(min=1)),
        log_format=read.str("OSMO_LOG_FORMAT", "console", validate=validate.OneOf(["console", "json"])),
        reconcile_interval=read.float("OSMO_SETTLE_INTERVAL", 5.0, validate=at_least(min=0.1)),
        simulated_runtime=read.float("OSMO_SIMULATED_RUNTIME", 60.0, validate=at_least(min=0)),
        kubeconfig_dir=_as_path(read.str("OSMO_KUBECONFIG_DIR", "")),
        cluster_addresses=read.list("OSMO_CLUSTER_ADDRESSES", [], validate=_are_networks)
        or ([] if read.bool("OSMO_SECURE", False) else list(LOOPBACK)),
        notice_addresses=read.list("OSMO_NOTICE_ADDRESSES", [], validate=_are_networks),
        notice_retention_days=read.int("OSMO_NOTICE_RETENTION_DAYS", 30, validate=at_least(min=2)),
        max_notice_targets=read.int("OSMO_MAX_NOTICE_TARGETS", 20, validate=at_least(min=1)),
        mail_url=read.str("OSMO_MAIL_URL", "", validate=_is_mail_url),
        slack_token=read.str("OSMO_SLACK_TOKEN", "", validate=_is_slack_token),
        sync_interval=read.float("OSMO_SYNC_INTERVAL", 30.0, validate=at_least(min=0.1)),
        cluster_calls_per_second=read.float("OSMO_CLUSTER_CALLS_PER_SECOND", 50.0, validate=at_least(min=1)),
        max_tasks=read.int("OSMO_MAX_TASKS", 20, validate=at_least(min=1)),
        max_pods=read.int("OSMO_MAX_PODS", 1000, validate=at_least(min=1, max=2000)),
        max_live_workflows=read.int("OSMO_MAX_LIVE_WORKFLOWS", 5_000, validate=at_least(min=1)),
        max_submissions_per_minute=read.int("OSMO_MAX_SUBMISSIONS_PER_MINUTE", 0, validate=at_least(min=0)),
        max_tokens=read.int("OSMO_MAX_TOKENS", 100, validate=at_least(min=1)),
        max_login_failures=read.int("OSMO_MAX_LOGIN_FAILURES", 100, validate=at_least(min=10)),
        max_stored_answers=read.int("OSMO_MAX_STORED_ANSWERS", 20_000, validate=at_least(min=1)),
        max_stored_bytes=read.int("OSMO_MAX_STORED_BYTES", 64 * 2**20, validate=at_least(min=1)),
        max_answer_bytes=read.int("OSMO_MAX_ANSWER_BYTES", 2**20, validate=at_least(min=1)),
        usage_retention_days=read.int("OSMO_USAGE_RETENTION_DAYS", 731, validate=at_least(min=1)),
        audit_retention_days=read.int("OSMO_AUDIT_RETENTION_DAYS", 0, validate=at_least(min=0)),
        decision_retention_days=read.int("OSMO_DECISION_RETENTION_DAYS", 30, validate=at_least(min=2)),
        idempotency_hours=read.int("OSMO_IDEMPOTENCY_HOURS", 24, validate=at_least(min=1, max=720)),
        approval_hours=read.int("OSMO_APPROVAL_HOURS", 72, validate=at_least(min=1, max=2160)),
        body_timeout=read.float("OSMO_BODY_TIMEOUT", 10.0, validate=at_least(min=0.1, max=600)),
        body_limit_mb=read.int("OSMO_BODY_LIMIT_MB", 16, validate=at_least(min=1, max=1024)),
        event_streams=read.int("OSMO_EVENT_STREAMS", 500, validate=at_least(min=1)),
        metrics_public=read.bool("OSMO_METRICS_PUBLIC", False),
        metrics_port=read.int("OSMO_METRICS_PORT", 0, validate=at_least(min=0)),
        traces_url=read.str("OSMO_TRACES_URL", "", validate=_can_trace_to),
        traces_share=read.float("OSMO_TRACES_SHARE", 1.0, validate=at_least(min=0, max=1)),
        webhook_client_ca=read.str("OSMO_WEBHOOK_CLIENT_CA", ""),
        sign_on_providers=read_all_providers(read),
        sign_on_check_interval=read.float("OSMO_SSO_CHECK_INTERVAL", 60.0, validate=at_least(min=5, max=3600)),
        sign_on_grace=read.float("OSMO_SSO_GRACE", 600.0, validate=at_least(min=60, max=86_400)),
        password_login=PasswordLogin(read.str("OSMO_PASSWORD_LOGIN", "all", validate=validate.OneOf([*PasswordLogin]))),
        read_variables=frozenset(read.names),
    )
