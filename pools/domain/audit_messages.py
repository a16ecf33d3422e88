"""The message of an audit entry: `alice cut team--b from 50 to 20`.

Every interface uses the same messages: the API returns the message of each entry, and pages and clients show it. An
action without a message of its own gets a generic one: its verb, its object and the changed values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pools.domain.amounts import UNLIMITED, decode_gpus

Image = Mapping[str, Any]
SHOWN_CHANGES = 3
LONGEST_VALUE = 60
# Fields that change with every write and tell a reader nothing.
SILENT = frozenset({"id", "version", "created_at", "updated_at", "last_login", "start_time", "end_time", "cohort_id"})
# Reasons of the system that repeat the action; earlier versions wrote "settled" for "reconciled".
MACHINE_REASONS = frozenset({"reconciled", "settled", "drained"})


@dataclass(frozen=True, slots=True)
class _AuditEntry:
    """The facts of one audit entry. `kind` and `name` are the two halves of the object."""

    actor: str
    kind: str
    name: str
    before: Image = field(default_factory=dict)
    after: Image = field(default_factory=dict)

    def value(self, key: str) -> Any:
        """The value after the change, or before it if the entry has no state after it."""
        return self.after.get(key, self.before.get(key))

    def has_changed(self, key: str) -> bool:
        """Whether the value differs before and after the change."""
        return bool(self.before and self.after) and self.before.get(key) != self.after.get(key)

    def changes(self, *mentioned: str) -> str:
        """The other changed values, in brackets; `mentioned` names the keys that the message has already."""
        hidden = {*SILENT, *mentioned}
        lines = [f"{key}: {old} → {new}" for key, old, new in _find_differences(self.before, self.after, hidden)]
        if not lines or not self.before or not self.after:
            return ""
        more = f", and {len(lines) - SHOWN_CHANGES} more" if len(lines) > SHOWN_CHANGES else ""
        return f" ({', '.join(lines[:SHOWN_CHANGES])}{more})"


def audit_message(
    action: str, subject: str, actor: str, before: Image | None, after: Image | None, description: str = ""
) -> str:
    """The message of an entry: actor, action, object and numbers. The description given by a person follows a colon.

    `action` is `subpool.updated` and the like, `subject` the object of the entry (`pool/team--b`), `before` and `after`
    the images of its row, `description` the reason given with the change.
    """
    kind, _, name = subject.partition("/")
    entry = _AuditEntry(actor or "somebody", kind, name or kind, before or {}, after or {})
    message = f"{entry.actor} {_MESSAGES.get(action, _generic_renderer(action))(entry)}"
    if not description or description in MACHINE_REASONS:
        return message
    return f"{message}: {description}"


def _find_differences(old: Any, new: Any, hidden: set[str], path: str = "") -> Iterator[tuple[str, str, str]]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in [*old, *(key for key in new if key not in old)]:
            if path or key not in hidden:
                yield from _find_differences(old.get(key), new.get(key), hidden, f"{path}.{key}" if path else str(key))
    elif old != new:
        yield path, _value_text(old), _value_text(new)


def _value_text(value: Any) -> str:
    if value is None or value in ("", [], {}):
        return "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


def _time_text(value: str) -> str:
    return f"{datetime.fromisoformat(value).astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _gpus(value: Any) -> str:
    return "1 GPU" if value == 1 else f"{value} GPUs"


def _amount(value: Any) -> str:
    """A guarantee: a number, or unlimited in either of its spellings."""
    return "unlimited" if decode_gpus(value) == UNLIMITED else str(value)


def _resize_verb(old: Any, new: Any) -> str:
    """`cut` or `raised`; unlimited is above every number."""
    was, becomes = (float("inf") if _amount(value) == "unlimited" else value for value in (old, new))
    return "cut" if becomes < was else "raised"


def _subpool_created(entry: _AuditEntry) -> str:
    return f"created subpool {entry.name} with {_gpus(entry.after.get('last_quota'))}"


def _subpool_updated(entry: _AuditEntry) -> str:
    old, new = entry.before.get("last_quota"), entry.after.get("last_quota")
    if entry.before.get("drain_by") != (deadline := entry.after.get("drain_by")):
        drain = f"the deadline of the drain of {entry.name}"
        return f"set {drain} to {_time_text(deadline)}" if deadline else f"removed {drain}"
    if not isinstance(old, int) or not isinstance(new, int) or old == new:
        return f"updated {entry.name}{entry.changes()}"
    return f"{_resize_verb(old, new)} {entry.name} from {old} to {new}{entry.changes('last_quota')}"


def _subpool_deleting(entry: _AuditEntry) -> str:
    text = f"deleted subpool {entry.name}, which is draining {_gpus(entry.before.get('last_quota'))}"
    deadline = entry.after.get("drain_by")
    return f"{text}; its work should have ended by {_time_text(deadline)}" if deadline else text


def _subpool_archived(entry: _AuditEntry) -> str:
    if entry.before.get("subpool_state") == "DELETING":
        return f"archived {entry.name}: drained"
    return f"deleted subpool {entry.name}, which held no GPUs and is archived"


def _subpool_reactivated(entry: _AuditEntry) -> str:
    return f"brought subpool {entry.name} back with {_gpus(entry.after.get('last_quota'))}"


def _pool_created(entry: _AuditEntry) -> str:
    guarantee = _amount(entry.after.get("guarantee"))
    promised = "without a limit" if guarantee == "unlimited" else f"with {_gpus(entry.after['guarantee'])}"
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
    own = ", ".join(f"{amounts.get('nominal')} {key}" for key, amounts in sorted(quotas.items())[:SHOWN_CHANGES])
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
    return f"set the drain monitor's interval from {old} to {new} minutes{entry.changes(key)}"


def _file_refused(entry: _AuditEntry) -> str:
    faults, message = entry.after.get("faults"), str(entry.after.get("message") or "")
    first = message.partition("\n")[0][:300]
    return f"could not apply {entry.name}, so the former configuration stays: {_faults(faults)} ({first})"


def _faults(count: Any) -> str:
    return "1 fault" if count == 1 else f"{count} faults"


def _submitted(entry: _AuditEntry) -> str:
    priority = entry.after.get("priority")
    return f"submitted {entry.name} to {entry.after.get('pool')}{f' with priority {priority}' if priority else ''}"


def _started(entry: _AuditEntry) -> str:
    return f"started {entry.name} on {entry.after.get('pool')}"


def _ended(entry: _AuditEntry) -> str:
    message = entry.after.get("failure_message")
    return f"ended {entry.name}: {entry.after.get('status')}{f' ({_value_text(message)})' if message else ''}"


def _preempted(entry: _AuditEntry) -> str:
    return f"preempted {entry.name}: {entry.after.get('message_without_beneficiary')}"


def _notice_target(verb: str) -> Callable[[_AuditEntry], str]:
    return lambda entry: f"{verb} the notice target {entry.name}{entry.changes()}"


def _request(entry: _AuditEntry) -> str:
    return f"(request {entry.name})"


def _decided(verb: str) -> Callable[[_AuditEntry], str]:
    """A decision names its requester, beside the actor."""
    return lambda entry: (
        f"{verb} the change of {entry.value('subject')} that {entry.value('requested_by')} asked for {_request(entry)}"
    )


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
        named = f" ({', '.join(moved)})" if moved else ""
        return f"saw namespace {entry.name} {verb} the alert threshold of its GPU quota{named}"

    return render


def _name_renderer(words: str) -> Callable[[_AuditEntry], str]:
    """A message that needs only the name; `{}` is the place of the name."""
    return lambda entry: words.format(entry.name)


def _generic_renderer(action: str) -> Callable[[_AuditEntry], str]:
    verb = action.rpartition(".")[2].replace("_", " ") or "changed"

    def render(entry: _AuditEntry) -> str:
        kind = entry.kind.replace("_", " ")
        what = kind if entry.name == entry.kind else f"{kind} {entry.name}"
        return f"{verb} {what or 'something'}{entry.changes()}"

    return render


_MESSAGES: dict[str, Callable[[_AuditEntry], str]] = {
    "subpool.created": _subpool_created,
    "subpool.updated": _subpool_updated,
    "subpool.deleting": _subpool_deleting,
    "subpool.archived": _subpool_archived,
    "subpool.reactivated": _subpool_reactivated,
    "subpool.renamed": _renamed,
    "pool.created": _pool_created,
    "pool.updated": _pool_updated,
    "pool.renamed": _renamed,
    "pool.archived": _name_renderer("archived pool {}"),
    "pool.reactivated": _name_renderer("brought pool {} back"),
    "cohort.created": _cohort_created,
    "cohort.moved": _cohort_moved,
    "cohort.named": _name_renderer("named cohort {}, which has no quota until it is configured"),
    "cohort.forgotten": _name_renderer("removed cohort {}, which no pool or cohort names"),
    "cohort.inactive": _name_renderer("found a cycle in the parents of cohort {}: nothing new starts below it"),
    "cohort.active": _name_renderer("found the cycle in the parents of cohort {} resolved"),
    "approval.requested": lambda entry: (
        f"asked for the approval of a change of {entry.value('subject')} {_request(entry)}"
    ),
    "approval.approved": _decided("approved"),
    "approval.rejected": _decided("rejected"),
    "approval.withdrawn": lambda entry: (
        f"withdrew the request for a change of {entry.value('subject')} {_request(entry)}"
    ),
    "approval.expired": _decided("let expire"),
    "approval.superseded": _decided("found out of date"),
    "user.updated": _user_updated,
    "user.password_changed": _password_changed,
    "role.granted": lambda entry: f"granted {entry.value('role')} to {entry.name}",
    "role.revoked": lambda entry: f"revoked {entry.value('role')} from {entry.name}",
    "sign_on.linked": lambda entry: f"linked {entry.name} with {entry.value('provider')}",
    "sign_on.unlinked": lambda entry: f"unlinked {entry.name} from {entry.value('provider')}",
    "sign_on.signed_on": lambda entry: f"signed {entry.name} on through {entry.value('provider')}",
    "sign_on.ended": lambda entry: f"ended the sign-on of {entry.name} through {entry.value('provider')}",
    "sign_on.updated": lambda entry: f"read {entry.name} again from {entry.value('provider')}{entry.changes('epoch')}",
    "user.logged_in_by_password": lambda _: "logged in with a password",
    "token.created": _token("made", "for"),
    "token.updated": _token("updated", "of"),
    "token.deleted": _token("deleted", "of"),
    "workflow_config.updated": _config_updated,
    "owner.taken": lambda entry: f"made Git the owner of {entry.name} ({entry.value('source')})",
    "owner.released": _name_renderer("released {} to the admins"),
    "gpu_quota.alert": _alert_renderer("pass", "after", "before"),
    "gpu_quota.calm": _alert_renderer("fall back below", "before", "after"),
    "gpu_allocation.committed": _worker_renderer("allocated"),
    "gpu_allocation.assumed": _worker_renderer("reserved"),
    "gpu_allocation.adjusted": _worker_renderer("adjusted"),
    "gpu_allocation.released": _worker_renderer("released"),
    "workflow.submitted": _submitted,
    "workflow.started": _started,
    "workflow.waiting": _name_renderer("put {} back in the queue"),
    "workflow.canceled": _name_renderer("cancelled {}"),
    "workflow.ended": _ended,
    "workflow.preempted": _preempted,
    "config_file.refused": _file_refused,
    "config_file.accepted": _name_renderer("could apply {} again"),
    "condition.began": lambda entry: f"saw a condition begin: {entry.after.get('message')}",
    "condition.ended": lambda entry: f"saw a condition end: {entry.before.get('message')}",
    "notice.replayed": lambda entry: f"sent notice {entry.name} again: {entry.after.get('title')}",
    "notice_target.created": _notice_target("added"),
    "notice_target.updated": _notice_target("updated"),
    "notice_target.deleted": _notice_target("deleted"),
}
