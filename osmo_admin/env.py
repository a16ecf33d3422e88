"""The settings of the operator, read once, with names, types and defaults in one place.

Values come from the environment; values that a running `osmo-admin up` generated (addresses, secret key) come from
`runtime.json` in the data directory, so that other commands use the same servers. A wrong value stops the start
with a message that names the variable.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from environs import Env as Reader
from environs import EnvError, ValidationError, validate

from pools.domain.cluster_addresses import LOOPBACK, AddressRule

RUNTIME_FILE = "runtime.json"

__all__ = ["RUNTIME_FILE", "Env", "EnvError", "load_environment"]


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
    db_pool_size: int
    lock_timeout_ms: int
    log_format: str
    reconcile_interval: float
    simulated_runtime: float
    kubeconfig_dir: Path | None
    cluster_addresses: list[str]
    sync_interval: float
    cluster_calls_per_second: float
    max_tasks: int
    max_pods: int
    max_live_workflows: int
    max_tokens: int
    max_login_failures: int
    max_stored_answers: int
    max_stored_bytes: int
    max_answer_bytes: int
    usage_retention_days: int
    body_timeout: float
    body_limit_mb: int
    event_streams: int
    metrics_public: bool
    webhook_client_ca: str


def _apply_runtime_defaults(data_dir: Path | None) -> None:
    """Use the values that `osmo-admin up` wrote to `runtime.json` as defaults; the real environment wins."""
    if data_dir is None or not (path := data_dir / RUNTIME_FILE).is_file():
        return
    for name, value in json.loads(path.read_text()).items():
        os.environ.setdefault(name, str(value))


def _are_networks(texts: list[str]) -> None:
    try:
        AddressRule.of(texts)
    except ValueError as error:
        raise ValidationError(f"Networks or addresses are expected, separated by commas: {error}.") from error


def load_environment() -> Env:
    """Read the environment. Raises :class:`EnvError` with the variable's name."""
    read = Reader()
    data_dir = read.path("OSMO_ADMIN_HOME", None)
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
        db_pool_size=read.int("OSMO_DB_POOL_SIZE", 0, validate=at_least(min=0)),
        lock_timeout_ms=read.int("OSMO_LOCK_TIMEOUT_MS", 3000, validate=at_least(min=1)),
        log_format=read.str("OSMO_LOG_FORMAT", "console", validate=validate.OneOf(["console", "json"])),
        reconcile_interval=read.float("OSMO_SETTLE_INTERVAL", 5.0, validate=at_least(min=0.1)),
        simulated_runtime=read.float("OSMO_SIMULATED_RUNTIME", 60.0, validate=at_least(min=0)),
        kubeconfig_dir=read.path("OSMO_KUBECONFIG_DIR", None),
        cluster_addresses=read.list("OSMO_CLUSTER_ADDRESSES", [], validate=_are_networks)
        or ([] if read.bool("OSMO_SECURE", False) else list(LOOPBACK)),
        sync_interval=read.float("OSMO_SYNC_INTERVAL", 30.0, validate=at_least(min=0.1)),
        cluster_calls_per_second=read.float("OSMO_CLUSTER_CALLS_PER_SECOND", 50.0, validate=at_least(min=1)),
        max_tasks=read.int("OSMO_MAX_TASKS", 20, validate=at_least(min=1)),
        max_pods=read.int("OSMO_MAX_PODS", 1000, validate=at_least(min=1, max=2000)),
        max_live_workflows=read.int("OSMO_MAX_LIVE_WORKFLOWS", 5_000, validate=at_least(min=1)),
        max_tokens=read.int("OSMO_MAX_TOKENS", 100, validate=at_least(min=1)),
        max_login_failures=read.int("OSMO_MAX_LOGIN_FAILURES", 100, validate=at_least(min=10)),
        max_stored_answers=read.int("OSMO_MAX_STORED_ANSWERS", 20_000, validate=at_least(min=1)),
        max_stored_bytes=read.int("OSMO_MAX_STORED_BYTES", 64 * 2**20, validate=at_least(min=1)),
        max_answer_bytes=read.int("OSMO_MAX_ANSWER_BYTES", 2**20, validate=at_least(min=1)),
        usage_retention_days=read.int("OSMO_USAGE_RETENTION_DAYS", 731, validate=at_least(min=1)),
        body_timeout=read.float("OSMO_BODY_TIMEOUT", 10.0, validate=at_least(min=0.1, max=600)),
        body_limit_mb=read.int("OSMO_BODY_LIMIT_MB", 16, validate=at_least(min=1, max=1024)),
        event_streams=read.int("OSMO_EVENT_STREAMS", 500, validate=at_least(min=1)),
        metrics_public=read.bool("OSMO_METRICS_PUBLIC", False),
        webhook_client_ca=read.str("OSMO_WEBHOOK_CLIENT_CA", ""),
    )
