"""The answers of the webhooks over HTTP: refusals, recorded bypasses and their counts."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from pools.models import AuditEntry, Backend, User
from scheduling.models import Bypass, Group, QueueGuard
from scheduling.services.webhooks import queue_guard
from tests.integration.webhooks.conftest import QUEUE, Ask, pod, pod_group, post, question
from tests.support import factories

GUARD = "/api/configs/backend/prod/webhook"


def guarded(backend: Backend, mode: str, **more: Any) -> QueueGuard:
    return queue_guard.put_queue_guard(actor=factories.admin_actor(), backend=backend.name, body={"mode": mode, **more})


def test_a_foreign_pod_is_refused_with_the_command_to_submit(cluster: Backend, ask: Ask) -> None:
    guarded(cluster, "enforce")
    response = ask(pod())
    assert response["allowed"] is False
    assert response["status"]["code"] == 403
    assert "osmo workflow submit FILE --pool team--a" in response["status"]["message"]


def test_the_default_mode_is_enforce(cluster: Backend, ask: Ask) -> None:
    assert not ask(pod())["allowed"]
    assert ask(pod("default-queue"))["allowed"]


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


def test_every_fault_of_a_pod_group_in_one_answer(cluster: Backend, ask: Ask) -> None:
    guarded(cluster, "enforce")
    groups = [{"name": "a", "minMember": 0}, {"name": "b", "minMember": 1, "minSubGroup": 1}]
    response = ask(pod_group("elsewhere", minSubGroup=3, subGroups=groups))
    fields = [cause["field"] for cause in response["status"]["details"]["causes"]]
    assert response["status"]["code"] == 422
    assert set(fields) >= {"spec.minSubGroup", "spec.subGroups[0].minMember", "spec.subGroups[1].minSubGroup"}
    assert ask(pod_group("elsewhere", minMember=2))["allowed"]


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
    factories.make_pool("team", 10, on=cluster, a=5)
    factories.submit_workflow(factories.admin_actor(), "team--a")
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
    assert ask(pod(), at="/prod")["allowed"]
    assert ask(pod(), at="/other")["allowed"], "that queue belongs to another namespace"
    assert not ask(pod("osmo-pool-xs-team--a"), at="/other")["allowed"]
    assert not ask(pod("osmo-pool-xs-team--a"))["allowed"], "without a name the guards of all clusters apply"


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
        ("pod/nowhere", question("Pod", pod()), 404),
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


def test_setting_the_guard(cluster: Backend, admin: Client) -> None:
    before = admin.get(GUARD)
    assert before.json() == {"backend": "prod", "mode": "enforce", "identity": "", "accounts": [], "version": 0}
    body = {"mode": "audit", "identity": "us", "accounts": ["runner", "runner"]}
    dry = admin.put(f"{GUARD}?dry_run=True", body, content_type="application/json").json()
    assert dry["after"]["mode"] == "audit"
    assert not QueueGuard.objects.exists()
    answer = admin.put(GUARD, body, content_type="application/json")
    assert answer.json() == {"backend": "prod", "mode": "audit", "identity": "us", "accounts": ["runner"], "version": 1}
    assert answer["ETag"] == '"1"'
    stale = admin.put(GUARD, {"mode": "off"}, content_type="application/json", headers={"If-Match": '"7"'})
    assert stale.status_code == 412
    entry = AuditEntry.objects.filter(object="webhook/prod").latest("pk")
    assert (entry.actor, entry.action) == ("root-admin", "webhook.created")


def test_every_fault_of_the_settings(cluster: Backend, admin: Client) -> None:
    body = {"mode": "strict", "identity": 5, "accounts": ["ok", "", "a b"]}
    answer = admin.put(GUARD, body, content_type="application/json")
    assert answer.status_code == 400
    assert [detail["path"] for detail in answer.json()["details"]] == ["mode", "identity", "accounts[1]", "accounts[2]"]


def test_only_admins_set_it_and_only_platform_readers_see_it(cluster: Backend, ask: Ask) -> None:
    factories.make_pool("team", 10)
    person = factories.make_user("ann", "osmo-team-admin")
    client = Client()
    client.force_login(User.objects.get(username=person.username), "django.contrib.auth.backends.ModelBackend")
    assert client.put(GUARD, {"mode": "off"}, content_type="application/json").status_code == 403
    assert client.get(GUARD).status_code == 403
    assert client.get("/api/backend/prod/bypasses").status_code == 403


def test_listing_bypasses(cluster: Backend, ask: Ask, admin: Client) -> None:
    ask(pod())
    (row,) = admin.get("/api/backend/prod/bypasses").json()["bypasses"]
    assert (row["username"], row["object_name"], row["tries"], row["refused"]) == ("mallory", "thing", 1, 1)
