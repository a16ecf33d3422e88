"""A top-level pool's row as settings, and as the configuration API shows it (design, O8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, TypedDict, cast

from django.utils import timezone

from pools.domain.configuration.platforms import platform_body, platforms_of
from pools.domain.configuration.pool_config import PoolSettings, editable_body
from pools.domain.configuration.pool_fields import COLUMNS, pool_answer
from pools.models import Pool


class VerboseKeys(TypedDict, total=False):
    """The values that OSMO derives from a configuration."""

    last_heartbeat: datetime | None
    parsed_resource_validations: list[Any]
    parsed_pod_template: dict[str, Any]
    parsed_group_templates: list[Any]
    parsed_pod_template_for_accounting: dict[str, Any]


class ListedKeys(VerboseKeys, total=False):
    """A pool in the list of configurations."""

    name: str
    status: str
    archived: bool


class LedgerKeys(TypedDict):
    """The keys that the ledger adds."""

    name: str
    status: str
    archived: bool
    parent_pool: None
    subpool_name: None
    subpool_state: None
    version: int
    warnings: list[str]


class PoolKeys(LedgerKeys, VerboseKeys, total=False):
    """A top-level pool with its configuration."""

    reactivated: bool


ListedPoolAnswer = Annotated[ListedKeys, pool_answer]
PoolAnswer = Annotated[PoolKeys, pool_answer]
ONLINE, OFFLINE, MAINTENANCE = "ONLINE", "OFFLINE", "MAINTENANCE"


def pool_settings_of(row: Pool) -> PoolSettings:
    """The stored configuration of a top-level row."""
    return PoolSettings(
        backend=row.backend.name if row.backend else "",
        cohort=row.cohort.name if row.cohort else None,
        config=row.config,
        **{column: getattr(row, column) for column in COLUMNS},
    )


def pool_status(*, is_maintenance: bool, is_offline: bool) -> str:
    """The status of a pool in OSMO's words (design, O5.3)."""
    if is_maintenance:
        return MAINTENANCE
    return OFFLINE if is_offline else ONLINE


def pool_body(row: Pool, *, verbose: bool = False, warnings: Iterable[str] = ()) -> PoolAnswer:
    """One pool: the keys of a PUT, and the keys that the ledger adds."""
    added: LedgerKeys = {
        "name": row.name,
        "status": pool_status_of(row),
        "archived": row.archived,
        "parent_pool": None,
        "subpool_name": None,
        "subpool_state": None,
        "version": row.version,
        "warnings": list(warnings),
    }
    return cast("PoolAnswer", {**_configuration(row, verbose=verbose), **added})


def pool_list_body(row: Pool, *, verbose: bool = False) -> ListedPoolAnswer:
    """One pool in the list of configurations, with a key that marks an archived pool."""
    marks = {"archived": True} if row.archived else {}
    return cast("ListedPoolAnswer", _configuration(row, verbose=verbose) | marks)


def _configuration(row: Pool, *, verbose: bool) -> dict[str, Any]:
    """The keys of a PUT, and the values that OSMO derives from them. Templates are only names here, so the parsed
    templates are always empty."""
    body = editable_body(pool_settings_of(row))
    if not verbose:
        return body
    online = row.backend is not None and not row.backend.offline
    return body | {
        "name": row.name,
        "status": pool_status_of(row),
        "last_heartbeat": timezone.now() if online else None,
        "parsed_resource_validations": [],
        "parsed_pod_template": {},
        "parsed_group_templates": [],
        "parsed_pod_template_for_accounting": {},
        "platforms": {name: _verbose_platform(platform) for name, platform in platforms_of(row.config).items()},
    }


def _verbose_platform(platform: Mapping[str, Any]) -> dict[str, Any]:
    return platform_body(platform) | {
        "tolerations": [],
        "labels": {},
        "default_mounts": [],
        "parsed_resource_validations": [],
        "parsed_pod_template": {},
    }


def pool_status_of(row: Pool) -> str:
    """The status of a top-level row."""
    return pool_status(is_maintenance=row.enable_maintenance, is_offline=row.backend is None or row.backend.offline)
