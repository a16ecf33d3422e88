"""Makes notices from the audit trail, in the order in which changes were committed, each once for each destination.

The position in the trail moves in the transaction that adds the notices, so an event is neither lost nor repeated,
whatever dies. Only entries whose transaction has ended before every open one are read (`stream_horizon`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Q, Sum

from pools.database.one_by_one import left_out_on_error
from pools.database.transactions import change
from pools.domain.approvals import ApprovalState
from pools.domain.audit_actions import AuditAction, drain_deadline
from pools.domain.names import split_name
from pools.domain.people.notices import NOTICE_TITLES, NoticeFacts, NoticeKind, TargetFacts, takes_notice
from pools.domain.people.roles import SYSTEM, Permission
from pools.domain.subpool_lifecycle import SubpoolState
from pools.domain.values.amounts import gpus_text
from pools.domain.values.counting import counted
from pools.domain.values.durations import minute_text
from pools.models import AuditEntry, InboxNotice, Notice, NoticeProgress, NoticeTarget, Pool, Reservation, User
from pools.selectors.audit_trail import StreamPosition, newest_before, stream_horizon
from pools.services.people.notice_targets import profile_targets
from scheduling.domain.decision_messages import after_its_name
from scheduling.domain.observed.observed_object import OWNER_PREFIX
from scheduling.locking import lock_notice_progress
from scheduling.models import ObservedWork, Workflow
from scheduling.selectors.receipts.noticed import NoticedReceipt, receipts_of_preemptions

BATCH = 500
"""Entries that one transaction reads."""
PAGES = {
    "workflow": "/workflows/{}",
    "pool": "/pools/{}",
    "backend": "/clusters/{}",
    "node": "/nodes/{}",
    "approval": "/activity/approvals/{}",
    "config_file": "/activity/audit?q=config_file/{}",
    "job": "/jobs",
}
"""Pages of subjects. They are not looked up, because a worker would load all pages for it."""


def plan_notices() -> int:
    """Make the notices of all entries that are final; returns their number."""
    made = 0
    while True:
        with change(actor=SYSTEM):
            count, is_done = _plan_batch()
        made += count
        if is_done:
            return made


def _plan_batch() -> tuple[int, bool]:
    """One batch: the notices made, and whether the trail is read to its end."""
    end = stream_horizon()
    progress = lock_notice_progress()
    if progress is None:  # the first run, which tells nothing of the past; or another process is at work
        NoticeProgress.objects.bulk_create(
            [NoticeProgress(pk=1, transaction=str(end.transaction))], ignore_conflicts=True
        )
        return 0, True
    start = StreamPosition(int(progress.transaction), progress.entry)
    newest = newest_before(end, since=start)
    if newest is None:
        return 0, True
    rows = list(
        AuditEntry.objects.filter(
            transaction__gte=str(start.transaction), transaction__lt=str(end.transaction), action__in=_READERS
        )
        .exclude(transaction=str(start.transaction), pk__lte=start.entry)
        .order_by("transaction", "pk")[:BATCH]
    )
    count = _make_notices(rows) if rows else 0
    is_done = len(rows) < BATCH
    reached = (
        StreamPosition(newest.transaction + 1) if is_done else StreamPosition(int(rows[-1].transaction), rows[-1].pk)
    )
    progress.transaction, progress.entry = str(reached.transaction), reached.entry
    progress.save(update_fields=["transaction", "entry"])
    return count, is_done


@dataclass(frozen=True, slots=True)
class _News:
    entry: AuditEntry
    facts: NoticeFacts


def _make_notices(entries: Collection[AuditEntry]) -> int:
    news, names = list[_News](), _Names.of(entries)
    for entry in entries:
        # In a savepoint, because the position in the trail moves with the notices of the others.
        with left_out_on_error("the notices of an audit entry", entry.pk), transaction.atomic():
            news += [_News(entry, facts) for facts in _read_facts(entry, names)]
    InboxNotice.objects.bulk_create(_inbox_notices(news))
    targets = _find_targets(news)
    rows = [
        _notice(target, each)
        for each in news
        for target, facts in targets
        if (target.is_profile or target.created_at <= each.entry.time) and takes_notice(facts, each.facts)
    ]
    return len(Notice.objects.bulk_create(_once(rows), ignore_conflicts=True))


def _once(rows: Iterable[Notice]) -> list[Notice]:
    """One notice of an entry for a destination: the first, which is the one about the own work."""
    found: dict[tuple[int, int | None], Notice] = {}
    for row in rows:
        found.setdefault((row.target_id, row.entry), row)
    return list(found.values())


@dataclass(frozen=True, slots=True)
class _Names:
    """Names of top-level pools by id, people by name, the owners of observed work by the name of its workflow, and the
    receipts of preemptions by the id of the entry, read once for a batch."""

    pools: Mapping[int, str]
    people: Mapping[str, User]
    observed: Mapping[str, str]
    receipts: Mapping[int, NoticedReceipt]

    @classmethod
    def of(cls, entries: Collection[AuditEntry]) -> _Names:
        pools = Pool.objects.filter(pk__in={entry.pool_id for entry in entries if entry.pool_id is not None})
        observed = _owners_of_observed(entries)
        owners = {entry.owner for entry in entries if entry.owner} | set(observed.values())
        people = User.objects.filter(username__in=owners, is_active=True)
        lost = receipts_of_preemptions(entries)
        return cls(dict(pools.values_list("pk", "name")), {user.username: user for user in people}, observed, lost)

    def owner(self, entry: AuditEntry) -> str:
        """The name of the owner; of observed work that in its cluster, where that is known."""
        return self.observed.get(_name_of(entry), entry.owner or "")

    def owner_id(self, entry: AuditEntry) -> int | None:
        """The person whose work it is; None for an earlier owner of the name."""
        user = self.people.get(self.owner(entry))
        return None if user is None or entry.time < user.date_joined else user.pk


def _name_of(entry: AuditEntry) -> str:
    return entry.object.partition("/")[2]


def _owners_of_observed(entries: Collection[AuditEntry]) -> dict[str, str]:
    names = {_name_of(entry) for entry in entries if (entry.owner or "").startswith(OWNER_PREFIX)}
    if not names:
        return {}
    rows = ObservedWork.objects.filter(workflow__name__in=names).exclude(owner="")
    return dict(rows.values_list("workflow__name", "owner"))


def _read_facts(entry: AuditEntry, names: _Names) -> Iterator[NoticeFacts]:
    return _READERS[entry.action](entry, names)


def _facts(
    entry: AuditEntry,
    names: _Names,
    kind: NoticeKind,
    subject: str,
    text: str,
    *,
    owner_id: int | None,
    is_personal: bool = False,
    name: str = "",
) -> NoticeFacts:
    pool_id = entry.pool_id
    return NoticeFacts(kind, subject, text, pool_id, names.pools.get(pool_id or 0, ""), owner_id, is_personal, name)


def _ended(entry: AuditEntry, names: _Names) -> Iterator[NoticeFacts]:
    row = entry.after or {}
    name, message = _name_of(entry), str(row.get("failure_message") or "")[:300]
    text = f"{name} ended: {row.get('status')}{f' ({message})' if message else ''}. {_whose(entry, names)}"
    # Work that lost its owner is reported to its pool, not to a person of the same name.
    yield _facts(entry, names, NoticeKind.WORKFLOW_ENDED, entry.object, text, owner_id=names.owner_id(entry) or _NOBODY)


def _preempted(entry: AuditEntry, names: _Names) -> Iterator[NoticeFacts]:
    name = _name_of(entry)
    why = after_its_name(str((entry.after or {}).get("message_without_beneficiary")), name)
    text = f"{name} was preempted: {why}"
    subject, owner = f"workflow/{name}", names.owner_id(entry) or _NOBODY
    found = _facts(entry, names, NoticeKind.PREEMPTED, subject, text, owner_id=owner)
    if receipt := names.receipts.get(entry.pk):
        found = replace(found, text=f"{text} {receipt.sentence}", part=f"receipt-{receipt.interruption}")
    yield replace(found, text=f"{found.text} {_whose(entry, names)}")


def _whose(entry: AuditEntry, names: _Names) -> str:
    """After the news: its own name tells a reader nothing, and the admins of the pool need it."""
    return f"The owner of this work is {names.owner(entry) or 'unknown'}."


def _draining(entry: AuditEntry, names: _Names) -> Iterator[NoticeFacts]:
    """To the people for whose work the drain waits, and to the pool."""
    name, row = entry.object.partition("/")[2], entry.after or {}
    news = f"Subpool {name} was deleted by {entry.actor} and drains"
    yield from _drain_facts(entry, names, news, _deadline_text(drain_deadline(row)))


def _deadline_changed(entry: AuditEntry, names: _Names) -> Iterator[NoticeFacts]:
    """As of a drain: the deadline was set, moved or removed later than the deletion."""
    before, after = entry.before or {}, entry.after or {}
    deadline = drain_deadline(after)
    if after.get("subpool_state") != SubpoolState.DELETING or drain_deadline(before) == deadline:
        return
    if deadline is not None and deadline <= entry.time:
        return  # the condition of a passed deadline tells it
    drain = f"the drain of subpool {entry.object.partition('/')[2]}"
    news = f"{entry.actor} {'removed' if deadline is None else 'set'} the deadline of {drain}"
    yield from _drain_facts(entry, names, news, _deadline_text(deadline))


def _drain_facts(entry: AuditEntry, names: _Names, news: str, deadline: str) -> Iterator[NoticeFacts]:
    leaf = int((entry.after or {})["id"])
    active = Workflow.objects.active().filter(pool_id=leaf)
    held = {
        row["submitted_by_id"]: row["count"]
        for row in active.order_by().values("submitted_by_id").annotate(count=Count("pk"))
    }
    gpus = _gpus_by_owner(leaf)
    for user in User.objects.filter(pk__in=held, is_active=True):
        count, total = held[user.pk], gpus.get(user.username, counted(0, "GPU"))
        work = "1 active workflow of yours" if count == 1 else f"{count} active workflows of yours"
        it = "it end, or cancel it" if count == 1 else "them end, or cancel them"
        text = f"{news}: it waits for {work} ({total} in use). Let {it}.{deadline}"
        yield _facts(entry, names, NoticeKind.DRAIN, entry.object, text, owner_id=user.pk, is_personal=True)
    count = sum(held.values())
    remaining = "1 active workflow remains" if count == 1 else f"{count} active workflows remain"
    yield _facts(entry, names, NoticeKind.DRAIN, entry.object, f"{news}: {remaining}.{deadline}", owner_id=None)


def _gpus_by_owner(leaf: int) -> dict[str, str]:
    """The GPUs that the work of each person holds there: `8 GPUs`, and with flavors `8 h100 GPUs`."""
    rows = Reservation.objects.filter(pool_id=leaf)
    totals = dict(rows.order_by().values_list("owner").annotate(total=Sum("held_gpus")))
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows.exclude(by_flavor={}).only("owner", "by_flavor"):
        kinds[row.owner].update(row.held_by_flavor)
    root = Pool.objects.select_related("parent__backend").get(pk=leaf).root if kinds else None
    parts = root.part_flavors if root else ()
    return {owner: gpus_text(total, kinds.get(owner, {}), parts) for owner, total in totals.items()}


def _deadline_text(deadline: datetime | None) -> str:
    return "" if deadline is None else f" This work should have ended by {minute_text(deadline)}."


def _condition(entry: AuditEntry, names: _Names) -> Iterator[NoticeFacts]:
    row = entry.after or {}
    kind, subject, text = NoticeKind(row["kind"]), str(row["subject"]), str(row["message"])
    owner = row.get("owner_id")
    yield _facts(entry, names, kind, subject, text, owner_id=owner, is_personal=owner is not None)


_OVER = {
    NoticeKind.DEGRADED: "It is over: the cluster can give this quota again.",
    NoticeKind.NODE_SUSPECT: "The suspicion has ended.",
}
"""What is said at the end of a condition of which people must know the end."""


def _condition_over(entry: AuditEntry, names: _Names) -> Iterator[NoticeFacts]:
    row = entry.before or {}
    kind, subject = NoticeKind(row["kind"]), str(row["subject"])
    if kind in _OVER:
        text = f"{_OVER[kind]} Before: {row['message']}"
        yield _facts(entry, names, kind, subject, text, owner_id=None)


def _refused_file(entry: AuditEntry, names: _Names) -> Iterator[NoticeFacts]:
    row = entry.after or {}
    count = "1 fault" if row.get("faults") == 1 else f"{row.get('faults')} faults"
    text = f"{row.get('path')} cannot be applied ({count}), so the former configuration stays:\n{row.get('message')}"
    yield _facts(entry, names, NoticeKind.CONFIGURATION_REFUSED, entry.object, text, owner_id=None)


def _approval_requested(entry: AuditEntry, names: _Names) -> Iterator[NoticeFacts]:
    """To the pool and the installation, whose admins decide. Users of the pool do not see the requests of others."""
    row = entry.after or {}
    until = minute_text(datetime.fromisoformat(row["expires_at"]))
    reason = f" Reason: {row['description']}" if row.get("description") else ""
    text = (
        f"{entry.actor} asks for the approval of a change of {row['subject']} (request {row['id']}). Another admin can "
        f"approve or reject it until {until}.{reason}"
    )
    yield _facts(entry, names, NoticeKind.APPROVAL, entry.object, text, owner_id=_NOBODY, name=row["subject"])


_DECISIONS = {
    ApprovalState.APPROVED: "was approved by {}, and the change is made",
    ApprovalState.REJECTED: "was rejected by {}, and nothing changed",
    ApprovalState.EXPIRED: "expired without a decision, and nothing changed",
    ApprovalState.SUPERSEDED: "is out of date, because its object changed before a decision",
}


def _approval_decided(entry: AuditEntry, names: _Names) -> Iterator[NoticeFacts]:
    """To the requester, and to the pool and the installation."""
    row = entry.after or {}
    decision = _DECISIONS[ApprovalState(row["state"])].format(row["decided_by"])
    note = f" Note: {row['decision_note']}" if row.get("decision_note") else ""
    text = f"The change of {row['subject']} that {entry.owner} requested (request {row['id']}) {decision}.{note}"
    owner = names.owner_id(entry) or _NOBODY
    yield _facts(entry, names, NoticeKind.APPROVAL, entry.object, text, owner_id=owner, name=row["subject"])


_NOBODY = -1
_READERS: Mapping[str, Callable[[AuditEntry, _Names], Iterator[NoticeFacts]]] = {
    AuditAction.WORKFLOW_ENDED: _ended,
    AuditAction.WORKFLOW_CANCELED: _ended,
    AuditAction.WORKFLOW_PREEMPTED: _preempted,
    AuditAction.SUBPOOL_DELETING: _draining,
    AuditAction.SUBPOOL_UPDATED: _deadline_changed,
    AuditAction.CONDITION_BEGAN: _condition,
    AuditAction.CONDITION_ENDED: _condition_over,
    AuditAction.CONFIG_FILE_REFUSED: _refused_file,
    AuditAction.APPROVAL_REQUESTED: _approval_requested,
    AuditAction.APPROVAL_APPROVED: _approval_decided,
    AuditAction.APPROVAL_REJECTED: _approval_decided,
    AuditAction.APPROVAL_EXPIRED: _approval_decided,
    AuditAction.APPROVAL_SUPERSEDED: _approval_decided,
}
"""The actions that notices report; other actions have none."""


def _find_targets(news: Collection[_News]) -> list[tuple[NoticeTarget, TargetFacts]]:
    """The destinations that may take one of these, with what decides. The number of queries does not depend on them."""
    owners = {each.facts.owner_id for each in news if each.facts.owner_id is not None}
    pools = {each.facts.pool_id for each in news if each.facts.pool_id is not None}
    mine = Q(user_id__in=owners) | Q(user__isnull=False) & ~Q(pools=[])
    rows = NoticeTarget.objects.filter(
        mine | Q(pool_id__in=pools) | Q(user__isnull=True, pool__isnull=True), is_enabled=True, is_profile=False
    ).exclude(user__is_active=False)
    found = [*rows.select_related("user").order_by("pk"), *profile_targets(owners)]
    readable = _readable_pools({row.user for row in found if row.user is not None and row.pools})
    return [
        (
            row,
            TargetFacts(
                kinds=row.kinds,
                pools=row.pools,
                user_id=row.user_id,
                pool_id=row.pool_id,
                readable=readable.get(row.user_id or 0, frozenset()),
            ),
        )
        for row in found
    ]


def _readable_pools(users: Collection[User]) -> dict[int, frozenset[str] | None]:
    """The pools that each of these people may see now."""
    roles: dict[int, set[str]] = defaultdict(set)
    held = User.objects.filter(pk__in=[user.pk for user in users], groups__isnull=False)
    for user_id, role in held.values_list("pk", "groups__name"):
        roles[user_id].add(role)
    found: dict[int, frozenset[str] | None] = {}
    for user in users:
        actor = user.actor_with(roles[user.pk])
        found[user.pk] = None if actor.can_read_all else frozenset(actor.pools_with(Permission.POOL_READ))
    return found


def _inbox_notices(news: Collection[_News]) -> list[InboxNotice]:
    """What is kept in the product. News of a person who is no longer there is for nobody else."""
    kept = [each for each in news if _is_for_the_inbox(each)]
    owners = {each.facts.owner_id for each in kept if each.facts.owner_id is not None}
    there = {None, _NOBODY, *User.objects.filter(pk__in=owners, is_active=True).values_list("pk", flat=True)}
    return [_inbox_notice(each) for each in kept if each.facts.owner_id in there]


def _is_for_the_inbox(each: _News) -> bool:
    """All news except work that ended as it should, or that its owner ended: nobody has to act on it."""
    if each.facts.kind is not NoticeKind.WORKFLOW_ENDED:
        return True
    status = str((each.entry.after or {}).get("status"))
    return status.startswith("FAILED") and each.entry.actor != each.entry.owner


def _inbox_notice(each: _News) -> InboxNotice:
    facts = each.facts
    return InboxNotice(
        entry=each.entry.pk,
        kind=facts.kind,
        subject=facts.subject,
        title=_title(facts),
        text=facts.text,
        page=_page(facts),
        pool_id=facts.pool_id,
        owner_id=None if facts.owner_id == _NOBODY else facts.owner_id,
        created_at=each.entry.time,
    )


def _title(facts: NoticeFacts) -> str:
    return f"{NOTICE_TITLES[facts.kind]}: {facts.name or facts.subject.partition('/')[2]}"


def _page(facts: NoticeFacts) -> str:
    kind, _, name = facts.subject.partition("/")
    page = PAGES.get(kind, "").format(quote(split_name(name).parent if kind == "pool" else name, safe=""))
    return f"{page}#{facts.part}" if page and facts.part else page


def _notice(target: NoticeTarget, each: _News) -> Notice:
    facts = each.facts
    page = _page(facts)
    link = f"{settings.OSMO.public_url}{page}" if page and settings.OSMO.public_url else ""
    data: dict[str, Any] = {
        "subject": facts.subject,
        "pool": facts.pool or None,
        "sentence": facts.text,
        "actor": each.entry.actor,
        "time": each.entry.time.astimezone(UTC).isoformat(),
        "audit_entry": each.entry.pk,
        "link": link or None,
    }
    return Notice(
        target=target,
        entry=each.entry.pk,
        kind=facts.kind,
        subject=facts.subject,
        title=_title(facts),
        text=f"{facts.text}\n\n{link}" if link else facts.text,
        data=data,
    )
