"""The configuration of a pool: the editable JSON of OSMO's API, and the form that the ledger stores.

Source: design, O5.1, O8. Values that equal their defaults are not stored, so reading a configuration
and sending it back changes nothing. A pool that names no platforms has one, `default`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

from pools.domain.configuration.platforms import (
    DEFAULT_PLATFORM,
    PARSED_PREFIX,
    default_platform,
    parse_platforms,
    platform_body,
    platform_shown,
    platforms_of,
)
from pools.domain.configuration.platforms import UNUSED_KEYS as PLATFORM_UNUSED_KEYS
from pools.domain.configuration.pool_fields import EDITABLE_KEYS, POOL_FIELDS
from pools.domain.configuration.pool_flavors import (
    SWITCHES,
    flavors_body,
    read_pool_flavors,
    total_maximum,
    total_quota,
)
from pools.domain.errors import Fault, Violation
from pools.domain.quota.pool_balance import MAX_GPUS
from pools.domain.quota.rules import QuotaRow, check_quota_rows
from pools.domain.quota.stored_quotas import StoredFlavors
from pools.domain.quota.tree import LIMIT_KEYS
from pools.domain.structured_input.fields import FieldReader
from pools.domain.structured_input.unset_keys import unset_key_warnings, unused_key_warning
from pools.domain.values.amounts import DEFAULT_FLAVOR, NO_LIMIT, Gpus, decode_gpus, encode_gpus
from pools.domain.values.durations import parse_duration

DEFAULT_WEIGHT = 1
UNUSED_KEYS = tuple(field.key for field in POOL_FIELDS if field.is_unused)
# Keys that answers add to a configuration; a PUT may contain them, and they are ignored there.
ANSWER_KEYS = frozenset(
    {"name", "status", "archived", "version", "versions", "warnings", "reactivated", "last_heartbeat"}
    | {"parent_pool", "subpool_name", "subpool_state", "gpu_quota", "used", "available", "resource_usage"}
)


class GpuResources(TypedDict):
    """GPUs; -1 is unlimited."""

    guarantee: int
    maximum: int
    weight: int


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """The configuration of a top-level pool as the ledger stores it, in GPUs. -1 is unlimited. None means "nothing
    configured"; for the two limits inside the cohort it means "no limit". `flavors` are the quotas by flavor, of which
    guarantee and maximum are the sums. `config` has every other key that differs
    from its default."""

    backend: str
    description: str = ""
    guarantee: int | None = None
    maximum: int | None = None
    weight: int | None = None
    cohort: str | None = None
    borrowing_limit: int | None = None
    lending_limit: int | None = None
    enable_maintenance: bool = False
    flavors: StoredFlavors = field(default_factory=list)
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def effective_guarantee(self) -> Gpus:
        """The guarantee; unlimited if nothing is configured."""
        return decode_gpus(self.guarantee)

    @property
    def gpu_resources(self) -> GpuResources | None:
        """`resources.gpu`, or None if nothing is configured."""
        if self.guarantee is None and self.maximum is None and self.weight is None:
            return None
        return {
            "guarantee": encode_gpus(self.effective_guarantee),
            "maximum": NO_LIMIT if self.maximum is None else self.maximum,
            "weight": DEFAULT_WEIGHT if self.weight is None else self.weight,
        }


def no_effect_warnings(
    body: Mapping[str, Any], settings: PoolSettings, before: Mapping[str, Any], shown: Mapping[str, Any]
) -> Iterator[str]:
    """Warnings about values in the JSON of a pool that have no effect. `settings` were read from it, `before` is the
    `config` of the present pool, `shown` are the identity and state that its answers show."""
    parsed: dict[str, Any] = {key: {} for key in body if key.startswith(PARSED_PREFIX)}
    yield from unset_key_warnings(body, {**shown, **parsed})
    new = [key for key in UNUSED_KEYS if settings.config.get(key) and settings.config[key] != before.get(key)]
    given = body.get("platforms")
    for name, platform in platforms_of(settings.config).items():
        old = platforms_of(before).get(name, {})
        new += [
            f"platforms.{name}.{key}"
            for key in PLATFORM_UNUSED_KEYS
            if platform.get(key) and platform[key] != old.get(key)
        ]
        if isinstance(given, Mapping) and isinstance(given.get(name), Mapping):
            yield from unset_key_warnings(given[name], platform_shown(name, given[name]), path=f"platforms.{name}")
    yield from unused_key_warning(new)


def without_cohort(settings: PoolSettings) -> PoolSettings:
    """The configuration after the pool has left its cohort."""
    return replace(settings, cohort=None, borrowing_limit=None, lending_limit=None)


def editable_body(settings: PoolSettings) -> dict[str, Any]:
    """The JSON that a PUT takes, with every key."""
    config = settings.config
    gpu = settings.gpu_resources
    resources: dict[str, Any] = {} if gpu is None else {"gpu": gpu}
    if settings.flavors:
        resources["flavors"] = flavors_body(settings.flavors)
    special = {
        "backend": settings.backend,
        "default_platform": default_platform(config),
        "resources": resources,
        "cohort": settings.cohort,
        "platforms": {name: platform_body(platform) for name, platform in platforms_of(config).items()},
        **{each.key: getattr(settings, each.column) for each in POOL_FIELDS if each.is_column and "." not in each.key},
        **{each.key: copy(config.get(each.key, each.default)) for each in POOL_FIELDS if each.read is not None},
    }
    if settings.flavors:
        special |= {key: config.get(key, words[0]) for key, words in SWITCHES.items()}
    return {key: special[key] for key in EDITABLE_KEYS if key in special}


def parse_pool(body: Mapping[str, Any], *, path: str = "") -> tuple[PoolSettings, list[Violation]]:
    """The configuration in the JSON, and every fault in it. After a fault the configuration is not usable. `path` is
    the path of the JSON in a larger body. The caller checks whether the backend exists."""
    faults: list[Violation] = []
    pool = FieldReader(body, path, faults)
    pool.reject_unknown_keys(
        EDITABLE_KEYS, {key for key in body if key in ANSWER_KEYS or key.startswith(PARSED_PREFIX)}
    )
    if pool.body.get("backend") in (None, ""):
        pool.add_fault(
            "backend", Fault.MISSING, "is missing: name the cluster (backend) on which the pool's work runs."
        )
    guarantee, maximum, weight, flavors = _gpu(pool)
    cohort, borrowing, lending = _cohort(pool, guarantee, has_flavors=bool(flavors))
    settings = PoolSettings(
        backend=pool.read_text("backend"),
        description=pool.read_text("description"),
        guarantee=guarantee,
        maximum=maximum,
        weight=weight,
        cohort=cohort,
        borrowing_limit=borrowing,
        lending_limit=lending,
        enable_maintenance=pool.boolean("enable_maintenance"),
        flavors=flavors,
        config={
            key: value
            for key, value in {**_config(pool), **_switches(pool, bool(flavors))}.items()
            if value or value == 0
        },
    )
    return settings, faults


def _gpu(pool: FieldReader) -> tuple[int | None, int | None, int | None, StoredFlavors]:
    resources = pool.nested("resources")
    if resources is None:
        return None, None, None, []
    resources.reject_unknown_keys(("gpu", "flavors"))
    flavors = read_pool_flavors(resources, has_cohort=bool(pool.body.get("cohort")))
    gpu = resources.nested("gpu")
    if gpu is None:
        return (
            (total_quota(flavors), total_maximum(flavors), DEFAULT_WEIGHT, flavors)
            if flavors
            else (None, None, None, [])
        )
    gpu.reject_unknown_keys(("guarantee", "maximum", "weight"))
    guarantee, maximum = (
        gpu.whole_number(key, NO_LIMIT, minimum=NO_LIMIT, maximum=MAX_GPUS, below_code=Fault.NEGATIVE_QUOTA)
        for key in ("guarantee", "maximum")
    )
    if flavors:
        guarantee = _sum_of_flavors(gpu, "guarantee", guarantee, total_quota(flavors))
        maximum = _sum_of_flavors(gpu, "maximum", maximum, total_maximum(flavors))
    elif NO_LIMIT < maximum < guarantee:
        gpu.add_fault(
            "maximum",
            Fault.MAXIMUM_BELOW_GUARANTEE,
            "is below the quota: raise the maximum, or set no limit.",
        )
    return guarantee, maximum, gpu.whole_number("weight", DEFAULT_WEIGHT, minimum=0, maximum=MAX_GPUS), flavors


def _sum_of_flavors(gpu: FieldReader, key: str, given: int, total: int) -> int:
    """The sum of the flavors, which a given number has to be."""
    if gpu.is_given(key) and given != total:
        path = gpu.path_of(key)
        message = f"{path} is {given}, and the flavors have {total} together. Leave it out, or give the sum."
        gpu.faults.append(Violation(path, Fault.SUM_DIFFERS, message, numbers=(("given", given), ("sum", total))))
    return total


def _switches(pool: FieldReader, has_flavors: bool) -> dict[str, str]:
    """What the pool does where a flavor would need borrowing or preemption; the default is not stored."""
    found = {}
    for key, words in SWITCHES.items():
        word = pool.read_text(key) or words[0]
        if word not in words:
            pool.add_fault(key, Fault.BAD_VALUE, f"must be one of {', '.join(words)}.")
        elif word != words[0] and not has_flavors:
            pool.add_fault(key, Fault.BAD_VALUE, "is of pools with flavors: give resources.flavors, or leave it out.")
        found[key] = "" if word == words[0] else word
    return found


def _cohort(
    pool: FieldReader, guarantee: int | None, *, has_flavors: bool
) -> tuple[str | None, int | None, int | None]:
    """The cohort of the pool, with its borrowing and lending limits there."""
    cohort = pool.read_text("cohort") or None
    if has_flavors:
        for key in LIMIT_KEYS:
            if pool.is_given(key):
                pool.add_fault(key, Fault.FLAVOR_NEEDED, "is said for each flavor: give it in resources.flavors.")
        return cohort, None, None
    borrowing, lending = (
        pool.whole_number(key, 0, minimum=-MAX_GPUS, maximum=MAX_GPUS) if pool.is_given(key) else None
        for key in LIMIT_KEYS
    )
    nominal = decode_gpus(guarantee)
    row = QuotaRow("", DEFAULT_FLAVOR, "gpu", nominal, borrowing, lending)
    for fault in check_quota_rows([row], has_parent=cohort is not None, is_pool=True):
        pool.faults.append(replace(fault, path=pool.path_of(fault.path.lstrip("."))))
    return cohort, borrowing, lending


def _config(pool: FieldReader) -> dict[str, Any]:
    named = parse_platforms(pool)
    default = pool.read_text("default_platform")
    if default and default not in (named or {DEFAULT_PLATFORM: {}}):
        there = ", ".join(sorted(named)) or DEFAULT_PLATFORM
        pool.add_fault(
            "default_platform",
            Fault.UNKNOWN_PLATFORM,
            f"is a platform that the pool does not have. Its platforms: {there}.",
        )
    found = {each.key: each.read(pool, each.key) for each in POOL_FIELDS if each.read is not None}
    _check_timeouts(pool, found)
    return {**found, "platforms": named, "default_platform": default if named else ""}


def _check_timeouts(pool: FieldReader, texts: Mapping[str, str]) -> None:
    for kind in ("exec", "queue"):
        usual, most = texts[f"default_{kind}_timeout"], texts[f"max_{kind}_timeout"]
        usually, longest = parse_duration(usual), parse_duration(most)
        if usually is not None and longest is not None and usually > longest:
            pool.add_fault(
                f"default_{kind}_timeout",
                Fault.DEFAULT_ABOVE_MAXIMUM,
                f"is above max_{kind}_timeout: work that names none would be refused.",
            )
