"""The record of use by GPU flavor: who held, promised and waited for which kind, and that its sums are the totals."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction

from pools.domain.changes.backends import PutBackend
from pools.domain.changes.subpools import ResizeSubpool
from pools.models import Node
from scheduling.domain.changes.workflows import EndStatus, EndWorkflow
from scheduling.domain.priorities import Priority
from scheduling.models import NodeSpan, QuotaSpan, Task, Workflow
from scheduling.selectors.usage.answers import start_of_hour
from scheduling.services.usage import compute_hours, derive_spans
from scheduling.services.usage_verification import find_usage_differences
from tests.integration.workflows.test_usage import STATES, age_installation, move_back
from tests.support import world
from tests.support.api_client import ApiClient, Callers
from tests.support.flavors import add_flavored_pool, make_flavored_pool, submit_gpus

pytestmark = pytest.mark.django_db
HOUR = 3600


@pytest.fixture
def root(caller: Callers) -> ApiClient:
    make_flavored_pool()
    return caller("root", "osmo-admin")


def by_flavor(client: ApiClient, **query: Any) -> dict[str | None, dict[str, Any]]:
    answer = client.get("/api/usage", by="flavor", bucket="month", **query)
    found: dict[str | None, dict[str, Any]] = {}
    for row in answer["rows"]:
        sums = found.setdefault(row["flavor"], dict.fromkeys(answer["totals"], 0))
        for key, number in answer["totals"].items():
            if isinstance(number, int | float) and not key.startswith("wait_"):
                sums[key] += row[key] or 0
    return found


def work_of_two_flavors(root: ApiClient) -> None:
    """Ten hours of a pool in which, for five hours, 8 H100 are used inside the quota, 4 more by LOW work over the quota
    of the subpool, and 8 A100 inside; one gang waits for H100, one for either."""
    for arguments in ((8, "h100"), (8, "a100"), (2, "h100")):
        submit_gpus(root.actor, *arguments)
    low = submit_gpus(root.actor, 4, "h100", priority=Priority.LOW)
    submit_gpus(root.actor, 3)
    world.reconcile()
    assert {task.flavor for task in Task.objects.filter(group__workflow=low)} == {"h100"}
    for spans in (QuotaSpan, NodeSpan):
        spans.objects.exclude(until=None).delete()  # of the moments in which the installation was made
    age_installation(10)
    for workflow in Workflow.objects.all():
        move_back(workflow, 5)


def test_every_flavor_has_its_quota_use_capacity_and_waiting(root: ApiClient) -> None:
    work_of_two_flavors(root)
    found = by_flavor(root)
    assert found.keys() == {"h100", "a100", None}
    h100, a100, several = found["h100"], found["a100"], found[None]
    for row, gpus in ((h100, 16), (a100, 32)):
        assert row["quota_gpu_s"] == pytest.approx(row["capacity_gpu_s"], rel=0.01)
        assert row["capacity_gpu_s"] == pytest.approx(gpus * 10 * HOUR, rel=0.01)
        assert sum(row[state] for state in STATES) == pytest.approx(row["capacity_gpu_s"])
    assert (h100["guaranteed_gpu_s"], h100["over_quota_gpu_s"]) == pytest.approx((40 * HOUR, 20 * HOUR), rel=0.01)
    assert h100["borrowed_gpu_s"] == pytest.approx(h100["over_quota_gpu_s"]), "lent by the H100 of the pool"
    assert (a100["guaranteed_gpu_s"], a100["over_quota_gpu_s"]) == (pytest.approx(40 * HOUR, rel=0.01), 0)
    assert h100["waiting_gpu_s"] == pytest.approx(10 * HOUR, rel=0.01)
    assert (a100["waiting_gpu_s"], a100["lent_gpu_s"]) == (pytest.approx(0, abs=60), 0)
    assert several["waiting_gpu_s"] == pytest.approx(15 * HOUR, rel=0.01), "it waits for one of two"
    assert several["used_gpu_s"] == several["quota_gpu_s"] == 0
    assert (h100["workflows"], a100["workflows"], several["workflows"]) == (2, 1, 0)


def test_the_flavors_add_up_to_the_same_sums_as_every_other_key(root: ApiClient) -> None:
    work_of_two_flavors(root)
    until = datetime.now(UTC).replace(tzinfo=None).isoformat()
    of_flavors = root.get("/api/usage", by="flavor", bucket="hour", until=until)
    for key in ("pool", "subpool", "user", "priority", "backend", "workflow"):
        totals = root.get("/api/usage", by=key, bucket="hour", until=until)["totals"]
        others = set() if key == "pool" else {"quota_gpu_s", "idle_quota_gpu_s", "lent_gpu_s"}
        assert {name: of_flavors["totals"][name] for name in totals.keys() - others} == {
            name: totals[name] for name in totals.keys() - others
        }, key
    for name in ("used_gpu_s", "waiting_gpu_s", "workflows", "borrowed_gpu_s", "quota_gpu_s", "capacity_gpu_s"):
        parts = sum(row[name] or 0 for row in of_flavors["rows"])
        assert parts == pytest.approx(of_flavors["totals"][name]), name


def test_stored_hours_and_days_are_by_flavor_as_computed_ones(root: ApiClient) -> None:
    work_of_two_flavors(root)
    until = start_of_hour(datetime.now(UTC)).replace(tzinfo=None).isoformat()
    before = root.get("/api/usage", by="flavor", bucket="hour", until=until)
    with transaction.atomic(), connection.cursor() as cursor:
        full = start_of_hour(datetime.now(UTC))
        compute_hours(full - timedelta(days=2), full)
        cursor.execute(
            "INSERT INTO scheduling_usageprogress (id, closed_until) VALUES (1, %s)"
            " ON CONFLICT (id) DO UPDATE SET closed_until = excluded.closed_until",
            [full],
        )
    after = root.get("/api/usage", by="flavor", bucket="hour", until=until)
    assert after["rows"] == before["rows"]
    assert [each for each in find_usage_differences(datetime.now(UTC)) if "span" not in str(each)] == []


def test_the_spans_are_those_of_the_audit_trail(root: ApiClient) -> None:
    world.apply_change(ResizeSubpool(parent="team", subpool_name="a", quotas={"h100": 4}))
    relabel("h0")
    now = {(span.pool_id, span.flavor): span.quota for span in QuotaSpan.objects.filter(until=None)}
    assert sorted(now.values()) == [4, 8, 16, 32]
    node = Node.objects.get(name="h0")
    assert list(NodeSpan.objects.filter(node_id=node.pk).order_by("since").values_list("flavor", flat=True)) == [
        "h100",
        "a100",
    ]
    assert list(find_usage_differences(datetime.now(UTC))) == []
    before = [set(model.objects.values_list("flavor", "since", "until")) for model in (QuotaSpan, NodeSpan)]
    derive_spans()
    assert [set(model.objects.values_list("flavor", "since", "until")) for model in (QuotaSpan, NodeSpan)] == before


def relabel(node: str) -> None:
    """The node is one of A100 from now on."""
    rows = Node.objects.values_list("name", "flavor")
    nodes = [{"name": name, "gpus": 8, "labels": {"gpu": "a100" if name == node else has}} for name, has in rows]
    world.apply_change(PutBackend(name="sim", body={"nodes": nodes}))


def test_a_node_that_changes_its_flavor_is_counted_once(root: ApiClient) -> None:
    """What runs counts where it was admitted: its GPUs are capacity of that flavor, and not of the new one."""
    submit_gpus(root.actor, 8, "h100")
    world.reconcile()
    [node] = Task.objects.values_list("node_name", flat=True)
    relabel(node)
    now = datetime.now(UTC)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE scheduling_nodespan SET since = since - interval '3 hours' WHERE until IS NULL")
        cursor.execute("DELETE FROM scheduling_nodespan WHERE until IS NOT NULL")
        cursor.execute("UPDATE scheduling_task SET start_time = start_time - interval '2 hours'")
    since = (now - timedelta(hours=1)).replace(tzinfo=None).isoformat()
    found = by_flavor(root, since=since, until=now.replace(tzinfo=None).isoformat())
    capacity = {flavor: round(row["capacity_gpu_s"] / HOUR) for flavor, row in found.items() if flavor}
    assert capacity == {"h100": 16, "a100": 32}
    assert round(found["h100"]["used_gpu_s"] / HOUR) == 8
    world.apply_change(EndWorkflow(name="job-1", status=EndStatus.COMPLETED), actor=root.actor)


def test_a_researcher_learns_nothing_of_the_flavors_of_another_pool(root: ApiClient, caller: Callers) -> None:
    add_flavored_pool("vision", {"a100": 0, "h100": 0}, {"a100": 0})
    work_of_two_flavors(root)
    stranger, member = caller("stranger", "osmo-vision-user"), caller("member", "osmo-team-user")
    seen = by_flavor(stranger)
    assert all(not row["used_gpu_s"] and not row["waiting_gpu_s"] and not row["quota_gpu_s"] for row in seen.values())
    assert stranger.get("/api/usage", by="flavor", pool="team")["rows"] == []
    of_team = by_flavor(member)
    assert of_team["h100"]["used_gpu_s"] == pytest.approx(60 * HOUR, rel=0.01)
    assert of_team["h100"]["capacity_gpu_s"] == 0, "the capacity of the cluster is for readers of the platform"


def test_without_flavors_everything_is_default(caller: Callers) -> None:
    world.make_pool("team", 16, on=world.make_backend(nodes=2, gpus=16), a=8)
    root = caller("root", "osmo-admin")
    world.submit_workflow(root.actor, "team--a", 8)
    world.reconcile()
    answer = root.get("/api/usage", by="flavor", bucket="month")
    assert {row["flavor"] for row in answer["rows"]} == {"default"}
    for row in answer["rows"]:
        assert row["capacity_gpu_s"] > 0
