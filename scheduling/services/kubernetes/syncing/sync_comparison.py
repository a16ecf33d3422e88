"""Compares a cluster's queues with the ledger: for a run that will write the difference, and for a preview."""

from __future__ import annotations

from pools.models import Backend, KubernetesSettings
from scheduling.kube.connection.port import ClusterReader
from scheduling.kube.queues.queue_comparison import QueueComparison, compare_queues
from scheduling.models import ClusterState, QueueSync
from scheduling.selectors.cluster.desired_queues import DesiredState, read_desired_state
from scheduling.services.kubernetes import connections
from scheduling.services.kubernetes.syncing.sync_outcome import SyncOutcome, build_outcome


def compare_with_ledger(
    backend: Backend, settings: KubernetesSettings, cluster: ClusterReader, *, take_over: bool
) -> tuple[DesiredState, QueueComparison]:
    """The ledger's desired state and its difference from the cluster. Reads only. Raises ClusterError."""
    identity = ClusterState.objects.get_or_create(backend=backend)[0].identity
    desired = read_desired_state(backend, settings, identity)
    comparison = compare_queues(
        cluster, desired.target, desired.queues, desired.topologies, desired.leaf_of, take_over=take_over
    )
    return desired, comparison


def preview_sync(backend: Backend, *, take_over: bool = False) -> SyncOutcome:
    """The outcome of a run if it started now. Reads only. Raises ClusterError."""
    settings = connections.kubernetes_settings(backend)
    row = QueueSync.objects.filter(backend=backend).first() or QueueSync(backend=backend)
    _, comparison = compare_with_ledger(backend, settings, connections.connect_reader(backend), take_over=take_over)
    return build_outcome(backend, row, remaining=comparison.writes, comparison=comparison)
