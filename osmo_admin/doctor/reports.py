"""Reports of the running processes, in the broker.

Each process writes what it is (version, mark of its secret key) every few seconds, with its findings, which it renews
every five minutes, and at once when somebody asks. `osmo-admin doctor` asks and reads; `/metrics` reads. A process that
is gone leaves its last report, which counts for `LIFETIME` seconds.
"""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from multiprocessing.util import Finalize
from typing import Any

import redis
import structlog

from osmo_admin import __version__
from osmo_admin.doctor import checks
from osmo_admin.doctor.findings import Finding
from osmo_admin.monitoring import heartbeat
from osmo_admin.ops.programs.process_commands import WEBHOOK
from pools.security.sealing import key_marks

REPORTS = "osmo:reports"
REQUESTED = "osmo:reports:asked"
LIFETIME = 60.0
POLL_SECONDS = 2.0
WRITE_SECONDS = 10.0
CHECK_SECONDS = 300.0
# Names of numbers of a report: the end of the certificate in seconds of the epoch; the free part of a disk by its name.
CERTIFICATE_END = "certificate_end"
DISK = "disk:"
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Report:
    """One process: its kind, machine and process number, since when it runs (seconds of the epoch), its version, the
    marks of its secret keys (the present one first), the question that it has answered, its findings, and numbers for
    metrics."""

    kind: str
    host: str
    pid: int
    started_at: float
    version: str
    key_marks: tuple[str, ...]
    answered: str = ""
    findings: tuple[Finding, ...] = ()
    facts: dict[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """`worker of osmo-worker-7d9f (process 1)`."""
        return f"{self.kind} of {self.host} (process {self.pid})"


class Reporter:
    """The thread that reports about its process."""

    def __init__(self, kind: str) -> None:
        self._report = Report(kind, checks.host_name(), os.getpid(), time.time(), __version__, tuple(key_marks()))
        self._findings: tuple[Finding, ...] = ()
        self._answered = ""
        self._checked_at = self._written_at = float("-inf")

    def start(self) -> None:
        """Begin; the thread ends with the process."""
        threading.Thread(target=self._run, name="reports", daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                self.step(heartbeat.redis_client())
            except redis.RedisError:
                self._written_at = float("-inf")  # at once when the broker answers again
            except Exception:  # a defect here must not end what only watches
                log.exception("report_failed")
            time.sleep(POLL_SECONDS)

    def step(self, client: redis.Redis) -> None:
        """Look whether somebody asks, run the checks that are due, and write the report if it is due."""
        now = time.monotonic()
        request = _text(client.get(REQUESTED))
        if request != self._answered or now - self._checked_at > CHECK_SECONDS:
            self._findings = tuple(checks.run_checks(self._report.kind, all_of_them=bool(request)))
            self._answered, self._checked_at, self._written_at = request, now, float("-inf")
        if now - self._written_at > WRITE_SECONDS:
            own = self._report
            name = f"{own.kind}:{own.host}:{own.pid}"
            client.hset(REPORTS, name, self._encode(client))
            _forget_at_exit(name)
            self._written_at = now

    def _encode(self, client: redis.Redis) -> str:
        content = asdict(self._report) | {
            "answered": self._answered,
            "facts": self._facts(),
            "findings": [finding.as_json() for finding in self._findings],
            "at": _broker_time(client),
        }
        return json.dumps(content)

    def _facts(self) -> dict[str, float]:
        facts = {f"{DISK}{name}": free for name, _, free in checks.free_disks()}
        end = checks.webhook_certificate_end() if self._report.kind == WEBHOOK else None
        return facts if end is None else facts | {CERTIFICATE_END: end.timestamp()}


@cache
def _forget_at_exit(name: str) -> None:
    """A process that ends in order leaves no report, so that the next one is not taken for a second."""
    Finalize(None, _forget, args=[name], exitpriority=0)


def _forget(name: str) -> None:
    with suppress(redis.RedisError):
        heartbeat.redis_client().hdel(REPORTS, name)


def read_reports() -> list[Report]:
    """The reports of all running processes; older ones are removed. Raises redis.RedisError."""
    client = heartbeat.redis_client()
    now, found = _broker_time(client), []
    for name, content in client.hgetall(REPORTS).items():
        row = json.loads(content)
        if now - row.pop("at") > LIFETIME:
            client.hdel(REPORTS, name)
            continue
        findings = tuple(Finding.of(each) for each in row.pop("findings"))
        keys = tuple(row.pop("key_marks"))
        found.append(Report(**row, key_marks=keys, findings=findings))
    return sorted(found, key=lambda report: (report.kind, report.host, report.pid))


def ask_processes(*, seconds: float) -> Iterator[Report]:
    """Ask every running process for all of its checks now. Yields the newest report of each, also of one that has not
    answered within `seconds`. Raises redis.RedisError."""
    question = uuid.uuid4().hex
    heartbeat.redis_client().set(REQUESTED, question, ex=int(seconds) + 30)
    deadline = time.monotonic() + seconds
    while True:
        reports = read_reports()
        if all(report.answered == question for report in reports) or time.monotonic() > deadline:
            break
        time.sleep(0.3)
    for report in reports:
        if report.answered == question:
            yield report
        else:
            silent = Finding(
                "process", report.kind, False, f"{report.name} has not answered within {seconds:.0f} s.",
                "It hangs, waits for a server, or has just ended: read its log, and see osmo-admin probe.",
            )  # fmt: skip
            yield Report(**(_plain(report) | {"findings": (silent,)}))


def _plain(report: Report) -> dict[str, Any]:
    return {name: getattr(report, name) for name in Report.__slots__}


def _broker_time(client: redis.Redis) -> float:
    """The clock of the broker, which is the same for all processes."""
    seconds, micro = client.time()
    return float(seconds) + micro / 1e6


def _text(value: Any) -> str:
    return "" if value is None else value.decode()
