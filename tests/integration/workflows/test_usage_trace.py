"""GET /api/usage/trace: the history as a file that `osmo replay` reads again."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from pools.models import Pool
from scheduling.domain.changes.workflows import EndStatus, EndWorkflow
from scheduling.domain.priorities import Priority
from scheduling.history.traces.trace import TraceReader
from scheduling.models import Group, WaitSpan, Workflow
from scheduling.services.simulated.reconcile import reconcile_backend
from tests.support.api_client import Callers
from tests.support.flavors import make_flavored_pool, submit_gpus
from tests.support.world import apply_change, make_backend, make_pool, make_user, submit_workflow

pytestmark = pytest.mark.django_db


def read_jobs(text: str, path: Path):
    path.write_text(text)
    reader = TraceReader(str(path), teams=None, priority=Priority.LOW)
    trace = reader.read()
    assert trace is not None, reader.faults.listed
    return list(trace.jobs)


def test_the_history_is_a_trace(caller: Callers, tmp_path: Path) -> None:
    make_pool("team", 16, on=make_backend(nodes=2, gpus=16), a=8)
    worker, stranger = caller("worker", "osmo-team-user"), caller("stranger")
    admin = make_user("admin", "osmo-admin")
    first = submit_workflow(worker.actor, "team--a", 8)
    shared = submit_workflow(worker.actor, "team", 2)
    waits = submit_workflow(worker.actor, "team--a", 6)
    backend = Pool.objects.get(name="team").backend_id or 0
    reconcile_backend(backend)
    running = worker.get("/api/usage/trace")
    assert worker.last.text.count("\n") == 1, running
    for work in (first, shared):
        apply_change(EndWorkflow(name=work.name, status=EndStatus.COMPLETED), actor=admin)
    reconcile_backend(backend)
    apply_change(EndWorkflow(name=waits.name, status=EndStatus.COMPLETED), actor=admin)
    worker.get("/api/usage/trace")
    jobs = read_jobs(worker.last.text, tmp_path / "t.csv")
    assert [(job.name, job.gpus, job.team, job.user) for job in jobs] == [
        (first.name, 8, "team--a", "worker"),
        (shared.name, 2, "team--_shared", "worker"),
        (waits.name, 6, "team--a", "worker"),
    ]
    Workflow.objects.filter(pk=first.pk).update(labels={"osmo/checkpoint-every": "30m"})
    worker.get("/api/usage/trace")
    assert [job.checkpoint for job in read_jobs(worker.last.text, tmp_path / "t.csv")] == [1_800_000_000, None, None]
    group = Group.objects.get(workflow=waits)
    span = WaitSpan.objects.get(group_id=group.pk)
    wait = jobs[2].submit - jobs[0].submit
    began = WaitSpan.objects.get(workflow_id=first.pk).since
    assert wait == (span.since - began) // timedelta(microseconds=1)
    assert group.start_time is not None
    assert group.end_time is not None
    assert jobs[2].duration == (group.end_time - group.start_time) // timedelta(microseconds=1)
    worker.get("/api/usage/trace", format="swf")
    again = read_jobs(worker.last.text, tmp_path / "t.swf")
    assert [(job.gpus, job.team, job.user) for job in again] == [(8, "1", "1"), (2, "2", "1"), (6, "1", "1")]
    stranger.get("/api/usage/trace")
    assert stranger.last.text.count("\n") == 1
    assert worker.get("/api/usage/trace", format="xml")["details"][0]["path"] == "format"
    assert worker.status == 400


def test_the_trace_names_the_flavors_of_each_job(caller: Callers, tmp_path: Path) -> None:
    pool = make_flavored_pool()
    worker = caller("worker", "osmo-team-user")
    admin = make_user("admin", "osmo-admin")
    works = [submit_gpus(worker.actor, 8, "a100"), submit_gpus(worker.actor, 8)]
    reconcile_backend(pool.backend_id or 0)
    for work in works:
        apply_change(EndWorkflow(name=work.name, status=EndStatus.COMPLETED), actor=admin)
    worker.get("/api/usage/trace")
    assert [job.flavors for job in read_jobs(worker.last.text, tmp_path / "t.csv")] == [("a100",), ("h100", "a100")]
