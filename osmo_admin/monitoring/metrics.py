"""`/metrics` for Prometheus: requests and their times as every web process counted them, and the ledger's balance at
the time of the request.

Needs a login that may read the platform (`osmo-admin`, `osmo-viewer`), or `OSMO_METRICS_PUBLIC`. A scraper sends its
access token as it is (`Authorization: Bearer TOKEN`; make one for a user with `osmo-viewer`). With several web
processes `PROMETHEUS_MULTIPROC_DIR` must name a folder that they share and that is emptied before they start, else each
answers for itself; `osmo-admin up` takes care of that."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from functools import lru_cache

import prometheus_client
from django.conf import settings
from django.http import HttpResponse
from prometheus_client import CollectorRegistry, multiprocess
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString
from rest_framework.request import Request

from osmo_admin.monitoring.process_metrics import InstallationCollector
from osmo_admin.monitoring.work_metrics import WorkCollector, collect_apart
from pools.api.authentication import AccessTokenAuthentication, SessionAuthentication
from pools.api.schema import TEXT, describe_operation
from pools.api.views import View
from pools.domain import names
from pools.domain.gpu_quota.status import WORKERS
from pools.domain.gpu_quota.status import usage_gauges as gauges_of
from pools.domain.people.roles import Permission
from pools.domain.quota.forest import cohort_key
from pools.domain.quota.pool_balance import PoolBalance, UsageCounts
from pools.domain.subpool_lifecycle import SubpoolState
from pools.domain.values.amounts import DEFAULT_FLAVOR, GPU
from pools.domain.values.quantities import THOUSAND
from pools.models import AccessToken, Cohort, GpuQuota, Pool
from pools.permissions import require_platform
from pools.selectors.gpu_namespace import read_namespaces
from pools.selectors.quotas.pool_balance import read_balances
from pools.selectors.quotas.quota_facts import cohort_roots, read_admission_tree
from scheduling.selectors.cluster.queue_sync_state import read_sync_metrics
from scheduling.selectors.queue.live_facts import leaf_usage

MAX_POOLS = 1000  # without a limit, a large installation would make a page that the scraper cannot take


class MetricsView(View):
    """Counters and gauges in Prometheus' text form."""

    authentication_classes = (AccessTokenAuthentication, SessionAuthentication)

    @describe_operation(
        "Prometheus metrics, with quota and use of leaves and namespaces. For osmo-admin, osmo-viewer, or all callers.",
        answer=TEXT,
        media_type="text/plain",
    )
    def get(self, request: Request) -> HttpResponse:
        if not settings.OSMO.metrics_public:
            require_platform(self.actor, Permission.PLATFORM_READ)
        ledger = CollectorRegistry()
        ledger.register(LedgerCollector())
        ledger.register(WorkCollector())
        token = None if settings.OSMO.metrics_public else request.auth
        ledger.register(InstallationCollector(token if isinstance(token, AccessToken) else None))
        page = [
            prometheus_client.generate_latest(_request_registry()),
            prometheus_client.generate_latest(ledger),
            *(text.encode() for text in leaf_metrics()),
        ]
        return HttpResponse(b"".join(page), content_type=prometheus_client.CONTENT_TYPE_LATEST)

    def perform_authentication(self, request: Request) -> None:
        if not settings.OSMO.metrics_public:
            super().perform_authentication(request)

    def check_permissions(self, request: Request) -> None:
        if not settings.OSMO.metrics_public:
            super().check_permissions(request)


def _request_registry() -> CollectorRegistry:
    """The counters of this process, or those of all web processes together."""
    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        return prometheus_client.REGISTRY
    together = CollectorRegistry()
    multiprocess.MultiProcessCollector(together)  # type: ignore[no-untyped-call]
    return together


class LedgerCollector(Collector):
    """The balance of the first thousand cohorts and namespaces by name; a few queries, only during a scrape."""

    def collect(self) -> Iterator[Metric]:
        yield from collect_apart(_collect_cohorts, _collect_gpu_quotas, _collect_clusters)


def leaf_metrics() -> Iterator[str]:
    """The balance of the first thousand pools by name, as text. A large installation has two hundred thousand of these
    samples, and the library takes ten times as long to write them; names of pools and queues need no escaping, because
    the database allows only safe characters in them."""
    roots = Pool.objects.roots().filter(archived=False)
    listed = list(roots.select_related("backend").order_by("name")[:MAX_POOLS])
    yield _gauge("osmo_pools_left_out", "Pools that this answer does not contain.", [("", roots.count() - len(listed))])
    guarantees: list[tuple[str, float]] = []
    leaves: list[tuple[str, dict[str, float]]] = []
    of_flavors: list[tuple[str, dict[str, float]]] = []
    queues: list[tuple[str, float, float]] = []
    facts = read_balances(listed)
    for root in listed:
        balance = facts[root.pk]
        for flavor, kind in balance.by_flavor.items():
            mark = f'flavor="{flavor}",' if balance.kinds else ""
            guarantees.append((f'{{{mark}pool="{root.name}"}}', kind.guarantee))
        for leaf, values in _iterate_leaves(balance):
            leaves.append((f'{{leaf="{leaf}",pool="{root.name}"}}', values))
        for flavor, leaf, values in _iterate_flavors(balance):
            mark = f'flavor="{flavor}",' if balance.kinds else ""
            of_flavors.append((f'{{{mark}leaf="{leaf}",pool="{root.name}"}}', values))
        for queue, quota, usage in _iterate_queues(root, balance):
            queues.append((f'{{queue_name="{queue}"}}', quota, usage))
    yield _gauge("osmo_pool_guarantee_gpus", "The quota of a pool, in GPUs.", guarantees)
    for name, about in _LEAF.items():
        found = of_flavors if name in _BY_FLAVOR else leaves
        yield _gauge(f"osmo_leaf_{name}", about, ((labels, values[name]) for labels, values in found))
    quotas, uses = ((labels, quota) for labels, quota, _ in queues), ((labels, held) for labels, _, held in queues)
    yield _gauge("kai_queue_deserved_gpus", _KAI.format("Quota"), quotas)
    yield _gauge("kai_queue_allocated_gpus", _KAI.format("GPUs in use"), uses)


_number = lru_cache(maxsize=4096)(floatToGoString)


def _gauge(name: str, about: str, samples: Iterable[tuple[str, float]]) -> str:
    """A gauge in Prometheus' text form; each sample has its labels as text, and its value."""
    head = f"# HELP {name} {about}\n# TYPE {name} gauge\n"
    return head + "".join([f"{name}{labels} {_number(value)}\n" for labels, value in samples])


_LEAF = {
    "quota_gpus": "GPUs guaranteed to a leaf (a subpool, or _shared: the remainder of the pool); 0 while it drains.",
    "used_gpus": "GPUs held by running HIGH and NORMAL work.",
    "usage_gpus": "GPUs held by all running work.",
    "available_gpus": "Quota minus used; below zero while more is in use than the quota.",
    "live_workflows": "Workflows that have not ended.",
    "draining": "1 while a deleted subpool waits for its work to end.",
}


_BY_FLAVOR = {"quota_gpus", "used_gpus", "usage_gpus", "available_gpus"}
"""In a pool with flavors they have a sample for each, labelled with it; its sums are those of the leaf."""


def _iterate_flavors(balance: PoolBalance) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Flavor, leaf and values. Work of a pool with flavors that began before it had them has no quota."""
    if not balance.kinds:
        for leaf, values in _iterate_leaves(balance):
            yield DEFAULT_FLAVOR, leaf, values
        return
    for flavor, kind in balance.kinds.items():
        for leaf, values in _iterate_leaves(kind):
            yield flavor, leaf, values
    for leaf, _ in _iterate_leaves(balance):
        left = leaf_usage(balance, leaf).get(DEFAULT_FLAVOR)
        if left is not None and DEFAULT_FLAVOR not in balance.kinds:
            yield DEFAULT_FLAVOR, leaf, _leaf_values(0, left, draining=False)


def _iterate_leaves(balance: PoolBalance) -> Iterator[tuple[str, dict[str, float]]]:
    yield names.SHARED_QUEUE, _leaf_values(balance.unallocated, balance.shared_usage, draining=False)
    for part in balance.subpools:
        if part.state is not SubpoolState.ARCHIVED:
            yield part.name, _leaf_values(part.quota, part.usage, draining=part.state is SubpoolState.DELETING)


_KAI = "{} of a queue, by the name of KAI's queue controller. The queue of a pool contains those of its leaves."


def _iterate_queues(root: Pool, balance: PoolBalance) -> Iterator[tuple[str, float, float]]:
    """Queue in a cluster, quota and use: of the pool and of each leaf."""
    assert root.backend is not None
    namespace = root.backend.namespace
    leaves = [
        (names.SHARED_QUEUE, balance.shared_scheduling_quota, balance.shared_usage.total_usage),
        *(
            (part.name, part.scheduling_quota, part.usage.total_usage)
            for part in balance.subpools
            if part.state is not SubpoolState.ARCHIVED
        ),
    ]
    usage = sum(held for _, _, held in leaves)
    for leaf, quota, held in ((None, balance.scheduling_quota, usage), *leaves):
        yield names.k8s_queue_name(names.queue_name(namespace, root.name, leaf)), quota, held


def _collect_cohorts() -> Iterator[Metric]:
    """Quota, usage and debt of the first thousand cohorts by name, and whether their parents form a cycle."""
    cohorts = dict(Cohort.objects.order_by("name").values_list("name", "pk")[:MAX_POOLS])
    active = GaugeMetricFamily("osmo_cohort_active", _ACTIVE, labels=["cohort"])
    labels = ["cohort", "resource"]
    gauges = {name: GaugeMetricFamily(f"osmo_cohort_{name}", about, labels=labels) for name, about in _COHORT.items()}
    tree = read_admission_tree(set(cohort_roots(set(cohorts.values())).values()))
    for name in cohorts:
        node = cohort_key(name)
        active.add_metric([name], tree.is_active(node))
        for key in tree.keys:
            column, x = tree.columns[key], tree.index[node]
            if key == GPU or column.subtree[x] or column.usage[x]:
                values = {"subtree_quota": column.subtree[x], "usage": column.usage[x], "debt": column.debt(x)}
                for gauge, value in values.items():
                    gauges[gauge].add_metric([name, key], float(value))
    yield active
    yield from gauges.values()


_ACTIVE = "1 while the cohort works; 0 on a cycle of parents or below one, where nothing starts."
_COHORT = {
    "subtree_quota": "The quota of the cohort and everything below it; infinite if unlimited.",
    "usage": "Usage below the cohort, without the part that children do not share.",
    "debt": "Usage beyond the limits; work that ends reduces it.",
}


def _collect_clusters() -> Iterator[Metric]:
    """How far the queues of each Kubernetes backend follow the ledger."""
    gauges = {
        name: GaugeMetricFamily(f"osmo_cluster_{name}", about, labels=["backend"]) for name, about in _CLUSTER.items()
    }
    for backend, values in read_sync_metrics().items():
        for name, value in values.items():
            gauges[name].add_metric([backend], value)
    yield from gauges.values()


_CLUSTER = {
    "in_step": "1 while the queues of the cluster follow the ledger as it is now.",
    "generations_behind": "Changes of the ledger that are not confirmed as applied to the cluster.",
    "drift_fields": "Fields of our queues that another client changed and that are not corrected yet.",
    "sync_failures": "Sync runs that failed one after another.",
    "sync_paused": "1 while the queue sync waits after a failure.",
    "agent_lease_held": "1 while a process holds the lease of the cluster's agent.",
    "gpu_controller_lease_held": "1 while a process holds the lease of the cluster's GPU quota controller.",
    "held_elsewhere": "1 while another installation holds the Lease in the cluster, so that this one does not work.",
    "seconds_since_heard": "Seconds since the cluster last answered its agent; infinite before the first answer.",
}


def _collect_gpu_quotas() -> Iterator[Metric]:
    """GPU quota of the first thousand namespaces by name; a reservation does not count as use."""
    amount = ["namespace", "amount"]
    used = GaugeMetricFamily("osmo_gpu_quota_used", "Held by workers: TFLOPS, bytes, or workers.", labels=amount)
    cap = GaugeMetricFamily("osmo_gpu_quota_cap", "Cap on all workers together; infinite without one.", labels=amount)
    alert = GaugeMetricFamily("osmo_gpu_quota_alert", "1 while the alert is active.", labels=["namespace"])
    alerts = CounterMetricFamily("osmo_gpu_quota_alerts", "Times the threshold was passed.", labels=["namespace"])
    names = GpuQuota.objects.order_by("namespace").values_list("namespace", flat=True)
    for facts in read_namespaces(names[:MAX_POOLS]).values():
        if facts.quota is None:
            continue
        for gauge in gauges_of(facts.spec, facts.committed):
            unit = 1 if gauge.key == WORKERS else THOUSAND
            used.add_metric([facts.name, gauge.key], gauge.used / unit)
            cap.add_metric([facts.name, gauge.key], math.inf if gauge.total is None else gauge.total / unit)
        alert.add_metric([facts.name], int(facts.quota.alert_since is not None))
        alerts.add_metric([facts.name], facts.quota.alerts)
    yield from (used, cap, alert, alerts)


def _leaf_values(quota: float, usage: UsageCounts, *, draining: bool) -> dict[str, float]:
    return {
        "quota_gpus": quota,
        "used_gpus": usage.used,
        "usage_gpus": usage.total_usage,
        "available_gpus": quota - usage.used,
        "live_workflows": usage.live_workflows,
        "draining": int(draining),
    }
