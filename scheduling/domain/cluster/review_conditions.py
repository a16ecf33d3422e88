"""The conditions (CEL) under which an API server sends an object to our webhooks.

While OSMO Admin does not answer, an API server refuses only objects that meet such a condition, so the conditions name
our own queues and only new claims: nothing of other software matches, and a change that claims nothing new is decided
in the API server itself. They say the same as :mod:`scheduling.domain.cluster.queue_access` and the GPU quota review,
which decide.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduling.domain.cluster.gpu_pod import AMOUNT_ANNOTATIONS, WORKER_LABEL, WORKER_VALUE
from scheduling.domain.cluster.naming import INSTALLATION_LABEL, POD_GROUP_OF_POD, TASK_UUID
from scheduling.domain.cluster.queue_access import QUEUE_LABELS
from scheduling.domain.queues.desired import root_queue_name

_UUID = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"


def pod_claims(namespace: str) -> str:
    """A pod that names a queue of ours, joins what may be a gang of ours, or carries our label, and did not before.
    `namespace` is that of the work."""
    return _any(
        [
            *(_new_entry("labels", label, _our_queue("{value}", namespace)) for label in QUEUE_LABELS),
            _all([f"request.namespace == '{namespace}'", _new_entry("annotations", POD_GROUP_OF_POD, _is_uuid())]),
            _our_mark(namespace),
        ]
    )


def pod_group_claims(namespace: str) -> str:
    """A PodGroup that names a queue of ours in its spec or a label, or carries our label, and did not before."""
    queue, old = "object.spec.queue", "oldObject.spec.queue"
    return _any(
        [
            _all(
                [
                    "has(object.spec) && has(object.spec.queue)",
                    _our_queue(queue, namespace),
                    f"!(oldObject != null && has(oldObject.spec) && has({old}) && {old} == {queue})",
                ]
            ),
            *(_new_entry("labels", label, _our_queue("{value}", namespace)) for label in QUEUE_LABELS),
            _our_mark(namespace),
        ]
    )


def unusual_minimums(namespace: str) -> str:
    """A PodGroup outside our queues whose minimums are new and may be wrong. A plain one (a positive `minMember`, no
    SubGroups) is always right, and is never sent."""
    spec = "object.spec"
    not_positive = f"has({spec}.minMember) && ({spec}.minMember == null || {spec}.minMember < 1)"
    return _all(
        [
            f"!({pod_group_claims(namespace)})",
            "oldObject == null || !has(oldObject.spec) || !has(object.spec) || object.spec != oldObject.spec",
            f"!has({spec}) || has({spec}.subGroups) || has({spec}.minSubGroup) || ({not_positive})",
        ]
    )


def new_worker() -> str:
    """A pod that is a worker and was none before, or that has other amounts now."""
    was_none = f"!({_is_worker('oldObject')})"
    changed = (_any_changed("annotations", AMOUNT_ANNOTATIONS), _any_changed("labels", [TASK_UUID]))
    return _all([_is_worker("object"), _any(["oldObject == null", was_none, *changed])])


def in_namespaces(namespaces: Iterable[str]) -> str:
    """A request in one of these namespaces."""
    return f"request.namespace in [{', '.join(repr(name) for name in sorted(namespaces))}]"


def _is_worker(item: str) -> str:
    return (
        f"has({item}.metadata.labels) && '{WORKER_LABEL}' in {item}.metadata.labels && "
        f"{item}.metadata.labels['{WORKER_LABEL}'] == '{WORKER_VALUE}'"
    )


def _any_changed(key: str, names: Iterable[str]) -> str:
    """Whether one of these labels or annotations has another value than before."""
    quoted = ", ".join(f"'{name}'" for name in names)
    return f"[{quoted}].exists(name, {_entry_text('object', key)} != {_entry_text('oldObject', key)})"


def _entry_text(item: str, key: str) -> str:
    """The entry `name` of labels or annotations; empty where it is missing."""
    entries = f"{item}.metadata.{key}"
    return f"(has({entries}) && name in {entries} ? {entries}[name] : '')"


def _our_queue(value: str, namespace: str) -> str:
    return _any([f"{value} == '{root_queue_name(namespace)}'", f"{value}.startsWith('osmo-pool-{namespace}-')"])


def _is_uuid() -> str:
    return f"{{value}}.matches('{_UUID}')"


def _our_mark(namespace: str) -> str:
    return _all([f"request.namespace == '{namespace}'", _new_entry("labels", INSTALLATION_LABEL, "true")])


def _new_entry(key: str, name: str, condition: str) -> str:
    """A label or annotation whose value meets the condition, and that the old object does not have with this value."""
    entries, old = f"object.metadata.{key}", f"oldObject.metadata.{key}"
    value = f"{entries}['{name}']"
    return _all(
        [
            f"has({entries}) && '{name}' in {entries}",
            condition.replace("{value}", value),
            f"!(oldObject != null && has({old}) && '{name}' in {old} && {old}['{name}'] == {value})",
        ]
    )


def _all(parts: Iterable[str]) -> str:
    return " && ".join(f"({part})" for part in parts)


def _any(parts: Iterable[str]) -> str:
    return " || ".join(f"({part})" for part in parts)
