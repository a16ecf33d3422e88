"""The part of `/metrics` about the installation itself: its processes and what they reach, ends of tokens and of the
certificate, and the last backup.

What processes report about themselves is in the broker (:mod:`osmo_admin.doctor.reports`), so each web process shows
the same, also about processes on other machines. Without the broker these metrics are missing, and `osmo_broker_up`
is 0.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

import redis
from django.utils import timezone
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from osmo_admin.doctor.reports import CERTIFICATE_END, DISK, Report, read_reports
from osmo_admin.monitoring.work_metrics import collect_apart
from osmo_admin.ops.programs import process_commands
from pools.models import AccessToken, LastBackup

KINDS = (process_commands.WEB, process_commands.WORKER, process_commands.BEAT, process_commands.CLUSTERS)
# Tokens that nobody has used for this time may end.
USED_WITHIN = timedelta(days=31)


class InstallationCollector(Collector):
    """`token` is the access token with which this page is read, if it is one."""

    def __init__(self, token: AccessToken | None = None) -> None:
        self._token = token

    def collect(self) -> Iterator[Metric]:
        yield from collect_apart(_collect_reports, self._collect_tokens, _collect_backup)

    def _collect_tokens(self) -> Iterator[Metric]:
        scrape = GaugeMetricFamily(
            "osmo_scrape_token_seconds_left", "Seconds until the access token with which this page is read ends."
        )
        if self._token is not None:
            scrape.add_metric([], (self._token.expires_at - timezone.now()).total_seconds())
        yield scrape
        left = GaugeMetricFamily(
            "osmo_token_seconds_left",
            "Seconds until the first of the access tokens in use ends, of accounts without a password and without a "
            "provider (program) and of the others (person).",
            labels=["owner"],
        )
        now = timezone.now()
        rows = (
            AccessToken.objects.valid(now)
            .filter(last_used_at__gt=now - USED_WITHIN, owner__is_active=True, identity=None)
            .select_related("owner")
            .prefetch_related("owner__identities")
        )
        ends: dict[str, float] = {}
        for token in rows:
            is_person = token.owner.has_usable_password() or bool(token.owner.identities.all())
            owner = "person" if is_person else "program"
            ends[owner] = min(ends.get(owner, math.inf), (token.expires_at - now).total_seconds())
        for owner, seconds in sorted(ends.items()):
            left.add_metric([owner], seconds)
        yield left


def _collect_reports() -> Iterator[Metric]:
    broker = GaugeMetricFamily("osmo_broker_up", "1 while the broker answers the web process.")
    try:
        reports = read_reports()
    except redis.RedisError:
        broker.add_metric([], 0)
    else:
        broker.add_metric([], 1)
        yield from _collect_processes(reports)
    yield broker


def _collect_processes(reports: list[Report]) -> Iterator[Metric]:
    count = GaugeMetricFamily("osmo_processes", "Running processes of a kind.", labels=["process"])
    running = Counter(report.kind for report in reports)
    for kind in {*KINDS, *running}:
        count.add_metric([kind], running[kind])
    yield count
    versions = GaugeMetricFamily("osmo_process_versions", "Running processes by version.", labels=["version"])
    for version, number in Counter(report.version for report in reports).items():
        versions.add_metric([version], number)
    yield versions
    keys = GaugeMetricFamily("osmo_secret_keys", "Different secret keys of the running processes; 1 is right.")
    keys.add_metric([], len({report.key_marks[0] for report in reports}))
    yield keys
    yield _collect_checks(reports)
    disks = GaugeMetricFamily(
        "osmo_disk_free_ratio", "Free part of a disk, the least of the processes of a kind.", labels=["process", "disk"]
    )
    least: dict[tuple[str, str], float] = {}
    ends = []
    for report in reports:
        for name, value in report.facts.items():
            if name.startswith(DISK):
                key = report.kind, name.removeprefix(DISK)
                least[key] = min(value, least.get(key, 1.0))
            elif name == CERTIFICATE_END:
                ends.append(value)
    for labels, value in sorted(least.items()):
        disks.add_metric(list(labels), value)
    yield disks
    certificate = GaugeMetricFamily(
        "osmo_webhook_certificate_seconds_left", "Seconds until the certificate of the webhook server ends."
    )
    if ends:
        certificate.add_metric([], min(ends) - time.time())
    yield certificate


def _collect_checks(reports: list[Report]) -> Metric:
    checks = GaugeMetricFamily(
        "osmo_process_check_ok",
        "1 if every process of the kind passes the check, as osmo-admin doctor runs it; at most five minutes old.",
        labels=["process", "check", "subject"],
    )
    passed: dict[tuple[str, str, str], bool] = {}
    for report in reports:
        for finding in report.findings:
            key = report.kind, finding.check, finding.subject
            passed[key] = passed.get(key, True) and finding.ok
    for labels, ok in sorted(passed.items()):
        checks.add_metric(list(labels), int(ok))
    return checks


def _collect_backup() -> Iterator[Metric]:
    age = GaugeMetricFamily("osmo_backup_age_seconds", "Seconds since the last complete backup; infinite without one.")
    last = LastBackup._default_manager.first()
    age.add_metric([], math.inf if last is None else max(0.0, (timezone.now() - last.made_at).total_seconds()))
    yield age
