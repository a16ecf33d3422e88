"""An audit entry as a sentence: `alice cut team--b from 50 to 20`.

The API puts the message beside each entry, and pages and clients show that message. An action without a message of its
own gets a general one: the words of the action, the object, and what changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pools.domain.amounts import UNLIMITED, decode_gpus

Image = Mapping[str, Any]
SHOWN_CHANGES = 3
LONGEST_VALUE = 60
# Bookkeeping that moves along with a change and tells a reader nothing of its own.
SILENT = frozenset({"id", "version", "created_at", "updated_at", "last_login", "start_time", "end_time", "cohort_id"})
# Reasons of the system that repeat the action; earlier versions wrote "settled" for "reconciled".
MACHINE_REASONS = frozenset({"reconciled", "settled", "drained"})


@dataclass(frozen=True, slots=True)
class _AuditEntry:
    """What a verb is told from. `kind` and `name` are the two halves of the object."""

    actor: str
    kind: str
    name: str
    before: Image = field(default_factory=dict)
    after: Image = field(default_factory=dict)

    def value(self, key: str) -> Any:
        """The value after the change, or before it if nothing is left after it."""
        return self.after.get(key, self.before.get(key))

    def moved(self, key: str) -> bool:
        """Whether both images have the value and differ in it."""
        return bool(self.before and self.after) and self.before.get(key) != self.after.get(key)

    def changes(self, *told: str) -> str:
        """What else changed, in brackets; `told` names what the sentence has said already."""
        hidden = {*SILENT, *told}
        lines = [f"{key}: {old} → {new}" for key, old, new in _differences(self.before, self.after, hidden)]
        if not lines or not self.before or not self.after:
            return ""
        more = f", and {len(lines) - SHOWN_CHANGES} more" if len(lines) > SHOWN_CHANGES else ""
        return f" ({', '.join(lines[:SHOWN_CHANGES])}{more})"


def audit_message(
    action: str, subject: str, actor: str, before: Image | None, after: Image | None, description: str = ""
) -> str:
    """Who did what to which object, with the numbers; a person's own reason stands behind a colon.

    `action` is `subpool.updated` and the like, `subject` the entry's object (`pool/team--b`), `before` and `after` the
    images of its row, `description` the reason given with the change.
    """
    kind, _, name = subject.partition("/")
    entry = _AuditEntry(actor or "somebody", kind, name or kind, before or {}, after or {})
    told = f"{entry.actor} {_MESSAGES.get(action, _unforeseen(action))(entry)}"
    if not description or description in MACHINE_REASONS:
        return told
    return f"{told}: {description}"


def _differences(old: Any, new: Any, hidden: set[str], path: str = "") -> Iterator[tuple[str, str, str]]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in [*old, *(key for key in new if key not in old)]:
            if path or key not in hidden:
                yield from _differences(old.get(key), new.get(key), hidden, f"{path}.{key}" if path else str(key))
    elif old != new:
        yield path, _shown(old), _shown(new)


def _shown(value: Any) -> str:
    if value is None or value in ("", [], {}):
        return "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


def _gpus(value: Any) -> str:
    return "1 GPU" if value == 1 else f"{value} GPUs"


def _amount(value: Any) -> str:
    """A guarantee: a number, or unlimited in either of its spellings."""
    return "unlimited" if decode_gpus(value) == UNLIMITED else str(value)


def _resized(old: Any, new: Any) -> str:
    """`cut` or `raised`; unlimited is above every number."""
    was, becomes = (float("inf") if _amount(value) == "unlimited" else value for value in (old, new))
    return "cut" if becomes < was else "raised"


def _subpool_created(entry: _AuditEntry) -> str:
    return f"created subpool {entry.name} with {_gpus(entry.after.get('last_quota'))}"


def _subpool_updated(entry: _AuditEntry) -> str:
    old, new = entry.before.get("last_quota"), entry.after.get("last_quota")
    if not isinstance(old, int) or not isinstance(new, int) or old == new:
        return f"updated {entry.name}{entry.changes()}"
    return f"{_resized(old, new)} {entry.name} from {old} to {new}{entry.changes('last_quota')}"


def _subpool_deleting(entry: _AuditEntry) -> str:
    return f"deleted subpool {entry.name}, which is draining {_gpus(entry.before.get('last_quota'))}"


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
    if entry.moved("guarantee"):
        old, new = entry.before.get("guarantee"), entry.after.get("guarantee")
        if _amount(old) != _amount(new):
            rest = entry.changes("guarantee")
            return f"{_resized(old, new)} pool {entry.name} from {_amount(old)} to {_amount(new)}{rest}"
    if entry.moved("enable_maintenance"):
        verb = "put pool {} into" if entry.after.get("enable_maintenance") else "took pool {} out of"
        return f"{verb.format(entry.name)} maintenance{entry.changes('enable_maintenance')}"
    if entry.moved("cohort"):
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
    if entry.moved("is_active"):
        return f"{'opened' if entry.after.get('is_active') else 'closed'} the account of {entry.name}"
    whose = "the own profile" if entry.name == entry.actor else f"user {entry.name}"
    return f"updated {whose}{entry.changes()}"


def _password_changed(entry: _AuditEntry) -> str:
    if entry.moved("is_active"):  # a removed user loses the password, and a user who comes back gets another one
        return f"{'brought back' if entry.after.get('is_active') else 'removed'} user {entry.name}"
    return "changed the own password" if entry.name == entry.actor else f"changed the password of {entry.name}"


def _token(verb: str, joint: str) -> Callable[[_AuditEntry], str]:
    def told(entry: _AuditEntry) -> str:
        owner = entry.value("owner")
        whose = "" if owner in {None, entry.actor} else f" {joint} {owner}"
        roles = entry.after.get("roles")
        limited = f" with the roles {', '.join(roles)}" if roles and not entry.before else ""
        return f"{verb} token {entry.name}{whose}{limited}{entry.changes()}"

    return told


def _config_updated(entry: _AuditEntry) -> str:
    key, retries = "subpool_drain_interval_minutes", "max_retry_per_task"
    if not entry.moved(key) and entry.moved(retries):
        old, new = entry.before.get(retries), entry.after.get(retries)
        return f"set the retries of a task from {old} to {new}{entry.changes(retries)}"
    if not entry.moved(key):
        return f"updated the workflow configuration{entry.changes()}"
    old, new = entry.before.get(key), entry.after.get(key)
    return f"set the drain monitor's interval from {old} to {new} minutes{entry.changes(key)}"


def _submitted(entry: _AuditEntry) -> str:
    priority = entry.after.get("priority")
    return f"submitted {entry.name} to {entry.after.get('pool')}{f' with priority {priority}' if priority else ''}"


def _started(entry: _AuditEntry) -> str:
    return f"started {entry.name} on {entry.after.get('pool')}"


def _ended(entry: _AuditEntry) -> str:
    message = entry.after.get("failure_message")
    return f"ended {entry.name}: {entry.after.get('status')}{f' ({_shown(message)})' if message else ''}"


def _worker(verb: str) -> Callable[[_AuditEntry], str]:
    """A worker in a namespace, whose name is NAMESPACE/ID; `committed` may follow a reservation."""

    def told(entry: _AuditEntry) -> str:
        namespace, _, worker = entry.name.partition("/")
        done = "committed" if entry.moved("state") and entry.after.get("state") == "committed" else verb
        count = entry.value("count")
        size = f" of {_gpus(count)}" if isinstance(count, int) and verb != "released" else ""
        return f"{done} worker {worker}{size} in namespace {namespace}"

    return told


def _crossed(verb: str, more: str, less: str) -> Callable[[_AuditEntry], str]:
    """The alert of a GPU quota: which amounts stand in one image and not in the other."""

    def told(entry: _AuditEntry) -> str:
        images = {"before": entry.before, "after": entry.after}
        known = images[less].get("alerting") or []
        moved = [key for key in images[more].get("alerting") or [] if key not in known]
        named = f" ({', '.join(moved)})" if moved else ""
        return f"saw namespace {entry.name} {verb} the alert threshold of its GPU quota{named}"

    return told


def _plain(words: str) -> Callable[[_AuditEntry], str]:
    """A verb whose words need the name only; `{}` is its place."""
    return lambda entry: words.format(entry.name)


def _unforeseen(action: str) -> Callable[[_AuditEntry], str]:
    verb = action.rpartition(".")[2].replace("_", " ") or "changed"

    def told(entry: _AuditEntry) -> str:
        kind = entry.kind.replace("_", " ")
        what = kind if entry.name == entry.kind else f"{kind} {entry.name}"
        return f"{verb} {what or 'something'}{entry.changes()}"

    return told


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
    "pool.archived": _plain("archived pool {}"),
    "pool.reactivated": _plain("brought pool {} back"),
    "cohort.created": _cohort_created,
    "cohort.moved": _cohort_moved,
    "cohort.named": _plain("named cohort {}, which has no quota until it is configured"),
    "cohort.forgotten": _plain("removed cohort {}, which no pool or cohort names any more"),
    "cohort.inactive": _plain("found the parents of cohort {} in a circle: nothing new starts below it"),
    "cohort.active": _plain("found the parents of cohort {} in order again"),
    "user.updated": _user_updated,
    "user.password_changed": _password_changed,
    "role.granted": lambda entry: f"granted {entry.value('role')} to {entry.name}",
    "role.revoked": lambda entry: f"revoked {entry.value('role')} from {entry.name}",
    "token.created": _token("made", "for"),
    "token.updated": _token("updated", "of"),
    "token.deleted": _token("deleted", "of"),
    "workflow_config.updated": _config_updated,
    "gpu_quota.alert": _crossed("pass", "after", "before"),
    "gpu_quota.calm": _crossed("fall back below", "before", "after"),
    "gpu_allocation.committed": _worker("allocated"),
    "gpu_allocation.assumed": _worker("reserved"),
    "gpu_allocation.adjusted": _worker("adjusted"),
    "gpu_allocation.released": _worker("released"),
    "workflow.submitted": _submitted,
    "workflow.started": _started,
    "workflow.waiting": _plain("put {} back in the queue"),
    "workflow.canceled": _plain("cancelled {}"),
    "workflow.ended": _ended,
}
