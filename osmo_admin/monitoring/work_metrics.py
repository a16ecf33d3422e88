"""The part of `/metrics` about work: what waits and for how long, how long started work had waited, promised starts and
stuck gangs, decisions, background jobs, capacity of backends, and fair shares.

All values come from the database, so each web process shows the same, also those of a deployment whose worker runs on
another machine. Leaves and priorities without work have no row, so the page grows with use and not with the number of
pools times priorities.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate

from django.utils import timezone
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from pools.database.one_by_one import left_out_on_error
from pools.domain.values.amounts import DEFAULT_FLAVOR
from pools.selectors.audit_trail import seconds_held_back
from pools.selectors.quotas.backend_capacity import read_capacities
from pools.selectors.quotas.degraded import degraded_clusters
from pools.sign_on.identities import signed_on_counts
from scheduling.domain.timelines.wait_buckets import WAIT_BUCKETS
from scheduling.history.starts.background import forecast_scores
from scheduling.selectors.cluster.nodes import NodeUsage, gpus_of_nodes, read_node_usage
from scheduling.selectors.status.work_metrics import (
    read_decision_counts,
    read_fair_shares,
    read_job_runs,
    read_lost_counts,
    read_notice_counts,
    read_wait_faults,
    read_wait_histograms,
    read_waiting_work,
)

_WORK_LABELS = ["pool", "leaf", "priority"]


class WorkCollector(Collector):
    """Work as it is during the scrape; a fixed number of queries for each backend."""

    def collect(self) -> Iterator[Metric]:
        yield from collect_apart(
            _collect_waiting,
            _collect_waits,
            _collect_wait_faults,
            _collect_decisions,
            _collect_lost,
            _collect_jobs,
            _collect_capacity,
            _collect_fair_shares,
            _collect_forecast_scores,
            _collect_notices,
            _collect_sign_ons,
            _collect_events,
        )


def collect_apart(*collectors: Callable[[], Iterable[Metric]]) -> Iterator[Metric]:
    """The metrics of these functions. One that fails leaves its own out, so that an alarm about it can still be made
    from the others."""
    for collect in collectors:
        with left_out_on_error("metrics", collect.__name__):
            yield from list(collect())


def _collect_notices() -> Iterator[Metric]:
    counts = read_notice_counts()
    age = 0.0 if counts.oldest is None else max(0.0, (timezone.now() - counts.oldest).total_seconds())
    yield CounterMetricFamily("osmo_notices_delivered", "Notices that arrived.", value=counts.delivered)
    yield CounterMetricFamily("osmo_notices_dead", "Notices that are no longer tried.", value=counts.dead)
    yield CounterMetricFamily("osmo_notice_failures", "Attempts to send a notice that failed.", value=counts.failures)
    yield GaugeMetricFamily("osmo_notices_waiting", "Notices that wait to be sent.", value=counts.waiting)
    yield GaugeMetricFamily("osmo_notices_oldest_seconds", "Seconds that the oldest of them waits.", value=age)


def _collect_sign_ons() -> Iterator[Metric]:
    sign_ons = GaugeMetricFamily(
        "osmo_sign_ons",
        "Valid sign-ons by provider; renewable=no: the provider gave no refresh token and confirms nobody again.",
        labels=["provider", "renewable"],
    )
    for (provider, is_renewable), count in signed_on_counts().items():
        sign_ons.add_metric([provider, "yes" if is_renewable else "no"], count)
    yield sign_ons


def _collect_events() -> Iterator[Metric]:
    """What an open transaction holds back: event streams, notices, hours of usage."""
    yield GaugeMetricFamily(
        "osmo_events_held_back_seconds",
        "Seconds that the oldest event waits for a transaction that is still open.",
        value=seconds_held_back(),
    )


def _collect_forecast_scores() -> Iterator[Metric]:
    score = forecast_scores()
    covered = GaugeMetricFamily(
        "osmo_forecast_coverage",
        "Share of starts between the 10 % and the 90 % quantile of their first forecast, of the last 1000.",
    )
    loss = GaugeMetricFamily(
        "osmo_forecast_pinball", "Mean pinball loss of the last 1000 first forecasts of starts, in seconds."
    )
    if score.coverage is not None and score.pinball is not None:
        covered.add_metric([], score.coverage)
        loss.add_metric([], score.pinball)
    yield from (covered, loss)


def _collect_waiting() -> Iterator[Metric]:
    gangs = GaugeMetricFamily("osmo_waiting_gangs", "Gangs that wait for GPUs.", labels=_WORK_LABELS)
    gpus = GaugeMetricFamily("osmo_waiting_gpus", "GPUs with which waiting gangs would start.", labels=_WORK_LABELS)
    oldest = GaugeMetricFamily(
        "osmo_waiting_oldest_seconds", "Seconds since the gang that waits longest could first start.",
        labels=_WORK_LABELS,
    )  # fmt: skip
    now = timezone.now()
    for work in read_waiting_work():
        labels = dict(zip(_WORK_LABELS, [*work.leaf, work.priority], strict=True))
        if work.flavor is not None:
            labels["flavor"] = work.flavor
        waits = max(0.0, (now - work.since).total_seconds())
        for family, value in ((gangs, work.gangs), (gpus, work.gpus), (oldest, waits)):
            family.add_sample(family.name, labels, value)
    yield from (gangs, gpus, oldest)


def _collect_waits() -> Iterator[Metric]:
    waits = HistogramMetricFamily(
        "osmo_wait_seconds", "Seconds that started gangs had waited for GPUs.", labels=_WORK_LABELS
    )
    bounds = [*(f"{float(bound)}" for bound in WAIT_BUCKETS), "+Inf"]
    for found in read_wait_histograms():
        buckets = list(zip(bounds, accumulate(found.counts), strict=True))
        waits.add_metric([*found.leaf, found.priority], buckets, found.seconds)
    yield waits


def _collect_wait_faults() -> Iterator[Metric]:
    stuck = GaugeMetricFamily(
        "osmo_stuck_gangs", "Gangs that wait although nothing may stop them, by the last full cycle.",
        labels=["backend"],
    )  # fmt: skip
    overdue = GaugeMetricFamily(
        "osmo_promised_starts_overdue", "Promised latest starts that are over while the gang waits.", labels=["backend"]
    )
    contradicted = GaugeMetricFamily(
        "osmo_promised_starts_contradicted", "Promised latest starts of gangs whose newest forecast is never.",
        labels=["backend"],
    )  # fmt: skip
    ended = CounterMetricFamily(
        "osmo_promised_starts", "Promised latest starts by outcome: kept, broken, withdrawn.",
        labels=["backend", "outcome"],
    )  # fmt: skip
    previews = GaugeMetricFamily(
        "osmo_previews", "Previews of confirmed changes that were compared with a cycle in the last day, by outcome.",
        labels=["backend", "outcome"],
    )  # fmt: skip
    for faults in read_wait_faults(timezone.now()):
        stuck.add_metric([faults.backend], faults.stuck)
        overdue.add_metric([faults.backend], faults.overdue)
        contradicted.add_metric([faults.backend], faults.contradicted)
        for outcome, count in faults.ended.items():
            ended.add_metric([faults.backend, outcome], count)
            previews.add_metric([faults.backend, outcome], faults.previews[outcome])
    yield from (stuck, overdue, contradicted, ended, previews)


def _collect_decisions() -> Iterator[Metric]:
    labels = ["pool", "leaf", "action"]
    decisions = CounterMetricFamily(
        "osmo_decisions", "Decisions about work: start, move, reclaim, preempt, give_up.", labels=labels
    )
    gpus = CounterMetricFamily("osmo_decision_gpus", "GPUs of the tasks of decisions.", labels=labels)
    for leaf, action, count, held in read_decision_counts():
        decisions.add_metric([*leaf, action], count)
        gpus.add_metric([*leaf, action], held)
    yield from (decisions, gpus)


def _collect_lost() -> Iterator[Metric]:
    labels = ["pool", "leaf", "cause"]
    attempts = CounterMetricFamily("osmo_lost_attempts", "Attempts that something else ended.", labels=labels)
    lost = CounterMetricFamily(
        "osmo_lost_gpu_seconds", "GPU-seconds that these attempts lost since their last checkpoint.", labels=labels
    )
    for leaf, cause, count, gpu_ms in read_lost_counts():
        attempts.add_metric([*leaf, cause], count)
        lost.add_metric([*leaf, cause], gpu_ms / 1000)
    yield from (attempts, lost)


def _collect_jobs() -> Iterator[Metric]:
    since = GaugeMetricFamily(
        "osmo_job_seconds_since_run", "Seconds since a background job was last sent; infinite before.", labels=["name"]
    )
    every = GaugeMetricFamily("osmo_job_interval_seconds", "Seconds between the runs of a job.", labels=["name"])
    now = timezone.now()
    for job in read_job_runs():
        since.add_metric([job.name], math.inf if job.last is None else max(0.0, (now - job.last).total_seconds()))
        every.add_metric([job.name], job.every.total_seconds())
    yield from (since, every)


def _collect_capacity() -> Iterator[Metric]:
    capacity = GaugeMetricFamily("osmo_backend_capacity_gpus", "GPUs of the nodes of a backend.")
    promised = GaugeMetricFamily(
        "osmo_backend_promised_gpus", "The quotas of the pools of a backend; more than its capacity is oversubscribed."
    )
    capacities, uses = read_capacities(), read_node_usage()
    degraded = degraded_clusters(capacities, gpus_of_nodes(uses))
    missing = GaugeMetricFamily(
        "osmo_backend_missing_gpus", "GPUs of the quotas of a backend's pools that it cannot give now."
    )
    short = GaugeMetricFamily(
        "osmo_pool_missing_gpus", "GPUs of the quota of a pool that its backend cannot give now, where there are any."
    )
    for pk, facts in capacities.items():
        lost: Counter[str] = Counter()
        for pool in degraded[pk].short_of() if pk in degraded else ():
            lost[pool.flavor] += pool.missing
            named = {} if pool.flavor == DEFAULT_FLAVOR else {"flavor": pool.flavor}
            short.add_sample(short.name, {"pool": pool.pool} | named, pool.missing)
        for flavor, each in facts.by_flavor.items():
            labels = {"backend": facts.backend} | ({"flavor": flavor} if facts.flavors else {})
            if facts.gpus is not None:
                capacity.add_sample(capacity.name, labels, each.gpus)
            promised.add_sample(promised.name, labels, each.quota)
            missing.add_sample(missing.name, labels, lost[flavor])
    yield from (capacity, promised, missing, short)
    yield from _nodes({pk: facts.backend for pk, facts in capacities.items()}, uses)


def _nodes(names: Mapping[int, str], uses: Iterable[NodeUsage]) -> Iterator[Metric]:
    """Only nodes with something to say, so that a large cluster has few series."""
    suspect = GaugeMetricFamily("osmo_node_suspect", "A suspect node: different work failed there within minutes.",
                                labels=["backend", "node"])  # fmt: skip
    overfull = GaugeMetricFamily(
        "osmo_node_excess_gpus", "GPUs that work holds on a node beyond its size.", labels=["backend", "node"]
    )
    for use in uses:
        labels = [names.get(use.backend_id, ""), use.name]
        if use.failures:
            suspect.add_metric(labels, 1)
        if use.used_gpus > use.gpus:
            overfull.add_metric(labels, use.used_gpus - use.gpus)
    yield from (suspect, overfull)


def _collect_fair_shares() -> Iterator[Metric]:
    fair = GaugeMetricFamily(
        "kai_queue_fair_share_gpu", "Fair share of a queue in GPUs, by the name of KAI's scheduler.",
        labels=["queue_name"],
    )  # fmt: skip
    for name, share in read_fair_shares():
        fair.add_metric([name], float(share))
    yield fair
