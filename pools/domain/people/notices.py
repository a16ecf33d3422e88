"""Notices: what they are about, where they may go, and when one that failed is sent again. Standard library only."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final
from urllib.parse import parse_qsl

from pools.domain.errors import Fault, Violation
from pools.domain.values.urls import split_url


class NoticeKind(StrEnum):
    """The subjects of notices. `test` is sent on request, all others are chosen."""

    WORKFLOW_ENDED = "workflow_ended"
    PREEMPTED = "preempted"
    LONG_WAIT = "long_wait"
    DRAIN = "drain"
    QUOTA_NEARLY_USED = "quota_nearly_used"
    DEGRADED = "degraded"
    APPROVAL = "approval"
    JOB_LATE = "job_late"
    CLUSTER_SILENT = "cluster_silent"
    NODE_SUSPECT = "node_suspect"
    CONFIGURATION_REFUSED = "configuration_refused"
    TEST = "test"


NOTICE_TITLES: Final = {
    NoticeKind.WORKFLOW_ENDED: "Workflow ended",
    NoticeKind.PREEMPTED: "Work was preempted",
    NoticeKind.LONG_WAIT: "Work waits longer than usual",
    NoticeKind.DRAIN: "A subpool drains",
    NoticeKind.QUOTA_NEARLY_USED: "Quota nearly used",
    NoticeKind.DEGRADED: "Quota without GPUs",
    NoticeKind.APPROVAL: "Change with approval",
    NoticeKind.JOB_LATE: "Background job late",
    NoticeKind.CLUSTER_SILENT: "Cluster silent",
    NoticeKind.NODE_SUSPECT: "Node suspect",
    NoticeKind.CONFIGURATION_REFUSED: "Configuration refused",
    NoticeKind.TEST: "Test notice",
}
"""The title of a notice of each kind, which is also its name where kinds are chosen."""


class NoticeStatus(StrEnum):
    """What has become of a notice; a dead one is no longer tried."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    DEAD = "dead"


PLATFORM_KINDS = (
    NoticeKind.JOB_LATE,
    NoticeKind.CLUSTER_SILENT,
    NoticeKind.NODE_SUSPECT,
    NoticeKind.CONFIGURATION_REFUSED,
)
"""Of the whole installation: targets of the installation alone choose them."""
POOL_KINDS = (
    NoticeKind.WORKFLOW_ENDED, NoticeKind.PREEMPTED, NoticeKind.LONG_WAIT, NoticeKind.DRAIN,
    NoticeKind.QUOTA_NEARLY_USED, NoticeKind.DEGRADED, NoticeKind.APPROVAL,
)  # fmt: skip
PERSONAL_KINDS = (
    NoticeKind.WORKFLOW_ENDED, NoticeKind.PREEMPTED, NoticeKind.LONG_WAIT, NoticeKind.DRAIN, NoticeKind.APPROVAL,
)  # fmt: skip
"""The choices of a person about their own work and requests; the default of the switches of a profile."""


class Channel(StrEnum):
    """How a notice travels. `slack` is a direct message to the person, by the bot of the installation; channels of
    Slack, Teams and others are addresses of `apprise`."""

    WEBHOOK = "webhook"
    MAIL = "mail"
    APPRISE = "apprise"
    SLACK = "slack"


MAX_ATTEMPTS = 8
MAX_AGE = timedelta(hours=24)
"""A notice that failed is a dead letter after this number of attempts, or when it is older than this."""
_PAUSES = (5, 30, 120, 600, 1800, 3600)


def retry_pause(failures: int) -> timedelta:
    """The pause of a destination after this number of failures one after another, from 1."""
    return timedelta(seconds=_PAUSES[min(max(failures, 1), len(_PAUSES)) - 1])


class Outcome(StrEnum):
    """The result of one attempt. `refused`: the receiver will never take this notice. `gone`: it wants none."""

    DELIVERED = "delivered"
    FAILED = "failed"
    REFUSED = "refused"
    GONE = "gone"


_REFUSALS = frozenset({400, 405, 406, 413, 414, 415, 422})


def judge_status(status: int) -> Outcome:
    """What the HTTP status of a receiver means (Standard Webhooks, "Delivery"). A redirect is a failure."""
    if 200 <= status < 300:
        return Outcome.DELIVERED
    if status == 410:
        return Outcome.GONE
    return Outcome.REFUSED if status in _REFUSALS else Outcome.FAILED


APPRISE_SERVICES = frozenset({
    "discord", "form", "forms", "gchat", "gotify", "gotifys", "json", "jsons", "matrixs", "mmost", "mmosts", "msteams",
    "ntfy", "ntfys", "opsgenie", "pagerduty", "pover", "rocket", "rockets", "slack", "tgram", "workflow", "workflows",
    "wxteams", "xml", "xmls", "zulip",
})  # fmt: skip
"""The services of Apprise that take a notice by HTTP. The others would open programs, sockets and files here."""
_APPRISE_OPTIONS = frozenset({
    "avatar", "blocks", "channel", "click", "component", "emojis", "footer", "format", "group", "href", "id", "image",
    "level", "method", "mode", "overflow", "priority", "region", "route", "severity", "silent", "source", "tags",
    "thread", "timestamp", "to", "token", "topic", "tts", "urgency", "version",
})  # fmt: skip
"""Options of an address; others read files (`template`), or change how connections are made."""
MAX_ADDRESS = 2000
_NO_MAIL = set(" \t\r\n,;<>()[]\\\"'?&#%/:")


@dataclass(frozen=True, slots=True)
class AddressCheck:
    """The faults of an address, and the part of it that may be shown: an address contains secrets."""

    faults: tuple[Violation, ...]
    shown: str


def check_address(channel: Channel, address: str, *, needs_tls: bool) -> AddressCheck:
    """Check the form of an address. Where it leads is checked when it is called, because names change their address."""
    if channel is Channel.SLACK:
        fault = (
            "The direct message by Slack has no address: it goes to the account with the mail address of the person."
        )
        return AddressCheck((_fault(fault),) if address else (), "")
    if not 0 < len(address) <= MAX_ADDRESS or not address.isprintable():
        return AddressCheck((_fault(f"An address has 1 to {MAX_ADDRESS:,} printable characters."),), "")
    if channel is Channel.MAIL:
        return _check_mail(address)
    parts = split_url(address)
    if parts is None:
        return AddressCheck((_fault("The address is not a URL."),), "")
    host = parts.hostname or ""
    shown = f"{parts.scheme}://{host}{'/…' if parts.path.strip('/') or parts.query else ''}"
    if channel is Channel.WEBHOOK:
        return _check_webhook(parts.scheme, host, has_login="@" in parts.netloc, needs_tls=needs_tls, shown=shown)
    return _check_apprise(address, shown=f"{parts.scheme}://…", needs_tls=needs_tls)


def _check_mail(address: str) -> AddressCheck:
    name, _, domain = address.rpartition("@")
    if (
        not name
        or not address[0].isalnum()
        or ("." not in domain.strip(".") and domain != "localhost")
        or _NO_MAIL & set(address)
    ):
        return AddressCheck((_fault("This is not a mail address; an example is alice@example.com."),), "")
    return AddressCheck((), address)


def _check_webhook(scheme: str, host: str, *, has_login: bool, needs_tls: bool, shown: str) -> AddressCheck:
    allowed = ("https",) if needs_tls else ("https", "http")
    faults = []
    if scheme not in allowed or not host:
        begins = " or ".join(f"{each}://" for each in allowed)
        faults.append(_fault(f"A webhook has an address that begins with {begins}."))
    if has_login:
        faults.append(_fault("The address of a webhook has no user and password: the receiver verifies the signature."))
    return AddressCheck(tuple(faults), shown)


def _check_apprise(address: str, *, shown: str, needs_tls: bool) -> AddressCheck:
    service, _, rest = address.partition("://")
    service = service.lower()
    plain = {each for each in APPRISE_SERVICES if f"{each}s" in APPRISE_SERVICES} - {"workflow"}
    allowed = APPRISE_SERVICES - plain if needs_tls else APPRISE_SERVICES
    if service not in allowed or not rest:
        message = f"This is not a service for notices; possible are {', '.join(sorted(allowed))}."
        return AddressCheck((_fault(message),), "")
    query = rest.partition("?")[2]
    if "?" in query or ";" in query:  # readers of addresses disagree about these
        return AddressCheck((_fault("The options of an address contain neither ? nor ; as they are."),), "")
    options = {name.lower() for name, _ in parse_qsl(query, keep_blank_values=True)}
    if options - _APPRISE_OPTIONS:
        possible = ", ".join(sorted(_APPRISE_OPTIONS))
        message = f"An option of the address is not possible here; possible are {possible}."
        return AddressCheck((_fault(message),), "")
    return AddressCheck((), shown)


def _fault(message: str) -> Violation:
    return Violation("address", Fault.BAD_ADDRESS, message)


def check_kinds(kinds: Collection[str], allowed: Collection[str]) -> list[Violation]:
    """The faults of chosen kinds: none, or some that are not possible for this destination."""
    if not kinds:
        return [
            Violation("kinds", Fault.MISSING, f"A destination has at least one kind of notice: {', '.join(allowed)}.")
        ]
    return [
        Violation(
            "kinds", Fault.BAD_VALUE, f"One of the kinds is not possible here; possible are {', '.join(allowed)}."
        )
        for kind in kinds
        if kind not in allowed
    ]


@dataclass(frozen=True, slots=True)
class NoticeFacts:
    """One event for notices: `subject` as in the audit trail, `pool` the top-level pool that it concerns and its name,
    `owner_id` the person whose work or request it is. `is_personal`: only for that person. `text` is a sentence without
    secrets, for all who may see the subject. `name`: what the title names instead of a subject with a number, `part`:
    the part of its page."""

    kind: NoticeKind
    subject: str
    text: str
    pool_id: int | None = None
    pool: str = ""
    owner_id: int | None = None
    is_personal: bool = False
    name: str = ""
    part: str = ""


def first_sentence(text: str) -> str:
    """The news itself: the first sentence of the text of a notice, with its cause; the rest says more about it. What
    stands in brackets is a message of others, which may have sentences and lines of its own."""
    depth = 0
    for at, mark in enumerate(text):
        depth += (mark == "(") - (mark == ")")
        if depth <= 0 and (mark == "\n" or text.startswith(". ", at)):
            return text[:at].removesuffix(".") + "."
    return text


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """The part of a destination that decides which notices it takes. At most one of `user_id`, `pool_id` is given;
    none: a target of the installation. `pools`: only these pools, by name. `readable`: the pools that its person may
    see, None for all."""

    kinds: Collection[str]
    pools: Collection[str]
    user_id: int | None = None
    pool_id: int | None = None
    readable: Collection[str] | None = ()


def takes_notice(target: TargetFacts, notice: NoticeFacts) -> bool:
    """Whether this destination takes this notice. A person takes notices about the own work, and about a pool only if
    the target names it and the person may see it now."""
    if notice.kind not in target.kinds or (target.pools and notice.pool not in target.pools):
        return False
    if notice.is_personal:
        return target.user_id is not None and target.user_id == notice.owner_id
    if target.pool_id is not None:
        return notice.pool_id == target.pool_id
    if target.user_id is None or notice.owner_id == target.user_id:
        return True
    return (
        notice.owner_id is None
        and notice.pool in target.pools
        and (target.readable is None or notice.pool in target.readable)
    )
