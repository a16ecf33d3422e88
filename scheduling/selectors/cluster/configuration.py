"""The configuration of this installation, in the form of its files; a constant number of queries."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from django.db.models import Prefetch

from pools.database.transactions import one_snapshot
from pools.domain.configuration.backend_config import POLICY_DEFAULTS, NodeSpec
from pools.domain.configuration.flavors import flavors_of
from pools.domain.configuration.ownership import GitOwner, OwnedKind
from pools.domain.quota.stored_quotas import gpus_by_flavor
from pools.domain.subpool_lifecycle import SubpoolState
from pools.models import Backend, Cohort, ConfigurationOwner, GpuQuota, KubernetesSettings, Pool, RoleAssignment
from pools.representations.pool import pool_settings_of
from pools.services.configuration.subpools import lasting_quota
from pools.sign_on.identities import roles_given_by_groups
from scheduling.configuration import bodies
from scheduling.configuration.comparison import ObjectKey
from scheduling.selectors.cluster.scheduler_settings import config_body, current_config

Bodies = dict[ObjectKey, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Export:
    """The objects that an export writes, and the roles that it leaves to the groups of a provider: a role in a file
    belongs to Git once the file is applied, and groups do not change its people any more."""

    objects: Bodies
    left_out: Bodies


def read_export() -> Export:
    """The configuration at one moment."""
    with one_snapshot():
        owners = read_owners()
        objects, given = read_configuration(owners), roles_given_by_groups()
    left_out = {key for key in objects if key[0] is OwnedKind.ROLE and key not in owners and key[1] in given}
    return Export(
        {key: body for key, body in objects.items() if key not in left_out},
        {key: body for key, body in objects.items() if key in left_out},
    )


def read_owners() -> dict[ObjectKey, GitOwner]:
    """The owners in Git by object."""
    return {(OwnedKind(row.kind), row.name): row.owner for row in ConfigurationOwner.objects.all()}


def read_configuration(owners: dict[ObjectKey, GitOwner]) -> Bodies:
    """Every object by kind and name. Archived pools, cohorts that are only named, quotas that an object in a cluster
    owns, disabled accounts, and all that runs do not belong to it."""
    return {
        **_backends(),
        **_pools(owners),
        **_cohorts(),
        **_gpu_quotas(),
        **_roles(owners),
        (OwnedKind.SETTINGS, bodies.SETTINGS_NAME): bodies.settings_body(config_body(current_config())),
    }


def _backends() -> Bodies:
    found: Bodies = {}
    for row in Backend.objects.select_related("kubernetes").prefetch_related("nodes"):
        cluster: KubernetesSettings | None = getattr(row, "kubernetes", None)
        if cluster is not None:
            values = {key: getattr(cluster, key) for key in ("access", *bodies.CLUSTER_DEFAULTS)}
            body = bodies.kubernetes_body(
                namespace=row.namespace, description=row.description, cluster=values, degraded=row.degraded,
                flavors=flavors_of(row.flavors),
            )  # fmt: skip
        else:
            nodes = [
                NodeSpec(
                    node.name, node.gpus, node.cpu, node.memory_bytes, node.storage_bytes, node.platform, node.labels
                )
                for node in row.nodes.all()
            ]
            body = bodies.simulated_body(
                namespace=row.namespace,
                description=row.description,
                auto_end=row.auto_end,
                policy={key: getattr(row, key) for key in POLICY_DEFAULTS},
                nodes=nodes,
                flavors=flavors_of(row.flavors),
            )
        found[OwnedKind.BACKEND, row.name] = body
    return found


def _pools(owners: dict[ObjectKey, GitOwner]) -> Bodies:
    active = Pool.objects.filter(subpool_state=SubpoolState.ACTIVE)
    rows = Pool.objects.roots().filter(archived=False).select_related("backend", "cohort")
    found: Bodies = {}
    for row in rows.prefetch_related(Prefetch("subpools", queryset=active)):
        key = (OwnedKind.POOL, row.name)
        owner = owners.get(key)
        subpools = {part.subpool_name or "": _quota_body(row, part) for part in row.subpools.all()}
        found[key] = bodies.with_subpools(
            bodies.pool_body(pool_settings_of(row)), subpools, are_owned=owner is not None and owner.subpools
        )
    return found


def _quota_body(root: Pool, subpool: Pool) -> bodies.Quota:
    """The quota of a subpool without its temporary raise; by flavor where its pool has flavors."""
    quota, flavors = lasting_quota(subpool)
    if not root.flavors:
        return quota
    return dict.fromkeys(root.gpu_flavors, 0) | gpus_by_flavor(flavors)


def _cohorts() -> Bodies:
    rows = Cohort.objects.filter(explicit=True).select_related("parent")
    return {(OwnedKind.COHORT, row.name): bodies.cohort_body(row.settings) for row in rows}


def _gpu_quotas() -> Bodies:
    rows = GpuQuota.objects.filter(source="api")
    return {(OwnedKind.GPU_QUOTA, row.namespace): bodies.gpu_quota_body(row.spec) for row in rows}


def _roles(owners: dict[ObjectKey, GitOwner]) -> Bodies:
    users: defaultdict[str, list[str]] = defaultdict(list)
    # A disabled account keeps its roles: without them the files would differ until somebody enables it.
    for role, username in RoleAssignment.objects.values_list("group__name", "user__username"):
        users[role].append(username)
    names = {*users, *(name for kind, name in owners if kind is OwnedKind.ROLE)}
    return {(OwnedKind.ROLE, role): bodies.role_body(users[role]) for role in names}
