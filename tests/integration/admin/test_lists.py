"""Lists: their rows, their filters, and a number of queries that does not depend on their length."""

from __future__ import annotations

import csv
import re
from datetime import timedelta
from io import StringIO
from typing import Any

from celery import current_app
from celery.signals import task_failure
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from pools.domain.changes.cohorts import PutCohort
from pools.domain.changes.notices import CreateTarget, SendTest
from pools.domain.changes.pools import PutPool
from pools.domain.changes.subpools import CreateSubpool, DeleteSubpool, ResizeSubpool
from pools.domain.changes.tokens import CreateToken
from pools.domain.quota.usage_bar import sum_bars
from pools.models import AuditEntry, Backend, Node, Pool
from pools.selectors.quotas import platform_totals, pool_tree
from scheduling.models import JobFailureCount
from scheduling.selectors.status.job_names import PURPOSES, SEND_NOTICES
from scheduling.services.notifications import RECONCILE_TASK
from scheduling.services.periodic_tasks import ensure_periodic_tasks
from scheduling.services.task_names import CLOSE_USAGE_HOURS
from tests.integration.admin.conftest import SignedIn, actor_named, confirm_change, submit_workflow
from tests.support.world import apply_change, make_subpool, make_user, reconcile


def _queries(client: Client, address: str) -> int:
    with CaptureQueriesContext(connection) as seen:
        assert client.get(address).status_code == 200
    return len(seen)


LISTS = (
    "/", "/api/overview", "/pools", "/pools/team", "/pools/team/quota", "/cohorts", "/workflows", "/workflows/first-1",
    "/queue", "/queue/team", "/submit", "/nodes", "/nodes?backend=sim", "/usage", "/activity", "/activity/audit",
    "/notices", "/tokens", "/api/drains", "/api/search?q=mo", "/api/pool", "/api/pool_quota", "/api/resources",
)  # fmt: skip
LISTS_OF_THE_PLATFORM = ("/users", "/users/-/create", "/clusters", "/clusters/sim")


def test_no_page_asks_more_of_a_larger_installation(as_person: SignedIn) -> None:
    """The second visit counts: the first one after a change fills caches.

    The smaller installation has more waiting work than the home page shows, so the sentence "and N more" is there too.
    """
    clients = {person: as_person(person) for person in ("root", "worker")}
    pages = [("root", address) for address in LISTS + LISTS_OF_THE_PLATFORM] + [("worker", page) for page in LISTS]

    def cost() -> dict[tuple[str, str], int]:
        for person, address in pages:
            clients[person].get(address)
        return {(person, address): _queries(clients[person], address) for person, address in pages}

    def grow(first: int, last: int) -> None:
        for number in range(first, last):
            name = f"more{number}"
            make_user(f"user{number}", "osmo-team-user")
            apply_change(PutCohort(name=f"cohort{number}", body={"parent": "org"}))
            gpu = {"guarantee": 20}
            body = {"backend": "sim", "cohort": f"cohort{number}", "resources": {"gpu": gpu}}
            apply_change(PutPool(name=name, body=body))
            for part in "abc":
                make_subpool(name, part, 5)
            make_subpool("team", f"d{number}", 1)
            submit_workflow(f"{name}--a", gpus=1, username="root", name=f"w{number}")
            submit_workflow(f"team--d{number}", gpus=1, name=f"drained{number}")
            for person in clients:
                hook = CreateTarget(
                    name=f"t{number}", channel="webhook", address="https://ci.example/", kinds=["drain"]
                )
                target, _ = apply_change(hook, actor=actor_named(person))
                apply_change(SendTest(target=target.pk), actor=actor_named(person))
                apply_change(CreateToken(owner=person, name=f"t{number}"))
                submit_workflow("team--b", gpus=8, username=person, name=f"waits-{person}{number}")
                submit_workflow("team--b", gpus=8, username=person, name=f"waits-too-{person}{number}")
        reconcile()
        for number in range(first, last):
            apply_change(DeleteSubpool(parent="team", subpool_name=f"d{number}"))
        Pool.objects.filter(name__startswith="team--d").update(drain_by=timezone.now() - timedelta(minutes=1))
        Node.objects.bulk_create(
            Node(backend=Backend.objects.get(name="sim"), name=f"m{number}", gpus=8) for number in range(first, last)
        )

    submit_workflow("team--a", gpus=1, name="first")
    apply_change(PutCohort(name="org", body={}))
    grow(0, 5)
    before = cost()
    grow(5, 9)
    assert cost() == before


def test_the_totals_are_those_of_the_bars(as_person: SignedIn) -> None:
    """Two ways to one number: computed in the database, and from the trees."""
    submit_workflow("team--a", gpus=8)
    submit_workflow("team--b", gpus=8, priority="LOW", name="low1")
    submit_workflow("team--b", gpus=8, priority="LOW", name="low2")
    submit_workflow("team--b", gpus=8, priority="LOW", name="low3")
    submit_workflow("other--x", gpus=8, username="root", name="leaving")
    submit_workflow("team", gpus=8, name="direct")
    reconcile()
    apply_change(ResizeSubpool(parent="team", subpool_name="a", quota=2))
    apply_change(DeleteSubpool(parent="other", subpool_name="x"))
    apply_change(PutPool(name="free", body={"backend": "sim", "resources": {"gpu": {"guarantee": -1}}}))
    submit_workflow("free", gpus=3, username="root", name="unbound")
    reconcile()

    sums = platform_totals.platform_totals(actor_named("root"), {})
    trees = pool_tree.pool_trees(Pool.objects.visible_to(actor_named("root")).roots()).trees
    assert sums.bar == sum_bars(tree.head.bar for tree in trees)
    assert sums.used == sum(tree.head.total_usage for tree in trees) == 51
    assert (sums.quota, sums.subpools) == (160, 3)
    assert (sums.bar.over_quota, sums.bar.draining) == (4, 6 + 8)


def test_filters_of_the_tree(as_person: SignedIn) -> None:
    root = as_person("root")

    def shown(query: str) -> list[str]:
        return [tree.pool.name for tree in root.get(f"/pools?{query}").context["pool_page"].trees]

    assert shown("") == ["other", "team", "team-admin"]
    assert shown("q=team") == ["team", "team-admin"]
    assert shown("q=--x") == ["other"]
    assert shown("show=draining") == []
    assert shown("show=nonsense") == ["other", "team", "team-admin"]
    submit_workflow("team--a", gpus=8)
    reconcile()
    apply_change(ResizeSubpool(parent="team", subpool_name="a", quota=2))
    assert shown("show=draining") == ["team"]
    for number in range(2):
        submit_workflow("other", gpus=8, username="root", priority="LOW", name=f"low{number}")
    reconcile()
    assert shown("show=over") == []
    apply_change(ResizeSubpool(parent="other", subpool_name="x", quota=40))
    assert shown("show=over") == ["other"]
    apply_change(
        PutPool(
            name="team-admin",
            body={"backend": "sim", "enable_maintenance": True, "resources": {"gpu": {"guarantee": 10}}},
        )
    )
    assert shown("show=maintenance") == ["team-admin"]
    confirm_change(root, "/pools/team-admin/archive")
    assert shown("show=archived") == []
    assert "No pool matches" in root.get("/pools?show=archived").content.decode()


def test_more_pools_than_a_page(as_person: SignedIn) -> None:
    for number in range(pool_tree.POOLS_PER_PAGE):
        apply_change(PutPool(name=f"p{number:02}", body={"backend": "sim", "resources": {"gpu": {"guarantee": 1}}}))
    root = as_person("root")
    first, last = root.get("/pools"), root.get("/pools?page=2&show=")
    assert len(first.context["pool_page"].trees) == pool_tree.POOLS_PER_PAGE
    assert len(last.context["pool_page"].trees) == 3
    assert "?page=2" in first.content.decode()
    assert root.get("/pools?page=nonsense").status_code == 200
    assert root.get("/pools?page=99999999999").status_code == 200


def test_workflows_by_their_filters(as_person: SignedIn) -> None:
    one = submit_workflow("team--a", name="alpha")
    two = submit_workflow("team", name="beta", priority="LOW")
    three = submit_workflow("other--x", name="gamma", username="stranger")
    reconcile()
    submit_workflow("team--a", gpus=30, name="delta")
    root = as_person("root")

    def shown(query: str) -> set[str]:
        return {row.name for row in root.get(f"/workflows?{query}").context["window"].rows}

    assert shown("") == {one.name, two.name, three.name, "delta-1"}
    assert shown("q=lph") == {one.name}
    assert shown("status=PENDING") == {"delta-1"}
    assert shown("status=active") == shown("")
    assert shown("status=ended") == set()
    assert shown("pool=team") == {one.name, two.name, "delta-1"}
    assert shown("pool=team--a") == {one.name, "delta-1"}
    assert shown("pool=team--_shared") == {two.name}
    assert shown("user=stranger") == {three.name}
    assert shown("priority=LOW") == {two.name}
    assert shown("since=2000-01-01T00:00") == shown("")
    assert shown("until=2000-01-01T00:00:00") == set()
    assert shown("since=yesterday&page=x&status=nonsense&priority=%00") == shown("")
    assert "No workflow matches" in root.get("/workflows?q=zzz").content.decode()


def test_audit_by_its_filters(as_person: SignedIn) -> None:
    apply_change(
        CreateSubpool(parent="team", subpool_name="c", quota=7), actor=actor_named("chief"), description="for a test"
    )
    submit_workflow("team--c", gpus=1)
    root = as_person("root")

    def shown(query: str) -> list[tuple[str, str]]:
        return [(row.action, row.object) for row in root.get(f"/activity/audit?{query}").context["window"].rows]

    created = ("subpool.created", "pool/team--c")
    assert shown("q=pool/team--c") == [created]
    assert created in shown("q=team--")
    assert shown("actor=chief") == [created]
    assert shown("actor=worker") == [("workflow.submitted", "workflow/work-1")]
    assert {action for action, _ in shown("action=created&kind=pool")} == {"subpool.created", "pool.created"}
    assert created in shown("pool=team")
    assert created not in shown("pool=other")
    assert shown("until=2000-01-01T00:00") == []
    page = root.get("/activity/audit?q=pool/team--c").content.decode()
    assert "chief created subpool team--c with 7 GPUs: for a test" in page
    own = as_person("chief").get("/activity/audit").content.decode()
    assert "team--c" in own
    assert "pool/other" not in own


def test_pools_are_sorted_and_exported(as_person: SignedIn) -> None:
    submit_workflow("team--a", gpus=8)
    reconcile()
    root = as_person("root")

    def names(sort: str) -> list[str]:
        return [tree.pool.name for tree in root.get(f"/pools?sort={sort}").context["pool_page"].trees]

    assert names("quota") == ["team-admin", "other", "team"]
    assert names("-free") == ["team", "other", "team-admin"]
    assert names("-used")[0] == names("-total")[0] == "team"
    assert names("nonsense") == names("name") == ["other", "team", "team-admin"]
    rows = list(csv.DictReader(StringIO(root.get("/pools?format=csv&q=team&sort=-name").content.decode())))
    assert [(row["pool"], row["subpool"], row["kind"]) for row in rows[:2]] == [
        ("team-admin", "", "pool"),
        ("team-admin", "", "shared"),
    ]
    (line,) = [row for row in rows if row["subpool"] == "a"]
    assert (line["quota"], line["guaranteed_in_use"], line["guaranteed_free"]) == ("30", "8", "22")
    assert "other" not in {row["pool"] for row in rows}


def test_a_cluster_shows_what_is_promised_and_used(as_person: SignedIn) -> None:
    submit_workflow("team--a", gpus=2)
    reconcile()
    rows = as_person("root").get("/clusters").context["backends"]
    (sim,) = [each for each in rows if each["row"].name == "sim"]
    quotas = Pool.objects.roots().filter(backend__name="sim").values_list("guarantee", flat=True)
    assert (sim["capacity"].quota, sim["used"]) == (sum(quotas), 2)


def test_a_filter_in_force_is_a_chip_that_removes_it(as_person: SignedIn) -> None:
    address = "/workflows?q=w&status=active&since=2026-11-20T10:00&page=2&sort=name"
    page = as_person("root").get(address)
    chips = [(each.label, each.value) for each in page.context["filters"].chips]
    assert chips == [("Status", "active: running or pending"), ("Submitted from", "2026-11-20 10:00 UTC")]
    text = page.content.decode()
    assert 'href="?q=w&amp;since=2026-11-20T10%3A00&amp;sort=name" title="Remove this filter"' in text
    assert '<input type="hidden" name="sort" value="name">' in text


def test_the_audit_log_names_the_user_of_each_change(as_person: SignedIn) -> None:
    text = as_person("root").get("/activity/audit").content.decode()
    assert '<th scope="col">User</th>' in text
    assert re.search(rf'data-label="User"[^>]*>{AuditEntry.objects.latest("id").actor}</td>', text)


def test_a_time_that_ends_before_it_begins_is_said(as_person: SignedIn) -> None:
    root = as_person("root")
    for page in ("/activity", "/activity/audit"):
        for since, is_said in ((29, True), (19, False)):
            text = root.get(f"{page}?since=2026-11-{since}T00:00&until=2026-11-20T00:00").content.decode()
            assert ("because From is after Until" in text) is is_said, page


def test_users_are_exported(as_person: SignedIn) -> None:
    text = as_person("root").get("/users?format=csv").content.decode()
    names, *rows = csv.reader(StringIO(text))
    assert names == ["name", "account", "roles", "tokens", "last_login", "created"]
    assert ["chief", "ACTIVE", "osmo-team-admin", "0"] in [row[:4] for row in rows]


def test_each_background_job_says_what_it_is_for_and_whether_it_is_late(as_person: SignedIn) -> None:
    ensure_periodic_tasks()
    PeriodicTask.objects.update(last_run_at=timezone.now())  # the database of the tests may be many minutes old
    PeriodicTask.objects.filter(name=SEND_NOTICES).update(last_run_at=timezone.now() - timedelta(days=1))
    jobs = {each.name: (each.state, each.purpose) for each in _jobs(as_person("root"))}
    assert {name: purpose for name, (_, purpose) in jobs.items()} == {name: PURPOSES[name] for name in jobs}
    assert {name for name, (state, _) in jobs.items() if state != "ACTIVE"} == {SEND_NOTICES}
    assert jobs[SEND_NOTICES][0] == "LATE"


def test_a_background_job_shows_its_failed_runs(as_person: SignedIn) -> None:
    import scheduling.tasks  # noqa: F401  (registers them)

    ensure_periodic_tasks()
    for task, error in ((CLOSE_USAGE_HOURS, TimeoutError("of a lock")), (RECONCILE_TASK, ValueError("of no job"))):
        task_failure.send(sender=current_app.tasks[task], exception=error)
    task_failure.send(sender=current_app.tasks[CLOSE_USAGE_HOURS], exception=ValueError("typed by a person"))
    viewer = as_person("viewer")
    name = PeriodicTask.objects.get(task=CLOSE_USAGE_HOURS).name
    failed = {each.name: (each.failures, each.error) for each in _jobs(viewer) if each.failures}
    assert failed == {name: (2, "ValueError")}
    rows = {row["name"]: row for row in csv.DictReader(viewer.get("/jobs?format=csv").content.decode().splitlines())}
    answer = viewer.get("/api/jobs").json()["jobs"]
    assert [each["name"] for each in answer] == list(rows)
    (listed,) = (each for each in answer if each["failures"])
    assert (listed["name"], listed["failures"], listed["error"]) == (name, 2, "ValueError")
    assert (rows[name]["failures"], rows[name]["error"], rows[name]["interval_seconds"]) == ("2", "ValueError", "60.0")
    assert "typed by a person" not in viewer.get("/jobs").content.decode() + str(answer)
    assert as_person("chief").get("/api/jobs").status_code == 403
    assert JobFailureCount.objects.count() == 1, "a message that is no job has no row"


def _jobs(client: Client) -> Any:
    return client.get("/jobs").context["jobs"]
