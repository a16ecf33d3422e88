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
def here(request: pytest.FixtureRequest) -> KubeNamespace:
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


def _queue(here: KubeNamespace, short: str, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": here.object_name(short), "labels": {"osmo.namespace": here.namespace}},
        "spec": {"priority": 100, "resources": {"gpu": {"quota": 1, "limit": -1, "overQuotaWeight": 1}}} | spec,
    }


def _config(here: KubeNamespace, name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": here.namespace}, "data": data}


def _ours(here: KubeNamespace) -> str:
    return f"osmo.namespace={here.namespace}"


def test_it_names_its_version(here: KubeNamespace) -> None:
    assert here.cluster.version().startswith("v1.")


def test_create_then_get(here: KubeNamespace) -> None:
    made = here.cluster.create(QUEUE, _queue(here, "a"), field_manager=US)
    found = here.cluster.get(QUEUE, here.object_name("a"))
    assert found["spec"] == made["spec"] == _queue(here, "a")["spec"]
    assert (found["apiVersion"], found["kind"]) == ("scheduling.run.ai/v2", "Queue")
    assert found["metadata"]["uid"] == made["metadata"]["uid"]
    assert found["metadata"]["generation"] == 1


def test_a_name_is_unique(here: KubeNamespace) -> None:
    here.cluster.create(QUEUE, _queue(here, "a"), field_manager=US)
    with pytest.raises(errors.AlreadyExists) as refused:
        here.cluster.create(QUEUE, _queue(here, "a"), field_manager=US)
    assert refused.value.status == 409
    assert here.object_name("a") in refused.value.message


def test_a_missing_object(here: KubeNamespace) -> None:
    with pytest.raises(errors.ObjectNotFound) as missing:
        here.cluster.get(QUEUE, here.object_name("nobody"))
    assert not isinstance(missing.value, errors.KindMissing)
    with pytest.raises(errors.ObjectNotFound):
        here.cluster.delete(QUEUE, here.object_name("nobody"))
    with pytest.raises(errors.ObjectNotFound):
        here.cluster.merge(QUEUE, here.object_name("nobody"), {"spec": {"priority": 1}}, field_manager=US)


def test_the_log_of_a_missing_pod(here: KubeNamespace) -> None:
    log = here.cluster.read_log("nobody", namespace=here.namespace, container="c", tail_lines=5, limit_bytes=99)
    with pytest.raises(errors.ObjectNotFound):
        list(log)


def test_a_kind_that_is_not_served(here: KubeNamespace) -> None:
    for call in (
        lambda: here.cluster.list(UNKNOWN),
        lambda: here.cluster.get(UNKNOWN, "a"),
        lambda: here.cluster.create(UNKNOWN, _queue(here, "a"), field_manager=US),
        lambda: here.cluster.apply(UNKNOWN, _queue(here, "a"), field_manager=US),
        lambda: here.cluster.delete(UNKNOWN, "a"),
        lambda: list(here.cluster.watch(UNKNOWN, resource_version="1", timeout_seconds=1)),
    ):
        with pytest.raises(errors.KindMissing):
            call()


def test_a_missing_namespace(here: KubeNamespace) -> None:
    body = _config(here, "a", x="1")
    body["metadata"]["namespace"] = here.object_name("elsewhere")
    with pytest.raises(errors.ObjectNotFound) as missing:
        here.cluster.create(CONFIG_MAP, body, field_manager=US)
    assert not isinstance(missing.value, errors.KindMissing)
    assert here.object_name("elsewhere") in missing.value.message


def test_a_name_that_no_object_may_have(here: KubeNamespace) -> None:
    with pytest.raises(errors.InvalidObject) as refused:
        here.cluster.create(QUEUE, _queue(here, "team--_shared"), field_manager=US)
    assert [fault.field for fault in refused.value.field_errors] == ["metadata.name"]


def test_a_list_has_all_pages_and_only_selected_objects(here: KubeNamespace) -> None:
    for number in range(7):
        here.cluster.create(CONFIG_MAP, _config(here, f"c{number}", n=str(number)), field_manager=US)
    marked = _config(here, "marked", n="x")
    marked["metadata"]["labels"] = {"colour": "red"}
    here.cluster.create(CONFIG_MAP, marked, field_manager=US)

    def names(**how: Any) -> list[str]:
        found = here.cluster.list(CONFIG_MAP, **how).items
        assert {item["kind"] for item in found} == {"ConfigMap"}
        return sorted(item["metadata"]["name"] for item in found)

    everything = [f"c{number}" for number in range(7)] + ["marked"]
    assert names(namespace=here.namespace, page_size=3) == everything
    assert set(everything) <= set(names(page_size=2))
    assert names(namespace=here.namespace, labels="colour=red") == ["marked"]
    assert names(namespace=here.namespace, labels="!colour") == everything[:-1]
    assert names(namespace=here.namespace, labels="colour in (red, blue)") == ["marked"]
    assert names(namespace=here.namespace, fields="metadata.name=c3") == ["c3"]
    kept = here.cluster.list(
        CONFIG_MAP, namespace=here.namespace, page_size=3, transform=lambda item: item["data"]["n"]
    )
    assert sorted(kept.items) == ["0", "1", "2", "3", "4", "5", "6", "x"]


def test_apply_changes_fields_and_removes_omitted_fields(here: KubeNamespace) -> None:
    body = _queue(here, "a", displayName="A")
    made = here.cluster.apply(QUEUE, body, field_manager=US)
    assert made["spec"]["displayName"] == "A"
    without = _queue(here, "a", priority=50)
    after = here.cluster.apply(QUEUE, without, field_manager=US)
    assert after["spec"] == without["spec"]
    assert after["metadata"]["generation"] == 2
    assert managers_of(after, ("spec", "priority")) == [US]


def test_apply_of_the_same_changes_nothing(here: KubeNamespace) -> None:
    first = here.cluster.apply(QUEUE, _queue(here, "a"), field_manager=US)
    again = here.cluster.apply(QUEUE, _queue(here, "a"), field_manager=US)
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_apply_leaves_the_fields_of_others(here: KubeNamespace) -> None:
    here.cluster.apply(QUEUE, _queue(here, "a"), field_manager=US)
    theirs = {
        "metadata": {"name": here.object_name("a"), "labels": {"team": "x"}},
        "spec": {"displayName": "theirs"},
    }
    here.cluster.apply(QUEUE, theirs, field_manager=THEM)
    after = here.cluster.apply(QUEUE, _queue(here, "a", priority=7), field_manager=US)
    assert after["spec"]["displayName"] == "theirs"
    assert after["spec"]["priority"] == 7
    assert after["metadata"]["labels"] == {"osmo.namespace": here.namespace, "team": "x"}


def test_a_foreign_field_is_a_conflict_unless_forced(here: KubeNamespace) -> None:
    here.cluster.apply(QUEUE, _queue(here, "a"), field_manager=US)
    here.cluster.merge(QUEUE, here.object_name("a"), {"spec": {"priority": 1}}, field_manager=THEM)
    with pytest.raises(errors.WriteConflict) as refused:
        here.cluster.apply(QUEUE, _queue(here, "a"), field_manager=US)
    assert [fault.field for fault in refused.value.field_errors] == [".spec.priority"]
    assert THEM in refused.value.field_errors[0].message
    assert here.cluster.get(QUEUE, here.object_name("a"))["spec"]["priority"] == 1
    assert managers_of(here.cluster.get(QUEUE, here.object_name("a")), ("spec", "priority")) == [THEM]
    after = here.cluster.apply(QUEUE, _queue(here, "a"), field_manager=US, force=True)
    assert after["spec"]["priority"] == 100
    assert managers_of(after, ("spec", "priority")) == [US]


def test_a_dry_run_writes_nothing(here: KubeNamespace) -> None:
    shown = here.cluster.apply(QUEUE, _queue(here, "a"), field_manager=US, dry_run=True)
    assert shown["spec"]["priority"] == 100
    with pytest.raises(errors.ObjectNotFound):
        here.cluster.get(QUEUE, here.object_name("a"))


def test_a_merge_changes_only_its_keys(here: KubeNamespace) -> None:
    here.cluster.create(CONFIG_MAP, _config(here, "c", x="1", y="2"), field_manager=US)
    after = here.cluster.merge(
        CONFIG_MAP, "c", {"data": {"x": None, "z": "3"}}, field_manager=THEM, namespace=here.namespace
    )
    assert after["data"] == {"y": "2", "z": "3"}
    assert managers_of(after, ("data", "y")) == [US]
    assert managers_of(after, ("data", "z")) == [THEM]


def test_a_merge_with_a_version_as_precondition(here: KubeNamespace) -> None:
    here.cluster.create(CONFIG_MAP, _config(here, "c", x="1"), field_manager=US)
    seen = here.cluster.get(CONFIG_MAP, "c", namespace=here.namespace)["metadata"]["resourceVersion"]
    change = {"metadata": {"resourceVersion": seen}, "data": {"x": "2"}}
    here.cluster.merge(CONFIG_MAP, "c", change, field_manager=US, namespace=here.namespace)
    with pytest.raises(errors.WriteConflict):
        here.cluster.merge(CONFIG_MAP, "c", change | {"data": {"x": "3"}}, field_manager=US, namespace=here.namespace)
    assert here.cluster.get(CONFIG_MAP, "c", namespace=here.namespace)["data"] == {"x": "2"}


def test_the_status_is_a_subresource(here: KubeNamespace) -> None:
    here.cluster.create(QUEUE, _queue(here, "a") | {"status": {"childQueues": ["x"]}}, field_manager=US)
    assert not here.cluster.get(QUEUE, here.object_name("a")).get("status")
    through_the_wrong_one = {"status": {"childQueues": ["x"]}, "spec": {"priority": 3}}
    assert not here.cluster.merge(QUEUE, here.object_name("a"), through_the_wrong_one, field_manager=THEM).get("status")
    right = {"status": {"childQueues": ["x"]}, "spec": {"priority": 4}}
    after = here.cluster.merge(QUEUE, here.object_name("a"), right, field_manager=THEM, status=True)
    assert (after["status"], after["spec"]["priority"]) == ({"childQueues": ["x"]}, 3)
    assert after["metadata"]["generation"] == 2
    applied = {"metadata": {"name": here.object_name("a")}, "status": {"childQueues": ["y"]}}
    assert here.cluster.apply(QUEUE, applied, field_manager=THEM, status=True, force=True)["status"]["childQueues"] == [
        "y"
    ]


def test_a_delete_with_a_uid_as_precondition(here: KubeNamespace) -> None:
    first = here.cluster.create(QUEUE, _queue(here, "a"), field_manager=US)["metadata"]
    with pytest.raises(errors.WriteConflict):
        here.cluster.delete(QUEUE, first["name"], uid="11111111-1111-1111-1111-111111111111")
    here.cluster.merge(QUEUE, first["name"], {"spec": {"priority": 1}}, field_manager=THEM)
    with pytest.raises(errors.WriteConflict):
        here.cluster.delete(QUEUE, first["name"], resource_version=first["resourceVersion"])
    here.cluster.delete(QUEUE, first["name"], uid=first["uid"])
    with pytest.raises(errors.ObjectNotFound):
        here.cluster.get(QUEUE, first["name"])


def test_a_pod_group_is_in_its_namespace(here: KubeNamespace) -> None:
    body = {"metadata": {"name": "g", "namespace": here.namespace}, "spec": {"minMember": 2, "queue": "q"}}
    here.cluster.create(POD_GROUP, body, field_manager=US)
    assert here.cluster.get(POD_GROUP, "g", namespace=here.namespace)["spec"]["minMember"] == 2
    here.cluster.delete(POD_GROUP, "g", namespace=here.namespace, grace_seconds=0)
    assert here.cluster.list(POD_GROUP, namespace=here.namespace).items == []


def _event_names(events: list[WatchEvent]) -> list[tuple[WatchEventType, str]]:
    return [(event.type, event.object["metadata"]["name"]) for event in events if event.type != WatchEventType.BOOKMARK]


def _read_events(here: KubeNamespace, since: str, count: int, **how: Any) -> list[WatchEvent]:
    """The next events of a watch, as many as requested."""
    found: list[WatchEvent] = []
    watch = here.cluster.watch(QUEUE, resource_version=since, timeout_seconds=60, **how)
    for event in watch:
        if event.type != WatchEventType.BOOKMARK:
            found.append(event)
        if len(found) == count:
            watch.close()  # type: ignore[attr-defined]  # both are generators
            break
    return found


def test_an_object_is_deleted_when_its_last_finalizer_is_removed(here: KubeNamespace) -> None:
    pod = {
        "metadata": {
            "name": "p",
            "namespace": here.namespace,
            "finalizers": ["osmo-admin/seen", "other/one"],
        },
        "spec": {"containers": [{"name": "c", "image": "ubuntu"}]},
    }
    uid = here.cluster.create(resource_kinds.POD, pod, field_manager=US)["metadata"]["uid"]
    since = here.cluster.list(resource_kinds.POD, namespace=here.namespace).resource_version
    here.cluster.delete(resource_kinds.POD, "p", namespace=here.namespace, uid=uid, grace_seconds=0)
    here.cluster.delete(resource_kinds.POD, "p", namespace=here.namespace, uid=uid, grace_seconds=0)
    going = here.cluster.get(resource_kinds.POD, "p", namespace=here.namespace)
    assert going["metadata"]["deletionTimestamp"]
    failed = {"status": {"phase": "Failed"}}
    here.cluster.merge(resource_kinds.POD, "p", failed, field_manager=US, namespace=here.namespace, status=True)
    for left in (["other/one"], []):
        here.cluster.merge(
            resource_kinds.POD, "p", {"metadata": {"finalizers": left}}, field_manager=US, namespace=here.namespace
        )
    with pytest.raises(errors.ObjectNotFound):
        here.cluster.get(resource_kinds.POD, "p", namespace=here.namespace)
    events = list(
        here.cluster.watch(resource_kinds.POD, resource_version=since, timeout_seconds=1, namespace=here.namespace)
    )
    *_, last = (event for event in events if event.type is not WatchEventType.BOOKMARK)
    assert (last.type, last.object["status"]["phase"]) == (WatchEventType.DELETED, "Failed")


def test_a_watch_continues_from_the_list(here: KubeNamespace) -> None:
    labels = _ours(here)
    here.cluster.create(QUEUE, _queue(here, "old"), field_manager=US)
    since = here.cluster.list(QUEUE, labels=labels).resource_version
    here.cluster.create(QUEUE, _queue(here, "new"), field_manager=US)
    here.cluster.merge(QUEUE, here.object_name("old"), {"spec": {"priority": 5}}, field_manager=US)
    here.cluster.delete(QUEUE, here.object_name("new"))
    events = _read_events(here, since, 3, labels=labels)
    assert _event_names(events) == [
        (WatchEventType.ADDED, here.object_name("new")),
        (WatchEventType.MODIFIED, here.object_name("old")),
        (WatchEventType.DELETED, here.object_name("new")),
    ]
    resumed = _read_events(here, events[0].resource_version, 2, labels=labels)
    assert _event_names(resumed) == _event_names(events)[1:]


def test_a_watch_receives_later_changes(here: KubeNamespace) -> None:
    labels = _ours(here)
    since = here.cluster.list(QUEUE, labels=labels).resource_version
    heard: list[WatchEvent] = []
    listener = threading.Thread(target=lambda: heard.extend(_read_events(here, since, 1, labels=labels)))
    listener.start()
    here.cluster.create(QUEUE, _queue(here, "a"), field_manager=US)
    listener.join(60)
    assert _event_names(heard) == [(WatchEventType.ADDED, here.object_name("a"))]


def test_an_object_that_leaves_the_selection_is_deleted_in_the_watch(here: KubeNamespace) -> None:
    labels = _ours(here)
    here.cluster.create(QUEUE, _queue(here, "a"), field_manager=US)
    since = here.cluster.list(QUEUE, labels=labels).resource_version
    here.cluster.merge(
        QUEUE, here.object_name("a"), {"metadata": {"labels": {"osmo.namespace": None}}}, field_manager=US
    )
    here.cluster.merge(
        QUEUE, here.object_name("a"), {"metadata": {"labels": {"osmo.namespace": here.namespace}}}, field_manager=US
    )
    name = here.object_name("a")
    assert _event_names(_read_events(here, since, 2, labels=labels)) == [
        (WatchEventType.DELETED, name),
        (WatchEventType.ADDED, name),
    ]


def test_a_watch_ends_with_its_resource_version(here: KubeNamespace) -> None:
    since = here.cluster.list(QUEUE, labels=_ours(here)).resource_version
    here.cluster.create(QUEUE, _queue(here, "a"), field_manager=US)
    (added,) = _read_events(here, since, 1, labels=_ours(here))
    quiet = list(
        here.cluster.watch(QUEUE, resource_version=added.resource_version, timeout_seconds=1, labels=_ours(here))
    )
    assert _event_names(quiet) == []
    behind = quiet[-1].resource_version if quiet else added.resource_version
    here.cluster.delete(QUEUE, here.object_name("a"))
    assert _event_names(_read_events(here, behind, 1, labels=_ours(here))) == [
        (WatchEventType.DELETED, here.object_name("a"))
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
