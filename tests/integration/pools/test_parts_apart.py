"""Parts of shared GPUs are never added to whole GPUs where numbers are about a cluster or all clusters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pgtrigger
import pytest
from django.db.models import F
from django.utils import timezone

from osmo_admin.cli.commands.work.workflow_receipt import _facts, lost_text
from osmo_admin.monitoring.work_metrics import _collect_capacity
from pools.domain.audit_actions import AuditAction
from pools.domain.changes.backends import PutBackend
from pools.domain.changes.cohorts import PutCohort
from pools.domain.changes.pools import PatchPool
from pools.domain.changes.subpools import ResizeSubpool, ResizeSubpools
from pools.domain.configuration.config_merge import ACTION, REPLACE
from pools.domain.configuration.flavors import SHARED_GPUS, SHARED_GPUS_WHOLE
from pools.domain.errors import BadInput, Conflict
from pools.models import AuditEntry, User
from pools.selectors.quotas.backend_capacity import read_capacities, read_part_flavors, read_used_gpus
from pools.selectors.quotas.platform_totals import bars_of_clusters, platform_totals
from pools.selectors.quotas.quota_pages import quota_tree_page
from scheduling.domain.lists import Bucket, UsageKey
from scheduling.domain.priorities import Priority
from scheduling.models import Decision, NodeSpan, QuotaSpan, Task, Workflow
from scheduling.selectors.queue.waiting_pools import read_waiting_pools
from scheduling.selectors.receipts.noticed import receipts_of_preemptions
from scheduling.selectors.usage.answers import UsageQuestion, start_of_hour
from scheduling.selectors.usage.reading import read_usage
from scheduling.services.notices.conditions import _nearly_used
from scheduling.services.usage import rebuild
from scheduling.services.usage_verification import find_usage_differences
from tests.integration.workflows.test_usage import age_installation, move_back
from tests.support import world
from tests.support.flavors import add_flavored_pool, submit_gpus

pytestmark = pytest.mark.django_db


@pytest.fixture
def shared() -> None:
    """16 H100, of which 8 and 3 are in use, and 32 parts of T4 with 4 and 2 in use; all of it has a quota."""
    labels = {"gpu": "t4", SHARED_GPUS: SHARED_GPUS_WHOLE}
    nodes = [{"name": f"h{i}", "gpus": 8, "labels": {"gpu": "h100"}} for i in range(2)]
    nodes += [{"name": "t0", "gpus": 32, "labels": labels}]
    flavors = [{"name": "h100", "node_labels": {"gpu": "h100"}}, {"name": "t4", "node_labels": labels}]
    world.apply_change(PutBackend(name="sim", body={"nodes": nodes, "flavors": flavors}))
    add_flavored_pool("team", {"h100": 16, "t4": 32}, {"h100": 8, "t4": 8})
    actor = world.admin_actor()
    submit_gpus(actor, 8, "h100")
    submit_gpus(actor, 3, "h100", to="team", priority=Priority.LOW)
    submit_gpus(actor, 4, "t4")
    submit_gpus(actor, 2, "t4", to="team", priority=Priority.LOW)
    world.reconcile()


def _page(path: str) -> Any:
    if not User.objects.filter(username="root").exists():
        world.make_user("root", "osmo-admin")
    return world.sign_in("root").get(path)


def test_capacity_and_use_of_a_cluster_are_those_of_whole_gpus(shared: None) -> None:
    ((pk, capacity),) = read_capacities().items()
    assert (capacity.gpus, capacity.quota, capacity.excess) == (16, 16, 0)
    assert {flavor: (each.gpus, each.is_of_parts) for flavor, each in capacity.flavors.items()} == {
        "h100": (16, False), "t4": (32, True)
    }  # fmt: skip
    assert read_used_gpus(read_part_flavors()) == {pk: 11}
    totals = platform_totals(world.admin_actor(), read_part_flavors())
    assert (totals.quota, totals.used) == (16, 11)
    bar = totals.bar
    assert (bar.guaranteed, bar.low_inside, bar.over_quota, bar.draining, bar.free) == (8, 3, 0, 0, 5)
    assert bars_of_clusters(world.admin_actor(), read_part_flavors()) == {pk: bar}


def test_pages_name_the_parts_beside_the_gpus(shared: None) -> None:
    home = _page("/")
    assert (home.context["fleet"].gpus, home.context["fleet"].bar.in_use) == (16, 11)
    text = home.content.decode()
    assert "16 GPUs</h2>" in text and "t4 6 of 32 parts of GPUs" in text
    clusters = _page("/clusters").content.decode()
    assert "32 parts: t4" in clusters and ">48<" not in clusters
    assert ">parts</span>" in _page("/clusters/sim").content.decode()
    nodes = _page("/nodes").content.decode()
    assert "16 GPUs on 3 nodes" in nodes and "11 in use, 5 free" in nodes
    assert "5 and 26 parts</span>" in nodes and "26 parts</a>" not in nodes and "of 16 parts</a>" in nodes


def test_answers_name_the_parts_beside_the_gpus(shared: None, caller: Callable[..., Any]) -> None:
    answer = caller("root", "osmo-admin").get("/api/backend/sim/nodes")
    assert [answer[key] for key in ("gpus", "used", "free")] == [16, 11, 5]
    assert answer["fits"][-1] == {"gpus": 8, "tasks": 0}
    assert [(each["flavor"], each["gpus"], each.get("shared")) for each in answer["flavors"]] == [
        ("h100", 16, None), ("t4", 32, True)
    ]  # fmt: skip


def test_missing_parts_are_said_as_parts(shared: None) -> None:
    quotas = {"h100": {"guarantee": 16}, "t4": {"guarantee": 40}}
    result = world.apply_change(PatchPool(name="team", patch={"resources": {"flavors": quotas}}))
    assert any("32 t4 parts of GPUs, and the quotas of its pools are 40 together" in each for each in result.warnings)
    assert "too many parts of GPUs" in _page("/clusters").content.decode()
    found = {family.name: {s.labels["flavor"]: s.value for s in family.samples if "flavor" in s.labels}
             for family in _collect_capacity()}  # fmt: skip
    assert found["osmo_backend_capacity_gpus"] == {"h100": 16, "t4": 32}
    assert found["osmo_backend_missing_gpus"] == {"h100": 0, "t4": 8}


@pytest.fixture
def used(shared: None, caller: Callable[..., Any]) -> Any:
    """The same since ten hours, with the work of five hours; 8 H100 and 7 parts wait for the subpool."""
    for gpus, flavor in ((8, "h100"), (7, "t4")):
        submit_gpus(world.admin_actor(), gpus, flavor)
    _age_spans()
    for workflow in Workflow.objects.all():
        move_back(workflow, 5)
    return caller("root", "osmo-admin")


def _sums(rows: list[dict[str, Any]], key: str) -> float:
    return sum(row[key] or 0 for row in rows) / 3600


@pytest.mark.parametrize("by", list(UsageKey))
def test_usage_counts_parts_in_rows_of_their_own_alone(used: Any, by: UsageKey) -> None:
    answer = used.get("/api/usage", by=by, bucket="month")
    parts = [row for row in answer["rows"] if "parts" in row]
    whole = [row for row in answer["rows"] if "parts" not in row]
    assert {row["parts"] for row in parts} == {"t4"}
    assert all(row[by] == "t4" if by is UsageKey.FLAVOR else row[by].endswith("/t4") for row in parts)
    for key, gpus, of_parts in (("used_gpu_s", 11, 6), ("waiting_gpu_s", 8, 7), ("low_inside_gpu_s", 3, 2)):
        assert _sums(whole, key) == pytest.approx(5 * gpus, abs=0.1), key
        assert _sums(parts, key) == pytest.approx(5 * of_parts, abs=0.1), key
        assert answer["totals"][key] / 3600 == pytest.approx(5 * gpus, abs=0.1), key
    assert answer["totals"]["capacity_gpu_s"] / 3600 == pytest.approx(160, abs=0.1)
    assert (_sums(whole, "workflows"), _sums(parts, "workflows")) == (2 / 3600, 2 / 3600)
    assert answer["totals"]["workflows"] == 4
    text = used("GET", f"/api/usage?by={by}&bucket=month&format=csv").text
    assert ("t4," if by is UsageKey.FLAVOR else "/t4,") in text


def test_the_page_of_usage_counts_parts_apart(used: Any) -> None:
    page = _page("/usage?by=pool&period=24h")
    assert page.context["totals"].used / 3_600_000 == pytest.approx(55, abs=0.1)
    assert [(row.key, row.subject) for row in page.context["rows"]] == [("team", "team"), ("team/t4", "team")]
    assert [chart.title for chart in page.context["charts"]] == [
        "Use", "Waiting, by what it waited for", "Use of t4 parts", "Waiting of t4 parts, by what it waited for"
    ]  # fmt: skip
    text = page.content.decode()
    assert "On average 6 t4 parts of GPUs" not in text and ">team/t4</a>" in text and ">parts</span>" in text
    assert "Of t4 parts of shared GPUs <strong>30" in text
    rows = _page("/usage?by=cohort&period=24h&format=csv").getvalue().decode().splitlines()
    assert {row.split(",")[0] for row in rows[1:]} == {"none", "none/t4"}
    assert "Use of t4 parts" in _page("/pools/team").content.decode()
    assert "Use of t4 parts" in _page("/clusters/sim").content.decode()


def test_home_counts_waiting_parts_and_idle_parts_apart(used: Any) -> None:
    body = used.get("/api/overview")
    assert (body["waiting_gangs"], body["waiting_gpus"], body["waiting_parts"]) == (2, 8, {"t4": 7})
    assert [(each["gpus"], each["parts"]) for each in body["waiting"]] == [(8, {"t4": 7})]
    assert [(each["quota"], each["used"], each["idle"], each["idle_parts"]) for each in body["idle"]] == [
        (16, 11, 5, {"t4": 26})
    ]
    [problem] = [each for each in body["problems"] if each["code"] == "idle_quota"]
    assert "team 5 of 16 and 26 t4 parts of GPUs" in problem["message"]
    assert "8 GPUs and 7 t4 parts of GPUs waits" in problem["message"]
    assert problem["numbers"] == {"idle": 5, "waiting": 8}
    home = _page("/").content.decode()
    assert "and 7 t4 parts in 2 gangs" in home and "7 parts: t4" in home


def test_usage_by_backend_has_a_row_for_the_parts(shared: None) -> None:
    now = timezone.now()
    question = UsageQuestion(now - timedelta(hours=1), now + timedelta(seconds=1), UsageKey.BACKEND, Bucket.DAY)
    found = read_usage(world.admin_actor(), question)
    used = {row.key: row.used for row in found.rows}
    assert set(used) == {"sim", "sim/t4"}
    assert used["sim"] * 6 == pytest.approx(used["sim/t4"] * 11, rel=0.05)
    capacity = {row.key: row.sums["capacity"] for row in found.rows}
    assert capacity["sim"] * 2 == pytest.approx(capacity["sim/t4"], rel=0.05)


def test_what_is_said_of_work_counts_parts_as_parts(shared: None, caller: Callable[..., Any]) -> None:
    held = submit_gpus(world.admin_actor(), 4, "t4")
    waits = submit_gpus(world.admin_actor(), 4, "t4")
    low = submit_gpus(world.admin_actor(), 32, "t4", to="team", priority=Priority.LOW)
    world.reconcile()
    assert Decision.objects.get(workflow=held, action="start").message.endswith("with 4 t4 parts of GPUs.")
    reads = caller("root", "osmo-admin")
    entries = {each["workflow"]: each for each in reads.get("/api/queue")["entries"]}
    for work, words in ((waits, "4 t4 parts of GPUs"), (low, "32 t4 parts of GPUs")):
        assert words in entries[work.name]["reason"]["message"]
        assert "t4 GPU" not in str(entries[work.name])
    with pytest.raises(BadInput, match="asks for 9 t4 parts of GPUs at once"):
        submit_gpus(world.admin_actor(), 9, "t4")
    add_flavored_pool("few", {"t4": 4}, {"t4": 4})
    submit_gpus(world.admin_actor(), 4, "t4", to="few--a")
    world.reconcile()
    message = next(each.message for each in _nearly_used(()) if each.subject == "pool/few--a")
    assert message == "The quota of few--a is nearly used: 4 of 4 t4 parts of GPUs."


@pytest.mark.parametrize("named", [("l4", "t4"), ()])
def test_a_gang_that_may_use_several_kinds_of_parts_waits_for_parts(shared: None, named: tuple[str, ...]) -> None:
    l4 = {"gpu": "l4", SHARED_GPUS: SHARED_GPUS_WHOLE}
    labels = {"gpu": "t4", SHARED_GPUS: SHARED_GPUS_WHOLE}
    kinds = (("h100", {"gpu": "h100"}), ("t4", labels), ("l4", l4))
    flavors = [{"name": name, "node_labels": of_node} for name, of_node in kinds]
    nodes = [{"name": "t0", "gpus": 32, "labels": labels}]
    world.apply_change(PutBackend(name="sim", body={"nodes": nodes, "flavors": flavors}))
    add_flavored_pool("cut", {"l4": 8, "t4": 8}, {"l4": 8, "t4": 8})
    submit_gpus(world.admin_actor(), 5, *named, to="cut--a")
    submit_gpus(world.admin_actor(), 7, "t4", to="cut--a")
    [found] = [each for each in read_waiting_pools(world.admin_actor(), read_part_flavors()) if each.pool == "cut"]
    assert (found.gpus, dict(found.parts)) == (0, {"l4": 5, "t4": 7})
    for workflow in Workflow.objects.filter(root_pool__name="cut"):
        move_back(workflow, 5)
    _age_spans()
    _age_audit_trail()
    for stored in (False, True):
        if stored:
            rebuild()
        answer = read_usage(world.admin_actor(), _last_day(UsageKey.POOL))
        waited = {row.part: row.waiting / 3_600_000 for row in answer.rows if row.subject == "cut" and row.waiting}
        assert waited == pytest.approx({"l4": 25, "t4": 35}, abs=0.1), stored


def _age_spans() -> None:
    for spans in (QuotaSpan, NodeSpan):
        spans.objects.exclude(until=None).delete()  # of the moments in which the installation was made
    age_installation(10)


def _age_audit_trail() -> None:
    with pgtrigger.ignore("pools.AuditEntry:append_only"):
        AuditEntry.objects.update(time=F("time") - timedelta(days=2))


def _last_day(by: UsageKey, bucket: Bucket = Bucket.MONTH) -> UsageQuestion:
    now = timezone.now()
    return UsageQuestion(now - timedelta(days=3), now, by, bucket)


def _label(**labels: dict[str, str]) -> None:
    """Name the flavors of the cluster anew, with these labels."""
    flavors = [{"name": name, "node_labels": of_node} for name, of_node in labels.items()]
    world.apply_change(PutBackend(name="sim", body={"flavors": flavors}))


@pytest.mark.parametrize("bucket", [Bucket.HOUR, Bucket.MONTH])
def test_a_closed_hour_counts_what_its_flavors_counted_then(used: Any, bucket: Bucket) -> None:
    _age_audit_trail()
    rebuild()
    until = start_of_hour(timezone.now())

    def read() -> dict[Any, Any]:
        found = read_usage(world.admin_actor(), replace(_last_day(UsageKey.POOL, bucket), until=until))
        return {(row.start, row.key): (row.used, row.waiting, row.lost) for row in found.rows} | {
            "": (found.totals.used, found.totals.waiting, found.totals.sums["capacity"])
        }

    before = read()
    assert {key for _, key in [key for key in before if key]} == {"team", "team/t4"}
    _label(h100={"gpu": "h100"}, t4={"gpu": "t4"})  # whole ones from now on
    assert read() == before
    rebuild()
    assert read() == before
    assert list(find_usage_differences(timezone.now())) == []


@pytest.mark.parametrize("bucket", [Bucket.HOUR, Bucket.MONTH])
def test_a_day_in_which_a_flavor_changed_counts_both(used: Any, bucket: Bucket) -> None:
    now = timezone.now()
    noon = now.replace(hour=12, minute=0, second=0, microsecond=0) - timedelta(days=1)
    _age_audit_trail()
    _label(h100={"gpu": "h100"}, t4={"gpu": "t4"})
    last = AuditEntry.objects.filter(object="backend/sim").latest("pk")
    with pgtrigger.ignore("pools.AuditEntry:append_only"):
        AuditEntry.objects.filter(pk=last.pk).update(time=noon + timedelta(minutes=5))
    for workflow in Workflow.objects.filter(status="RUNNING"):
        move_back(workflow, (now - timedelta(hours=5) - (noon - timedelta(hours=3))) / timedelta(hours=1))
    rebuild()
    until = noon + timedelta(hours=12)
    question = UsageQuestion(until - timedelta(days=1), until, UsageKey.POOL, bucket)
    found = read_usage(world.admin_actor(), question)
    hours = {part: sum(row.used for row in found.rows if row.part == part) / 3_600_000 for part in ("", "t4")}
    assert hours == pytest.approx({"": 15 * 11 + 12 * 6, "t4": 3 * 6}, abs=0.1)
    assert found.totals.used / 3_600_000 == pytest.approx(hours[""], abs=0.1)


def test_pools_and_their_changes_name_parts_as_parts(shared: None) -> None:
    assert "t4 6 of 32 parts of GPUs" in _page("/pools").content.decode()
    assert "t4 4 of 8 parts of GPUs" in _page("/pools/team").content.decode()
    submit_gpus(world.admin_actor(), 10, "t4", to="team")
    world.reconcile()
    quotas = {"h100": {"guarantee": 16}, "t4": {"guarantee": 16}}
    result = world.apply_change(PatchPool(name="team", patch={"resources": {"flavors": quotas}}))
    assert any("10 t4 parts of GPUs of HIGH and NORMAL work" in each for each in result.warnings)


def _resize(t4: int, until: Any = None) -> ResizeSubpool:
    return ResizeSubpool(parent="team", subpool_name="a", quotas={"t4": t4}, until=until)


def _set_flavors(**gpus: int) -> PatchPool:
    flavors: dict[str, Any] = {flavor: {"guarantee": amount} for flavor, amount in gpus.items()}
    flavors[ACTION] = REPLACE
    return PatchPool(name="team", patch={"resources": {"flavors": flavors}})


def test_refused_quotas_name_parts_as_parts(shared: None) -> None:
    until = timezone.now() + timedelta(hours=1)
    refused: list[tuple[Any, str]] = [
        (_resize(40), "40 t4 parts of GPUs requested for team--a"),
        (_resize(4, until), "A temporary quota of 4 t4 parts of GPUs is below"),
        (_resize(8, until), "A temporary quota of 8 h100 GPUs and 8 t4 parts of GPUs is not above"),
        (ResizeSubpools(quotas={"team--a": {"t4": 33}}), "33 t4 parts of GPUs; pool team guarantees 32"),
        (ResizeSubpools(quotas={"team--a": {"t4": 33}}), "Ask for 1 t4 part of GPUs less"),
        (_set_flavors(h100=16, t4=2), "below the 8 t4 parts of GPUs allocated to subpools"),
        (_set_flavors(h100=16), "subpools have 8 parts of GPUs of it, its work holds 6 parts of GPUs of it"),
    ]
    for command, words in refused:
        with pytest.raises((BadInput, Conflict)) as found:
            world.apply_change(command)
        assert words in found.value.message


def test_pages_of_changed_quotas_name_parts_as_parts(shared: None) -> None:
    form = _page("/pools/team/configuration").content.decode()
    counts = [form.count(f"data-unit>{unit}<") for unit in ("parts of GPUs", "GPUs")]
    assert counts == [4, 5]  # four of each flavor, and the limit of approvals
    submit_gpus(world.admin_actor(), 3, "t4")
    world.reconcile()
    assert "data-unit>parts of GPUs<" in _page("/pools/team/subpools/a/resize").content.decode()
    answer = _page("/pools/team/subpools/a/resize/-/preview?quotas-t4=2&quotas-h100=8").content.decode()
    assert "team--a keeps 7 t4 parts of GPUs of HIGH and NORMAL work on a quota of 2" in answer


def test_the_quota_tree_names_parts_as_parts(shared: None) -> None:
    world.apply_change(PatchPool(name="team", patch={"cohort": "all"}))
    page = _page("/cohorts").content.decode()
    assert "t4 6 of 32 parts of GPUs" in page and ">t4 parts of GPUs</a>" in page and ">h100 GPUs</a>" in page
    node = _page("/pools/team/quota?resource=t4/gpu").content.decode()
    assert "t4 parts of GPUs" in node and "t4 GPUs" not in node


@pytest.fixture
def other(shared: None) -> None:
    """A second cluster where the T4 are whole, with a pool in the same cohort as that of the first."""
    nodes = [{"name": "t1", "gpus": 8, "labels": {"gpu": "t4"}}]
    flavors = [{"name": "h100", "node_labels": {"gpu": "h100"}}, {"name": "t4", "node_labels": {"gpu": "t4"}}]
    world.apply_change(PutBackend(name="far", body={"nodes": nodes, "flavors": flavors}))
    add_flavored_pool("whole", {"h100": 0, "t4": 8}, {"h100": 0, "t4": 8}, backend="far")
    for name in ("team", "whole"):
        world.apply_change(PatchPool(name=name, patch={"cohort": "all"}))


def test_the_cluster_of_a_pool_says_what_its_flavors_count(other: None) -> None:
    whole = _page("/pools/whole/quota?resource=t4/gpu").content.decode()
    assert "t4 GPUs" in whole and "parts of GPUs" not in whole
    assert "t4 parts of GPUs" in _page("/pools/team/quota?resource=t4/gpu").content.decode()
    rows = {row.node.name: row for row in quota_tree_page(world.admin_actor()).rows}
    said = {name: {each.flavor: each.is_of_parts for each in row.flavors} for name, row in rows.items()}
    assert said["whole--a"] == {"t4": False} and said["whole"] == {"t4": False}
    assert said["team"] == said["team--a"] == said["all"] == {"h100": False, "t4": True}


def test_a_debt_is_said_as_the_cluster_of_its_pool_counts(other: None) -> None:
    for name in ("whole", "team"):
        submit_gpus(world.admin_actor(), 4, "t4", to=f"{name}--a")
    for cluster in ("sim", "far"):
        world.reconcile(cluster)
    for name, words in (("whole", "uses 1 t4 GPU beyond"), ("team", "uses 7 t4 parts of GPUs beyond")):
        quotas = {"h100": {"guarantee": 16}, "t4": {"guarantee": 3, "maximum": 3}}
        world.apply_change(ResizeSubpool(parent=name, subpool_name="a", quotas={"t4": 3}))
        warnings = world.apply_change(PatchPool(name=name, patch={"resources": {"flavors": quotas}})).warnings
        assert any(f"{name} {words}" in each for each in warnings), warnings


def test_a_quota_of_a_cohort_is_compared_with_the_nodes_of_its_flavor(shared: None) -> None:
    world.apply_change(PatchPool(name="team", patch={"cohort": "all"}))

    def put(**nominal: int) -> tuple[str, ...]:
        rows = [{"flavor": flavor, "resource": "gpu", "nominal": gpus} for flavor, gpus in nominal.items()]
        return world.apply_change(PutCohort(name="all", body={"quotas": rows})).warnings

    [warning] = put(t4=1)
    assert "1 t4 part of GPUs of its own" in warning and "32 together; the nodes there have 32" in warning
    quotas = {"h100": {"guarantee": 12}, "t4": {"guarantee": 32}}
    world.apply_change(PatchPool(name="team", patch={"resources": {"flavors": quotas}}))
    assert put(t4=1, h100=4) == ()
    [warning] = put(t4=1, h100=5)
    assert "5 h100 GPUs of its own" in warning and "12 together; the nodes there have 16" in warning


def test_receipts_count_parts_as_parts(shared: None, caller: Callable[..., Any]) -> None:
    low = submit_gpus(world.admin_actor(), 26, "t4", to="team", priority=Priority.LOW)
    world.reconcile()
    Task.objects.filter(group__workflow=low).update(start_time=F("start_time") - timedelta(hours=1))
    taker = submit_gpus(world.admin_actor(), 4, "t4")
    world.reconcile()
    reads = caller("root", "osmo-admin")
    answer = reads.get(f"/api/workflow/{low.name}/receipts")
    [receipt] = answer["receipts"]
    assert "26 t4 parts of GPUs" in receipt["message"]
    assert answer["lost_parts_s"] == receipt["lost_parts_s"] == {"t4": receipt["lost_gpu_s"]}
    assert lost_text(receipt) == "26.0 hours of t4 parts of GPUs"
    assert reads.get(f"/api/workflow/{low.name}")["preemptions"][0]["lost_parts_s"] == receipt["lost_parts_s"]
    page = _page(f"/workflows/{low.name}").content.decode()
    assert "26.0 hours of t4 parts of GPUs of work were lost." in page and "t4 GPU" not in page
    assert "26 t4 parts of GPUs" in _page(f"/workflows/{taker.name}").content.decode()
    entry = AuditEntry.objects.get(action=AuditAction.WORKFLOW_PREEMPTED)
    [noticed] = receipts_of_preemptions([entry]).values()
    assert noticed.sentence == "26.0 hours of t4 parts of GPUs of work were lost."


def test_receipts_count_what_a_flavor_counted_when_the_attempt_ended(shared: None, caller: Callable[..., Any]) -> None:
    reads = caller("root", "osmo-admin")

    def taken(gpus: int) -> Any:
        low = submit_gpus(world.admin_actor(), gpus, "t4", to="team", priority=Priority.LOW)
        world.reconcile()
        Task.objects.filter(group__workflow=low).update(start_time=F("start_time") - timedelta(hours=1))
        submit_gpus(world.admin_actor(), 2, "t4")
        world.reconcile()
        return low

    def lost(work: Any) -> tuple[str, str, str]:
        answer = reads.get(f"/api/workflow/{work.name}/receipts")
        [receipt] = answer["receipts"]
        shown = _page(f"/workflows/{work.name}").content.decode()
        assert f"{lost_text(receipt)} of work were lost." in shown
        assert lost_text(answer) == lost_text(receipt)
        return (
            receipt["message"].split("took back ")[1],
            lost_text(receipt),
            dict(_facts(receipt))["Could Also Have Gone"],
        )

    low = taken(26)
    said = lost(low)
    assert said[:2] == ("26 t4 parts of GPUs that team had borrowed", "26.0 hours of t4 parts of GPUs")
    assert said[2].startswith("job-4 (2 t4 parts of GPUs)")
    nodes = [{"name": f"h{i}", "gpus": 8, "labels": {"gpu": "h100"}} for i in range(2)]
    nodes += [{"name": "t0", "gpus": 32, "labels": {"gpu": "t4"}}]
    flavors = [{"name": flavor, "node_labels": {"gpu": flavor}} for flavor in ("h100", "t4")]
    world.apply_change(PutBackend(name="sim", body={"nodes": nodes, "flavors": flavors}))
    assert lost(low) == said
