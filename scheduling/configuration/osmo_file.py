"""The configuration of OSMO 6.4 as one mounted file -> the sections of our files.

The file has the keys of OSMO's configuration, each a map in the form of its REST objects: `pools` are read as they are;
of `backends` the namespace, the description and the scheduler; of `workflow` our two settings. The other keys have no
counterpart in OSMO Admin and are left out with a note. Our own sections (`cohorts`, `gpu_quotas`, roles with `users`)
may be in the same file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pools.domain.configuration import cluster_config
from pools.domain.configuration.backend_config import POLICY_DEFAULTS
from scheduling.configuration.bodies import SETTINGS_DEFAULTS, USERS
from scheduling.configuration.files import ConfigurationFiles, read_file

FOREIGN_KEYS: Final = (
    "service", "pod_templates", "resource_validations", "backend_tests", "group_templates"
)  # fmt: skip
_BACKEND_KEYS: Final = (
    "type", "namespace", "description", "flavors", "nodes", "auto_end", *POLICY_DEFAULTS, *cluster_config.KEYS
)  # fmt: skip


def read_osmo_file(name: str, content: bytes) -> ConfigurationFiles:
    """The objects of a mounted file, or its faults with their lines."""
    found = ConfigurationFiles()

    def adapt(sections: Mapping[str, Any]) -> Mapping[str, Any]:
        return {key: _adapted(key, value, found) for key, value in sections.items() if not _is_foreign(key, found)}

    read_file(name, content, found, adapt=adapt)
    return found


def _is_foreign(key: str, found: ConfigurationFiles) -> bool:
    if key in FOREIGN_KEYS:
        found.notes.append(f"{key} is left out: OSMO Admin has no such configuration.")
    return key in FOREIGN_KEYS


def _adapted(key: str, value: Any, found: ConfigurationFiles) -> Any:
    if not isinstance(value, dict):
        return value
    if key == "backends":
        return {
            name: backend_form(name, body, found) if isinstance(body, dict) else body for name, body in value.items()
        }
    if key == "workflow":
        _note_left_out(key, set(value) - set(SETTINGS_DEFAULTS), found)
        return {each: value[each] for each in SETTINGS_DEFAULTS if each in value}
    if key == "roles":
        ours = {name: body for name, body in value.items() if isinstance(body, dict) and USERS in body}
        if others := sorted(set(value) - set(ours)):
            found.notes.append(
                f"roles {', '.join(others)} are left out: the roles of OSMO Admin have fixed permissions."
            )
        return ours
    return value


def backend_form(name: str, body: Mapping[str, Any], found: ConfigurationFiles) -> dict[str, Any]:
    """Our form of a backend, with a note about what is left out. Without a type it is a Kubernetes backend that the
    pod's own account reaches."""
    ours = {key: value for key, value in body.items() if key in _BACKEND_KEYS}
    left_out = set(body) - set(ours) - {"name", "k8s_namespace", "scheduler_settings"}
    _note_left_out(f"backends.{name}", left_out, found)
    ours.setdefault("type", cluster_config.KUBERNETES)
    if body.get("k8s_namespace"):
        ours.setdefault("namespace", body["k8s_namespace"])
    scheduler = body.get("scheduler_settings")
    if isinstance(scheduler, dict) and scheduler.get("scheduler_name"):
        ours.setdefault("scheduler_name", scheduler["scheduler_name"])
    if ours["type"] == cluster_config.KUBERNETES and not ours.get("kubeconfig_file"):
        ours.setdefault("access", cluster_config.IN_CLUSTER)
    return ours


def _note_left_out(place: str, keys: set[str], found: ConfigurationFiles) -> None:
    if keys:
        found.notes.append(f"{place}: {', '.join(sorted(keys))} left out: OSMO Admin has no such configuration.")
