"""From an event to a receiver: order, repetition, pauses, dead letters, and what a receiver can do to us."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone
from standardwebhooks.webhooks import WebhookVerificationError

from osmo_admin.monitoring.work_metrics import WorkCollector
from pools.domain.changes.notices import ReplayDeadNotices, UpdateTarget
from pools.domain.changes.subpools import CreateSubpool, DeleteSubpool, ResizeSubpool, SetDrainDeadline
from pools.domain.people.notices import MAX_ATTEMPTS, Outcome
from pools.domain.people.roles import Actor
from pools.models import AuditEntry, Notice, NoticeProgress, NoticeTarget
from pools.services.people import notice_targets
from scheduling.domain.changes.workflows import CancelWorkflow
from scheduling.selectors.status.work_metrics import read_notice_counts
from scheduling.services.notices import planning, sending
from scheduling.services.notices.sender_process import SenderProcess
from scheduling.services.notices.sender_worker import SendRequest
from scheduling.services.notices.sending import begin_attempt, delete_old_notices, send_notices
from scheduling.services.restored import forget_credentials, forget_other_server
from tests.integration.notices.conftest import Hook
from tests.support.http_receiver import Receiver
from tests.support.notices import plan_notices
from tests.support.world import apply_change, make_pool, make_user, submit_workflow

pytestmark = pytest.mark.usefixtures("ledger", "open_network", "quick_process")


@pytest.fixture(scope="module")
def one_process() -> Iterator[SenderProcess]:
    """One process for all attempts of this module, because its start takes most of the time of a test."""
    with SenderProcess() as process:
        yield process


@pytest.fixture
def quick_process(one_process: SenderProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    class Shared:
        def __enter__(self) -> SenderProcess:
            return one_process

        def __exit__(self, *_: object) -> None:
            """It goes on."""

    monkeypatch.setattr(sending, "SenderProcess", Shared)
    monkeypatch.setattr(sending, "AT_ONCE", 1)


@pytest.fixture
def bob() -> Actor:
    make_pool("team", 100, a=10)
    return make_user("bob", "osmo-team-user")


def _end_work(actor: Actor, *names: str, to: str = "team--a") -> list[str]:
    made = [submit_workflow(actor, to, name=name).name for name in names]
    for name in made:
        apply_change(CancelWorkflow(name=name), actor=actor)
    return made


def _is_due() -> None:
    """The pause of every target is over."""
    NoticeTarget.objects.update(retry_at=None)


def _statuses() -> list[tuple[str, int]]:
    return list(Notice.objects.order_by("pk").values_list("status", "attempts"))


def test_a_workflow_that_ends_reaches_a_webhook_with_a_signature(bob: Actor, hook: Hook, receiver: Receiver) -> None:
    _, secret = hook(bob)
    (name,) = _end_work(bob, "train")
    assert (plan_notices(), send_notices()) == (1, 1)
    (request,) = receiver.received
    payload = request.verify(secret)
    with pytest.raises(WebhookVerificationError):
        request.verify("whsec_" + "A" * 43 + "=")
    notice = Notice.objects.get()
    entry = AuditEntry.objects.get(action="workflow.canceled")
    assert request.message_id == f"msg_{notice.message_id.hex}"
    assert payload["type"] == "workflow_ended"
    assert payload["timestamp"] == payload["data"]["time"]
    assert payload["data"]["audit_entry"] == entry.pk
    assert payload["data"]["subject"] == f"workflow/{name}"
    assert payload["data"]["sentence"].startswith(f"{name} ended: FAILED_CANCELED")
    assert payload["data"]["sentence"].endswith("The owner of this work is bob.")
    assert (notice.status, notice.attempts, notice.error) == ("delivered", 1, "")
    assert send_notices() == 0


def test_nothing_is_sent_in_quiet_hours_and_all_after_them(bob: Actor, hook: Hook, receiver: Receiver) -> None:
    """The inbox has the news at once, another target gets it, and the alert of late notices is silent."""
    now = timezone.now()
    around = f"{now - timedelta(hours=1):%H:%M}-{now + timedelta(hours=1):%H:%M}"
    quiet, _ = hook(bob, quiet_hours=around)
    hook(bob, path="/other", name="other")
    names = _end_work(bob, "one", "two")
    submit_workflow(bob, "team--a", name="three")
    plan_notices()
    send_notices()
    assert [request.path for request in receiver.received] == ["/other"] * 2
    counts = read_notice_counts()
    assert (counts.waiting, counts.oldest) == (0, None)
    assert Notice.objects.filter(target=quiet, status="waiting", attempts=0).count() == 2
    later = f"{now + timedelta(hours=1):%H:%M}-{now + timedelta(hours=2):%H:%M}"
    apply_change(UpdateTarget(target=quiet.pk, quiet_hours=later), actor=bob)
    assert read_notice_counts().waiting == 2
    send_notices()
    subjects = [
        each.body.partition('"subject":"')[2].partition('"')[0] for each in receiver.received if each.path == "/hook"
    ]
    assert subjects == [f"workflow/{name}" for name in names]
    apply_change(UpdateTarget(target=quiet.pk, quiet_hours=""), actor=bob)
    quiet.refresh_from_db()
    assert quiet.quiet_hours == ""


def test_notices_arrive_in_the_order_of_the_commits(bob: Actor, hook: Hook, receiver: Receiver) -> None:
    hook(bob)
    names = _end_work(bob, "one", "two", "three")
    plan_notices()
    send_notices()
    subjects = [each.body.partition('"subject":"')[2].partition('"')[0] for each in receiver.received]
    assert subjects == [f"workflow/{name}" for name in names]


def test_a_change_that_is_not_committed_yet_holds_back_later_ones(bob: Actor, hook: Hook, receiver: Receiver) -> None:
    hook(bob)
    (first, second) = (submit_workflow(bob, "team--a", name=name).name for name in ("first", "second"))
    other = connection.copy()
    try:
        with transaction.atomic():
            apply_change(CancelWorkflow(name=first), actor=bob)
            with other.cursor() as cursor:  # an entry of another transaction, as `second` that ends meanwhile
                cursor.execute("SELECT set_config('session_replication_role', 'replica', false)")
                cursor.execute(
                    "INSERT INTO pools_auditentry (time, actor, action, object, after, description, request_id, "
                    "pool_id, owner, transaction) SELECT now(), 'bob', 'workflow.ended', %s, "
                    "'{\"status\": \"COMPLETED\"}', '', '', pool_id, owner, pg_current_xact_id() "
                    "FROM pools_auditentry WHERE object = %s LIMIT 1",
                    [f"workflow/{second}", f"workflow/{second}"],
                )
            assert planning.plan_notices() == 0
        assert plan_notices() == 2
    finally:
        other.close()
    by_commit = AuditEntry.objects.filter(action__in=["workflow.ended", "workflow.canceled"]).order_by("transaction")
    assert list(Notice.objects.order_by("pk").values_list("entry", flat=True)) == [entry.pk for entry in by_commit]


def test_a_process_that_dies_after_sending_sends_again_with_the_same_id(
    bob: Actor, hook: Hook, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook(bob)
    _end_work(bob, "train")
    plan_notices()

    def die(*_: Any) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(sending, "end_attempt", die)
        with pytest.raises(SystemExit):
            send_notices()
    assert _statuses() == [("waiting", 1)]
    assert send_notices() == 0, "a pause follows, as after a failure"
    _is_due()
    assert send_notices() == 1
    assert receiver.ids[0] == receiver.ids[1]
    assert _statuses() == [("delivered", 2)]


def test_making_notices_is_safe_to_interrupt(bob: Actor, hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    hook(bob)
    _end_work(bob, "train")

    def die(*_: Any, **__: Any) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(NoticeProgress, "save", die)
        with pytest.raises(SystemExit):
            plan_notices()
    assert not Notice.objects.exists()
    assert plan_notices() == 1
    NoticeProgress.objects.update(transaction="0", entry=0)  # as after a restore: the whole trail is read again
    plan_notices()
    assert Notice.objects.count() == 1


def test_after_a_restore_the_rest_of_the_trail_is_sent_once(bob: Actor, hook: Hook) -> None:
    hook(bob)
    _end_work(bob, "sent")
    plan_notices()
    _end_work(bob, "later")
    forget_other_server()
    assert plan_notices() == 1
    assert [notice.title for notice in Notice.objects.order_by("pk")] == [
        "Workflow ended: sent-1",
        "Workflow ended: later-1",
    ]
    forget_credentials()
    assert not NoticeTarget.objects.filter(is_enabled=True).exists()


def test_a_failure_pauses_the_target_and_keeps_the_order(bob: Actor, hook: Hook, receiver: Receiver) -> None:
    hook(bob)
    _end_work(bob, "one", "two")
    receiver.answers.extend([500, 503])
    plan_notices()
    assert send_notices() == 1
    target, first = NoticeTarget.objects.get(), Notice.objects.earliest("pk")
    assert target.failures == 1
    assert target.retry_at is not None
    assert target.retry_at > timezone.now()
    assert first.error == "The receiver answered 500."
    assert send_notices() == 0
    _is_due()
    send_notices()
    assert NoticeTarget.objects.get().retry_at > target.retry_at
    _is_due()
    assert send_notices() == 2
    assert receiver.ids[0] == receiver.ids[1] == receiver.ids[2] != receiver.ids[3]
    assert _statuses() == [("delivered", 3), ("delivered", 1)]
    assert NoticeTarget.objects.get().failures == 0


def test_a_notice_that_always_fails_becomes_a_dead_letter_and_can_be_replayed(
    bob: Actor, hook: Hook, receiver: Receiver
) -> None:
    target, _ = hook(bob)
    _end_work(bob, "one", "two")
    receiver.answers.extend([500] * MAX_ATTEMPTS)
    plan_notices()
    for _ in range(MAX_ATTEMPTS):
        _is_due()
        send_notices()
    assert _statuses() == [("dead", MAX_ATTEMPTS), ("waiting", 0)]
    _is_due()
    send_notices()
    assert _statuses()[1] == ("delivered", 1)
    assert notice_targets.replay_dead_notices(ReplayDeadNotices(target=target.pk), actor=bob) == 1
    assert AuditEntry.objects.filter(action="notice.replayed", actor="bob", owner="bob").count() == 1
    send_notices()
    assert _statuses()[0] == ("delivered", 1)
    assert receiver.ids[-1] == receiver.ids[0]


def test_a_receiver_that_is_away_for_a_day_is_not_asked_for_each_notice(
    bob: Actor, hook: Hook, receiver: Receiver
) -> None:
    hook(bob)
    _end_work(bob, "one", "two", "three")
    plan_notices()
    Notice.objects.exclude(title__contains="three").update(created_at=timezone.now() - timedelta(hours=25))
    receiver.answers.append(500)
    send_notices()
    assert _statuses() == [("dead", 1), ("dead", 0), ("waiting", 0)]


def test_a_refused_notice_is_dead_at_once_and_does_not_hold_up_the_next(
    bob: Actor, hook: Hook, receiver: Receiver
) -> None:
    hook(bob)
    _end_work(bob, "one", "two", "three", "four")
    receiver.answers.extend([400, 413, 422])
    plan_notices()
    assert send_notices() == 4
    assert _statuses() == [("dead", 1)] * 3 + [("delivered", 1)]


def test_a_receiver_that_is_gone_is_switched_off(bob: Actor, hook: Hook, receiver: Receiver) -> None:
    target, _ = hook(bob)
    _end_work(bob, "one", "two")
    receiver.answers.append(410)
    plan_notices()
    assert send_notices() == 1
    target.refresh_from_db()
    assert not target.is_enabled
    assert "410" in target.off_reason
    notice_targets.update_target(UpdateTarget(target=target.pk, enabled=True), actor=bob)
    assert send_notices() == 1
    assert _statuses() == [("dead", 1), ("delivered", 1)]


@pytest.mark.parametrize("path", ["/hang", "/drip"])
def test_a_receiver_that_does_not_answer_is_cut_off(
    bob: Actor,
    hook: Hook,
    receiver: Receiver,
    path: str,
    one_process: SenderProcess,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hook(bob, path)
    _end_work(bob, "train")
    plan_notices()
    with monkeypatch.context() as short:
        short.setattr(one_process, "_seconds", 2.0)
        send_notices()
    assert _statuses() == [("waiting", 1)]
    assert Notice.objects.get().error == "The receiver did not answer within 2 seconds."
    receiver.go_on.set()
    _is_due()
    send_notices()
    assert receiver.ids[0] == receiver.ids[1]


def test_a_redirect_is_not_followed(bob: Actor, hook: Hook, receiver: Receiver) -> None:
    hook(bob)
    _end_work(bob, "train")
    receiver.answers.append(302)
    receiver.location = f"{receiver.url}/inside"
    plan_notices()
    send_notices()
    assert [each.path for each in receiver.received] == ["/hook"]
    assert Notice.objects.get().error == (
        "The receiver answered 302. A redirect is not followed: give the final address."
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_an_address_inside_is_refused_when_it_is_called(
    bob: Actor, hook: Hook, receiver: Receiver, set_osmo: Callable[..., None], host: str
) -> None:
    set_osmo(notice_addresses=["10.0.0.0/8"])
    hook(bob, address=receiver.url.replace("127.0.0.1", host))
    _end_work(bob, "train")
    plan_notices()
    send_notices()
    assert receiver.received == []
    assert "is a loopback address" in Notice.objects.get().error
    assert "OSMO_NOTICE_ADDRESSES" in Notice.objects.get().error


def test_no_transaction_is_open_while_a_receiver_is_called(
    bob: Actor, hook: Hook, receiver: Receiver, one_process: SenderProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook(bob)
    _end_work(bob, "train")
    plan_notices()
    send, seen = one_process.send, []

    def watch(request: SendRequest) -> tuple[Outcome, str]:
        other = connection.copy()  # this is another thread, so the state of the sender's session is read by name
        with other.cursor() as cursor:
            cursor.execute(
                "SELECT state FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
                "AND backend_type = 'client backend' AND xact_start IS NOT NULL"
            )
            seen.append(cursor.fetchall())
        other.close()
        return send(request)

    monkeypatch.setattr(one_process, "send", watch)
    send_notices()
    assert seen == [[]]


def test_two_processes_do_not_send_the_same(bob: Actor, hook: Hook, receiver: Receiver) -> None:
    hook(bob)
    _end_work(bob, "train")
    plan_notices()
    NoticeProgress.objects.update(claimed_until=timezone.now() + timedelta(minutes=1))
    assert send_notices() == 0
    NoticeProgress.objects.update(claimed_until=timezone.now() - timedelta(seconds=1))
    assert send_notices() == 1
    assert NoticeProgress.objects.get().claimed_until is None


def test_the_drain_of_a_subpool_asks_the_owners_of_its_work(
    bob: Actor, hook: Hook, set_osmo: Callable[..., None]
) -> None:
    set_osmo(public_url="https://osmo.example")
    admin, alice = make_user("root", "osmo-admin"), make_user("alice", "osmo-team-user")
    hook(bob)
    hook(alice)
    hook(admin, name="of-pool", pool="team")
    submit_workflow(bob, "team--a", name="long")
    apply_change(DeleteSubpool(parent="team", subpool_name="a"), actor=admin)
    assert plan_notices() == 2
    of_pool, mine = Notice.objects.order_by("target__pool")
    assert mine.target.user_id == bob.user_id
    assert "it waits for 1 active workflow of yours" in mine.text
    assert of_pool.target.pool is not None
    link = "https://osmo.example/pools/team"
    assert of_pool.text == f"Subpool team--a was deleted by root and drains: 1 active workflow remains.\n\n{link}"
    assert of_pool.data["link"] == link
    Notice.objects.all().delete()
    deadline = timezone.now() + timedelta(days=2)
    apply_change(SetDrainDeadline(parent="team", subpool_name="a", drain_by=deadline), actor=admin)
    assert plan_notices() == 2
    mine = Notice.objects.get(target__user=bob.user_id)
    assert "root set the deadline of the drain of subpool team--a: it waits for 1 active workflow of yours" in mine.text
    assert f"should have ended by {deadline.astimezone(UTC):%Y-%m-%d %H:%M} UTC" in mine.text
    apply_change(CreateSubpool(parent="team", subpool_name="later", quota=1), actor=admin)
    apply_change(ResizeSubpool(parent="team", subpool_name="later", quota=0), actor=admin)
    assert plan_notices() == 0, "other changes of a subpool do not make a notice"


def test_another_person_of_the_same_name_gets_no_notice(bob: Actor, hook: Hook) -> None:
    hook(bob)
    _end_work(bob, "train")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE pools_user SET date_joined = now() + interval '1 minute' WHERE username = 'bob'")
    assert plan_notices() == 0
    with connection.cursor() as cursor:
        cursor.execute("UPDATE pools_user SET date_joined = now() - interval '1 hour' WHERE username = 'bob'")
    _end_work(bob, "more")
    assert plan_notices() == 1
    with connection.cursor() as cursor:
        cursor.execute("UPDATE pools_user SET is_active = false WHERE username = 'bob'")
    assert (plan_notices(), send_notices()) == (0, 0), "a closed account gets nothing"


def test_the_past_is_not_sent_to_a_new_target(bob: Actor, hook: Hook) -> None:
    _end_work(bob, "before")
    hook(bob)
    _end_work(bob, "after")
    plan_notices()
    assert [notice.title for notice in Notice.objects.all()] == ["Workflow ended: after-1"]


def test_the_metrics_count_what_became_of_notices(bob: Actor, hook: Hook, receiver: Receiver) -> None:
    hook(bob)
    _end_work(bob, "one", "two", "three")
    plan_notices()
    Notice.objects.update(created_at=timezone.now() - timedelta(seconds=90))
    receiver.answers.extend([422, 200, 500])
    send_notices()
    counts = read_notice_counts()
    assert counts[:4] == (1, 1, 2, 1)
    found = {metric.name: metric.samples[0].value for metric in WorkCollector().collect() if "_notice" in metric.name}
    assert found.pop("osmo_notices_oldest_seconds") >= 90
    assert found == {
        "osmo_notices_delivered": 1, "osmo_notices_dead": 1, "osmo_notice_failures": 2, "osmo_notices_waiting": 1,
    }  # fmt: skip
    Notice.objects.all().delete()
    assert read_notice_counts()[:4] == (1, 1, 2, 0)


def test_old_notices_are_deleted(bob: Actor, hook: Hook, set_osmo: Callable[..., None]) -> None:
    set_osmo(notice_retention_days=2)
    hook(bob)
    _end_work(bob, "old", "new")
    plan_notices()
    Notice.objects.filter(title__contains="old").update(created_at=timezone.now() - timedelta(days=3))
    assert delete_old_notices() == 1
    assert [notice.title for notice in Notice.objects.all()] == ["Workflow ended: new-1"]


def test_an_attempt_of_a_target_without_notices_is_none(bob: Actor, hook: Hook) -> None:
    target, _ = hook(bob)
    assert begin_attempt(target.pk) is None
    assert NoticeTarget.objects.get().failures == 0


@pytest.mark.parametrize("channel", ["webhook", "mail"])
def test_a_process_with_another_key_loses_no_notice(
    channel: str, bob: Actor, hook: Hook, receiver: Receiver, settings: Any, set_osmo: Callable[..., None]
) -> None:
    set_osmo(mail_url="mailto://127.0.0.1:1")
    if channel == "webhook":
        hook(bob)
    else:
        hook(bob, channel="mail", address="ops@example.com", name="ops")
    _end_work(bob, "train")
    plan_notices()
    known, settings.SECRET_KEY = settings.SECRET_KEY, "another-key-of-many-characters-0123456789"
    for _ in range(MAX_ATTEMPTS + 1):
        _is_due()
        assert send_notices() == 0, "nothing was sent, so it does not count as an attempt"
    notice = Notice.objects.get()
    assert (notice.status, notice.attempts) == ("waiting", 0)
    assert "sealed with another OSMO_SECRET_KEY" in notice.error
    assert NoticeTarget.objects.get().failures == MAX_ATTEMPTS + 1
    settings.SECRET_KEY = known
    _is_due()
    assert send_notices() == 1
    if channel == "webhook":
        assert _statuses() == [("delivered", 1)]


def test_targets_that_cannot_be_read_do_not_hold_up_others(
    bob: Actor, hook: Hook, receiver: Receiver, settings: Any
) -> None:
    known, settings.SECRET_KEY = settings.SECRET_KEY, "another-key-of-many-characters-0123456789"
    hook(bob, name="first")
    settings.SECRET_KEY = known
    hook(bob, name="second")
    _end_work(bob, "train")
    plan_notices()
    assert send_notices() == 1
    assert sorted(_statuses()) == [("delivered", 1), ("waiting", 0)]


def test_a_notice_that_nobody_could_read_ends_with_this_reason(bob: Actor, hook: Hook, settings: Any) -> None:
    hook(bob)
    _end_work(bob, "train")
    plan_notices()
    settings.SECRET_KEY = "another-key-of-many-characters-0123456789"
    Notice.objects.update(created_at=timezone.now() - timedelta(hours=25))
    send_notices()
    notice = Notice.objects.get()
    assert notice.status == "dead"
    assert "sealed with another OSMO_SECRET_KEY" in notice.error
