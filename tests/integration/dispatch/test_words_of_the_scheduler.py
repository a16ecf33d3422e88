"""The words of a cluster's scheduler name work and queues of others: only those who may know them read them (design,
D10)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from django.db import transaction
from django.test import Client

from pools.models import AuditEntry, InboxNotice, Notice, User
from scheduling.domain.priorities import Priority
from scheduling.domain.receipts.words import PREEMPTED_BY_CLUSTER
from scheduling.kube.connection import resource_kinds
from scheduling.models import Group, Interruption, Task, Workflow
from scheduling.services.kubernetes import connections
from scheduling.services.workflows.submission import Submission, submit
from tests.support import world
from tests.support.agent_harness import AgentHarness, find_group, gang_file
from tests.support.notices import plan_notices

pytestmark = pytest.mark.django_db(transaction=True)

READERS = {
    "ann": "osmo-team-user",  # the owner
    "bob": "osmo-team-user",
    "cleo": "osmo-team-admin",
}
MAY_KNOW = {
    "dan": ("osmo-team-user", "osmo-hush-user"),
    "eve": ("osmo-admin",),
    "flo": ("osmo-viewer",),
}
SECRETS = ("hush", "<7>")
PLACES = (
    "/workflows/{name}",
    "/workflows?search={name}",
    "/api/workflow/{name}",
    "/api/workflow/{name}?verbose=true",
    "/api/workflow/{name}/receipts",
    "/api/workflow/{name}/logs",
    "/api/workflow/{name}/error_logs",
    "/api/workflow/{name}/events",
    "/api/workflow/{name}/compare/{name}",
    "/api/workflow?search={name}",
    "/api/task?workflow={name}",
    "/api/queue",
    "/api/audit?search={name}",
    "/activity?workflow={name}",
    "/activity/audit?search={name}",
    "/inbox",
    "/",
)


@pytest.fixture(params=["fails", "unknown words"])
def victim(request: pytest.FixtureRequest, fake_harness: AgentHarness, monkeypatch: pytest.MonkeyPatch) -> Workflow:
    """Work of ann in `team`, which KAI preempted for work in `hush` and says so in the condition and in an Event."""
    monkeypatch.setattr(connections, "connect", lambda _: fake_harness.cluster)
    world.make_pool("hush", 10, on=fake_harness.backend)
    for name, role in READERS.items():
        world.make_user(name, role)
    for name, roles in MAY_KNOW.items():
        world.make_user(name, *roles)
    ends = "exitActions: {FAIL: '3006'}" if request.param == "fails" else ""
    taker = world.submit_workflow(world.make_user("gil", "osmo-hush-user"), "hush", name="taker")
    file = gang_file("lead", "other", name="night", task_fields=ends)
    ann = User.objects.get(username="ann").as_actor()
    workflow = submit(actor=ann, pool="team", submission=Submission(file=file, priority=Priority.LOW)).workflow
    assert workflow is not None
    fake_harness.start_work(workflow)
    words = f"Pod osmo/a was preempted by workload osmo/{find_group(taker).pk}. hush uses <7> with a quota of <10>."
    if request.param == "unknown words":
        words = "The pod makes room for 7 GPUs <7> of hush."
    fake_harness.evict_pods(*fake_harness.list_pods(workflow), message=words)
    event = {
        "metadata": {"name": "evict", "namespace": "osmo"},
        "involvedObject": {"kind": "PodGroup", "name": str(find_group(workflow).pk), "namespace": "osmo"},
        "reason": "Evict",
        "message": words,
        "lastTimestamp": "2099-01-01T00:00:00Z",
    }
    fake_harness.cluster.create(resource_kinds.EVENT, event, field_manager="kai-scheduler")
    fake_harness.run_agent()
    assert fake_harness.agent._events.flush(30)
    plan_notices()
    return workflow


def _answers(browser: Client, workflow: Workflow) -> Iterator[tuple[str, int, str]]:
    for place in PLACES:
        answer = browser.get(place.format(name=workflow.name))
        yield place, answer.status_code, answer.getvalue().decode()


def test_only_who_may_know_the_taker_reads_the_words(victim: Workflow) -> None:
    """Readers of the own pool learn nothing of others; the others read the words in the receipt."""
    leaks = [
        (reader, place, secret)
        for reader in READERS
        for place, _status, text in _answers(world.sign_in(reader), victim)
        for secret in SECRETS
        if secret in text
    ]
    assert leaks == []
    rows: list[tuple[object, ...]] = list(Task.objects.values_list("failure_message"))
    rows += Group.objects.values_list("failure_message")
    rows += Workflow.objects.filter(pk=victim.pk).values_list("failure_message")
    rows += [
        *Notice.objects.values_list("text", "data"),
        *InboxNotice.objects.filter(pool__name="team").values_list("text"),
    ]
    entries = AuditEntry.objects.filter(object=f"workflow/{victim.name}").values_list("before", "after", "description")
    told = json.dumps([*map(list, rows), *map(list, entries)], default=str)
    assert [secret for secret in SECRETS if secret in told] == [], "what all readers get"
    assert PREEMPTED_BY_CLUSTER in told
    row = Interruption.objects.get()
    for reader in MAY_KNOW:
        browser = world.sign_in(reader)
        (receipt,) = browser.get(f"/api/workflow/{victim.name}/receipts").json()["receipts"]
        reads_all = reader != "dan"
        assert receipt["note"] == (row.note if reads_all or row.for_workflow_id else None), reader
        told = browser.get(f"/api/workflow/{victim.name}/events").getvalue().decode()  # type: ignore[attr-defined]
        assert (row.note in told) == reads_all, reader
    answers = _answers(world.sign_in("eve"), victim)
    assert [(place, code) for place, code, _text in answers if code != 200] == [], "each place answers"
    check_that_messages_of_the_past_lose_the_words(victim)


def check_that_messages_of_the_past_lose_the_words(victim: Workflow) -> None:
    """At the migration, and nothing of the audit trail is written for it."""
    words, entries = Interruption.objects.get().note, AuditEntry.objects.count()
    preempted = Task.objects.filter(status="FAILED_PREEMPTED")
    is_over = Workflow.objects.get(pk=victim.pk).status == "FAILED_PREEMPTED"
    with transaction.atomic(), world.triggers_off():
        preempted.update(failure_message=words)
        if is_over:
            Group.objects.filter(workflow=victim).update(failure_message=words)
            Workflow.objects.filter(pk=victim.pk).update(failure_message=words)
    world.run_bridge(PREEMPTED_BY_CLUSTER)
    assert set(preempted.values_list("failure_message", flat=True)) == {PREEMPTED_BY_CLUSTER}
    told = {Group.objects.get(workflow=victim).failure_message, Workflow.objects.get(pk=victim.pk).failure_message}
    assert told == ({PREEMPTED_BY_CLUSTER} if is_over else {""})
    assert AuditEntry.objects.count() == entries
