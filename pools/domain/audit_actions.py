"""The actions of the audit trail, each with the words of its message: `alice cut team--b from 50 to 20`.

Every interface uses the same messages: the API returns the message of each entry, and pages and clients show it.
`docs/developing/add-an-audit-action.md` is the check-list for a new action.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Self

from pools.domain.audit_labels import DRAIN_DEADLINE, NUMBERS_OF_ROWS, column_label, column_text
from pools.domain.numbers import gpu_quota_labels
from pools.domain.quota.capacity import DRAIN_TAINT
from pools.domain.values.amounts import GPU, UNLIMITED, decode_gpus
from pools.domain.values.durations import minute_text

Image = Mapping[str, Any]
SHOWN_CHANGES = 3
LONGEST_VALUE = 60
# Fields that change with every write and tell a reader nothing.
SILENT = NUMBERS_OF_ROWS | {"version", "created_at", "updated_at", "last_login", "start_time", "end_time"}
# Reasons of the system that repeat the action; earlier versions wrote "settled" for "reconciled".
MACHINE_REASONS = frozenset({"reconciled", "settled", "drained", "observed"})


@dataclass(frozen=True, slots=True)
class _AuditEntry:
    """The facts of one audit entry. `kind` and `name` are the two halves of the object."""

    action: str
    actor: str
    kind: str
    name: str
    before: Image = field(default_factory=dict)
    after: Image = field(default_factory=dict)

    def value(self, key: str) -> Any:
        """The value after the change, or before it if the entry has no state after it."""
        return self.after.get(key, self.before.get(key))

    def __getitem__(self, key: str) -> Any:
        """The place `key` of words that are a text: `name`, `changes`, or a value of the row."""
        return self.name if key == "name" else self.changes() if key == "changes" else self.value(key)

    def has_changed(self, key: str) -> bool:
        """Whether the value differs before and after the change."""
        return bool(self.before and self.after) and self.before.get(key) != self.after.get(key)

    def changes(self, *mentioned: str) -> str:
        """The other changed values, in brackets; `mentioned` names the keys that the message has already."""
        hidden = {*SILENT, *mentioned}
        found = _find_differences(self.before, self.after, hidden)
        lines = [
            f"{column_label(self.kind, key)}: {self._text(key, old)} → {self._text(key, new)}"
            for key, old, new in found
        ]
        if not lines or not self.before or not self.after:
            return ""
        more = f", and {len(lines) - SHOWN_CHANGES} more" if len(lines) > SHOWN_CHANGES else ""
        return f" ({', '.join(lines[:SHOWN_CHANGES])}{more})"

    def _text(self, path: str, value: Any) -> str:
        return _value_text(column_text(self.kind, path, value))


_Words = str | Callable[[_AuditEntry], str]
"""The words of an action after the actor: a text with places (`{name}`, `{changes}`, `{KEY}` of the row), or a
function."""


def audit_message(
    action: str, subject: str, actor: str, before: Image | None, after: Image | None, description: str = ""
) -> str:
    """The message of an entry: actor, action, object and numbers. The description given by a person follows a colon.

    `action` is `subpool.updated` and the like, `subject` the object of the entry (`pool/team--b`), `before` and `after`
    the images of its row, `description` the reason given with the change.
    """
    kind, _, name = subject.partition("/")
    entry = _AuditEntry(action, actor or "somebody", kind, name or kind, before or {}, after or {})
    words = _WORDS.get(action, _plain)
    message = f"{entry.actor} {words.format_map(entry) if isinstance(words, str) else words(entry)}"
    if not description or description in MACHINE_REASONS:
        return message
    return f"{message}: {description}"


def _find_differences(old: Any, new: Any, hidden: set[str], path: str = "") -> Iterator[tuple[str, Any, Any]]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in [*old, *(key for key in new if key not in old)]:
            if path or key not in hidden:
                yield from _find_differences(old.get(key), new.get(key), hidden, f"{path}.{key}" if path else str(key))
    elif old != new:
        yield path, old, new


def _value_text(value: Any) -> str:
    if value is None or value in ("", [], {}):
        return "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = ", ".join(map(_part_text, value)) if isinstance(value, list) else _part_text(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


def _part_text(value: Any) -> str:
    """A value on one line: of entries with parts of their own the names, else each name with its value."""
    if not isinstance(value, Mapping):
        return str(value)
    return ", ".join(name if isinstance(each, Mapping | list) else f"{name} {each}" for name, each in value.items())


def drain_deadline(row: Image) -> datetime | None:
    """The deadline of the drain in the row of a subpool."""
    text = row.get(DRAIN_DEADLINE)
    return None if text is None else datetime.fromisoformat(text)


def _gpus(value: Any) -> str:
    return "1 GPU" if value == 1 else f"{value} GPUs"


def _quota(image: Image, column: str) -> str:
    """The quota of a row; by the names of its flavors where it has some, which may count parts of GPUs."""
    of_flavors = [f"{row['quota']} {row['flavor']}" for row in image.get("flavors") or () if row.get("quota")]
    return ", ".join(of_flavors) or _gpus(image.get(column))


def _amount(value: Any) -> str:
    """A guarantee: a number, or unlimited in either of its spellings."""
    return "unlimited" if decode_gpus(value) == UNLIMITED else str(value)


def _resize_verb(old: Any, new: Any) -> str:
    """`cut` or `raised`; unlimited is above every number."""
    was, becomes = (float("inf") if _amount(value) == "unlimited" else value for value in (old, new))
    return "cut" if becomes < was else "raised"


def _subpool_created(entry: _AuditEntry) -> str:
    return f"created subpool {entry.name} with {_quota(entry.after, 'last_quota')}"


def _subpool_updated(entry: _AuditEntry) -> str:
    old, new = entry.before.get("last_quota"), entry.after.get("last_quota")
    if drain_deadline(entry.before) != (deadline := drain_deadline(entry.after)):
        drain = f"the deadline of the drain of {entry.name}"
        return f"set {drain} to {minute_text(deadline)}" if deadline else f"removed {drain}"
    if not isinstance(old, int) or not isinstance(new, int) or old == new:
        return f"updated {entry.name}{entry.changes()}"
    end = entry.after.get("quota_until")
    until = f" until {minute_text(datetime.fromisoformat(end))}" if end else ""
    rest = entry.changes("last_quota", "quota_until", "quota_after")
    return f"{_resize_verb(old, new)} {entry.name} from {old} to {new}{until}{rest}"


def _subpool_deleting(entry: _AuditEntry) -> str:
    text = f"deleted subpool {entry.name}, which is draining {_quota(entry.before, 'last_quota')}"
    deadline = drain_deadline(entry.after)
    return f"{text}; its work should have ended by {minute_text(deadline)}" if deadline else text


def _subpool_archived(entry: _AuditEntry) -> str:
    if entry.before.get("subpool_state") == "DELETING":
        return f"archived {entry.name}: drained"
    return f"deleted subpool {entry.name}, which held no GPUs and is archived"


def _subpool_reactivated(entry: _AuditEntry) -> str:
    return f"brought subpool {entry.name} back with {_quota(entry.after, 'last_quota')}"


def _pool_created(entry: _AuditEntry) -> str:
    guarantee = _amount(entry.after.get("guarantee"))
    promised = "without a limit" if guarantee == "unlimited" else f"with {_quota(entry.after, 'guarantee')}"
    return f"created pool {entry.name} {promised}"


def _pool_updated(entry: _AuditEntry) -> str:
    if entry.has_changed("guarantee"):
        old, new = entry.before.get("guarantee"), entry.after.get("guarantee")
        if _amount(old) != _amount(new):
            rest = entry.changes("guarantee")
            return f"{_resize_verb(old, new)} pool {entry.name} from {_amount(old)} to {_amount(new)}{rest}"
    if entry.has_changed("enable_maintenance"):
        verb = "put pool {} into" if entry.after.get("enable_maintenance") else "took pool {} out of"
        return f"{verb.format(entry.name)} maintenance{entry.changes('enable_maintenance')}"
    if entry.has_changed("cohort"):
        left, joined = entry.before.get("cohort"), entry.after.get("cohort")
        rest = entry.changes("cohort")
        return (
            f"took pool {entry.name} out of cohort {left}{rest}"
            if joined is None
            else (f"put pool {entry.name} into cohort {joined}{f' instead of {left}' if left else ''}{rest}")
        )
    return f"updated pool {entry.name}{entry.changes()}"


def _cohort_created(entry: _AuditEntry) -> str:
    quotas: Mapping[str, Any] = entry.after.get("quotas") or {}
    own = ", ".join(
        _gpus(nominal) if key == GPU else f"{_amount(nominal)} {key}"
        for key, nominal in [
            (key, amounts["nominal"]) for key, amounts in sorted(quotas.items()) if amounts.get("nominal")
        ][:SHOWN_CHANGES]
    )
    parent = entry.after.get("parent")
    below = f" below {parent}" if parent else ""
    return f"configured cohort {entry.name}{below}{f' with {own}' if own else ' without a quota of its own'}"


def _cohort_moved(entry: _AuditEntry) -> str:
    parent = entry.after.get("parent")
    rest = entry.changes("parent", "parent_id")
    if parent is None:
        return f"made cohort {entry.name} the top of its own tree{rest}"
    return f"moved cohort {entry.name} below {parent}{rest}"


def _renamed(entry: _AuditEntry) -> str:
    what = "subpool" if entry.value("parent_id") else "pool"
    return f"renamed {what} {entry.before.get('name')} to {entry.after.get('name')}"


def _user_updated(entry: _AuditEntry) -> str:
    if entry.has_changed("is_active"):
        return f"{'enabled' if entry.after.get('is_active') else 'disabled'} the account of {entry.name}"
    whose = "the own profile" if entry.name == entry.actor else f"user {entry.name}"
    return f"updated {whose}{entry.changes()}"


def _password_changed(entry: _AuditEntry) -> str:
    if entry.has_changed("is_active"):  # a removed user loses the password; a restored user gets another one
        return f"{'brought back' if entry.after.get('is_active') else 'removed'} user {entry.name}"
    return "changed the own password" if entry.name == entry.actor else f"changed the password of {entry.name}"


def _token(verb: str, joint: str) -> Callable[[_AuditEntry], str]:
    def render(entry: _AuditEntry) -> str:
        owner = entry.value("owner")
        whose = "" if owner in {None, entry.actor} else f" {joint} {owner}"
        roles = entry.after.get("roles")
        limited = f" with the roles {', '.join(roles)}" if roles and not entry.before else ""
        return f"{verb} token {entry.name}{whose}{limited}{entry.changes()}"

    return render


def _config_updated(entry: _AuditEntry) -> str:
    key, retries = "subpool_drain_interval_minutes", "max_retry_per_task"
    if not entry.has_changed(key) and entry.has_changed(retries):
        old, new = entry.before.get(retries), entry.after.get(retries)
        return f"set the retries of a task from {old} to {new}{entry.changes(retries)}"
    if not entry.has_changed(key):
        return f"updated the workflow configuration{entry.changes()}"
    old, new = entry.before.get(key), entry.after.get(key)
    return f"set the time between checks of drains from {old} to {new} minutes{entry.changes(key)}"


def _file_refused(entry: _AuditEntry) -> str:
    faults, message = entry.after.get("faults"), str(entry.after.get("message") or "")
    first = message.partition("\n")[0][:300]
    return f"could not apply {entry.name}, so the former configuration stays: {_faults(faults)} ({first})"


def _faults(count: Any) -> str:
    return "1 fault" if count == 1 else f"{count} faults"


def _submitted(entry: _AuditEntry) -> str:
    priority = entry.after.get("priority")
    return f"submitted {entry.name} to {entry.after.get('pool')}{f' with priority {priority}' if priority else ''}"


def _ended(entry: _AuditEntry) -> str:
    message = entry.after.get("failure_message")
    return f"ended {entry.name}: {entry.after.get('status')}{f' ({_value_text(message)})' if message else ''}"


def _worker_renderer(verb: str) -> Callable[[_AuditEntry], str]:
    """A worker in a namespace; its name is NAMESPACE/ID. `committed` may follow a reservation."""

    def render(entry: _AuditEntry) -> str:
        namespace, _, worker = entry.name.partition("/")
        done = "committed" if entry.has_changed("state") and entry.after.get("state") == "committed" else verb
        count = entry.value("count")
        size = f" of {_gpus(count)}" if isinstance(count, int) and verb != "released" else ""
        return f"{done} worker {worker}{size} in namespace {namespace}"

    return render


def _alert_renderer(verb: str, more: str, less: str) -> Callable[[_AuditEntry], str]:
    """The alert of a GPU quota: the amounts that are in one image and not in the other."""

    def render(entry: _AuditEntry) -> str:
        images = {"before": entry.before, "after": entry.after}
        known = images[less].get("alerting") or []
        moved = [key for key in images[more].get("alerting") or [] if key not in known]
        named = f" ({', '.join(gpu_quota_labels(moved))})" if moved else ""
        return f"saw namespace {entry.name} {verb} the alert threshold of its GPU quota{named}"

    return render


def _plain(entry: _AuditEntry) -> str:
    """Verb, object and changed values; also of actions that earlier versions wrote."""
    verb = entry.action.rpartition(".")[2].replace("_", " ") or "changed"
    kind = entry.kind.replace("_", " ").replace("gpu", "GPU")
    what = kind if entry.name == entry.kind else f"{kind} {entry.name}"
    return f"{verb} {what or 'something'}{entry.changes()}"


def _node_updated(entry: _AuditEntry) -> str:
    if entry.has_changed("taint") and DRAIN_TAINT in (entry.before["taint"], entry.after["taint"]):
        is_drained = entry.after["taint"] == DRAIN_TAINT
        words = f"drained node {entry.name}" if is_drained else f"let node {entry.name} take work again"
        return f"{words}{entry.changes('taint')}"
    return _plain(entry)


_DECIDED: Final = "{verb} the change of {{subject}} that {{requested_by}} requested (request {{name}})"
"""A decision names its requester, in addition to the actor."""


class AuditAction(StrEnum):
    """What an entry of the audit trail records, as `OBJECT.VERB`, and its words. The triggers of both apps write it;
    one place has all actions, because one trail has them."""

    words: _Words

    def __new__(cls, name: str, words: _Words) -> Self:
        action = str.__new__(cls, name)
        action._value_ = name
        action.words = words
        return action

    SUBPOOL_CREATED = "subpool.created", _subpool_created
    SUBPOOL_UPDATED = "subpool.updated", _subpool_updated
    SUBPOOL_RENAMED = "subpool.renamed", _renamed
    SUBPOOL_DELETING = "subpool.deleting", _subpool_deleting
    SUBPOOL_ARCHIVED = "subpool.archived", _subpool_archived
    SUBPOOL_REACTIVATED = "subpool.reactivated", _subpool_reactivated
    SUBPOOL_DELETED = "subpool.deleted", _plain

    POOL_CREATED = "pool.created", _pool_created
    POOL_UPDATED = "pool.updated", _pool_updated
    POOL_RENAMED = "pool.renamed", _renamed
    POOL_ARCHIVED = "pool.archived", "archived pool {name}"
    POOL_REACTIVATED = "pool.reactivated", "brought pool {name} back"
    POOL_DELETED = "pool.deleted", _plain

    COHORT_CREATED = "cohort.created", _cohort_created
    COHORT_UPDATED = "cohort.updated", _plain
    COHORT_MOVED = "cohort.moved", _cohort_moved
    COHORT_NAMED = "cohort.named", "named cohort {name}, which has no quota until it is configured"
    COHORT_FORGOTTEN = "cohort.forgotten", "removed cohort {name}, which no pool or cohort names"
    COHORT_DELETED = "cohort.deleted", _plain
    COHORT_INACTIVE = "cohort.inactive", "found a cycle in the parents of cohort {name}: nothing new starts below it"
    COHORT_ACTIVE = "cohort.active", "found the cycle in the parents of cohort {name} resolved"

    APPROVAL_REQUESTED = "approval.requested", "requested the approval of a change of {subject} (request {name})"
    APPROVAL_APPROVED = "approval.approved", _DECIDED.format(verb="approved")
    APPROVAL_REJECTED = "approval.rejected", _DECIDED.format(verb="rejected")
    APPROVAL_WITHDRAWN = "approval.withdrawn", "withdrew the request for a change of {subject} (request {name})"
    APPROVAL_EXPIRED = "approval.expired", _DECIDED.format(verb="let expire")
    APPROVAL_SUPERSEDED = "approval.superseded", _DECIDED.format(verb="found out of date")

    BACKEND_CREATED = "backend.created", _plain
    BACKEND_UPDATED = "backend.updated", _plain
    BACKEND_DELETED = "backend.deleted", _plain
    BACKEND_CONNECTED = "backend.connected", _plain
    BACKEND_DISCONNECTED = "backend.disconnected", _plain

    NODE_CREATED = "node.created", _plain
    NODE_UPDATED = "node.updated", _node_updated
    NODE_DELETED = "node.deleted", _plain
    NODE_SUSPECTED = "node.suspected", "found node {name} suspect: {failures} workflows failed there within minutes"
    NODE_CLEARED = "node.cleared", "ended the suspicion of node {name}"

    WEBHOOK_CREATED = "webhook.created", _plain
    WEBHOOK_UPDATED = "webhook.updated", _plain
    WEBHOOK_DELETED = "webhook.deleted", _plain
    WEBHOOK_INSTALLED = "webhook.installed", _plain
    WEBHOOK_REMOVED = "webhook.removed", _plain
    WEBHOOK_PUT_BACK = "webhook.put_back", _plain

    USER_CREATED = "user.created", _plain
    USER_UPDATED = "user.updated", _user_updated
    USER_DELETED = "user.deleted", _plain
    USER_PASSWORD_CHANGED = "user.password_changed", _password_changed
    USER_LOGGED_IN_BY_PASSWORD = "user.logged_in_by_password", "logged in with a password"

    ROLE_GRANTED = "role.granted", "granted {role} to {name}"
    ROLE_REVOKED = "role.revoked", "revoked {role} from {name}"
    ROLE_UPDATED = "role.updated", _plain

    SIGN_ON_LINKED = "sign_on.linked", "linked {name} with {provider}"
    SIGN_ON_UNLINKED = "sign_on.unlinked", "unlinked {name} from {provider}"
    SIGN_ON_SIGNED_ON = "sign_on.signed_on", "signed {name} on through {provider}"
    SIGN_ON_ENDED = "sign_on.ended", "ended the sign-on of {name} through {provider}"
    SIGN_ON_UPDATED = "sign_on.updated", "read {name} again from {provider}{changes}"

    TOKEN_CREATED = "token.created", _token("made", "for")
    TOKEN_UPDATED = "token.updated", _token("updated", "of")
    TOKEN_DELETED = "token.deleted", _token("deleted", "of")

    WORKFLOW_CONFIG_CREATED = "workflow_config.created", _plain
    WORKFLOW_CONFIG_UPDATED = "workflow_config.updated", _config_updated
    WORKFLOW_CONFIG_DELETED = "workflow_config.deleted", _plain

    OWNER_TAKEN = "owner.taken", "made Git the owner of {name} ({source})"
    OWNER_UPDATED = "owner.updated", _plain
    OWNER_RELEASED = "owner.released", "released {name} to the admins"

    CONFIG_FILE_REFUSED = "config_file.refused", _file_refused
    CONFIG_FILE_ACCEPTED = "config_file.accepted", "could apply {name} again"

    GPU_QUOTA_CREATED = "gpu_quota.created", _plain
    GPU_QUOTA_UPDATED = "gpu_quota.updated", _plain
    GPU_QUOTA_DELETED = "gpu_quota.deleted", _plain
    GPU_QUOTA_ALERT = "gpu_quota.alert", _alert_renderer("pass", "after", "before")
    GPU_QUOTA_CALM = "gpu_quota.calm", _alert_renderer("fall back below", "before", "after")

    GPU_ALLOCATION_COMMITTED = "gpu_allocation.committed", _worker_renderer("allocated")
    GPU_ALLOCATION_ASSUMED = "gpu_allocation.assumed", _worker_renderer("reserved")
    GPU_ALLOCATION_ADJUSTED = "gpu_allocation.adjusted", _worker_renderer("adjusted")
    GPU_ALLOCATION_RELEASED = "gpu_allocation.released", _worker_renderer("released")
    GPU_ALLOCATION_DELETED = "gpu_allocation.deleted", _plain

    WORKFLOW_SUBMITTED = "workflow.submitted", _submitted
    WORKFLOW_STARTED = "workflow.started", "started {name} on {pool}"
    WORKFLOW_WAITING = "workflow.waiting", "put {name} back in the queue"
    WORKFLOW_CANCELED = "workflow.canceled", "cancelled {name}"
    WORKFLOW_ENDED = "workflow.ended", _ended
    WORKFLOW_PREEMPTED = "workflow.preempted", "preempted {name}: {message_without_beneficiary}"
    WORKFLOW_UPDATED = "workflow.updated", _plain
    WORKFLOW_DELETED = "workflow.deleted", _plain

    CONDITION_BEGAN = "condition.began", "saw a condition begin: {message}"
    CONDITION_UPDATED = "condition.updated", _plain
    CONDITION_ENDED = "condition.ended", "saw a condition end: {message}"

    NOTICE_REPLAYED = "notice.replayed", "sent notice {name} again: {title}"

    NOTICE_TARGET_CREATED = "notice_target.created", "added the notice destination {name}{changes}"
    NOTICE_TARGET_UPDATED = "notice_target.updated", "updated the notice destination {name}{changes}"
    NOTICE_TARGET_DELETED = "notice_target.deleted", "deleted the notice destination {name}{changes}"


_WORDS: Final[Mapping[str, _Words]] = {action: action.words for action in AuditAction}
