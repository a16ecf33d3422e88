"""The audit trail as a list, and as a stream that does not skip entries that commit late."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from typing import Any, NamedTuple, TypedDict

from django.contrib.sessions.models import Session
from django.db.models import BooleanField, F, Func, Q, Value
from django.utils.crypto import constant_time_compare

from pools.database.open_transactions import current_snapshot, oldest_open_transaction
from pools.database.statements import execute_sql
from pools.domain.audit_actions import audit_message
from pools.domain.people.roles import Actor, Permission
from pools.domain.subpool_lifecycle import SubpoolState
from pools.domain.values.amounts import DEFAULT_FLAVOR
from pools.models import AccessToken, AuditEntry, Pool, RoleAssignment, User
from pools.models.audit import IS_CONFIGURATION, AuditQuerySet
from pools.sign_on.identities import sign_on_epochs

_ZONED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00\Z")
_ID_DIGITS = 12
_MANY_OF_A_REQUEST = 3
_ONE_CAUSE = timedelta(seconds=1)
_NO_FLAVORS = {"flavors": [], "flavors_after": [], "gpu_flavors": [], "flavor": DEFAULT_FLAVOR}
"""The columns of a row without GPU flavors: an entry says them only where one of its images has others."""


_OF_THE_FLEET = ("pool", "subpool", "cohort", "backend", "node", "gpu_quota")


def fleet_entries(actor: Actor) -> AuditQuerySet:
    """The entries that `actor` may see of pools, cohorts, clusters, nodes and GPU quotas: what changes the GPUs that
    somebody has. Sign-ins, tokens and roles fill a trail, and only the audit log shows them."""
    kinds = [Q(action__startswith=f"{kind}.") for kind in _OF_THE_FLEET]
    return AuditEntry.objects.visible_to(actor).filter(IS_CONFIGURATION).filter(reduce(or_, kinds))


def one_of_each_request(actor: Actor, newest: Sequence[AuditEntry]) -> tuple[Sequence[AuditEntry], Collection[int]]:
    """The newest entries of the fleet, of which those of one request that repeat an action are one, and the ids of
    these: an import makes a thousand. They are filled up with entries before them, which is one more query."""
    repeats = Counter((entry.request_id, entry.action) for entry in newest if entry.request_id)
    many = {request for (request, _), count in repeats.items() if count >= _MANY_OF_A_REQUEST}
    if not many:
        return newest, ()
    heads = {entry.request_id: entry for entry in reversed(newest) if entry.request_id in many}
    others = fleet_entries(actor).exclude(request_id__in=many).order_by("-id")[: len(newest)]
    found = sorted([*heads.values(), *others], key=lambda entry: -entry.pk)
    return found[: len(newest)], {entry.pk for entry in heads.values()}


def entries_by_cause(entries: Sequence[AuditEntry]) -> list[list[AuditEntry]]:
    """All of these entries in their order, neighbours of one cause together: those of a request that repeats an action,
    and without a request those of one action by one user within a second of each other."""
    runs: list[list[AuditEntry]] = []
    for entry in entries:
        if runs and _is_of_cause(entry, runs[-1][-1]):
            runs[-1].append(entry)
        else:
            runs.append([entry])
    return [part for run in runs for part in ([run] if _repeats(run) else [[each] for each in run])]


def _is_of_cause(entry: AuditEntry, newer: AuditEntry) -> bool:
    if entry.request_id or newer.request_id:
        return entry.request_id == newer.request_id
    return (entry.actor, entry.action) == (newer.actor, newer.action) and newer.time - entry.time <= _ONE_CAUSE


def _repeats(run: Sequence[AuditEntry]) -> bool:
    return max(Counter(entry.action for entry in run).values()) >= _MANY_OF_A_REQUEST


class AuditEntryAnswer(TypedDict):
    """Who changed what, with the images of the object before and after."""

    id: int
    time: datetime
    actor: str
    action: str
    object: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    description: str
    request_id: str
    sentence: str


def entry_body(entry: AuditEntry) -> AuditEntryAnswer:
    """One entry as the API shows it (design, A8), with its message."""
    images = [row for row in (entry.before, entry.after) if row is not None]
    unused = {key for key, usual in _NO_FLAVORS.items() if all(row.get(key, usual) == usual for row in images)}
    return {
        "id": entry.pk,
        "time": entry.time,
        "actor": entry.actor,
        "action": entry.action,
        "object": entry.object,
        "before": _image(entry.before, unused),
        "after": _image(entry.after, unused),
        "description": entry.description,
        "request_id": entry.request_id,
        "sentence": audit_message(
            entry.action, entry.object, entry.actor, entry.before, entry.after, description=entry.description
        ),
    }


def _image(row: Mapping[str, Any] | None, unused: Collection[str]) -> dict[str, Any] | None:
    """A row's image with times in the format of the API and, for a subpool, its accounting quota (design, D4); without
    the columns that are `unused`."""
    if row is None:
        return None
    texts = {
        key: f"{value.removesuffix('+00:00')}Z" if isinstance(value, str) and _ZONED.match(value) else value
        for key, value in row.items()
        if key not in unused
    }
    if "subpool_state" in row and row["subpool_state"] is not None:
        texts["quota"] = row.get("last_quota") if row["subpool_state"] == SubpoolState.ACTIVE else 0
    return texts


@dataclass(frozen=True, slots=True, order=True)
class StreamPosition:
    """A position in the stream: after the entry `entry` of the database transaction `transaction`.

    Entry ids are assigned before transactions commit, so a reader that follows the ids skips entries that commit late.
    The stream is ordered by transaction first and read only up to the oldest open transaction, so no new entry appears
    before the position of a reader. As text, a position is one number that grows.
    """

    transaction: int
    entry: int = 0

    def __str__(self) -> str:
        return f"{self.transaction}{self.entry:0{_ID_DIGITS}}"


def parse_position(text: str) -> StreamPosition | None:
    """The position in a `Last-Event-ID`: a position of the stream, or the id of an entry of the audit list; None for an
    invalid one."""
    if not (text.isascii() and text.isdigit() and len(text) <= 32):
        return None
    transaction, entry = divmod(int(text), 10**_ID_DIGITS)
    if transaction:
        return StreamPosition(transaction, entry)
    known = AuditEntry.objects.filter(pk=entry).values_list("transaction", flat=True).first()
    if known is not None:
        return StreamPosition(int(known), entry)
    # An entry that was deleted by its age was one of the first.
    return StreamPosition(0, 0) if not entry or AuditEntry.objects.filter(pk__gt=entry).exists() else None


class _Visible(Func):
    """The SQL condition that a transaction had ended in a snapshot."""

    function = "pg_visible_in_snapshot"
    template = "%(function)s(%(expressions)s::pg_snapshot)"
    output_field = BooleanField()


def stream_horizon(seen: str | None = None) -> StreamPosition:
    """The position before which every transaction of this database has ended now (or in that snapshot), so its entries
    are final."""
    return StreamPosition(oldest_open_transaction(seen or current_snapshot()))


def seconds_held_back() -> float:
    """The seconds for which the oldest entry has waited for an older transaction that is still open; 0 without one.
    Entries of before a restore may have numbers that this server has not reached; they wait for none."""
    seen = current_snapshot()
    (seconds,) = execute_sql(
        "SELECT coalesce(extract(epoch FROM clock_timestamp() - min(time)), 0)::float FROM pools_auditentry"
        " WHERE transaction >= %s::text::xid8 AND transaction < pg_snapshot_xmax(%s::pg_snapshot)",
        [str(stream_horizon(seen).transaction), seen],
    ).fetchone()
    return max(0.0, float(seconds))


def is_beyond(place: StreamPosition, seen: str) -> bool:
    """Whether no stream could be at this place in the snapshot `seen`: a quiet one is at the next transaction."""
    return place > _next_transaction(seen)


def has_passed(place: StreamPosition, seen: str) -> bool:
    """Whether no entry after this place is visible in the snapshot `seen`."""
    return place >= _next_transaction(seen)


def _next_transaction(seen: str) -> StreamPosition:
    return StreamPosition(int(seen.split(":")[1]))


def newest_before(end: StreamPosition, *, since: StreamPosition) -> StreamPosition | None:
    """The position of the newest transaction with entries from `since` on and before the horizon `end`."""
    rows = AuditEntry.objects.filter(transaction__gte=str(since.transaction), transaction__lt=str(end.transaction))
    found = rows.order_by("-transaction").values_list("transaction", flat=True).first()
    return None if found is None else StreamPosition(int(found))


def entries_after(
    actor: Actor | None, start: StreamPosition, end: StreamPosition, *, limit: int, known_snapshot: str | None = None
) -> list[tuple[StreamPosition, AuditEntry]]:
    """The entries after `start` and before the horizon `end` that `actor` may see (None: all), in the order of the
    stream, without the entries that were visible in the snapshot `known_snapshot`."""
    rows = (
        (AuditEntry.objects.all() if actor is None else AuditEntry.objects.visible_to(actor))
        .filter(transaction__gte=str(start.transaction), transaction__lt=str(end.transaction))
        .exclude(transaction=str(start.transaction), pk__lte=start.entry)
        .order_by("transaction", "pk")
    )
    if known_snapshot is not None:
        rows = rows.exclude(_Visible(F("transaction"), Value(known_snapshot)))
    return [(StreamPosition(int(row.transaction), row.pk), row) for row in rows[:limit]]


@dataclass(frozen=True, slots=True)
class AuditReader:
    """A reader of the stream with the rights of one moment: `pools` are the ids of the pools whose entries it may see,
    `since` the start of its account."""

    actor: Actor
    pools: frozenset[int]
    since: datetime

    def may_see(self, entry: AuditEntry) -> bool:
        """Whether :meth:`pools.models.audit.AuditQuerySet.visible_to` has this entry."""
        if entry.is_of_other_token(self.actor):
            return False
        if self.actor.can_read_all or entry.pool_id in self.pools:
            return True
        return self.actor.username in {entry.actor, entry.owner} and entry.time >= self.since


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """A session of a browser, as it was when the stream began. `auth_hash` changes with the password of the user;
    `is_sign_on`: it began at an identity provider or a directory, and its hash with the end of the sign-on, too."""

    key: str
    auth_hash: str
    is_sign_on: bool


class Login(NamedTuple):
    """The id of a user, and that of the access token or the browser's session of the login, None without one."""

    user: int
    token: int | None = None
    session: BrowserSession | None = None


def read_audit_readers(logins: Collection[Login], now: datetime) -> dict[Login, AuditReader]:
    """The readers of these logins with their present rights, without those whose login has ended. Six queries at
    most, however many there are."""
    users = {user.pk: user for user in User.objects.filter(pk__in={each.user for each in logins}, is_active=True)}
    roles: defaultdict[int, set[str]] = defaultdict(set)
    for user_id, role in RoleAssignment.objects.filter(user__in=users).values_list("user_id", "group__name"):
        roles[user_id].add(role)
    token_ids = {each.token for each in logins if each.token is not None}
    tokens = AccessToken.objects.valid(now).in_bulk(list(token_ids)) if token_ids else {}
    with_session = [each for each in logins if each.session is not None]
    ended = set(with_session) - _with_open_session(with_session, users, now)
    actors: dict[Login, Actor] = {}
    for login in logins:
        user, token = users.get(login.user), tokens.get(login.token) if login.token is not None else None
        if user is None or (login.token is not None and token is None) or login in ended:
            continue
        if token is None:
            actors[login] = user.actor_with(roles[login.user])
        else:
            token.owner_roles = frozenset(roles[login.user])
            actors[login] = user.as_actor(token=token)
    audited = {login: actor.pools_with(Permission.POOL_AUDIT) for login, actor in actors.items()}
    names = set().union(*audited.values()) if audited else set()
    ids = dict(Pool.objects.filter(name__in=names).values_list("name", "pk")) if names else {}
    return {
        login: AuditReader(
            actor, frozenset(ids[name] for name in audited[login] if name in ids), users[login.user].date_joined
        )
        for login, actor in actors.items()
    }


def _with_open_session(logins: Collection[Login], users: Mapping[int, User], now: datetime) -> set[Login]:
    """Those of these logins whose browser session Django would still accept: it exists, and neither the password nor
    the sign-on behind it has changed."""
    sessions = {each: each.session for each in logins if each.session is not None}
    keys = {session.key for session in sessions.values()}
    rows = Session.objects.filter(session_key__in=keys, expire_date__gt=now)
    existing = set(rows.values_list("session_key", flat=True)) if keys else set()
    signed_on = {login.user for login, session in sessions.items() if session.is_sign_on}
    epochs = sign_on_epochs(signed_on, now) if signed_on else {}
    found = set()
    for login, session in sessions.items():
        user = users.get(login.user)
        if user is None or session.key not in existing or (session.is_sign_on and user.pk not in epochs):
            continue
        user.sign_on_epoch = epochs[user.pk] if session.is_sign_on else None
        if constant_time_compare(session.auth_hash, user.get_session_auth_hash()):
            found.add(login)
    return found
