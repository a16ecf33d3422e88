"""The one form of each object in a file: the JSON of its API without values that equal their defaults.

Two objects are equal if and only if their forms are. A file may spell defaults out; reading it leaves them out again,
so an export is the same text whatever its installation was made from.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from pools.domain.configuration import cluster_config
from pools.domain.configuration.backend_config import ANSWER_KEYS as BACKEND_ANSWER_KEYS
from pools.domain.configuration.backend_config import (
    DEFAULT_CPU,
    DEFAULT_MEMORY,
    DEFAULT_STORAGE,
    NODE_ANSWER_KEYS,
    POLICY_DEFAULTS,
    SIMULATED,
    SIMULATED_KEYS,
    BackendSpec,
    NodeSpec,
    parse_backend,
)
from pools.domain.configuration.cluster_config import KUBECONFIG, KUBERNETES, ClusterSpec
from pools.domain.configuration.cohort_config import ANSWER_KEYS as COHORT_ANSWER_KEYS
from pools.domain.configuration.cohort_config import CohortSettings, parse_cohort
from pools.domain.configuration.cohort_config import editable_body as cohort_json
from pools.domain.configuration.flavors import Flavor, flavors_json
from pools.domain.configuration.ownership import OwnedKind, OwnerKind
from pools.domain.configuration.platforms import DEFAULT_PLATFORM, PARSED_PREFIX, platform_shown
from pools.domain.configuration.pool_config import ANSWER_KEYS as POOL_ANSWER_KEYS
from pools.domain.configuration.pool_config import DEFAULT_WEIGHT, PoolSettings, parse_pool
from pools.domain.configuration.pool_fields import COLUMNS, EDITABLE_KEYS
from pools.domain.configuration.pool_flavors import flavors_body, unknown_flavor
from pools.domain.errors import Fault, Violation
from pools.domain.gpu_quota.spec import gpu_quota_spec_body, namespace_violations, parse_gpu_quota_spec
from pools.domain.quota.pool_balance import MAX_GPUS
from pools.domain.structured_input.declared_values import fields_of
from pools.domain.structured_input.fields import FieldReader
from pools.domain.structured_input.unset_keys import unset_key_warnings
from pools.domain.values.amounts import DEFAULT_FLAVOR
from pools.domain.values.byte_sizes import exact_size_text
from scheduling.domain.changes.settings import DRAIN_INTERVAL, MAX_RETRY, UpdateSettings

Body = Mapping[str, Any]
Quota = int | Mapping[str, int]
"""The quota of a subpool: GPUs, by flavor where its pool has flavors."""
SUBPOOLS: Final = "subpools"
SUBPOOLS_OWNER: Final = "subpools_owner"
USERS: Final = "users"
SETTINGS_DEFAULTS: Final = {DRAIN_INTERVAL: 15, MAX_RETRY: 0}
DEFAULT_NAMESPACE: Final = "default"
CLUSTER_DEFAULTS: Final = {
    "kubeconfig_file": "",
    "context": "",
    "scheduler_name": cluster_config.SCHEDULER,
    "node_pool_key": cluster_config.NODE_POOL_KEY,
    "node_pool": "",
    "sync_mode": cluster_config.APPLY,
    "mode": cluster_config.MANAGE,
    "queue_pools": {},
    "owner_label": "",
}
_NODE_DEFAULTS: Final = {
    "cpu": DEFAULT_CPU,
    "memory": exact_size_text(DEFAULT_MEMORY),
    "storage": exact_size_text(DEFAULT_STORAGE),
    "platform": DEFAULT_PLATFORM,
}


@dataclass(frozen=True, slots=True)
class Section:
    """A top-level key of a file: a map from names to objects of one kind. `read` returns the form of an object and
    every fault in it, with paths from the object on. `is_single`: the key holds one object without a name.
    `left_out` has a sentence for each value that answers show and a file does not set."""

    key: str
    kind: OwnedKind
    read: Callable[[str, Body], tuple[dict[str, Any], list[Violation]]]
    is_single: bool = False
    left_out: Callable[[str, Body], Iterator[str]] = lambda _name, _body: iter(())


_UNSET: Final[tuple[object, ...]] = (None, "", [], {})
"""Values that mean the same as a missing one; 0 is one."""


def pool_body(settings: PoolSettings) -> dict[str, Any]:
    """The form of a pool, without its subpools."""
    config = settings.config
    resources = {"gpu": settings.gpu_resources} if settings.gpu_resources else None
    values: dict[str, Any] = {
        "resources": None if settings.flavors else resources,
        "cohort": settings.cohort,
        "backend": settings.backend,
        **{key: getattr(settings, key) for key in COLUMNS if key in EDITABLE_KEYS},
        **{key: config[key] for key in EDITABLE_KEYS if key in config},
    }
    body = {key: plain_json(value) for key, value in values.items() if value is not False and value not in _UNSET}
    if settings.flavors:
        # Their order is the order of preference, so it counts when two forms are compared.
        body["resources"] = {"flavors": OrderedDict(flavors_body(settings.flavors))}
        if settings.weight not in (None, DEFAULT_WEIGHT):
            body["resources"]["gpu"] = {"weight": settings.weight}
    return {key: body[key] for key in EDITABLE_KEYS if key in body}


def with_subpools(body: Body, subpools: Mapping[str, Quota], *, are_owned: bool) -> dict[str, Any]:
    """The form of a pool with its subpools; `are_owned` if Git owns them."""
    more: dict[str, Any] = {SUBPOOLS: dict(sorted(subpools.items()))} if subpools else {}
    if are_owned:
        more[SUBPOOLS_OWNER] = str(OwnerKind.GIT)
    return {**body, **more}


def cohort_body(settings: CohortSettings) -> dict[str, Any]:
    """The form of a cohort."""
    json = cohort_json(settings)
    rows = sorted(json["quotas"], key=lambda row: (row["flavor"], row["resource"]))
    quotas = [
        {key: value for key, value in row.items() if value is not None and (key, value) != ("flavor", DEFAULT_FLAVOR)}
        for row in rows
    ]
    values = {"parent": json["parent"], "weight": plain_json(json["weight"]), "quotas": quotas}
    return {key: value for key, value in values.items() if value not in (None, []) and (key, value) != ("weight", 1)}


def simulated_body(
    *,
    namespace: str,
    description: str,
    auto_end: bool,
    policy: Mapping[str, int | str | None],
    nodes: Sequence[NodeSpec],
    flavors: Sequence[Flavor] = (),
) -> dict[str, Any]:
    """The form of a simulated backend. Whether it is offline is a state of its operation and no configuration. `policy`
    is by the keys of `POLICY_DEFAULTS`."""
    body: dict[str, Any] = {"type": SIMULATED, "namespace": namespace}
    if description:
        body["description"] = description
    if not auto_end:
        body["auto_end"] = False
    body |= {key: policy[key] for key, default in POLICY_DEFAULTS.items() if policy[key] != default}
    if flavors:
        body["flavors"] = flavors_json(flavors)
    return body | {"nodes": [_node_body(node) for node in sorted(nodes, key=lambda node: node.name)]}


def _node_body(node: NodeSpec) -> dict[str, Any]:
    values = {
        "cpu": node.cpu,
        "memory": exact_size_text(node.memory_bytes),
        "storage": exact_size_text(node.storage_bytes),
        "platform": node.platform,
    }
    different = {key: value for key, value in values.items() if value != _NODE_DEFAULTS[key]}
    labels = {"labels": dict(sorted(node.labels.items()))} if node.labels else {}
    return {"name": node.name, "gpus": node.gpus, **different, **labels}


def kubernetes_body(
    *, namespace: str, description: str, cluster: Body, degraded: Any, flavors: Sequence[Flavor] = ()
) -> dict[str, Any]:
    """The form of a Kubernetes backend, without its credential. `cluster`: `access` and the keys after it; `degraded`:
    the rule for too few GPUs."""
    body: dict[str, Any] = {"type": KUBERNETES, "namespace": namespace}
    if description:
        body["description"] = description
    if degraded != POLICY_DEFAULTS["degraded"]:
        body["degraded"] = degraded
    if flavors:
        body["flavors"] = flavors_json(flavors)
    different = {key: cluster[key] for key, default in CLUSTER_DEFAULTS.items() if cluster[key] != default}
    return body | {"access": cluster["access"], **different}


def full_backend_body(body: Body) -> dict[str, Any]:
    """The JSON of a PUT that gives a backend exactly this form: with every default."""
    if body["type"] == KUBERNETES:
        return {
            "description": "",
            "flavors": [],
            **CLUSTER_DEFAULTS,
            "degraded": POLICY_DEFAULTS["degraded"],
            **body,
        }
    return {"description": "", "flavors": [], "auto_end": True, **POLICY_DEFAULTS, **body}


def gpu_quota_body(spec: object) -> dict[str, Any]:
    """The form of a GPU quota."""
    parsed, _ = parse_gpu_quota_spec(spec)
    return gpu_quota_spec_body(parsed)


def role_body(users: Sequence[str]) -> dict[str, Any]:
    """The form of a role: the users who have it."""
    return {USERS: sorted(set(users))}


def settings_body(values: Body) -> dict[str, Any]:
    """The form of the scheduler settings."""
    return {key: values[key] for key in SETTINGS_DEFAULTS}


def plain_json(value: Any) -> Any:
    """The value with sorted keys, and numbers as JSON has them: whole ones without a fraction."""
    if isinstance(value, Mapping):
        return {key: plain_json(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [plain_json(each) for each in value]
    if isinstance(value, Fraction):
        value = float(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _read_pool(name: str, body: Body) -> tuple[dict[str, Any], list[Violation]]:
    own = {key: value for key, value in body.items() if key not in (SUBPOOLS, SUBPOOLS_OWNER)}
    settings, faults = parse_pool(own)
    pool = FieldReader(body, "", faults)
    subpools: dict[str, Quota] = {}
    flavors = [row["flavor"] for row in settings.flavors]
    if table := pool.nested(SUBPOOLS):
        for short in table.body:
            quota = FieldReader({short: table.body[short]}, SUBPOOLS, faults)
            if not quota.is_given(short):
                quota.add_fault(short, Fault.MISSING, "has no quota: give whole GPUs, as in `train: 8`.")
            subpools[short] = _read_quota(name, quota, short, flavors)
    owner = pool.read_text(SUBPOOLS_OWNER, str(OwnerKind.ADMIN))
    if owner not in tuple(OwnerKind):
        pool.add_fault(SUBPOOLS_OWNER, Fault.BAD_VALUE, f"must be one of {', '.join(OwnerKind)}.")
    if faults:
        return {}, faults
    return with_subpools(pool_body(settings), subpools, are_owned=owner == OwnerKind.GIT), []


def _read_quota(pool: str, subpools: FieldReader, short: str, flavors: Sequence[str]) -> Quota:
    """The quota of a subpool in a file: a number, or a map from the flavors of its pool to numbers."""
    if isinstance(subpools.body[short], Mapping) and flavors:
        by_flavor = subpools.nested(short)
        assert by_flavor is not None
        for flavor in by_flavor.body:
            if flavor not in flavors:
                by_flavor.faults.append(unknown_flavor(pool, flavors, by_flavor.path_of(str(flavor))))
        return {flavor: _whole_gpus(by_flavor, flavor) for flavor in flavors}
    gpus = _whole_gpus(subpools, short)
    if len(flavors) > 1:
        subpools.add_fault(
            short, Fault.FLAVOR_NEEDED, f"has no flavors: give GPUs of each, as {{{flavors[0]}: {gpus}}}."
        )
    return {flavors[0]: gpus} if flavors else gpus


def _whole_gpus(reader: FieldReader, key: str) -> int:
    return reader.whole_number(key, 0, minimum=0, maximum=MAX_GPUS, below_code=Fault.NEGATIVE_QUOTA)


def _read_cohort(name: str, body: Body) -> tuple[dict[str, Any], list[Violation]]:
    settings, faults = parse_cohort(body)
    return ({}, faults) if faults else (cohort_body(settings), [])


def _read_backend(name: str, body: Body) -> tuple[dict[str, Any], list[Violation]]:
    spec, faults = parse_backend(name, body)
    fields = FieldReader(body, "", faults)
    if fields.is_given(KUBECONFIG):
        fields.add_fault(
            KUBECONFIG,
            Fault.SECRET_IN_FILE,
            "is a secret and has no place in a file: name a kubeconfig_file, use access in_cluster, or connect the "
            "cluster once in its page and keep access kubeconfig here.",
        )
    if spec.cluster is not None and _access_of(spec.cluster) is None:
        fields.add_fault("access", Fault.MISSING, f"is missing: one of {', '.join(cluster_config.ACCESS_MODES)}.")
    return ({}, faults) if faults else (_spec_body(spec), [])


def _access_of(cluster: ClusterSpec) -> str | None:
    return cluster.access or (cluster_config.FILE if cluster.kubeconfig_file else None)


def _spec_body(spec: BackendSpec) -> dict[str, Any]:
    namespace, description = spec.namespace or DEFAULT_NAMESPACE, spec.description or ""
    if spec.cluster is None:
        is_ended = True if spec.auto_end is None else spec.auto_end
        return simulated_body(
            namespace=namespace, description=description, auto_end=is_ended,
            policy={**POLICY_DEFAULTS, **spec.policy}, nodes=spec.nodes or (), flavors=spec.flavors or (),
        )  # fmt: skip
    cluster = {key: getattr(spec.cluster, key) or default for key, default in CLUSTER_DEFAULTS.items()}
    return kubernetes_body(
        namespace=namespace,
        description=description,
        cluster=cluster | {"access": _access_of(spec.cluster)},
        degraded=spec.policy.get("degraded", POLICY_DEFAULTS["degraded"]),
        flavors=spec.flavors or (),
    )


def _read_gpu_quota(name: str, body: Body) -> tuple[dict[str, Any], list[Violation]]:
    parsed, faults = parse_gpu_quota_spec(body, "")
    faults = [*namespace_violations(name), *faults]
    return ({}, faults) if faults else (gpu_quota_spec_body(parsed), [])


def _read_role(name: str, body: Body) -> tuple[dict[str, Any], list[Violation]]:
    faults: list[Violation] = []
    role = FieldReader(body, "", faults)
    role.reject_unknown_keys((USERS,))
    users = role.read_texts(USERS)
    if not all(users):
        role.add_fault(USERS, Fault.BAD_VALUE, "has an empty name.")
    return ({}, faults) if faults else (role_body(users), [])


def _read_settings(name: str, body: Body) -> tuple[dict[str, Any], list[Violation]]:
    faults: list[Violation] = []
    fields = FieldReader(body, "", faults)
    fields.reject_unknown_keys(tuple(SETTINGS_DEFAULTS))
    bounds = {key: about.kind.schema for key, about in fields_of(UpdateSettings).items()}
    values = {
        key: fields.whole_number(key, default, minimum=bounds[key]["minimum"], maximum=bounds[key]["maximum"])
        for key, default in SETTINGS_DEFAULTS.items()
    }
    return ({}, faults) if faults else (values, [])


def _left_out_of_backend(name: str, body: Body) -> Iterator[str]:
    shown: dict[str, Any] = {**dict.fromkeys((*BACKEND_ANSWER_KEYS, *cluster_config.ANSWER_KEYS)), "name": name}
    if body.get("type") == KUBERNETES:
        shown |= {**dict.fromkeys(SIMULATED_KEYS), "auto_end": True}
    yield from unset_key_warnings(body, shown)
    if body.get("offline"):
        yield "offline is a state that admins switch and no file sets: it has no effect."
    nodes = body.get("nodes")
    for place, node in enumerate(nodes if isinstance(nodes, list) else ()):
        if isinstance(node, Mapping):
            yield from unset_key_warnings(node, dict.fromkeys(NODE_ANSWER_KEYS), path=f"nodes[{place}]")


def _left_out_of_pool(name: str, body: Body) -> Iterator[str]:
    parsed = [key for key in body if key.startswith(PARSED_PREFIX)]
    yield from unset_key_warnings(body, {**dict.fromkeys((*POOL_ANSWER_KEYS, *parsed)), "name": name})
    platforms = body.get("platforms")
    for platform, inner in platforms.items() if isinstance(platforms, Mapping) else ():
        if isinstance(inner, Mapping):
            yield from unset_key_warnings(inner, platform_shown(platform, inner), path=f"platforms.{platform}")


def _left_out_of_cohort(name: str, body: Body) -> Iterator[str]:
    return unset_key_warnings(body, {**dict.fromkeys(COHORT_ANSWER_KEYS), "name": name})


SETTINGS_NAME: Final = "workflow"
SECTIONS: Final = (
    Section("backends", OwnedKind.BACKEND, _read_backend, left_out=_left_out_of_backend),
    Section("pools", OwnedKind.POOL, _read_pool, left_out=_left_out_of_pool),
    Section("cohorts", OwnedKind.COHORT, _read_cohort, left_out=_left_out_of_cohort),
    Section("gpu_quotas", OwnedKind.GPU_QUOTA, _read_gpu_quota),
    Section("roles", OwnedKind.ROLE, _read_role),
    Section(SETTINGS_NAME, OwnedKind.SETTINGS, _read_settings, is_single=True),
)
"""The sections in the order in which they are applied: a pool needs its backend, a role of a pool needs the pool."""

SECTION_BY_KEY: Final = {section.key: section for section in SECTIONS}
SECTION_BY_KIND: Final = {section.kind: section for section in SECTIONS}
