"""The contract of the port, on the fake cluster and on a real API server."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from scheduling.kube.connection import errors, resource_kinds
from scheduling.kube.connection.port import ResourceKind, WatchEvent, WatchEventType
from scheduling.kube.connection.resource_kinds import POD_GROUP, QUEUE
from tests.integration.kube.conftest import find_namespace
from tests.support.fake_cluster import FakeCluster
from tests.support.field_ownership import FieldPath
from tests.support.kube_server import CONFIG_MAP, KubeNamespace

US, THEM = "osmo-admin", "somebody"
UNKNOWN = ResourceKind("scheduling.run.ai", "v9", "queues", "Queue", namespaced=False)


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.k8s)])
def kube_namespace(request: pytest.FixtureRequest) -> KubeNamespace:
    """On both clusters each day, so that other tests need the real one at night only."""
    return find_namespace(request)


def managers_of(item: Mapping[str, Any], path: FieldPath) -> list[str]:
    """The managers of a field, by `managedFields`; a manager of a whole object above the field counts."""
    found = []
    for entry in item["metadata"].get("managedFields") or []:
        node = entry.get("fieldsV1") or {}
        for key in path:
            node = node.get(f"f:{key}")
            if node is None:
                break
        else:
            found.append(str(entry.get("manager", "")))
    return found


def _queue(kube_namespace: KubeNamespace, short: str, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": kube_namespace.object_name(short), "labels": {"osmo.namespace": kube_namespace.namespace}},
        "spec": {"priority": 100, "resources": {"gpu": {"quota": 1, "limit": -1, "overQuotaWeight": 1}}} | spec,
    }


def _config(kube_namespace: KubeNamespace, name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": kube_namespace.namespace}, "data": data}


def _ours(kube_namespace: KubeNamespace) -> str:
    return f"osmo.namespace={kube_namespace.namespace}"


def test_it_names_its_version(kube_namespace: KubeNamespace) -> None:
    assert kube_namespace.cluster.version().startswith("v1.")


def test_create_then_get(kube_namespace: KubeNamespace) -> None:
    made = kube_namespace.cluster.create(QUEUE, _queue(kube_namespace, "a"), field_manager=US)
    found = kube_namespace.cluster.get(QUEUE, kube_namespace.object_name("a"))
    assert found["spec"] == made["spec"] == _queue(kube_namespace, "a")["spec"]
    assert (found["apiVersion"], found["kind"]) == ("scheduling.run.ai/v2", "Queue")
    assert found["metadata"]["uid"] == made["metadata"]["uid"]
    assert found["metadata"]["generation"] == 1


def test_a_name_is_unique(kube_namespace: KubeNamespace) -> None:
    kube_namespace.cluster.create(QUEUE, _queue(kube_namespace, "a"), field_manager=US)
    with pytest.raises(errors.AlreadyExists) as refused:
        kube_namespace.cluster.create(QUEUE, _queue(kube_namespace, "a"), field_manager=US)
    assert refused.value.status == 409
    assert kube_namespace.object_name("a") in refused.value.message


def test_a_missing_object(kube_namespace: KubeNamespace) -> None:
    with pytest.raises(errors.ObjectNotFound) as missing:
        kube_namespace.cluster.get(QUEUE, kube_namespace.object_name("nobody"))
    assert not isinstance(missing.value, errors.KindMissing)
    with pytest.raises(errors.ObjectNotFound):
        kube_namespace.cluster.delete(QUEUE, kube_namespace.object_name("nobody"))
    with pytest.raises(errors.ObjectNotFound):
        kube_namespace.cluster.merge(
            QUEUE, kube_namespace.object_name("nobody"), {"spec": {"priority": 1}}, field_manager=US
        )


def test_the_log_of_a_missing_pod(kube_namespace: KubeNamespace) -> None:
    log = kube_namespace.cluster.read_log(
        "nobody", namespace=kube_namespace.namespace, container="c", tail_lines=5, limit_bytes=99
    )
    with pytest.raises(errors.ObjectNotFound):
        list(log)


def test_a_kind_that_is_not_served(kube_namespace: KubeNamespace) -> None:
    for call in (
        lambda: kube_namespace.cluster.list(UNKNOWN),
        lambda: kube_namespace.cluster.get(UNKNOWN, "a"),
        lambda: kube_namespace.cluster.create(UNKNOWN, _queue(kube_namespace, "a"), field_manager=US),
        lambda: kube_namespace.cluster.apply(UNKNOWN, _queue(kube_namespace, "a"), field_manager=US),
        lambda: kube_namespace.cluster.delete(UNKNOWN, "a"),
        lambda: list(kube_namespace.cluster.watch(UNKNOWN, resource_version="1", timeout_seconds=1)),
    ):
        with pytest.raises(errors.KindMissing):
            call()


def test_a_missing_namespace(kube_namespace: KubeNamespace) -> None:
    body = _config(kube_namespace, "a", x="1")
    body["metadata"]["namespace"] = kube_namespace.object_name("elsewhere")
    with pytest.raises(errors.ObjectNotFound) as missing:
        kube_namespace.cluster.create(CONFIG_MAP, body, field_manager=US)
    assert not isinstance(missing.value, errors.KindMissing)
    assert kube_namespace.object_name("elsewhere") in missing.value.message


def test_a_name_that_no_object_may_have(kube_namespace: KubeNamespace) -> None:
    with pytest.raises(errors.InvalidObject) as refused:
        kube_namespace.cluster.create(QUEUE, _queue(kube_namespace, "team--_shared"), field_manager=US)
    assert [fault.field for fault in refused.value.field_errors] == ["metadata.name"]


def test_a_list_has_all_pages_and_only_selected_objects(kube_namespace: KubeNamespace) -> None:
    for number in range(7):
        kube_namespace.cluster.create(
            CONFIG_MAP, _config(kube_namespace, f"c{number}", n=str(number)), field_manager=US
        )
    marked = _config(kube_namespace, "marked", n="x")
    marked["metadata"]["labels"] = {"colour": "red"}
    kube_namespace.cluster.create(CONFIG_MAP, marked, field_manager=US)

    def names(**how: Any) -> list[str]:
        found = kube_namespace.cluster.list(CONFIG_MAP, **how).items
        assert {item["kind"] for item in found} == {"ConfigMap"}
        return sorted(item["metadata"]["name"] for item in found)

    everything = [f"c{number}" for number in range(7)] + ["marked"]
    assert names(namespace=kube_namespace.namespace, page_size=3) == everything
    assert set(everything) <= set(names(page_size=2))
    assert names(namespace=kube_namespace.namespace, labels="colour=red") == ["marked"]
    assert names(namespace=kube_namespace.namespace, labels="!colour") == everything[:-1]
    assert names(namespace=kube_namespace.namespace, labels="colour in (red, blue)") == ["marked"]
    assert names(namespace=kube_namespace.namespace, fields="metadata.name=c3") == ["c3"]
    kept = kube_namespace.cluster.list(
        CONFIG_MAP, namespace=kube_namespace.namespace, page_size=3, transform=lambda item: item["data"]["n"]
    )
    assert sorted(kept.items) == ["0", "1", "2", "3", "4", "5", "6", "x"]


def test_apply_changes_fields_and_removes_omitted_fields(kube_namespace: KubeNamespace) -> None:
    body = _queue(kube_namespace, "a", displayName="A")
    made = kube_namespace.cluster.apply(QUEUE, body, field_manager=US)
    assert made["spec"]["displayName"] == "A"
    without = _queue(kube_namespace, "a", priority=50)
    after = kube_namespace.cluster.apply(QUEUE, without, field_manager=US)
    assert after["spec"] == without["spec"]
    assert after["metadata"]["generation"] == 2
    assert managers_of(after, ("spec", "priority")) == [US]


def test_apply_of_the_same_changes_nothing(kube_namespace: KubeNamespace) -> None:
    first = kube_namespace.cluster.apply(QUEUE, _queue(kube_namespace, "a"), field_manager=US)
    again = kube_namespace.cluster.apply(QUEUE, _queue(kube_namespace, "a"), field_manager=US)
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_apply_leaves_the_fields_of_others(kube_namespace: KubeNamespace) -> None:
    kube_namespace.cluster.apply(QUEUE, _queue(kube_namespace, "a"), field_manager=US)
    theirs = {
        "metadata": {"name": kube_namespace.object_name("a"), "labels": {"team": "x"}},
        "spec": {"displayName": "theirs"},
    }
    kube_namespace.cluster.apply(QUEUE, theirs, field_manager=THEM)
    after = kube_namespace.cluster.apply(QUEUE, _queue(kube_namespace, "a", priority=7), field_manager=US)
    assert after["spec"]["displayName"] == "theirs"
    assert after["spec"]["priority"] == 7
    assert after["metadata"]["labels"] == {"osmo.namespace": kube_namespace.namespace, "team": "x"}


def test_a_foreign_field_is_a_conflict_unless_forced(kube_namespace: KubeNamespace) -> None:
    kube_namespace.cluster.apply(QUEUE, _queue(kube_namespace, "a"), field_manager=US)
    kube_namespace.cluster.merge(QUEUE, kube_namespace.object_name("a"), {"spec": {"priority": 1}}, field_manager=THEM)
    with pytest.raises(errors.WriteConflict) as refused:
        kube_namespace.cluster.apply(QUEUE, _queue(kube_namespace, "a"), field_manager=US)
    assert [fault.field for fault in refused.value.field_errors] == [".spec.priority"]
    assert THEM in refused.value.field_errors[0].message
    assert kube_namespace.cluster.get(QUEUE, kube_namespace.object_name("a"))["spec"]["priority"] == 1
    assert managers_of(kube_namespace.cluster.get(QUEUE, kube_namespace.object_name("a")), ("spec", "priority")) == [
        THEM
    ]
    after = kube_namespace.cluster.apply(QUEUE, _queue(kube_namespace, "a"), field_manager=US, force=True)
    assert after["spec"]["priority"] == 100
    assert managers_of(after, ("spec", "priority")) == [US]


def test_a_dry_run_writes_nothing(kube_namespace: KubeNamespace) -> None:
    shown = kube_namespace.cluster.apply(QUEUE, _queue(kube_namespace, "a"), field_manager=US, dry_run=True)
    assert shown["spec"]["priority"] == 100
    with pytest.raises(errors.ObjectNotFound):
        kube_namespace.cluster.get(QUEUE, kube_namespace.object_name("a"))


def test_a_merge_changes_only_its_keys(kube_namespace: KubeNamespace) -> None:
    kube_namespace.cluster.create(CONFIG_MAP, _config(kube_namespace, "c", x="1", y="2"), field_manager=US)
    after = kube_namespace.cluster.merge(
        CONFIG_MAP, "c", {"data": {"x": None, "z": "3"}}, field_manager=THEM, namespace=kube_namespace.namespace
    )
    assert after["data"] == {"y": "2", "z": "3"}
    assert managers_of(after, ("data", "y")) == [US]
    assert managers_of(after, ("data", "z")) == [THEM]


def test_a_merge_with_a_version_as_precondition(kube_namespace: KubeNamespace) -> None:
    kube_namespace.cluster.create(CONFIG_MAP, _config(kube_namespace, "c", x="1"), field_manager=US)
    seen = kube_namespace.cluster.get(CONFIG_MAP, "c", namespace=kube_namespace.namespace)["metadata"][
        "resourceVersion"
    ]
    change = {"metadata": {"resourceVersion": seen}, "data": {"x": "2"}}
    kube_namespace.cluster.merge(CONFIG_MAP, "c", change, field_manager=US, namespace=kube_namespace.namespace)
    with pytest.raises(errors.WriteConflict):
        kube_namespace.cluster.merge(
            CONFIG_MAP, "c", change | {"data": {"x": "3"}}, field_manager=US, namespace=kube_namespace.namespace
        )
    assert kube_namespace.cluster.get(CONFIG_MAP, "c", namespace=kube_namespace.namespace)["data"] == {"x": "2"}


def test_the_status_is_a_subresource(kube_namespace: KubeNamespace) -> None:
    kube_namespace.cluster.create(
        QUEUE, _queue(kube_namespace, "a") | {"status": {"childQueues": ["x"]}}, field_manager=US
    )
    assert not kube_namespace.cluster.get(QUEUE, kube_namespace.object_name("a")).get("status")
    through_the_wrong_one = {"status": {"childQueues": ["x"]}, "spec": {"priority": 3}}
    assert not kube_namespace.cluster.merge(
        QUEUE, kube_namespace.object_name("a"), through_the_wrong_one, field_manager=THEM
    ).get("status")
    right = {"status": {"childQueues": ["x"]}, "spec": {"priority": 4}}
    after = kube_namespace.cluster.merge(QUEUE, kube_namespace.object_name("a"), right, field_manager=THEM, status=True)
    assert (after["status"], after["spec"]["priority"]) == ({"childQueues": ["x"]}, 3)
    assert after["metadata"]["generation"] == 2
    applied = {"metadata": {"name": kube_namespace.object_name("a")}, "status": {"childQueues": ["y"]}}
    assert kube_namespace.cluster.apply(QUEUE, applied, field_manager=THEM, status=True, force=True)["status"][
        "childQueues"
    ] == ["y"]


def test_a_delete_with_a_uid_as_precondition(kube_namespace: KubeNamespace) -> None:
    first = kube_namespace.cluster.create(QUEUE, _queue(kube_namespace, "a"), field_manager=US)["metadata"]
    with pytest.raises(errors.WriteConflict):
        kube_namespace.cluster.delete(QUEUE, first["name"], uid="11111111-1111-1111-1111-111111111111")
    kube_namespace.cluster.merge(QUEUE, first["name"], {"spec": {"priority": 1}}, field_manager=THEM)
    with pytest.raises(errors.WriteConflict):
        kube_namespace.cluster.delete(QUEUE, first["name"], resource_version=first["resourceVersion"])
    kube_namespace.cluster.delete(QUEUE, first["name"], uid=first["uid"])
    with pytest.raises(errors.ObjectNotFound):
        kube_namespace.cluster.get(QUEUE, first["name"])


def test_a_pod_group_is_in_its_namespace(kube_namespace: KubeNamespace) -> None:
    body = {"metadata": {"name": "g", "namespace": kube_namespace.namespace}, "spec": {"minMember": 2, "queue": "q"}}
    kube_namespace.cluster.create(POD_GROUP, body, field_manager=US)
    assert kube_namespace.cluster.get(POD_GROUP, "g", namespace=kube_namespace.namespace)["spec"]["minMember"] == 2
    kube_namespace.cluster.delete(POD_GROUP, "g", namespace=kube_namespace.namespace, grace_seconds=0)
    assert kube_namespace.cluster.list(POD_GROUP, namespace=kube_namespace.namespace).items == []


def _event_names(events: list[WatchEvent]) -> list[tuple[WatchEventType, str]]:
    return [(event.type, event.object["metadata"]["name"]) for event in events if event.type != WatchEventType.BOOKMARK]


def _read_events(kube_namespace: KubeNamespace, since: str, count: int, **how: Any) -> list[WatchEvent]:
    """The next events of a watch, as many as requested."""
    found: list[WatchEvent] = []
    watch = kube_namespace.cluster.watch(QUEUE, resource_version=since, timeout_seconds=60, **how)
    for event in watch:
        if event.type != WatchEventType.BOOKMARK:
            found.append(event)
        if len(found) == count:
            watch.close()  # type: ignore[attr-defined]  # both are generators
            break
    return found


def test_an_object_is_deleted_when_its_last_finalizer_is_removed(kube_namespace: KubeNamespace) -> None:
    pod = {
        "metadata": {
            "name": "p",
            "namespace": kube_namespace.namespace,
            "finalizers": ["osmo-admin/seen", "other/one"],
        },
        "spec": {"containers": [{"name": "c", "image": "ubuntu"}]},
    }
    uid = kube_namespace.cluster.create(resource_kinds.POD, pod, field_manager=US)["metadata"]["uid"]
    since = kube_namespace.cluster.list(resource_kinds.POD, namespace=kube_namespace.namespace).resource_version
    kube_namespace.cluster.delete(resource_kinds.POD, "p", namespace=kube_namespace.namespace, uid=uid, grace_seconds=0)
    kube_namespace.cluster.delete(resource_kinds.POD, "p", namespace=kube_namespace.namespace, uid=uid, grace_seconds=0)
    going = kube_namespace.cluster.get(resource_kinds.POD, "p", namespace=kube_namespace.namespace)
    assert going["metadata"]["deletionTimestamp"]
    failed = {"status": {"phase": "Failed"}}
    kube_namespace.cluster.merge(
        resource_kinds.POD, "p", failed, field_manager=US, namespace=kube_namespace.namespace, status=True
    )
    for left in (["other/one"], []):
        kube_namespace.cluster.merge(
            resource_kinds.POD,
            "p",
            {"metadata": {"finalizers": left}},
            field_manager=US,
            namespace=kube_namespace.namespace,
        )
    with pytest.raises(errors.ObjectNotFound):
        kube_namespace.cluster.get(resource_kinds.POD, "p", namespace=kube_namespace.namespace)
    events = list(
        kube_namespace.cluster.watch(
            resource_kinds.POD, resource_version=since, timeout_seconds=1, namespace=kube_namespace.namespace
        )
    )
    *_, last = (event for event in events if event.type is not WatchEventType.BOOKMARK)
    assert (last.type, last.object["status"]["phase"]) == (WatchEventType.DELETED, "Failed")


def test_a_watch_continues_from_the_list(kube_namespace: KubeNamespace) -> None:
    labels = _ours(kube_namespace)
    kube_namespace.cluster.create(QUEUE, _queue(kube_namespace, "old"), field_manager=US)
    since = kube_namespace.cluster.list(QUEUE, labels=labels).resource_version
    kube_namespace.cluster.create(QUEUE, _queue(kube_namespace, "new"), field_manager=US)
    kube_namespace.cluster.merge(QUEUE, kube_namespace.object_name("old"), {"spec": {"priority": 5}}, field_manager=US)
    kube_namespace.cluster.delete(QUEUE, kube_namespace.object_name("new"))
    events = _read_events(kube_namespace, since, 3, labels=labels)
    assert _event_names(events) == [
        (WatchEventType.ADDED, kube_namespace.object_name("new")),
        (WatchEventType.MODIFIED, kube_namespace.object_name("old")),
        (WatchEventType.DELETED, kube_namespace.object_name("new")),
    ]
    resumed = _read_events(kube_namespace, events[0].resource_version, 2, labels=labels)
    assert _event_names(resumed) == _event_names(events)[1:]


def test_a_watch_receives_later_changes(kube_namespace: KubeNamespace) -> None:
    labels = _ours(kube_namespace)
    since = kube_namespace.cluster.list(QUEUE, labels=labels).resource_version
    heard: list[WatchEvent] = []
    listener = threading.Thread(target=lambda: heard.extend(_read_events(kube_namespace, since, 1, labels=labels)))
    listener.start()
    kube_namespace.cluster.create(QUEUE, _queue(kube_namespace, "a"), field_manager=US)
    listener.join(60)
    assert _event_names(heard) == [(WatchEventType.ADDED, kube_namespace.object_name("a"))]


def test_an_object_that_leaves_the_selection_is_deleted_in_the_watch(kube_namespace: KubeNamespace) -> None:
    labels = _ours(kube_namespace)
    kube_namespace.cluster.create(QUEUE, _queue(kube_namespace, "a"), field_manager=US)
    since = kube_namespace.cluster.list(QUEUE, labels=labels).resource_version
    kube_namespace.cluster.merge(
        QUEUE, kube_namespace.object_name("a"), {"metadata": {"labels": {"osmo.namespace": None}}}, field_manager=US
    )
    kube_namespace.cluster.merge(
        QUEUE,
        kube_namespace.object_name("a"),
        {"metadata": {"labels": {"osmo.namespace": kube_namespace.namespace}}},
        field_manager=US,
    )
    name = kube_namespace.object_name("a")
    assert _event_names(_read_events(kube_namespace, since, 2, labels=labels)) == [
        (WatchEventType.DELETED, name),
        (WatchEventType.ADDED, name),
    ]


def test_a_watch_ends_with_its_resource_version(kube_namespace: KubeNamespace) -> None:
    since = kube_namespace.cluster.list(QUEUE, labels=_ours(kube_namespace)).resource_version
    kube_namespace.cluster.create(QUEUE, _queue(kube_namespace, "a"), field_manager=US)
    (added,) = _read_events(kube_namespace, since, 1, labels=_ours(kube_namespace))
    quiet = list(
        kube_namespace.cluster.watch(
            QUEUE, resource_version=added.resource_version, timeout_seconds=1, labels=_ours(kube_namespace)
        )
    )
    assert _event_names(quiet) == []
    behind = quiet[-1].resource_version if quiet else added.resource_version
    kube_namespace.cluster.delete(QUEUE, kube_namespace.object_name("a"))
    assert _event_names(_read_events(kube_namespace, behind, 1, labels=_ours(kube_namespace))) == [
        (WatchEventType.DELETED, kube_namespace.object_name("a"))
    ]


def test_an_expired_resource_version() -> None:
    fake = FakeCluster()
    since = fake.list(QUEUE).resource_version
    fake.create(resource_kinds.NAMESPACE, {"metadata": {"name": "x"}}, field_manager=US)
    fake.expire_history()
    with pytest.raises(errors.ResourceVersionExpired):
        list(fake.watch(QUEUE, resource_version=since, timeout_seconds=1))
    assert (
        list(fake.watch(QUEUE, resource_version=fake.list(QUEUE).resource_version, timeout_seconds=0.1))[-1].type
        == WatchEventType.BOOKMARK
    )
