"""Targets of notices: added, changed, tested and removed by the people who may; and notices that are sent again."""

from __future__ import annotations

import base64
import re
import secrets
from collections.abc import Collection
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from pools.database.transactions import change
from pools.domain.changes.notices import (
    CHANNELS,
    CreateTarget,
    DeleteTarget,
    RenewSecret,
    ReplayDeadNotices,
    ReplayNotice,
    SendTest,
    UpdateTarget,
)
from pools.domain.configuration.cluster_addresses import AddressRule
from pools.domain.errors import BadInput, Conflict, Fault, NotFound, Throttled, Violation
from pools.domain.people.notices import (
    NOTICE_TITLES,
    PERSONAL_KINDS,
    PLATFORM_KINDS,
    POOL_KINDS,
    Channel,
    NoticeKind,
    NoticeStatus,
    check_address,
    check_kinds,
)
from pools.domain.people.quiet_hours import check_quiet_hours
from pools.domain.people.roles import Actor, Permission
from pools.domain.values.counting import counted
from pools.locking import lock_configuration, lock_user
from pools.models import Notice, NoticeTarget, Pool, SignOnIdentity, User
from pools.permissions import get_visible_root, require_own_account, require_permission, require_platform
from pools.security.sealing import seal

MAX_OPEN_TESTS = 5
MAX_TESTS, TESTS_TIME = 30, timedelta(hours=1)
"""Tests of all destinations of one owner: an address may be that of somebody who wants no mail of this installation."""
REPLAY_PAUSE = timedelta(minutes=1)
PROFILE_NAMES = {Channel.MAIL: "profile-email", Channel.SLACK: "profile-slack"}
_NAME = re.compile(r"[A-Za-z]([A-Za-z0-9_-]*[A-Za-z0-9])?\Z")


def address_rule() -> AddressRule:
    """The rule of addresses to which notices go."""
    return AddressRule.of_notices(settings.OSMO.notice_addresses)


def list_targets(actor: Actor) -> QuerySet[NoticeTarget]:
    """The destinations that `actor` may see: the own ones, those of administered pools; platform readers see all."""
    rows = NoticeTarget.objects.visible_to(actor).select_related("user", "pool")
    return rows.order_by("user__username", "pool__name", "name")


def get_target(actor: Actor, target_id: int) -> NoticeTarget:
    """One target. Raises NotFound if it does not exist or `actor` may not see it."""
    row = list_targets(actor).filter(pk=target_id).first()
    if row is None:
        raise NotFound(f"Notice destination {target_id} does not exist, or it belongs to somebody else.")
    return row


def require_owner(actor: Actor, target: NoticeTarget) -> None:
    """Refuse actors who may see a destination and not change it."""
    if target.pool is not None:
        require_permission(actor, Permission.POOL_PARTITION, target.pool.name)
    elif target.user_id is None or target.user_id != actor.user_id:
        require_platform(actor)
    else:
        require_own_account(actor)


def list_notices(actor: Actor) -> QuerySet[Notice]:
    """The notices of the destinations that `actor` may see, the newest first."""
    rows = Notice.objects.select_related("target__user", "target__pool").order_by("-id")
    return rows if actor.can_read_all else rows.filter(target__in=NoticeTarget.objects.visible_to(actor))


def possible_kinds(target: NoticeTarget) -> tuple[NoticeKind, ...]:
    """The kinds of notices that this destination may choose."""
    if target.user_id is not None or target.pool_id is not None:
        return POOL_KINDS
    return (*POOL_KINDS, *PLATFORM_KINDS)


def create_target(command: CreateTarget, *, actor: Actor, description: str = "") -> tuple[NoticeTarget, str]:
    """Add a destination of the actor, of a pool (for its admins) or of the installation (for platform admins). Returns
    it and, for a webhook, the secret that verifies its signatures; only this call returns the secret. With `kinds` None
    it takes every kind that it may.

    Raises BadInput, Conflict (name taken, too many), NotFound, Forbidden.
    """
    name, channel = command.name, command.channel
    target = NoticeTarget(name=name, pools=list(command.pools), quiet_hours=command.quiet_hours)
    if command.pool and command.installation:
        raise BadInput.of(
            [Violation("pool", Fault.BAD_VALUE, "A destination belongs to a pool or to the installation, not both.")]
        )
    if command.pool:
        root = get_visible_root(actor, command.pool)
        require_permission(actor, Permission.POOL_PARTITION, root.name)
        target.pool = root
    elif command.installation:
        require_platform(actor)
    else:
        require_own_account(actor)
        target.user = User.objects.get(username=actor.username)
    target.kinds = list(possible_kinds(target) if command.kinds is None else command.kinds)
    found = [] if _NAME.match(name) and len(name) <= 60 else [_bad_name()]
    found += _choose_channel(target, channel, command.address)
    found += _violations(actor, target)
    if found:
        raise BadInput.of(found)
    secret = _renew_secret(target) if channel == Channel.WEBHOOK else ""
    with change(actor=actor, description=description):
        _lock_owner(target)
        others = NoticeTarget.objects.filter(user=target.user, pool=target.pool)
        if others.filter(name=name).exists():
            raise Conflict(f"There is a notice destination {name} already; choose another name.")
        _require_room(others)
        target.save()
    return target, secret


def update_target(command: UpdateTarget, *, actor: Actor, description: str = "") -> NoticeTarget:
    """Change a destination; None keeps a value. A destination that is switched on is tried again at once. Raises
    BadInput, NotFound, Forbidden."""
    named = get_target(actor, command.target)
    require_owner(actor, named)
    address, kinds, pools, is_enabled = command.address, command.kinds, command.pools, command.enabled
    quiet_hours = command.quiet_hours
    found = []
    if named.is_profile and (address is not None or is_enabled is not None):
        message = (
            "This destination follows the switch of the profile: osmo profile set notifications email true (or slack)."
        )
        found.append(Violation("is_enabled" if address is None else "address", Fault.FOLLOWS_PROFILE, message))
    elif address is not None:
        found += _choose_channel(named, named.channel, address)  # not under the lock: a library reads the address
    with change(actor=actor, description=description):
        target = _lock_target(named)
        values: dict[str, Any] = {}
        if kinds is not None:
            values["kinds"] = list(kinds)
        if pools is not None:
            values["pools"] = list(pools)
        if quiet_hours is not None:
            values["quiet_hours"] = quiet_hours
        if is_enabled is not None:
            values["is_enabled"] = is_enabled
        if address is not None:
            values |= {"sealed_address": named.sealed_address, "shown_address": named.shown_address}
        if is_enabled or address is not None:
            values |= {"failures": 0, "retry_at": None, "off_reason": ""}
        had = frozenset(target.pools)
        for name, value in values.items():
            setattr(target, name, value)
        found += _violations(actor, target, had)
        if found:
            raise BadInput.of(found)
        target.save(update_fields=list(values))  # only these: the sender writes the others
    return target


def renew_secret(command: RenewSecret, *, actor: Actor, description: str = "") -> str:
    """Replace the secret of a webhook; only this call returns the new one. Notices are signed with it from now on."""
    named = get_target(actor, command.target)
    require_owner(actor, named)
    if named.channel != Channel.WEBHOOK:
        raise Conflict(f"Notice destination {named.name} is not a webhook: only notices to webhooks are signed.")
    with change(actor=actor, description=description or "renewed the secret"):
        target = _lock_target(named)
        secret = _renew_secret(target)
        target.save(update_fields=["sealed_secret"])
    return secret


def delete_target(command: DeleteTarget, *, actor: Actor, description: str = "") -> None:
    """Remove a destination with its notices; the switch of a profile removes its own."""
    named = get_target(actor, command.target)
    require_owner(actor, named)
    if named.is_profile:
        raise Conflict(
            "This destination follows the switch of the profile: switch it off with osmo profile set notifications "
            "email false (or slack)."
        )
    with change(actor=actor, description=description):
        _lock_target(named).delete()


def send_test(command: SendTest, *, actor: Actor, description: str = "") -> Notice:
    """Queue a test notice; the background job sends it within seconds, and the notice shows what came of it."""
    named = get_target(actor, command.target)
    require_owner(actor, named)
    with change(actor=actor, description=description):
        target = _lock_target(named)
        tests = Notice.objects.filter(kind=NoticeKind.TEST, target__user=target.user, target__pool=target.pool)
        if tests.filter(target=target, status=NoticeStatus.WAITING).count() >= MAX_OPEN_TESTS:
            raise Conflict(f"{MAX_OPEN_TESTS} tests of {target.name} wait already. See why: osmo notice list.")
        if tests.filter(created_at__range=(Now() - TESTS_TIME, Now())).count() >= MAX_TESTS:
            raise _too_often(
                f"{MAX_TESTS} tests were sent within an hour, which is the most for the destinations of an owner"
            )
        NoticeTarget.objects.filter(pk=target.pk).update(retry_at=None)
        text = f"This is a test of the notice destination {target.name}, requested by {actor.username}."
        data = {"subject": f"notice_target/{target.name}", "sentence": text, "actor": actor.username}
        return Notice.objects.create(
            target=target, kind=NoticeKind.TEST, subject=data["subject"], title=NOTICE_TITLES[NoticeKind.TEST],
            text=text, data=data | {"time": timezone.now().isoformat()},
        )  # fmt: skip


def replay_notice(command: ReplayNotice, *, actor: Actor, description: str = "") -> Notice:
    """Send a notice again that was delivered or is a dead letter, with the same id. Raises NotFound, Conflict."""
    try:
        message_id = UUID(command.notice.removeprefix("msg_"))
    except ValueError:
        raise NotFound("This is not the id of a notice; one begins with msg_.") from None
    found = list_notices(actor).filter(message_id=message_id).first()
    if found is None:
        raise NotFound(f"Notice {message_id} does not exist, or it is somebody else's.")
    require_owner(actor, found.target)
    recent = Notice.objects.filter(pk=found.pk, status=NoticeStatus.DELIVERED, attempted_at__gt=Now() - REPLAY_PAUSE)
    if recent.exists():
        raise _too_often("This notice was delivered within the last minute")
    if not _replay(Notice.objects.filter(pk=found.pk), found.target_id, actor=actor, description=description):
        raise Conflict("This notice waits to be sent already.")
    found.refresh_from_db()
    return found


def replay_dead_notices(command: ReplayDeadNotices, *, actor: Actor, description: str = "") -> int:
    """Send all dead letters of a destination again, in their order; returns their number."""
    target = get_target(actor, command.target)
    require_owner(actor, target)
    return _replay(
        Notice.objects.filter(target=target, status=NoticeStatus.DEAD), target.pk, actor=actor, description=description
    )


def _replay(rows: QuerySet[Notice], target_id: int, *, actor: Actor, description: str) -> int:
    with change(actor=actor, description=description):
        NoticeTarget.objects.filter(pk=target_id).update(retry_at=None, failures=0)
        return rows.exclude(status=NoticeStatus.WAITING).update(
            status=NoticeStatus.WAITING, attempts=0, ended_at=None, error="", created_at=Now()
        )


def profile_targets(users: Collection[int]) -> list[NoticeTarget]:
    """The destinations of the switches that these people have on, as far as they can be reached; missing ones are
    added."""
    found = {
        (row.user_id, row.channel): row
        for row in NoticeTarget.objects.filter(user_id__in=users, is_profile=True).select_related("user")
    }
    wanted: list[NoticeTarget] = []
    people = User.objects.filter(pk__in=users, is_active=True).exclude(email="")
    for user in people.annotate(has_provider=Exists(SignOnIdentity.objects.filter(user=OuterRef("pk")))):
        switches = (
            (Channel.MAIL, user.email_notification and settings.OSMO.mail_url),
            # The bot of the operator writes to addresses that a provider stated, not to those that people typed.
            (Channel.SLACK, user.slack_notification and settings.OSMO.slack_token and user.has_provider),
        )
        for channel in (channel for channel, is_on in switches if is_on):
            row = found.get((user.pk, channel)) or NoticeTarget.objects.create(
                name=PROFILE_NAMES[channel], user=user, channel=channel, is_profile=True, kinds=list(PERSONAL_KINDS)
            )
            wanted.append(row)
    return wanted


def profile_warnings(user: User) -> list[str]:
    """Why a switch of this profile that is on has no effect now."""
    found = []
    if user.email_notification and not settings.OSMO.mail_url:
        found.append("Notices by mail are on, but this installation sends none: an operator sets OSMO_MAIL_URL.")
    if user.slack_notification and not settings.OSMO.slack_token:
        found.append("Notices by Slack are on, but this installation sends none: an operator sets OSMO_SLACK_TOKEN.")
    if user.slack_notification and settings.OSMO.slack_token and not SignOnIdentity.objects.filter(user=user).exists():
        found.append("Notices by Slack need a mail address that an identity provider states; your account has none.")
    if (user.email_notification or user.slack_notification) and not user.email:
        found.append("Notices are on, but your account has no mail address: osmo profile set mail ADDRESS sets one.")
    return found


def _choose_channel(target: NoticeTarget, channel: str, address: str) -> list[Violation]:
    """Set channel and address, and return their faults."""
    if channel not in CHANNELS:
        return [Violation("channel", Fault.BAD_VALUE, f"The channel must be one of {', '.join(CHANNELS)}.")]
    target.channel = channel
    if channel == Channel.MAIL and not settings.OSMO.mail_url:
        message = "This installation sends no mail: an operator sets OSMO_MAIL_URL."
        return [Violation("channel", Fault.NOT_CONFIGURED, message)]
    found = check_address(Channel(channel), address, needs_tls=settings.OSMO.secure)
    faults = list(found.faults)
    if not faults and channel == Channel.APPRISE:
        faults += _apprise_faults(address)
    if not faults:
        target.sealed_address, target.shown_address = seal(address), found.shown
    return faults


def _apprise_faults(address: str) -> list[Violation]:
    """Whether Apprise can read the address. Loaded here, because few requests need its many modules."""
    from apprise import Apprise  # noqa: PLC0415

    if Apprise.instantiate(address, suppress_exceptions=True) is not None:
        return []
    service = address.partition("://")[0]
    message = f"The address is not a complete one of {service}://. Its parts are described at https://appriseit.com."
    return [Violation("address", Fault.BAD_ADDRESS, message)]


def _violations(actor: Actor, target: NoticeTarget, had: Collection[str] = ()) -> list[Violation]:
    """The faults of a target. Pools that it `had` before stay: one of them may be gone, or a role on it, and the target
    must still be changed and switched off."""
    found = check_kinds(target.kinds, possible_kinds(target)) + check_quiet_hours(target.quiet_hours)
    if target.pools and target.pool is not None:
        found.append(Violation("pools", Fault.BAD_VALUE, f"This destination is of the pool {target.pool.name} alone."))
        return found
    known = {
        *Pool.objects.visible_to(actor).roots().filter(name__in=target.pools).values_list("name", flat=True),
        *had,
    }
    found += [
        Violation("pools", Fault.UNKNOWN_POOL, "One of the pools does not exist, or you have no role on it.")
        for name in target.pools
        if name not in known
    ]
    return found


def _bad_name() -> Violation:
    message = (
        "This is not a valid name: a letter first, then letters, digits, '-' and '_', a letter or digit "
        "last, at most 60."
    )
    return Violation("name", Fault.BAD_NAME, message)


def _lock_target(named: NoticeTarget) -> NoticeTarget:
    """The destination as it is under the lock of its owner. Raises NotFound if it was removed meanwhile."""
    _lock_owner(named)
    found = NoticeTarget.objects.select_related("user", "pool").filter(pk=named.pk).first()
    if found is None:
        raise NotFound(f"Notice destination {named.pk} was removed meanwhile.")
    return found


def _too_often(fact: str) -> Throttled:
    seconds = round(REPLAY_PAUSE.total_seconds())
    message = f"{fact}. Nothing is sent now: try again in a while."
    return Throttled(message, [Violation("", Fault.TOO_MANY_NOTICES, message)], retry_after=seconds)


def _lock_owner(target: NoticeTarget) -> None:
    if target.user is not None:
        lock_user(target.user.username)
    else:
        lock_configuration()


def _require_room(others: QuerySet[NoticeTarget]) -> None:
    limit, count = settings.OSMO.max_notice_targets, others.count()
    if count >= limit:
        message = (
            f"This owner has {counted(count, 'notice destination')}; at most {limit} are allowed. Delete one first."
        )
        raise Conflict.of(
            [Violation("name", Fault.TOO_MANY_TARGETS, message, numbers=(("targets", count), ("limit", limit)))]
        )


def _renew_secret(target: NoticeTarget) -> str:
    secret = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
    target.sealed_secret = seal(secret)
    return secret
