"""The answers of the webhooks over HTTP: refusals, recorded bypasses and their counts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from pools.domain.errors import Forbidden
from pools.domain.people.roles import SYSTEM, Actor
from pools.models import AuditEntry, Backend
from scheduling.domain.changes.webhooks import PutQueueGuard
from scheduling.kube.connection import resource_kinds
from scheduling.kube.events import EventReason, EventSubject
from scheduling.models import Bypass, ClusterState, Group, QueueGuard, UnmarkedReviews
from scheduling.services.webhooks import queue_guard, refusal_events, strangers
from scheduling.services.webhooks.marks import rotate_mark
from tests.integration.webhooks.conftest import QUEUE, Ask, marked, pod, pod_group, post, question
from tests.support import world
from tests.support.world import sign_in

GUARD = "/api/configs/backend/prod/webhook"


def guarded(backend: Backend, mode: str, **more: Any) -> QueueGuard:
    return queue_guard.put_queue_guard(
        PutQueueGuard(backend=backend.name, mode=mode, **more), actor=world.admin_actor()
    )


def test_a_foreign_pod_is_refused_with_the_command_to_submit(cluster: Backend, ask: Ask) -> None:
    guarded(cluster, "enforce")
    response = ask(pod())
    assert response["allowed"] is False
    assert response["status"]["code"] == 403
    assert "osmo workflow submit FILE --pool team--a" in response["status"]["message"]


def test_a_cluster_without_settings_refuses_nobody(cluster: Backend, ask: Ask) -> None:
    """A printed manifest may be in force before the installation, when our own account is not known yet."""
    QueueGuard.objects.all().delete()
    answer = ask(pod())
    assert answer["allowed"]
    assert "would refuse" in answer["warnings"][0]
    assert not ask(pod("default-queue")).get("warnings")


def test_modes(cluster: Backend, ask: Ask) -> None:
    guarded(cluster, "off")
    assert ask(pod()) == {"uid": "0f1e2d3c", "allowed": True}
    assert not Bypass.objects.exists()
    guarded(cluster, "audit")
    response = ask(pod())
    assert response["allowed"]
    assert "would refuse" in response["warnings"][0]
    guarded(cluster, "enforce")
    assert not ask(pod())["allowed"]
    row = Bypass.objects.get()
    assert (row.username, row.namespace, row.kind, row.code) == ("mallory", "elsewhere", "Pod", "foreign_work")
    assert (row.attempts, row.refused) == (2, 1)


def test_our_own_and_allowed_accounts_pass(cluster: Backend, ask: Ask) -> None:
    guarded(cluster, "enforce", identity="system:serviceaccount:osmo:us", accounts=["runners"])
    assert ask(pod(), who="system:serviceaccount:osmo:us")["allowed"]
    assert ask(pod(), userInfo={"username": "x", "groups": ["runners"]})["allowed"]
    assert not ask(pod(), userInfo={"username": "x", "groups": ["others"]})["allowed"]


@pytest.mark.parametrize(("queue", "strict"), [("elsewhere", True), (QUEUE, False)])
def test_every_fault_of_a_pod_group_in_one_answer(cluster: Backend, ask: Ask, queue: str, strict: bool) -> None:
    guarded(cluster, "enforce", strict_minimums=strict, accounts=["mallory"])
    groups = [{"name": "a", "minMember": 0}, {"name": "b", "minMember": 1, "minSubGroup": 1}]
    response = ask(pod_group(queue, minSubGroup=3, subGroups=groups))
    fields = [cause["field"] for cause in response["status"]["details"]["causes"]]
    assert response["status"]["code"] == 422
    assert set(fields) >= {"spec.minSubGroup", "spec.subGroups[0].minMember", "spec.subGroups[1].minSubGroup"}
    assert ask(pod_group("elsewhere", minMember=2))["allowed"]


def test_what_kai_takes_in_queues_of_others_passes_with_a_warning(cluster: Backend, ask: Ask) -> None:
    specs: tuple[dict[str, Any], ...] = (
        {"minMember": 0},
        {"minSubGroup": 0, "subGroups": [{"name": "a", "minMember": 0}]},
        {"minSubGroup": 3, "subGroups": [{"name": "a", "minMember": 1}]},
        {"minSubGroup": 1},
    )
    for spec in specs:
        response = ask(pod_group("elsewhere", **spec))
        assert response["allowed"], spec
        assert response["warnings"], spec
    assert not Bypass.objects.exists()
    guarded(cluster, "enforce", strict_minimums=True)
    assert not [spec for spec in specs if ask(pod_group("elsewhere", **spec))["allowed"]]


def test_what_kai_refuses_is_refused_everywhere(cluster: Backend, ask: Ask) -> None:
    groups: tuple[dict[str, Any], ...] = (
        {"name": "a"},
        {"name": "a", "minMember": -1},
        {"name": "a", "minMember": 1, "minSubGroup": 1},
        {"name": "a", "minSubGroup": 0},
    )
    assert not [group for group in groups if ask(pod_group("elsewhere", subGroups=[group]))["allowed"]]


def test_an_unrelated_change_never_fails_for_old_faults(cluster: Backend, ask: Ask) -> None:
    guarded(cluster, "enforce")
    before = pod_group("elsewhere", minMember=-1)
    after = {**before, "metadata": {"name": "g", "labels": {"seen": "yes"}}}
    assert ask(after, operation="UPDATE", oldObject=before)["allowed"]
    worse = pod_group("elsewhere", minMember=-2)
    assert not ask(worse, operation="UPDATE", oldObject=before)["allowed"]


def test_a_warning_of_a_pod_group_is_passed_on(cluster: Backend, ask: Ask) -> None:
    response = ask(pod_group("elsewhere", minMember=5, subGroups=[{"name": "a", "minMember": 1}]))
    assert response["allowed"]
    assert len(response["warnings"]) == 1


def test_joining_a_gang_of_ours_is_using_its_queue(cluster: Backend, ask: Ask) -> None:
    world.make_pool("team", 10, on=cluster, a=5)
    world.submit_workflow(world.admin_actor(), "team--a")
    gang = str(Group.objects.get().pk)
    joining = {"metadata": {"name": "p", "annotations": {"pod-group-name": gang}}, "spec": {}}
    response = ask(joining, namespace="ns")
    assert QUEUE in response["status"]["message"]
    assert ask(joining, namespace="elsewhere")["allowed"], "a PodGroup is looked for in the pod's own namespace"


def test_a_dry_run_records_nothing(cluster: Backend, ask: Ask) -> None:
    guarded(cluster, "enforce")
    assert not ask(pod(), dryRun=True)["allowed"]
    assert not Bypass.objects.exists()


def test_deletions_pass(cluster: Backend, ask: Ask) -> None:
    assert ask(pod(), operation="DELETE", object=None, oldObject=pod())["allowed"]


def test_each_cluster_has_its_own_guard(cluster: Backend, ask: Ask) -> None:
    other = Backend.objects.create(name="other", kind=Backend.Kind.KUBERNETES, namespace="xs")
    guarded(cluster, "off")
    guarded(other, "enforce")
    assert ask(pod())["allowed"]
    assert ask(pod(), at=marked("other"))["allowed"], "that queue belongs to another namespace"
    assert not ask(pod("osmo-pool-xs-team--a"), at=marked("other"))["allowed"]


def test_our_mark_on_an_object_of_others(cluster: Backend, ask: Ask) -> None:
    ours = str(ClusterState.objects.create(backend=cluster).identity)
    labelled = {"metadata": {"name": "p", "labels": {"osmo.house": ours}}, "spec": {}}
    response = ask(labelled, namespace="ns")
    assert response["status"]["details"]["causes"][0]["field"] == "metadata.labels[osmo.house]"
    assert ask(labelled, namespace="ns", operation="UPDATE", oldObject=labelled)["allowed"], "nothing new"
    assert ask(labelled, namespace="elsewhere")["allowed"], "there it marks nothing"
    guarded(cluster, "enforce", accounts=["mallory"])
    assert ask(labelled, namespace="ns")["allowed"]


def test_a_refusal_is_an_event_in_the_namespace(cluster: Backend, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[tuple[EventSubject, EventReason, str]] = []
    monkeypatch.setattr(refusal_events, "record_event", lambda _, *event: events.append(event))
    ask(pod(), dryRun=True)
    guarded(cluster, "audit")
    ask(pod())
    ask(pod(), at="/prod")
    assert events == [], "nothing was refused for good"
    guarded(cluster, "enforce")
    unnamed = pod()
    unnamed["metadata"] = unnamed["metadata"] | {"name": "", "generateName": "job-"}
    ask(unnamed, name="")
    ((subject, reason, message),) = events
    assert subject == EventSubject(resource_kinds.POD, "job-", "elsewhere")
    assert reason is EventReason.REFUSED
    assert "osmo workflow submit" in message


class TestWithoutTheMark:
    """Anybody on the network may ask; the answers tell nothing, and leave no trace but a count."""

    @pytest.fixture(autouse=True)
    def counted_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(strangers, "STORE_EVERY_SECONDS", -1.0)

    def test_known_and_unknown_backends_answer_alike(self, cluster: Backend, ask: Ask) -> None:
        for at in ("", "/prod", "/nowhere", "/prod/guessed", "/prod/1-0", "/prod/-", "/prod/99999-a"):
            assert ask(pod(), at=at) == {"uid": "0f1e2d3c", "allowed": True}, at
        assert not Bypass.objects.exists()

    def test_the_uuid_of_a_gang_does_not_give_its_queue(self, cluster: Backend, ask: Ask) -> None:
        world.make_pool("team", 10, on=cluster, a=5)
        world.submit_workflow(world.admin_actor(), "team--a")
        gang = str(Group.objects.get().pk)
        joining = {"metadata": {"name": "p", "annotations": {"pod-group-name": gang}}, "spec": {}}
        assert ask(joining, namespace="ns", at="/prod") == {"uid": "0f1e2d3c", "allowed": True}

    def test_minimums_depend_on_the_request_alone(self, cluster: Backend, ask: Ask) -> None:
        wrong = pod_group("elsewhere", minMember=-1)
        assert ask(wrong, at="/prod") == ask(wrong, at="/nowhere")
        assert ask(wrong, at="/prod")["allowed"], "a configuration of an older version never refuses more than before"
        assert not ask(wrong, at="")["allowed"], "the rules alone, for everybody"

    def test_strangers_are_counted_apart(self, cluster: Backend, ask: Ask) -> None:
        for _ in range(3):
            ask(pod(), at="/prod")
        ask(pod(), at="/prod/1-guessed")
        ask(pod(), at="/nowhere")
        assert [row.attempts for row in UnmarkedReviews.objects.all()] == [4]

    def test_names_are_bounded_and_queries_too(
        self,
        cluster: Backend,
        ask: Ask,
        monkeypatch: pytest.MonkeyPatch,
        django_assert_num_queries: DjangoAssertNumQueries,
    ) -> None:
        ask(pod(), at="/prod")
        monkeypatch.setattr(strangers, "STORE_EVERY_SECONDS", 3600.0)
        with django_assert_num_queries(0):
            for number in range(200):
                ask(pod(), at=f"/guess-{number}")
        assert len(strangers._counts) == strangers.MAX_NAMES
        strangers._counts.clear()

    def test_a_rotated_mark_is_believed_for_a_while(self, cluster: Backend, ask: Ask) -> None:
        old = marked("prod")
        rotate_mark(actor=SYSTEM, backend="prod")
        assert marked("prod") != old
        assert not ask(pod())["allowed"]
        assert not ask(pod(), at=old)["allowed"], "for a minute"
        QueueGuard.objects.update(previous_mark_until=timezone.now() - timedelta(seconds=1))
        assert ask(pod(), at=old)["allowed"]
        assert not ask(pod())["allowed"]

    def test_a_mark_is_of_one_backend_and_survives_a_change_of_the_key(
        self, cluster: Backend, ask: Ask, settings: Any
    ) -> None:
        Backend.objects.create(name="other", kind=Backend.Kind.KUBERNETES, namespace="ns")
        old = marked("prod")
        assert ask(pod(), at=old.replace("prod", "other")) == {"uid": "0f1e2d3c", "allowed": True}
        settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
        settings.SECRET_KEY = "another key of the installation"
        assert not ask(pod(), at=old)["allowed"]

    def test_only_admins_rotate(self, cluster: Backend) -> None:
        with pytest.raises(Forbidden):
            rotate_mark(actor=Actor("ann"), backend="prod")


def test_a_caller_is_counted_once_and_the_list_is_bounded(
    cluster: Backend, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    guarded(cluster, "enforce")
    monkeypatch.setattr(queue_guard, "MAX_BYPASS_ROWS", 2)
    for who in ("a", "b", "c", "d", "a"):
        ask(pod(), who=who)
    assert {row.username: row.attempts for row in Bypass.objects.all()} == {"a": 2, "b": 1, "": 2}


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("pod", "{", 400),
        ("pod", "[]", 400),
        ("pod", "{}", 400),
        ("pod", question("PodGroup", pod_group()), 400),
        ("podgroup", question("Pod", pod()), 400),
        ("pod/nowhere", question("PodGroup", pod_group()), 400),
        ("queue", question("Pod", pod()), 404),
    ],
)
def test_a_body_that_is_not_a_review_is_refused(db: None, path: str, body: Any, status: int) -> None:
    answer = post(path, body)
    assert answer.status_code == status
    assert answer.json()["message"]


@pytest.mark.parametrize(
    "strange",
    [{"metadata": 5}, {"metadata": {"labels": [1], "annotations": "x"}}, {"spec": None}, {"a": 1.5}, {}],
)
def test_objects_of_any_shape_get_an_answer(cluster: Backend, ask: Ask, strange: dict[str, Any]) -> None:
    assert ask(strange)["allowed"]


def test_a_name_that_is_too_long_to_store_is_counted_nevertheless(cluster: Backend, ask: Ask) -> None:
    assert not ask(pod(), who="a" * 3000)["allowed"]
    assert Bypass.objects.get().username == "a" * 500


def test_setting_the_guard(cluster: Backend, browser: Client) -> None:
    QueueGuard.objects.all().delete()
    before = browser.get(GUARD)
    assert before.json() == {
        "backend": "prod", "mode": "audit", "identity": "", "accounts": [], "strict_minimums": False, "version": 0,
    }  # fmt: skip
    body = {"mode": "off", "identity": "us", "accounts": ["runner", "runner"], "strict_minimums": True}
    dry = browser.put(f"{GUARD}?dry_run=True", body, content_type="application/json").json()
    assert dry["after"]["mode"] == "off"
    assert not QueueGuard.objects.exists()
    answer = browser.put(GUARD, body, content_type="application/json")
    assert answer.json() == {**body, "accounts": ["runner"], "backend": "prod", "version": 1}
    assert answer["ETag"] == '"1"'
    stale = browser.put(GUARD, {"mode": "off"}, content_type="application/json", headers={"If-Match": '"7"'})
    assert stale.status_code == 412
    entry = AuditEntry.objects.filter(object="webhook/prod").latest("pk")
    assert (entry.actor, entry.action) == ("root-admin", "webhook.created")


def test_every_fault_of_the_settings(cluster: Backend, browser: Client) -> None:
    body = {"mode": "strict", "identity": 5, "accounts": ["ok", "", "a b"], "strict_minimums": "yes"}
    answer = browser.put(GUARD, body, content_type="application/json")
    assert answer.status_code == 400
    assert [detail["path"] for detail in answer.json()["details"]] == [
        "mode", "identity", "strict_minimums", "accounts[1]", "accounts[2]",
    ]  # fmt: skip


def test_only_admins_set_it_and_only_platform_readers_see_it(cluster: Backend, ask: Ask) -> None:
    world.make_pool("team", 10)
    person = world.make_user("ann", "osmo-team-admin")
    client = sign_in(person.username)
    assert client.put(GUARD, {"mode": "off"}, content_type="application/json").status_code == 403
    assert client.get(GUARD).status_code == 403
    assert client.get("/api/backend/prod/bypasses").status_code == 403


def test_listing_bypasses(cluster: Backend, ask: Ask, browser: Client) -> None:
    ask(pod())
    (row,) = browser.get("/api/backend/prod/bypasses").json()["bypasses"]
    assert (row["username"], row["object_name"], row["tries"], row["refused"]) == ("mallory", "thing", 1, 1)
