"""The conditions (CEL) under which an API server sends an object to our webhooks.

While OSMO Admin does not answer, an API server refuses only objects that meet such a condition, so the conditions name
our own queues and only new claims: nothing of other software matches, and a change that claims nothing new is decided
in the API server itself. They say the same as :mod:`scheduling.domain.cluster.queue_access`,
:mod:`scheduling.domain.cluster.own_changes` and the GPU quota review, which decide.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from scheduling.domain.cluster.drift import OUR_LABEL_PREFIX, SCHEDULER_FIELDS
from scheduling.domain.cluster.naming import (
    INSTALLATION_LABEL,
    OBSERVED_FINALIZER,
    POD_GROUP_OF_POD,
    TASK_UUID,
    root_queue_name,
)
from scheduling.domain.cluster.own_changes import own_label_keys
from scheduling.domain.cluster.pods.gpu_pod import AMOUNT_ANNOTATIONS, GPU_IDS, WORKER_LABEL, WORKER_VALUE
from scheduling.domain.cluster.queue_access import QUEUE_LABELS

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


def pod_changes(namespace: str, accounts: Iterable[str], shard_key: str) -> str:
    """A change of what we wrote into a pod of ours, by none of these accounts."""
    was_ours = _any([_has_entry("oldObject", "labels", key) for key in (INSTALLATION_LABEL, TASK_UUID)])
    gang, finalizers = _any_changed("annotations", [POD_GROUP_OF_POD]), "{item}.metadata.finalizers"
    has_finalizer = f"has({finalizers}) && '{OBSERVED_FINALIZER}' in {finalizers}"
    gave_up = _all([has_finalizer.replace("{item}", "oldObject"), f"!({has_finalizer.replace('{item}', 'object')})"])
    return _all(
        [
            *_by_others(namespace, accounts),
            was_ours,
            f"!({pod_claims(namespace)})",
            _any([_own_labels_changed(shard_key), gang, gave_up]),
        ]
    )


def pod_group_changes(namespace: str, accounts: Iterable[str], shard_key: str) -> str:
    """A change of what we wrote into a PodGroup of ours, by none of these accounts. What KAI keeps in the spec for
    itself is its own."""
    is_named = f"oldObject.metadata.name.matches('{_UUID}')"
    was_ours = _any([_has_entry("oldObject", "labels", INSTALLATION_LABEL), is_named])
    spec_changed = _any([_spec_entries_differ("oldObject", "object"), _spec_entries_differ("object", "oldObject")])
    return _all(
        [
            *_by_others(namespace, accounts),
            was_ours,
            f"!({pod_group_claims(namespace)})",
            _any([_own_labels_changed(shard_key), spec_changed]),
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
    """A pod that is a worker and was not one before, or that has other amounts now; or one that was a worker with GPUs
    and gives up a mark by which it is counted."""
    was_none = f"!({_is_worker('oldObject')})"
    changed = (_any_changed("annotations", AMOUNT_ANNOTATIONS), _any_changed("labels", [TASK_UUID]))
    claims = _all([_is_worker("object"), _any(["oldObject == null", was_none, *changed])])
    had_gpus = _all(["oldObject != null", _is_worker("oldObject"), _has_entry("oldObject", "annotations", GPU_IDS)])
    gives_up = _any([f"!({_is_worker('object')})", _any_changed("annotations", [GPU_IDS])])
    return _any([claims, _all([had_gpus, gives_up])])


def in_namespaces(namespaces: Iterable[str]) -> str:
    """A request in one of these namespaces."""
    return f"request.namespace in [{', '.join(repr(name) for name in sorted(namespaces))}]"


def _by_others(namespace: str, accounts: Iterable[str]) -> list[str]:
    """A change in our namespace by somebody else. Our own changes are never sent, so that they wait for nothing."""
    known = _list(accounts)
    in_groups = f"has(request.userInfo.groups) && request.userInfo.groups.exists(group, group in {known})"
    return [
        f"request.namespace == '{namespace}' && oldObject != null",
        f"!(request.userInfo.username in {known} || ({in_groups}))",
    ]


def _own_labels_changed(shard_key: str) -> str:
    """Whether a label of ours was removed, changed or added."""
    is_ours = f"(key.startsWith('{OUR_LABEL_PREFIX}') || key in {_list(own_label_keys(shard_key))})"
    return _any(
        [
            f"has({one}.metadata.labels) && {one}.metadata.labels.exists(key, {is_ours} && "
            f"!(has({other}.metadata.labels) && key in {other}.metadata.labels && "
            f"{other}.metadata.labels[key] == {one}.metadata.labels[key]))"
            for one, other in (("oldObject", "object"), ("object", "oldObject"))
        ]
    )


def _spec_entries_differ(one: str, other: str) -> str:
    """Whether an entry of one spec, except those of the scheduler, is missing or different in the other."""
    return (
        f"has({one}.spec) && {one}.spec.exists(key, !(key in {_list(sorted(SCHEDULER_FIELDS))}) && "
        f"!(has({other}.spec) && key in {other}.spec && {other}.spec[key] == {one}.spec[key]))"
    )


def _has_entry(item: str, key: str, name: str) -> str:
    return f"has({item}.metadata.{key}) && '{name}' in {item}.metadata.{key}"


def _list(texts: Iterable[str]) -> str:
    """A list of texts; a text of JSON is one of CEL."""
    return f"[{', '.join(json.dumps(text) for text in texts)}]"


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
