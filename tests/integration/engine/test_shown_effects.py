"""What the preview of a change showed is written with the confirmed change, and compared with the next full cycle."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection, transaction
from django.test import Client
from django.urls import reverse, reverse_lazy
from django.utils import timezone
from typer.testing import CliRunner

from osmo_admin.cli.server import app
from osmo_admin.cli.server_commands import configuration
from osmo_admin.monitoring.work_metrics import _collect_wait_faults
from pools.database.transactions import database_time
from pools.domain.approvals import ApprovalState
from pools.domain.changes.pools import PatchPool
from pools.models import ApprovalRequest, Pool, User
from pools.services.changes import shown_effects
from scheduling.domain.changes.workflows import CancelWorkflow
from scheduling.domain.engine.cycle import CycleResult
from scheduling.domain.promised_starts import PromiseOutcome
from scheduling.history.starts import background as forecasts
from scheduling.models import Group, ShownEffect, Workflow
from scheduling.services.simulated import reconcile as reconciliation
from scheduling.services.simulated import shown_effects as written
from scheduling.services.simulated.reconcile import reconcile_backend
from scheduling.services.verify import verify
from scheduling.services.workflows.user_actions import cancel_workflow
from tests.integration.engine.conftest import Cluster
from tests.support import world

pytestmark = pytest.mark.django_db

ADDRESS = "/pools/{}/configuration"
TYPED = {"guarantee": "16", "maximum": "-1", "weight": "1", "description": "for the test"}


@pytest.fixture(scope="module")
def cluster(module_data: world.ModuleData) -> Cluster:
    """32 GPUs. `a` and `c` use their quotas of 8, so more work of them waits; LOW work of `b` has the other nodes."""
    with module_data():
        cluster = Cluster({"n1": 8, "n2": 8, "n3": 8, "n4": 8}, {"a": 8, "b": 0, "c": 8})
        for name in ("low1", "low2"):
            cluster.submit(name, "b", "LOW", gpus=8)
        for pool in ("a", "c"):
            cluster.submit(f"has-{pool}", pool, gpus=8)
            cluster.submit(f"wants-{pool}", pool, gpus=8)
        cluster.reconcile()
        cluster.assert_running("has-a", "has-c", "low1", "low2")
        return cluster


def preview(client: Client, pool: str = "a", **typed: str) -> Any:
    answer = client.post(ADDRESS.format(pool), {**TYPED, **typed, "step": "preview"}, follow=True)
    assert answer.status_code == 200, answer.content.decode()
    return answer.context["hidden"]


def confirm(client: Client, hidden: dict[str, Any], pool: str = "a") -> None:
    answer = client.post(ADDRESS.format(pool), {**hidden, "step": "confirm"})
    assert answer.status_code == 302, answer.content.decode()


def change_quota(cluster: Cluster) -> ShownEffect:
    confirm(cluster.admin, preview(cluster.admin))
    return ShownEffect.objects.get()


def group_of(name: str) -> str:
    return str(Group.objects.get(workflow__spec_name=name).pk)


def outcomes() -> list[tuple[str, str]]:
    return list(ShownEffect.objects.order_by("pk").values_list("outcome", "reason"))


def test_a_row_is_of_the_preview_of_its_change_and_of_its_person(cluster: Cluster) -> None:
    """Nobody makes a preview look wrong by confirming another change."""
    hidden = preview(cluster.admin)
    with transaction.atomic():
        confirm(cluster.admin, hidden)
        transaction.set_rollback(True)
    assert not ShownEffect.objects.exists()
    with transaction.atomic():
        confirm(cluster.client("other", "osmo-admin"), hidden)
        assert Pool.objects.get(name="a").guarantee == 16
        assert not ShownEffect.objects.exists()
        transaction.set_rollback(True)
    with transaction.atomic():
        confirm(cluster.admin, {**preview(cluster.admin), "guarantee": "24"})
        assert Pool.objects.get(name="a").guarantee == 24
        assert not ShownEffect.objects.exists()
        transaction.set_rollback(True)
    confirm(cluster.admin, preview(cluster.admin, guarantee="8", weight="2"))
    assert not ShownEffect.objects.exists(), "without an effect"


QUOTA = {"resources": {"gpu": {"guarantee": 16}}}


def test_a_dry_run_over_rest_counts_where_the_same_change_follows(cluster: Cluster) -> None:
    """The same content of the same caller; another content or another caller is another change."""
    root, other = cluster.admin, cluster.client("other", "osmo-admin")
    for client, body in ((root, QUOTA), (other, {"resources": {"gpu": {"guarantee": 12}}})):
        answer = patch(client, body, "?dry_run=True")
        assert group_of("wants-a") not in answer.content.decode()
    assert patch(other, {"resources": {"gpu": {"weight": 2}}}).status_code == 200
    assert not ShownEffect.objects.exists()
    assert patch(root, QUOTA).status_code == 200
    row = ShownEffect.objects.get()
    assert (row.title, row.tokens) == ("Patch pool a", {}), "the weight changed in between"
    cluster.reconcile()
    assert outcomes() == [("withdrawn", "changed")]


def post(cluster: Cluster, address: str) -> Any:
    return cluster.admin.post(address, {}, content_type="application/json")


def patch(client: Client, body: dict[str, Any], query: str = "") -> Any:
    given = {"configs_dict": body}
    return client.patch(f"/api/configs/pool/a{query}", given, content_type="application/json")


def test_a_dry_run_over_rest_that_comes_true_is_kept(cluster: Cluster) -> None:
    assert patch(cluster.admin, QUOTA, "?dry_run=True").status_code == 200
    assert patch(cluster.admin, QUOTA).status_code == 200
    assert patch(cluster.admin, QUOTA).status_code == 200, "what was compared once is not compared again"
    cluster.reconcile()
    assert outcomes() == [("kept", "")]


def test_a_refused_change_is_compared_when_it_is_made(cluster: Cluster) -> None:
    assert patch(cluster.admin, QUOTA, "?dry_run=True").status_code == 200
    refused = cluster.admin.patch(
        "/api/configs/pool/a", {"configs_dict": QUOTA}, content_type="application/json", headers={"If-Match": '"99"'}
    )
    assert refused.status_code in {409, 412}
    assert not ShownEffect.objects.exists()
    assert patch(cluster.admin, QUOTA).status_code == 200
    cluster.reconcile()
    assert outcomes() == [("kept", "")]


@pytest.mark.parametrize("where", ["page", "rest"])
def test_the_preview_of_a_cancellation_is_compared(cluster: Cluster, where: str) -> None:
    """`low1` gives its node to work that waits: LOW work beyond the quotas is the only one that can start there."""
    cluster.submit("low3", "b", "LOW", gpus=8)
    cluster.reconcile()
    name = Workflow.objects.get(spec_name="low1").name
    if where == "page":
        address = reverse("admin:scheduling_workflow_cancel")
        assert cluster.admin.get(address, {"name": name}).status_code == 200
        answer = cluster.admin.post(address, {"name": name, "step": "confirm", "message": "for the test"})
        assert answer.status_code == 302
    else:
        for query in ("?dry_run=True", ""):
            assert post(cluster, f"/api/workflow/{name}/cancel{query}").status_code == 200
    row = ShownEffect.objects.get()
    assert (row.title, row.lost, row.started) == (f"Cancel workflow {name}", [], [group_of("low3")])
    cluster.reconcile()
    assert outcomes() == [("kept", "")]


CANCEL = reverse_lazy("admin:scheduling_workflow_cancel")


def test_the_preview_of_several_cancellations_is_compared(cluster: Cluster) -> None:
    """Two pools; all end in one transaction, so that one cycle sees what the preview did. The third one has ended."""
    cluster.submit("low3", "b", "LOW", gpus=8)
    cancel_workflow(CancelWorkflow(name="wants-a-1"), actor=world.admin_actor())
    cluster.reconcile()
    found = [Workflow.objects.get(spec_name=name).name for name in ("low1", "wants-a", "has-c")]
    page = cluster.admin.get(CANCEL, {"name": found})
    assert page.status_code == 200
    answer = cluster.admin.post(CANCEL, {"name": found, "step": "confirm", "message": "for the test"})
    assert answer.context["summary"] == "2 of 3 workflows were cancelled."
    row = ShownEffect.objects.get()
    assert (row.title, row.started) == ("Cancel 3 workflows", sorted(map(group_of, ("low3", "wants-c"))))
    cluster.reconcile()
    assert outcomes() == [("kept", "")]


def test_a_cancellation_of_more_than_the_preview_had_is_not_compared(cluster: Cluster) -> None:
    first, second, third = (Workflow.objects.get(spec_name=name).name for name in ("low1", "low2", "has-c"))
    assert cluster.admin.get(CANCEL, {"name": [first, second]}).status_code == 200
    given = {"name": [first, second, third], "step": "confirm", "message": "for the test"}
    assert cluster.admin.post(CANCEL, given).status_code == 200
    assert not ShownEffect.objects.exists()


def test_the_preview_of_files_is_compared(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration, "use_django", lambda data_dir: None)
    (tmp_path / "a.yaml").write_text("pools: {a: {backend: sim, resources: {gpu: {guarantee: 16}}}}")
    for command, code in (("diff", 2), ("apply", 0)):
        result = CliRunner().invoke(app, [command, "-f", str(tmp_path)])
        assert result.exit_code == code, result.output
    row = ShownEffect.objects.get()
    assert (row.title, row.started) == ("Apply the files of git", [group_of("wants-a")])
    cluster.reconcile()
    assert outcomes() == [("kept", "")]


def test_a_person_has_few_kept_previews(cluster: Cluster) -> None:
    """However many changes somebody previews: else a loop of dry runs fills the cache of all."""
    preview(cluster.admin)
    actor, kept = world.admin_actor(), [{"backend": 1, "tokens": {}}]
    for number in range(1000):
        shown_effects.keep_memos(shown_effects.ShownChange(f"Create subpool a--{number}", str(number)), actor, kept)
    places = cache.keys(f"shown-effect:{actor.user_id}:*")
    assert len(places) == shown_effects.PLACES
    shown_effects.keep_memos(shown_effects.ShownChange("Create subpool a--1", "x"), actor, kept * 9000)
    assert len(cache.keys(f"shown-effect:{actor.user_id}:*")) == shown_effects.PLACES - 1, "too large to keep"


class Watched:
    """A cache that notes in how many transactions it is asked."""

    def __init__(self) -> None:
        self.depths: set[int] = set()

    def __getattr__(self, name: str) -> Any:
        self.depths.add(len(connection.savepoint_ids))
        return getattr(cache, name)


def test_what_was_kept_is_read_and_forgotten_outside_of_all_transactions(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a cache that does not answer would keep the locks of a change, or the stored answer of a request."""
    watched, outside = Watched(), {len(connection.savepoint_ids)}
    monkeypatch.setattr(shown_effects, "cache", watched)
    cluster.submit("low3", "b", "LOW", gpus=8)
    cluster.reconcile()
    address = f"/api/workflow/{Workflow.objects.get(spec_name='low1').name}/cancel"
    assert post(cluster, f"{address}?dry_run=True").status_code == 200
    once = cluster.admin.post(address, {}, content_type="application/json", headers={"Idempotency-Key": "one"})
    assert once.status_code == 200
    assert len(outcomes()) == 1
    assert watched.depths == outside


@pytest.mark.parametrize("where", ["page", "rest"])
def test_the_preview_of_the_person_who_approves_is_compared(cluster: Cluster, where: str) -> None:
    world.apply_change(PatchPool(name="a", patch={"approval_above": 4}))
    asks = cluster.client("asks", "osmo-admin")
    answer = asks.post(ADDRESS.format("a"), {**preview(asks, approval_above="4"), "step": "ask"})
    assert answer.status_code == 302, answer.content.decode()
    assert not ShownEffect.objects.exists()
    if where == "page":
        address = f"{answer['Location']}/approve"
        hidden = cluster.admin.get(f"{address}/-/preview").context["hidden"]
        assert cluster.admin.post(address, {**hidden, "step": "confirm"}).status_code == 302
    else:
        request = ApprovalRequest.objects.get().pk
        for query in ("?dry_run=True", ""):
            assert post(cluster, f"/api/configs/approval/{request}/approve{query}").status_code == 200
    cluster.reconcile()
    assert outcomes() == [("kept", "")]


def test_an_approval_of_what_changed_meanwhile_is_still_noted(cluster: Cluster) -> None:
    """Its note has a transaction of its own, which the refused change does not take back."""
    world.apply_change(PatchPool(name="a", patch={"approval_above": 4}))
    asks = cluster.client("asks", "osmo-admin")
    assert asks.post(ADDRESS.format("a"), {**preview(asks, approval_above="4"), "step": "ask"}).status_code == 302
    request = ApprovalRequest.objects.get().pk
    address = f"/api/configs/approval/{request}/approve"
    assert post(cluster, f"{address}?dry_run=True").status_code == 200
    world.apply_change(PatchPool(name="a", patch={"resources": {"gpu": {"weight": 3}}}))
    assert post(cluster, address).status_code == 409
    assert ApprovalRequest.objects.get().state == ApprovalState.SUPERSEDED
    assert not ShownEffect.objects.exists()


@pytest.mark.parametrize("when", ["before", "after"])
def test_work_that_comes_between_withdraws_it(cluster: Cluster, when: str) -> None:
    """Between the preview and the confirmation, and between that and the cycle."""
    hidden = preview(cluster.admin)
    if when == "before":
        cluster.submit("more", "a", gpus=1)
    confirm(cluster.admin, hidden)
    if when == "after":
        cluster.submit("more", "a", gpus=1)
    cluster.reconcile()
    assert outcomes() == [("withdrawn", "changed")]
    assert problems(cluster) == []


def test_two_changes_at_once_withdraw_both(cluster: Cluster) -> None:
    first, second = preview(cluster.admin), preview(cluster.admin, "c")
    confirm(cluster.admin, first)
    confirm(cluster.admin, second, "c")
    assert outcomes() == [("open", "")] * 2
    cluster.reconcile()
    assert outcomes() == [("withdrawn", "changed")] * 2
    cluster.assert_running("has-a", "has-c", "wants-a", "wants-c")


def test_a_preview_that_comes_true_is_kept(cluster: Cluster) -> None:
    hidden = preview(cluster.admin)
    assert group_of("wants-a") not in str(hidden), "what is kept apart names work that the person may not see"
    assert not ShownEffect.objects.exists(), "a preview changes nothing"
    confirm(cluster.admin, hidden)
    row = ShownEffect.objects.get()
    assert (row.outcome, row.started) == (PromiseOutcome.OPEN, [group_of("wants-a")])
    assert len(row.lost) == 1
    assert row.lost[0] in {group_of("low1"), group_of("low2")}
    cluster.reconcile()
    row = ShownEffect.objects.get()
    assert (row.outcome, row.found_lost, row.found_started) == (PromiseOutcome.KEPT, row.lost, row.started)
    assert problems(cluster) == []
    confirm(cluster.admin, preview(cluster.admin, "c"), "c")
    cluster.reconcile()
    assert outcomes() == [("kept", "")] * 2, "the next change after the cycle too"


@pytest.mark.parametrize(
    ("where", "after"), [("_run_cycle", ("kept", "")), ("judge_open_effects", ("withdrawn", "changed"))]
)
def test_a_process_that_dies_before_or_within_the_cycle(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, where: str, after: tuple[str, str]
) -> None:
    """Before it nothing is lost; within it the effect is withdrawn."""
    change_quota(cluster)

    def die(*_: Any) -> None:
        raise RuntimeError

    with monkeypatch.context() as patch:
        patch.setattr(reconciliation, where, die)
        with pytest.raises(RuntimeError):
            reconcile_backend(cluster.backend.pk)
    assert outcomes() == [("open", "")]
    cluster.reconcile()
    assert outcomes() == [after]


def test_a_clock_that_is_set_back_before_the_cycle_stops_no_work(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = database_time() + timedelta(hours=1)
    with monkeypatch.context() as ahead:
        ahead.setattr(written, "database_time", lambda: before)
        change_quota(cluster)
    cluster.reconcile()
    assert ShownEffect.objects.get().outcome == PromiseOutcome.KEPT


def test_a_cluster_that_is_offline_withdraws_it(cluster: Cluster) -> None:
    change_quota(cluster)
    type(cluster.backend).objects.update(offline=True)
    reconcile_backend(cluster.backend.pk)
    assert outcomes() == [("withdrawn", "changed")]


@pytest.fixture
def wrong(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A cycle that does less than the preview said."""
    change_quota(cluster)
    run = reconciliation._run_cycle

    def forget(facts: Any) -> CycleResult:
        return replace(run(facts), steps=())

    with monkeypatch.context() as patch:
        patch.setattr(reconciliation, "_run_cycle", forget)
        reconcile_backend(cluster.backend.pk)
    return cluster


MESSAGE = (
    "on cluster sim was wrong. Gangs that lose GPUs: it named 1, and 0 did. Gangs that start: it named 1, and 0 did."
)


def problems(cluster: Cluster, name: str = "root") -> list[str]:
    found = cluster.get("/api/overview", world.sign_in(name))["problems"]
    return [each["message"] for each in found if each["code"] == "wrong_preview"]


def test_a_wrong_preview_is_a_problem_for_a_day(wrong: Cluster) -> None:
    assert outcomes() == [("broken", "")]
    (message,) = problems(wrong)
    assert message.endswith(MESSAGE)
    assert [(each.code, each.message) for each in verify()] == [("preview", message)]
    values = {
        tuple(sample.labels.values()): sample.value
        for family in _collect_wait_faults()
        for sample in family.samples
        if sample.name == "osmo_previews"
    }
    assert values == {("sim", "kept"): 0, ("sim", "broken"): 1, ("sim", "withdrawn"): 0}
    home = wrong.admin.get("/").content.decode()
    assert MESSAGE in home
    assert "/activity/outcomes?outcome=broken" in home
    with world.triggers_off():
        ShownEffect.objects.update(
            ended_at=timezone.now() + timedelta(days=-1, minutes=-1), made_at="2026-01-01T00:00Z"
        )
    assert problems(wrong) == []
    forecasts.forecast_starts()
    assert not ShownEffect.objects.exists(), "old rows are forgotten"


def test_only_readers_of_all_and_who_confirmed_it_learn_of_it(wrong: Cluster) -> None:
    wrong.client("viewer", "osmo-viewer")
    assert len(problems(wrong, "viewer")) == 1
    for name, role in (("chief", "osmo-a-admin"), ("worker", "osmo-b-user")):
        wrong.client(name, role)
        assert problems(wrong, name) == []
        assert "was wrong" not in wrong.client(name).get("/").content.decode()
    with world.triggers_off():
        ShownEffect.objects.update(user_id=User.objects.get(username="chief").pk)
    (message,) = problems(wrong, "chief")
    assert message.endswith(MESSAGE), "numbers without names"
