"""Sends the notices that wait: in order for each destination, at least once, and with a pause after a failure.

An attempt is written before it is made and its outcome afterwards, and neither a lock nor a transaction is open while a
receiver is called. A process that dies between the two leaves a notice that is sent again, with the same id.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F, Min, Q, QuerySet
from django.db.models.functions import Now

from pools.database.one_by_one import left_out_on_error
from pools.database.transactions import change, database_time
from pools.domain.people.notices import MAX_AGE, MAX_ATTEMPTS, Channel, NoticeStatus, Outcome, retry_pause
from pools.domain.people.roles import SYSTEM
from pools.models import InboxNotice, Notice, NoticeProgress, NoticeTarget
from pools.security.sealing import UnreadableSecret, unseal
from scheduling.locking import lock_notice_target
from scheduling.services.notices.sender_process import ATTEMPT_SECONDS, SenderProcess
from scheduling.services.notices.sender_worker import SendRequest

logger = logging.getLogger(__name__)
AT_ONCE = 4
"""Targets that are called at the same time, so that a receiver that hangs does not delay the others."""
ROUND_SECONDS = 20.0
"""Attempts begin within this time; the next round continues."""
CLAIM = timedelta(seconds=ROUND_SECONDS + ATTEMPT_SECONDS + 60)
_DELETED_AT_ONCE = 5_000


def send_notices() -> int:
    """Send what is due, unless another process does; returns the number of attempts."""
    if not _due_targets(database_time(), set(), limit=1) or not _claim():
        return 0
    try:
        return _send_due(time.monotonic() + ROUND_SECONDS)
    finally:
        NoticeProgress.objects.filter(pk=1).update(claimed_until=None)


def _claim() -> bool:
    """Claim the sending in a single statement; a claim that its holder did not release expires."""
    free = Q(claimed_until__isnull=True) | Q(claimed_until__lt=Now())
    return bool(NoticeProgress.objects.filter(free, pk=1).update(claimed_until=Now() + CLAIM))


def _due_targets(now: datetime, busy: set[int], *, limit: int) -> list[int]:
    """The destinations with notices that may be sent now; those whose notice waits longest come first."""
    rows = (
        NoticeTarget.objects.filter(
            Q(retry_at__isnull=True) | Q(retry_at__lte=now), is_enabled=True, notices__status=NoticeStatus.WAITING
        )
        .exclude(pk__in=busy)
        .exclude(user__is_active=False)
        .exclude(quiet_hours__in=NoticeTarget.objects.quiet_at(now))
        .exclude(is_profile=True, channel=Channel.MAIL, user__email_notification=False)
        .exclude(is_profile=True, channel=Channel.SLACK, user__slack_notification=False)
        .annotate(first=Min("notices__id"))
        .order_by("first")
    )
    return list(rows.values_list("pk", flat=True)[:limit])


def _send_due(deadline: float) -> int:
    attempts, failed = 0, set[int]()
    running: dict[Future[tuple[Outcome, str]], tuple[int, int, SenderProcess]] = {}
    with ExitStack() as ends:
        threads = ends.enter_context(ThreadPoolExecutor(AT_ONCE))
        idle = [ends.enter_context(SenderProcess()) for _ in range(AT_ONCE)]
        while True:
            busy, due = {target_id for target_id, _, _ in running.values()}, list[int]()
            if time.monotonic() < deadline and idle:
                due = _due_targets(database_time(), busy | failed, limit=len(idle))
                for target_id in due:
                    begun = None
                    failed.add(target_id)
                    with left_out_on_error("the notices of a destination", target_id):
                        begun = begin_attempt(target_id)
                        failed.discard(target_id)
                    if begun is not None:
                        process = idle.pop()
                        running[threads.submit(process.send, begun[1])] = (target_id, begun[0], process)
                        attempts += 1
            if not running:
                if not due:
                    return attempts
                continue
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                target_id, notice_id, process = running.pop(future)
                idle.append(process)
                failed.add(target_id)
                with left_out_on_error("the notices of a destination", target_id):
                    end_attempt(notice_id, *future.result())
                    failed.discard(target_id)


def begin_attempt(target_id: int) -> tuple[int, SendRequest] | None:
    """Write that the oldest waiting notice of a destination is sent now; returns its id and what is sent. None if
    there is nothing to send, or this process cannot read the destination: that is a failure, but no attempt, and
    another process may have the key. Until the outcome is written the destination pauses as after a failure."""
    request, unreadable = None, ""
    with transaction.atomic():
        target = lock_notice_target(target_id)
        if target is None:
            return None
        notice = target.notices.filter(status=NoticeStatus.WAITING).order_by("pk").first()
        if notice is None:
            return None
        now = database_time()
        target.failures += 1
        target.retry_at = now + timedelta(seconds=ATTEMPT_SECONDS) + retry_pause(target.failures)
        target.save(update_fields=["failures", "retry_at"])
        try:
            request = _request(target, notice)
        except UnreadableSecret as error:
            unreadable = f"The address of the destination cannot be read. {error}"
        else:
            notice.attempts += 1
            notice.attempted_at = now
            notice.save(update_fields=["attempts", "attempted_at"])
    if request is None:
        logger.error("notice destination %s: %s", target.pk, unreadable)
        end_attempt(notice.pk, Outcome.FAILED, unreadable)
        return None
    return notice.pk, request


def end_attempt(notice_id: int, outcome: Outcome, error: str) -> None:
    """Write the outcome of an attempt. A destination whose receiver wants no more notices is switched off."""
    now = database_time()
    with change(actor=SYSTEM, description=error if outcome is Outcome.GONE else ""):
        notice = Notice.objects.filter(pk=notice_id).first()
        target = None if notice is None else lock_notice_target(notice.target_id)
        if notice is None or target is None:  # removed meanwhile
            return
        ended = {"error": error, "ended_at": now}
        rows, dead = Notice.objects.filter(pk=notice_id), 0
        if outcome is Outcome.DELIVERED:
            rows.update(status=NoticeStatus.DELIVERED, **ended)
        elif outcome in {Outcome.REFUSED, Outcome.GONE} or notice.attempts >= MAX_ATTEMPTS:
            dead = rows.update(status=NoticeStatus.DEAD, **ended)
        else:
            rows.update(error=error)
            # A receiver that is away for a day must not be tried for each of its notices, one after the other.
            old = target.notices.filter(status=NoticeStatus.WAITING, created_at__lt=now - MAX_AGE)
            dead = old.update(status=NoticeStatus.DEAD, **ended)
        if outcome in {Outcome.DELIVERED, Outcome.REFUSED}:  # the receiver answers
            target.failures, target.retry_at = 0, None
        else:
            target.retry_at = now + retry_pause(target.failures)
        if outcome is Outcome.GONE:
            target.is_enabled, target.off_reason = False, "The receiver answered that it wants no more notices (410)."
        target.save(update_fields=["failures", "retry_at", "is_enabled", "off_reason"])
        is_delivered = outcome is Outcome.DELIVERED
        NoticeProgress.objects.filter(pk=1).update(
            delivered=F("delivered") + int(is_delivered),
            failures=F("failures") + int(not is_delivered),
            dead=F("dead") + dead,
        )


def _request(target: NoticeTarget, notice: Notice) -> SendRequest:
    """What is sent. Raises UnreadableSecret."""
    address, secret = (unseal(text) if text else "" for text in (target.sealed_address, target.sealed_secret))
    if target.is_profile and target.user is not None:
        address = target.user.email
    service = {Channel.MAIL: settings.OSMO.mail_url, Channel.SLACK: settings.OSMO.slack_token}
    return SendRequest(
        channel=target.channel,
        address=address,
        message_id=f"msg_{notice.message_id.hex}",
        title=notice.title,
        text=notice.text,
        body={"type": notice.kind, "timestamp": notice.data.get("time"), "data": notice.data},
        secret=secret,
        service=service.get(Channel(target.channel), ""),
        allowed=list(settings.OSMO.notice_addresses),
    )


def delete_old_notices() -> int:
    """Delete notices that ended, or began to wait, longer ago than the retention, and news of the inbox of this age;
    returns their number."""
    oldest = database_time() - timedelta(days=settings.OSMO.notice_retention_days)
    return _delete_older(Notice.objects.all(), oldest) + _delete_older(InboxNotice.objects.all(), oldest)


def _delete_older(rows: QuerySet[Any], oldest: datetime) -> int:
    deleted = 0
    while True:
        old = list(rows.filter(created_at__lt=oldest).order_by("pk").values_list("pk", flat=True)[:_DELETED_AT_ONCE])
        rows.filter(pk__in=old).delete()
        deleted += len(old)
        if len(old) < _DELETED_AT_ONCE:
            return deleted
