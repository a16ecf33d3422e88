"""Backends: create, change, remove (design, A3). The settings that only a Kubernetes backend has are
in :mod:`pools.services.configuration.cluster_credentials`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

from django.db.models import QuerySet

from pools.database.transactions import change
from pools.domain.changes.backends import DeleteBackend, PutBackend
from pools.domain.configuration import cluster_config
from pools.domain.configuration.backend_config import POLICY_DEFAULTS, BackendSpec, NodeSpec, parse_backend
from pools.domain.configuration.flavors import Flavor, find_unreachable, flavor_of_labels, flavors_json, flavors_of
from pools.domain.configuration.platforms import empty_platform_message, platforms_of
from pools.domain.configuration.version_check import check_version
from pools.domain.errors import BadInput, Conflict, Fault, NotFound, Stale, Violation
from pools.domain.people.roles import Actor, Permission
from pools.domain.quota.capacity import oversubscription_message
from pools.domain.quota.stored_quotas import gpus_by_flavor
from pools.domain.structured_input.faults import join_words
from pools.domain.structured_input.unset_keys import unset_key_warnings
from pools.domain.values.amounts import DEFAULT_FLAVOR
from pools.domain.values.counting import counted, first_names
from pools.locking import lock_backend, lock_configuration, lock_flavors
from pools.models import Backend, Node
from pools.permissions import require_platform
from pools.selectors.quotas.backend_capacity import read_capacities
from pools.services.changes.observed_work import queue_warnings
from pools.services.changes.rows import update_columns
from pools.services.changes.seen_state import require_as_seen
from pools.services.configuration.cluster_credentials import put_cluster, read_credential
from pools.services.gpu_quota.gpu_allocations import release_backend_pods
from pools.signals import node_labels_requested, overfull_nodes_requested, workflows_on_nodes_requested


@dataclass(frozen=True, slots=True)
class BackendResult:
    """A backend after a change, and the warnings about it."""

    row: Backend
    warnings: tuple[str, ...] = ()


def put_backend(
    command: PutBackend, *, actor: Actor, description: str = "", expected_version: int | None = None
) -> BackendResult:
    """Create or change a backend. A key that is left out keeps its value; `nodes` are replaced as a whole.

    Work on a removed node, and work that holds more than a changed node has, continues until it ends; a warning names
    it. Another warns when the quotas of the pools are more than the nodes have. Raises BadInput (every fault at once),
    Conflict (its namespace, while pools use it; its cluster, when another backend has it), Stale, Forbidden.
    """
    require_platform(actor)
    name, body = command.name, command.body
    present = Backend.objects.filter(name=name).select_related("kubernetes").first()
    spec, faults = parse_backend(name, body, present_kind=present.kind if present else None)
    credential, more = read_credential(spec.cluster, present) if spec.cluster else (None, [])
    if faults or more:
        raise BadInput.of([*faults, *more])
    with change(actor=actor, description=description):
        lock_configuration()
        row = Backend.objects.filter(name=name).first()
        _check_version(name, row, expected_version)
        require_as_seen()
        changed = False
        if row is None:
            row = Backend.objects.create(name=name, kind=spec.kind, **_columns(spec))
            _, warnings = _put_nodes(row, spec.nodes or (), flavors_of(row.flavors))
        else:
            _check_kind(row, spec)
            _check_namespace(row, spec)
            flavors = flavors_of(row.flavors) if spec.flavors is None else spec.flavors
            if spec.flavors is not None:
                lock_flavors(row)
                _check_flavors(row, flavors)
            changed, warnings = _put_nodes(row, spec.nodes, flavors) if spec.nodes is not None else (False, [])
            changed |= update_columns(row, _columns(spec))
            if spec.flavors is not None:
                _put_node_flavors(row, flavors)
            capacity = read_capacities([row.pk])[row.pk]
            warnings += [oversubscription_message(capacity)] if capacity.is_oversubscribed else []
        if spec.flavors is not None or spec.nodes is not None:
            warnings += _flavor_warnings(row)
        if spec.cluster is not None and credential is not None:
            is_cluster_changed, of_mode = put_cluster(row, spec.cluster, credential)
            warnings = [
                *warnings,
                *of_mode,
                *credential.warnings,
                *queue_warnings(row, spec.cluster.queue_pools or {}),
            ]
            changed = changed or (is_cluster_changed and present is not None)
        if changed:
            row.version += 1
            row.save(update_fields=["version"])
        warnings = [*warnings, *unset_key_warnings(body, _shown(row, body)), *_unset_in_nodes(row, spec, body)]
    return BackendResult(row, tuple(warnings))


def _shown(row: Backend, body: Mapping[str, Any]) -> dict[str, Any]:
    """What the answer for this backend shows, and a request does not set. The keys of a simulated backend have no
    effect on a cluster, whose nodes are observed."""
    shown: dict[str, Any] = {"name": row.name, "pools": sorted(pool.name for pool in row.pools.all()), "status": None}
    if row.kind == Backend.Kind.KUBERNETES:
        names = sorted(node.name for node in row.nodes.all())
        given = body.get("nodes")
        given_names = (
            [node.get("name") for node in given if isinstance(node, Mapping)] if isinstance(given, list) else []
        )
        shown |= {
            "nodes": given if sorted(map(str, given_names)) == names else names,
            **{key: getattr(row, key) for key in ("auto_end", *POLICY_DEFAULTS)},
            **{key: getattr(row.kubernetes, key) for key in cluster_config.ANSWER_KEYS},
        }
    return shown


def _unset_in_nodes(row: Backend, spec: BackendSpec, body: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for each node whose flavor was given and is another one."""
    given = body.get("nodes") if spec.nodes else None
    if given and any("flavor" in node for node in given):
        flavors = flavors_of(row.flavors)
        for place, (node, about) in enumerate(zip(given, spec.nodes or (), strict=True)):
            flavor, _ = flavor_of_labels(about.labels, flavors)
            yield from unset_key_warnings(node, {"flavor": flavor}, path=f"nodes[{place}]")


def delete_backend(
    command: DeleteBackend, *, actor: Actor, description: str = "", expected_version: int | None = None
) -> None:
    """Remove a backend with its nodes. Raises Conflict while pools are on it; archived ones count."""
    require_platform(actor)
    name = command.name
    with change(actor=actor, description=description):
        lock_configuration()
        row = get_backend(name)
        _check_version(name, row, expected_version)
        if pools := list(row.pools.order_by("name").values_list("name", flat=True)):
            count = counted(len(pools), "pool is", "pools are")
            message = (
                f"Cluster {name} cannot be removed: {count} on it ({first_names(pools)}). "
                "Move them to another cluster first; archived pools count, for their history names it."
            )
            raise Conflict(message, [Violation("pools", Fault.IN_USE, message, numbers=(("pools", len(pools)),))])
        release_backend_pods(row)
        lock_backend(row.pk)  # its agent may write a row that refers to it, after the others were found for deletion
        row.delete()


def list_backends(actor: Actor) -> QuerySet[Backend]:
    """All backends by name, for platform viewers."""
    require_platform(actor, Permission.PLATFORM_READ)
    return Backend.objects.order_by("name")


def read_backend(actor: Actor, name: str) -> Backend:
    """One backend, for platform viewers."""
    require_platform(actor, Permission.PLATFORM_READ)
    return get_backend(name)


def get_backend(name: str) -> Backend:
    """The backend of this name. Raises NotFound."""
    row = Backend.objects.filter(name=name).first()
    if row is None:
        raise NotFound(f"Cluster {name} does not exist.")
    return row


def _columns(spec: BackendSpec) -> dict[str, Any]:
    """The settings in `spec`, by column."""
    settings: dict[str, Any] = {
        "namespace": spec.namespace,
        "description": spec.description,
        "auto_end": spec.auto_end,
        "offline": spec.offline,
    }
    if spec.kind == Backend.Kind.KUBERNETES:
        # A request to be offline takes effect at once; without one the next heartbeat decides.
        settings |= {"offline_requested": spec.offline, "offline": spec.offline or None}
    if spec.flavors is not None:
        settings["flavors"] = flavors_json(spec.flavors)
    return {column: value for column, value in settings.items() if value is not None} | dict(spec.policy)


def _check_kind(row: Backend, spec: BackendSpec) -> None:
    """The kinds differ only if another request created a backend of that name in the meantime."""
    if row.kind != spec.kind:
        raise Stale(f"Cluster {row.name} was made meanwhile, of type {row.kind}. Read it again.")


def _check_namespace(row: Backend, spec: BackendSpec) -> None:
    if spec.namespace is None or spec.namespace == row.namespace:
        return
    if pools := list(row.pools.order_by("name").values_list("name", flat=True)):
        message = (
            f"The namespace of cluster {row.name} stays {row.namespace}: it is part of the queue names of "
            f"{counted(len(pools), 'pool')} ({first_names(pools)}). Make another cluster and move them there."
        )
        raise Conflict(message, [Violation("namespace", Fault.IN_USE, message)])


def _check_flavors(row: Backend, flavors: Sequence[Flavor]) -> None:
    """A flavor of which a pool has a quota stays. Raises Conflict, which names the pools."""
    names = {each.name for each in flavors}
    users: defaultdict[str, list[str]] = defaultdict(list)
    for pool, stored in row.pools.filter(archived=False).order_by("name").values_list("name", "flavors"):
        for flavor in gpus_by_flavor(stored).keys() - names - {DEFAULT_FLAVOR}:
            users[flavor].append(pool)
    if users:
        raise Conflict.of(
            [
                Violation(
                    "flavors",
                    Fault.IN_USE,
                    f"Cluster {row.name} keeps the flavor {flavor}: {counted(len(pools), 'pool has', 'pools have')} a "
                    f"quota of it ({first_names(pools)}). Take it out of their resources.flavors first.",
                    numbers=(("flavor", flavor), ("pools", len(pools))),
                )
                for flavor, pools in sorted(users.items())
            ]
        )


def _check_version(name: str, row: Backend | None, expected: int | None) -> None:
    check_version(f"Cluster {name}", expected, None if row is None else row.version)


def _put_nodes(row: Backend, desired: Sequence[NodeSpec], flavors: Sequence[Flavor]) -> tuple[bool, list[str]]:
    """Make the nodes equal to `desired`. Returns (whether any node changed, warnings)."""
    existing = {node.name: node for node in row.nodes.all()}
    new, different = [], []
    for spec in desired:
        node = existing.pop(spec.name, None)
        values = asdict(spec) | {"flavor": flavor_of_labels(spec.labels, flavors)[0]}
        if node is None:
            new.append(Node(backend=row, **values))
        elif any(getattr(node, column) != value for column, value in values.items()):
            for column, value in values.items():
                setattr(node, column, value)
            different.append(node)
    before = {node.platform for node in row.nodes.all()}
    warnings = _removed_node_warnings(row, existing) if existing else []
    warnings += _lost_platform_warnings(row, before - {spec.platform for spec in desired})
    Node.objects.filter(pk__in=[node.pk for node in existing.values()]).delete()
    Node.objects.bulk_update(
        different, ["gpus", "cpu", "memory_bytes", "storage_bytes", "platform", "labels", "flavor"]
    )
    Node.objects.bulk_create(new)
    if different:
        warnings += _overfull_node_warnings(row, sorted(node.name for node in different))
    return bool(new or different or existing), warnings


def _put_node_flavors(row: Backend, flavors: Sequence[Flavor]) -> None:
    """Give every node the flavor that it has by these flavors. Running work stays counted where it was admitted."""
    labels, different = _read_labels(row), []
    for node in row.nodes.all():
        flavor, _ = flavor_of_labels(labels.get(node.pk, node.labels), flavors)
        if node.flavor != flavor:
            node.flavor = flavor
            different.append(node)
    Node.objects.bulk_update(different, ["flavor"])


def _read_labels(row: Backend) -> dict[int, Mapping[str, str]]:
    """The labels that a cluster reports, by the id of a node; a simulated node has its own."""
    found: dict[int, Mapping[str, str]] = {}
    if row.kind == Backend.Kind.KUBERNETES:
        for _, labels in node_labels_requested.send(sender=None, backend=row):
            found |= cast("Mapping[int, Mapping[str, str]]", labels or {})
    return found


def _flavor_warnings(row: Backend) -> list[str]:
    """A node that several flavors match, and a flavor that no node can have."""
    flavors = flavors_of(row.flavors)
    if not flavors:
        return []
    found = [
        f"No node can have the flavor {name}: {earlier}, which comes first, has all its nodes."
        for name, earlier in find_unreachable(flavors)
    ]
    labels, nodes = _read_labels(row), defaultdict(list)
    for node in row.nodes.order_by("name"):
        _, matching = flavor_of_labels(labels.get(node.pk, node.labels), flavors)
        if len(matching) > 1:
            nodes[matching].append(node.name)
    return found + [
        f"{counted(len(names), 'node')} ({first_names(names)}) {'match' if len(names) > 1 else 'matches'} the flavors "
        f"{join_words(matching)}: {matching[0]} counts, the first of them."
        for matching, names in nodes.items()
    ]


def _lost_platform_warnings(row: Backend, platforms: Collection[str]) -> list[str]:
    """Platforms of pools that no node has any more."""
    users: defaultdict[str, list[str]] = defaultdict(list)
    if platforms:
        for name, config in row.pools.filter(archived=False).order_by("name").values_list("name", "config"):
            for platform in platforms_of(config).keys() & platforms:
                users[platform].append(name)
    return [empty_platform_message(row.name, platform, pools) for platform, pools in sorted(users.items())]


def _removed_node_warnings(row: Backend, nodes: Iterable[str]) -> list[str]:
    """Removing a node ends no work; the warnings name the workflows that continue there."""
    removed_nodes = sorted(nodes)
    answers = workflows_on_nodes_requested.send(sender=None, backend=row, nodes=removed_nodes)
    work = sorted({str(name) for _, names in answers for name in names or ()})
    if not work:
        return []
    message = (
        f"Work still runs on the removed nodes {first_names(removed_nodes)} and stays until it ends: "
        f"{first_names(work)}. Nothing new starts there."
    )
    return [message]


def _overfull_node_warnings(row: Backend, nodes: Sequence[str]) -> list[str]:
    """A node that shrinks below the use of its work ends none of it."""
    answers = overfull_nodes_requested.send(sender=None, backend=row, nodes=nodes)
    overfull = [text for _, texts in answers for text in texts or ()]
    if not overfull:
        return []
    message = (
        f"Running work holds more than the node has: {first_names(overfull)}. It stays until it ends, and nothing new "
        "starts there before."
    )
    return [message]
