"""The home page and `/api/overview`: each problem is found, named, linked, and shown only to its readers."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.template.loader import render_to_string
from django.test import Client
from django.utils import timezone
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from osmo_admin.home import GROUP_WORDS, ProblemRow, group_problems
from pools.domain.changes.pools import PatchPool
from pools.domain.changes.subpools import DeleteSubpool
from pools.domain.people.roles import SYSTEM
from pools.models import Backend, GpuQuota, KubernetesSettings, Pool
from scheduling.domain.engine.reasons.liveness import StuckKind
from scheduling.models import ClusterState, Group, PromisedStart, QueueSync, StartForecast, StuckGroup
from scheduling.selectors.status.problems import Problem, ProblemCode, long_drains
from tests.integration.admin.conftest import SignedIn, submit_workflow
from tests.support.world import apply_change, reconcile, triggers_off


@pytest.fixture(autouse=True)
def _jobs_ran_now(db: None) -> None:
    """No beat runs here, so the jobs of the migrations are late once the database is a few minutes old."""
    PeriodicTask.objects.update(last_run_at=timezone.now())


def _overview(client: Client) -> dict[str, Any]:
    answer = client.get("/api/overview")
    assert answer.status_code == 200, answer.content.decode()
    body: dict[str, Any] = answer.json()
    return body


def _codes(client: Client) -> set[tuple[str, str]]:
    return {(each["code"], each["subject"]) for each in _overview(client)["problems"]}


def _shown(client: Client) -> set[tuple[str, str]]:
    rows = client.get("/").context["problems"]
    return {(str(row.problem.code), row.problem.subject) for row in rows}


def test_a_healthy_installation_says_so(as_person: SignedIn) -> None:
    root = as_person("root")
    assert _codes(root) == set()
    assert "Nothing is wrong" in root.get("/").content.decode()


def test_a_person_without_a_role_is_told_which_one_to_ask_for(as_person: SignedIn) -> None:
    """Not that nothing is wrong, nor how to submit; of nothing there is no chart."""
    nobody, worker = as_person("nobody"), as_person("worker")
    for path, words in (("/", "Nothing is wrong"), ("/workflows", "osmo workflow submit")):
        page, other = nobody.get(path).content.decode(), worker.get(path).content.decode()
        assert (words in page, words in other) == (False, True), path
        assert ("osmo-POOL-user" in page, "osmo-POOL-user" in other) == (True, False), path
    assert "oa-chart" not in nobody.get("/usage").content.decode()


def test_who_may_read_no_changes_has_no_empty_card_of_them(as_person: SignedIn) -> None:
    titles = {"/": "What changed", "/pools/team": "Recent changes"}
    for name, is_shown in (("worker", False), ("chief", True), ("root", True)):
        for path, title in titles.items():
            assert (title in as_person(name).get(path).content.decode()) is is_shown, (name, path)


def test_idle_quota_beside_waiting_work(as_person: SignedIn) -> None:
    for number in range(6):
        submit_workflow("team--a", gpus=8, name=f"many{number}")
    reconcile()
    root = as_person("root")
    body = _overview(root)
    assert (body["waiting_gangs"], body["waiting_gpus"]) == (3, 24)
    assert body["waiting"][0] | {"since": ""} == {
        "pool": "team", "backend": "sim", "gangs": 3, "gpus": 24, "since": "",
    }  # fmt: skip
    assert {each["pool"]: each["idle"] for each in body["idle"]} == {"team": 76, "other": 50, "team-admin": 10}
    assert ("idle_quota", "backend/sim") in _codes(root)
    assert "team 76 of 100, other 50 of 50, team-admin 10 of 10" in root.get("/").content.decode()
    assert _codes(as_person("stranger")) == set()


def test_a_drain_of_more_than_a_day_and_one_beyond_its_deadline(as_person: SignedIn) -> None:
    submit_workflow("other--x", gpus=8, username="root", name="leaving")
    reconcile()
    root, deadline = as_person("root"), timezone.now() + timedelta(hours=1)
    apply_change(DeleteSubpool(parent="other", subpool_name="x", drain_by=deadline))
    assert not _codes(root) & {("overdue_drain", "pool/other--x"), ("long_drain", "pool/other--x")}
    Pool.objects.filter(name="other--x").update(drain_by=timezone.now() - timedelta(seconds=1))
    assert ("overdue_drain", "pool/other--x") in _codes(root)
    sentence = "Subpool other--x drains beyond its deadline: 1 active workflow holds 8 GPUs."
    assert sentence in root.get("/").content.decode()
    Pool.objects.filter(name="other--x").update(drain_by=None)
    (found,) = long_drains(SYSTEM, timezone.now() + timedelta(hours=25))
    assert (found.subject, dict(found.numbers)) == ("pool/other--x", {"workflows": 1, "gpus": 8})


def test_oversubscribed_offline_and_gpu_quota(as_person: SignedIn) -> None:
    apply_change(PatchPool(name="other", patch={"resources": {"gpu": {"guarantee": 999}}}))
    Backend.objects.filter(name="sim").update(offline=True)
    exceeded = {"type": "Exceeded", "status": "True"}
    GpuQuota.objects.create(namespace="lab", spec={}, conditions=[exceeded])
    GpuQuota.objects.create(namespace="calm", spec={}, conditions=[{"type": "Exceeded", "status": "False"}])
    root = as_person("root")
    expected = {("oversubscribed", "backend/sim"), ("offline", "backend/sim"), ("gpu_quota", "gpu_quota/lab")}
    assert _codes(root) == _shown(root) == expected
    chief = _overview(as_person("chief"))["problems"]
    assert {each["code"] for each in chief} == {"oversubscribed", "offline"}
    assert "999" not in str(chief), "the sum of the quotas would tell a pool admin of other pools"
    text = root.get("/").content.decode()
    assert "/pools?backend=sim" in text
    assert "/gpu-quotas/lab" in text


def test_a_silent_cluster(as_person: SignedIn) -> None:
    prod = Backend.objects.create(name="prod", kind=Backend.Kind.KUBERNETES, namespace="prod-ns")
    assert _codes(as_person("root")) == set(), "a cluster that was never connected is not silent"
    KubernetesSettings.objects.create(backend=prod, access=KubernetesSettings.Access.IN_CLUSTER)
    assert ("silent_cluster", "backend/prod") in _codes(as_person("root"))
    assert ("silent_cluster", "backend/prod") not in _codes(as_person("chief"))
    (problem,) = _overview(as_person("root"))["problems"]
    assert problem["message"] == "Cluster prod has never answered so far, and is not judged yet."
    assert not problem["urgent"]
    Backend.objects.filter(pk=prod.pk).update(offline=True)
    (problem,) = _overview(as_person("root"))["problems"]
    assert problem["message"] == "Cluster prod has never answered. It has no pools."
    assert problem["urgent"]
    QueueSync.objects.create(backend=prod, synced="False", reason="Forbidden", message="It forbids this call.")
    (problem,) = _overview(as_person("root"))["problems"]
    assert problem["code"] == "silent_cluster", "one problem for one cause"
    assert problem["message"] == "Cluster prod cannot be used yet. It forbids this call."
    Pool.objects.filter(name="other").update(backend=prod)
    (problem,) = [each for each in _overview(as_person("root"))["problems"] if each["code"] == "silent_cluster"]
    expected = "The pools of cluster prod are offline and nothing starts there. It forbids this call."
    assert problem["message"] == expected
    page = as_person("root").get("/").content.decode()
    assert "See the cause" in page
    assert "/clusters/prod/sync" in page


def test_a_cluster_that_refuses_a_call(as_person: SignedIn) -> None:
    prod = Backend.objects.create(name="prod", kind=Backend.Kind.KUBERNETES, namespace="prod-ns")
    KubernetesSettings.objects.create(backend=prod, access=KubernetesSettings.Access.IN_CLUSTER)
    state = ClusterState.objects.create(backend=prod, heartbeat_at=timezone.now(), error="It forbids this call.")
    root = as_person("root")
    (problem,) = _overview(root)["problems"]
    assert (problem["code"], problem["message"]) == ("refused_call", "Cluster prod: It forbids this call.")
    assert 'href="/clusters/prod/sync"' in root.get("/").content.decode()
    assert "It forbids this call." in root.get("/clusters/prod/sync").content.decode()
    QueueSync.objects.create(backend=prod, synced="False", reason="Forbidden", message="It forbids this call.")
    (problem,) = _overview(root)["problems"]
    assert problem["code"] == "queue_sync", "one problem for one cause"
    Pool.objects.filter(name="team").update(backend=prod)
    told = [each for each in _overview(as_person("worker"))["problems"] if each["code"] == "queue_sync"]
    assert [each["message"] for each in told] == ["The queues of cluster prod are not in sync."]
    QueueSync.objects.filter(backend=prod).update(synced="True", message="")
    told = [each for each in _overview(as_person("worker"))["problems"] if each["code"] == "refused_call"]
    assert [each["message"] for each in told] == ["Cluster prod refuses a call that OSMO Admin needs."]
    state_rows = ClusterState.objects.filter(pk=state.pk)
    state_rows.update(heartbeat_at=timezone.now() - timedelta(seconds=70))
    codes = {each["code"] for each in _overview(root)["problems"]}
    assert not codes & {"refused_call", "silent_cluster"}, "it does not answer now, and that is not judged yet"
    state_rows.update(heartbeat_at=timezone.now() - timedelta(hours=1))
    (problem,) = [each for each in _overview(root)["problems"] if each["code"] == "silent_cluster"]
    assert problem["message"].endswith("It forbids this call.")
    (problem,) = [each for each in _overview(as_person("worker"))["problems"] if each["code"] == "silent_cluster"]
    assert "forbids" not in problem["message"]


def test_a_late_background_job(as_person: SignedIn) -> None:
    interval = IntervalSchedule.objects.create(every=30, period=IntervalSchedule.SECONDS)
    last = timezone.now() - timedelta(seconds=30 * 3 + 61)
    job = PeriodicTask.objects.create(name="count", task="count", interval=interval, last_run_at=last)
    root = as_person("root")
    assert ("late_job", "job/count") in _codes(root)
    assert _codes(as_person("chief")) == set()
    PeriodicTask.objects.filter(pk=job.pk).update(last_run_at=timezone.now() - timedelta(seconds=80))
    assert _codes(root) == set()


def test_a_wait_longer_than_usual(as_person: SignedIn) -> None:
    for number in range(20):
        submit_workflow("team", gpus=1, name=f"usual{number}")
    reconcile()
    for number in range(4):
        submit_workflow("team--a", gpus=16, name=f"late{number}")
    reconcile()
    root = as_person("root")
    assert ("long_wait", "pool/team") not in _codes(root)
    Group.objects.filter(status="SCHEDULING").update(ready_at=timezone.now() - timedelta(hours=2))
    assert ("long_wait", "pool/team") in _codes(root)
    found = next(each for each in _overview(root)["problems"] if each["code"] == "long_wait")
    assert found["numbers"]["waited_seconds"] >= 7200


def _waiting_group() -> Group:
    """A gang of team--b that waits for its quota."""
    for number in range(2):
        submit_workflow("team--b", gpus=16, name=f"b{number}")
    reconcile()
    return Group.objects.get(workflow__name="b1-1")


def _promise(group: Group, *, until: timedelta, since: timedelta = timedelta(hours=5)) -> PromisedStart:
    now, backend = timezone.now(), Backend.objects.get(name="sim")
    return PromisedStart.objects.create(
        group=group, backend_id=backend.pk, gang="b1-1", waits_since=group.ready_at, made_at=now - since,
        latest_start=now + until,
    )  # fmt: skip


def test_a_stuck_gang_is_urgent(as_person: SignedIn) -> None:
    row = StuckGroup.objects.create(
        group=_waiting_group(), backend=Backend.objects.get(name="sim"), gang="b1-1", kind=StuckKind.BEHIND_LOW_WORK,
        since=timezone.now(),
    )  # fmt: skip
    expected = ("stuck_gang", "workflow/b1-1")
    for person in ("root", "viewer", "chief", "worker"):
        assert expected in _codes(as_person(person))
    assert expected in _shown(as_person("chief"))
    for person in ("stranger", "nobody"):
        assert expected not in _codes(as_person(person))
    (problem,) = (each for each in _overview(as_person("root"))["problems"] if each["code"] == "stuck_gang")
    assert problem["urgent"]
    assert problem["message"] == (
        "b1-1 waits although LOW work of its own queue runs on cluster sim in its place: this is a defect of the "
        "scheduler."
    )
    assert "/workflows/b1-1" in as_person("root").get("/").content.decode()
    StuckGroup.objects.update(kind=StuckKind.IDLE_CLUSTER)
    assert "b1-1 waits although nothing runs on cluster sim" in as_person("chief").get("/").content.decode()
    row.delete()
    assert expected not in _codes(as_person("root"))


def test_a_promised_start_that_is_over_is_urgent(as_person: SignedIn) -> None:
    group, expected = _waiting_group(), ("overdue_start", "workflow/b1-1")
    _promise(group, until=timedelta(seconds=-20))
    assert expected not in _codes(as_person("root")), "the work before it ends with the next tick"
    PromisedStart.objects.update(latest_start=timezone.now() - timedelta(minutes=2))
    for person in ("root", "chief", "worker"):
        assert expected in _codes(as_person(person))
    assert expected in _shown(as_person("chief"))
    assert expected not in _codes(as_person("stranger"))
    (problem,) = (each for each in _overview(as_person("root"))["problems"] if each["code"] == "overdue_start")
    assert problem["urgent"]
    assert problem["numbers"]["late_seconds"] in range(120, 180)
    assert problem["message"].endswith(" UTC, and still waits.")
    PromisedStart.objects.update(outcome="broken", ended_at=timezone.now())
    assert expected in _codes(as_person("root")), "it still waits"
    Backend.objects.filter(name="sim").update(offline=True)
    assert expected not in _codes(as_person("root")), "somebody decided that nothing starts"
    Backend.objects.filter(name="sim").update(offline=False)
    Group.objects.filter(pk=group.pk).update(ready_at=timezone.now())
    assert expected not in _codes(as_person("root")), "it waits anew"


def test_a_promised_start_beside_a_forecast_of_never(as_person: SignedIn) -> None:
    group = _waiting_group()
    promise = _promise(group, until=timedelta(hours=1), since=timedelta(minutes=1))
    StartForecast.objects.create(
        group_id=group.pk, backend_id=promise.backend_id, made_at=timezone.now(), samples=12,
        never="It starts in none of 12 sampled futures.",
    )  # fmt: skip
    expected = ("contradicted_start", "workflow/b1-1")
    for person in ("root", "chief", "worker"):
        assert expected in _codes(as_person(person))
    assert expected in _shown(as_person("chief"))
    assert expected not in _codes(as_person("stranger"))
    message = (
        f"b1-1 is promised to start by {promise.latest_start:%Y-%m-%d %H:%M} UTC, and its forecast says: It starts in"
    )
    assert message in as_person("root").get("/").content.decode()
    StartForecast.objects.update(made_at=timezone.now() - timedelta(minutes=2))
    assert expected not in _codes(as_person("root")), "the forecast did not know what the promise knows"
    with triggers_off():
        PromisedStart.objects.update(made_at=timezone.now() - timedelta(minutes=10))
    StartForecast.objects.update(made_at=timezone.now() - timedelta(minutes=20))
    assert expected in _codes(as_person("root")), "the background compared both since, and changed nothing"
    StartForecast.objects.update(made_at=timezone.now(), never="")
    assert expected not in _codes(as_person("root"))


def test_my_work_comes_first_with_its_reason(as_person: SignedIn) -> None:
    for number in range(3):
        submit_workflow("team--b", gpus=8, name=f"mine{number}")
    reconcile()
    worker = as_person("worker")
    mine = {each["workflow"]: each for each in _overview(worker)["mine"]}
    assert mine["mine0-1"]["status"] == "RUNNING"
    assert mine["mine0-1"]["message"] is None
    assert mine["mine2-1"]["position"] == 1
    assert "quota" in mine["mine2-1"]["message"]
    text = worker.get("/").content.decode()
    assert text.index("mine-title") < text.index("fleet-title") < text.index("problems-title")
    assert mine["mine2-1"]["message"] in text
    assert _overview(as_person("stranger"))["mine"] == []


def test_problems_of_one_kind_are_one_row_that_unfolds(as_person: SignedIn) -> None:
    since = timezone.now() - timedelta(days=2)
    late = [
        Problem(ProblemCode.LONG_WAIT, f"pool/p{number}", f"In pool p{number} work waits.", False, since)
        for number in range(6)
    ]
    alone = Problem(ProblemCode.LATE_JOB, "job/nightly", "The job nightly is late.", True)
    found = group_problems([ProblemRow(each, "", "", "") for each in (alone, *late)])
    assert [each.first.problem for each in found] == [alone, late[0]]
    words = " ".join(re.sub(r"<[^>]+>", "", render_to_string("osmo/parts/finding.html", {"finding": found[1]})).split())
    assert words.startswith("check In 6 pools work waits longer than usual: p0 2 d, p1 2 d, p2 2 d, p3 2 d and 2 more")
    assert all(f"In pool p{number} work waits." in words for number in range(6)), "unfolded, each says its own sentence"
    assert "The job nightly is late." in render_to_string("osmo/parts/finding.html", {"finding": found[0]})
    assert {*GROUP_WORDS} == {*ProblemCode}


def test_many_changes_of_one_request_are_one_line_of_news(as_person: SignedIn) -> None:
    apply_change(PatchPool(name="team", patch={"resources": {"gpu": {"guarantee": 90}}}))
    root = as_person("root")
    pools = {f"mass-{number}": {"backend": "sim", "resources": {"gpu": {"guarantee": 0}}} for number in range(9)}
    body = {"configs": pools, "description": "all at once"}
    answer = root.put("/api/configs/pool", body, content_type="application/json")
    assert answer.status_code == 200, answer.content.decode()
    page = root.get("/")
    messages = [entry.object for entry in page.context["news"]]
    assert [name for name in messages if name.startswith("pool/mass-")] == ["pool/mass-8"]
    assert "pool/team" in messages, "the entries before them are not pushed out"
    assert "all at once, and more in the same request" in page.content.decode()
