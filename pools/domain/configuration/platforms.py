"""Platforms: types of nodes inside a pool, and the rights of work on them (design, O5.1, O8).

A node belongs to a pool when its platform is one of the pool's and both are on the same backend. A pool that names no
platforms has one, `default`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pools.domain.errors import Fault
from pools.domain.gpu_quota.pool_settings import GPU_TFLOPS, GPU_VRAM, parse_gpu_capacity
from pools.domain.structured_input.faults import join_words
from pools.domain.structured_input.fields import FieldReader, shorten_value

DEFAULT_PLATFORM = "default"
PLATFORM_RULE = "letters, digits, '-', '_' and '.', at most 63, a letter or digit at both ends"
LIST_KEYS = ("allowed_mounts", "resource_validations", "override_pod_template")
FLAG_KEYS = ("host_network_allowed", "privileged_allowed")
GPU_CAPACITY_KEYS = (GPU_TFLOPS, GPU_VRAM)
KEYS = ("description", *FLAG_KEYS, *LIST_KEYS, "default_variables", *GPU_CAPACITY_KEYS)
ANSWER_KEYS = frozenset({"name", "tolerations", "labels", "default_mounts"})  # added by answers; ignored in a PUT
PARSED_PREFIX = "parsed_"
UNUSED_KEYS = ("resource_validations", "override_pod_template", "default_variables")
"""Keys of OSMO that are kept and shown, and have no effect."""

_PLATFORM = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


def is_platform_name(name: str) -> bool:
    """Whether the text is a valid name of a platform (`PLATFORM_RULE`)."""
    return _PLATFORM.fullmatch(name) is not None


def platforms_of(config: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """The platforms of a stored configuration, sorted by name; the database does not store their order."""
    return dict(sorted((config.get("platforms") or {DEFAULT_PLATFORM: {}}).items()))


def default_platform(config: Mapping[str, Any]) -> str | None:
    """The platform of work that names none; None if each task has to name its platform."""
    return config.get("default_platform") or (None if config.get("platforms") else DEFAULT_PLATFORM)


def empty_platform_message(backend: str, platform: str, pools: Sequence[str] = ()) -> str:
    """The warning about a platform that no node of a cluster has; `pools` are those that use it."""
    of_pools = f", which {join_words(pools)} {'uses' if len(pools) == 1 else 'use'}" if pools else ""
    return f"No node of cluster {backend} has the platform {platform}{of_pools}: work for it waits for one."


def platform_body(platform: Mapping[str, Any]) -> dict[str, Any]:
    """One platform as a PUT takes it, with every key."""
    return {
        "description": platform.get("description", ""),
        **{key: platform.get(key, False) for key in FLAG_KEYS},
        **{key: list(platform.get(key, [])) for key in LIST_KEYS},
        "default_variables": dict(platform.get("default_variables", {})),
        **{key: platform.get(key, "0") for key in GPU_CAPACITY_KEYS},
    }


def platform_shown(name: str, platform: Mapping[str, Any]) -> dict[str, Any]:
    """The values that answers add to a platform, for the keys of this body."""
    parsed: dict[str, Any] = {key: {} for key in platform if key.startswith(PARSED_PREFIX)}
    return {"name": name, "tolerations": [], "labels": {}, "default_mounts": [], **parsed}


def parse_platforms(pool: FieldReader) -> dict[str, dict[str, Any]]:
    """The platforms by name, without values that equal their defaults; empty if there is only a plain `default`."""
    table = pool.nested("platforms")
    found: dict[str, dict[str, Any]] = {}
    if table is None:
        return found
    for name in table.body:
        if not is_platform_name(name):
            table.add_fault(
                shorten_value(name), Fault.BAD_NAME, f"is not a valid platform name: it must have {PLATFORM_RULE}."
            )
        platform = table.nested(name)
        found[name] = {} if platform is None else _platform(platform)
    return {} if found == {DEFAULT_PLATFORM: {}} else found


def _platform(platform: FieldReader) -> dict[str, Any]:
    added = {key for key in platform.body if key in ANSWER_KEYS or key.startswith(PARSED_PREFIX)}
    platform.reject_unknown_keys(KEYS, added)
    values: dict[str, Any] = {
        "description": platform.read_text("description"),
        **{key: platform.boolean(key) for key in FLAG_KEYS},
        **{key: platform.read_texts(key) for key in LIST_KEYS},
        "default_variables": parse_variables(platform, "default_variables"),
        **parse_gpu_capacity(platform),
    }
    return {key: value for key, value in values.items() if value}


def parse_variables(fields: FieldReader, key: str) -> dict[str, Any]:
    """Variables by name: texts, numbers, true or false."""
    variables = fields.nested(key)
    if variables is None:
        return {}
    for name, value in variables.body.items():
        if value is not None and not isinstance(value, str | int | float):
            variables.add_fault(shorten_value(name), Fault.BAD_VALUE, "must be a text, a number, true or false.")
    return {name: value for name, value in variables.body.items() if value is not None}
