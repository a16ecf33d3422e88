"""The JSON schema of files of the configuration, for editors and for checks before a review.

The schema knows forms, not the state of an installation: `osmo-admin diff` judges the rest.
"""

from __future__ import annotations

from typing import Any, Final

from pools.domain.changes.backends import BACKEND_KEYS
from pools.domain.configuration.backend_config import NAME_PATTERN
from pools.domain.configuration.cluster_config import KUBECONFIG
from pools.domain.configuration.cohort_config import COHORT_FIELDS
from pools.domain.configuration.ownership import OwnerKind
from pools.domain.configuration.pool_fields import COUNT, PLATFORM_SCHEMA, TEXTS, pool_properties
from pools.domain.gpu_quota.spec import NAMESPACE_PATTERN, spec_schema
from pools.domain.names import SHORT_NAME_PATTERN
from pools.domain.structured_input.config_fields import TEXT, object_schema, properties_of
from pools.domain.structured_input.declared_values import fields_of
from scheduling.configuration.bodies import (
    SETTINGS_NAME,
    SUBPOOLS,
    SUBPOOLS_OWNER,
    USERS,
)
from scheduling.domain.changes.settings import UpdateSettings

ADDRESS: Final = "/api/schema/configuration.json"

_TEXT: Final[dict[str, Any]] = dict(TEXT)
_TEXTS: Final[dict[str, Any]] = dict(TEXTS)
_QUANTITY: Final = {"type": ["string", "number"], "description": "A Kubernetes quantity, such as 1500m or 40Gi."}


def _map(inner: dict[str, Any], pattern: str | None = None, about: str = "") -> dict[str, Any]:
    schema: dict[str, Any] = {"type": ["object", "null"], "additionalProperties": inner}
    if pattern:
        schema["propertyNames"] = {"pattern": f"^(?:{pattern.strip('^$')})$"}
    return schema | ({"description": about} if about else {})


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    return schema | {"type": [schema["type"], "null"]}


_POOL: Final = object_schema(
    {
        **pool_properties(),
        "platforms": _map(PLATFORM_SCHEMA),
        SUBPOOLS: _map(
            {"anyOf": [dict(COUNT), {"type": "object", "additionalProperties": dict(COUNT)}]},
            SHORT_NAME_PATTERN,
            "Quotas in GPUs, by flavor where the pool has flavors, by the short names of subpools. Unless "
            "subpools_owner is git, they are only the first subpools of a pool that `apply` creates.",
        ),
        SUBPOOLS_OWNER: {
            "enum": [str(kind) for kind in OwnerKind],
            "description": "git: the subpools are exactly those of the file. admin (default): the admins of the pool "
            "create and change them.",
        },
    },
    ("backend",),
)
_COHORT: Final = object_schema(properties_of(COHORT_FIELDS))
_BACKEND: Final = object_schema(
    {
        **{
            key: {"description": about.sentence, **about.kind.schema}
            for key, about in BACKEND_KEYS.items()
            if key not in ("offline", KUBECONFIG)
        },
        "namespace": {**_TEXT, "pattern": f"^(?:{NAMESPACE_PATTERN})$"},
        "description": _TEXT,
    }
)
"""A file has neither what admins switch nor secrets."""
_ROLE: Final = object_schema({USERS: {**_TEXTS, "description": "Exactly the users who have the role."}}, (USERS,))

SCHEMA: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": ADDRESS,
    "title": "Configuration of OSMO Admin",
    "description": "A file that osmo-admin export writes and osmo-admin apply reads.",
    **object_schema(
        {
            "backends": _map(_BACKEND, NAME_PATTERN, "Clusters by name."),
            "pools": _map(_POOL, SHORT_NAME_PATTERN, "Top-level pools by name."),
            "cohorts": _map(_COHORT, about="Cohorts by name."),
            "gpu_quotas": _map(spec_schema(), NAMESPACE_PATTERN, "GPU quotas by namespace."),
            "roles": _map(_ROLE, about="Users by role: osmo-admin, osmo-viewer, osmo-POOL-admin, osmo-POOL-user."),
            SETTINGS_NAME: _nullable(
                object_schema({name: about.kind.schema for name, about in fields_of(UpdateSettings).items()})
                | {"description": "Schedules and limits of the scheduler."}
            ),
        }
    ),
}
