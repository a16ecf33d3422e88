"""What the port promises, on the twin and on a real API server alike."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from scheduling.kube import errors, kinds
from scheduling.kube.fake import Twin
from scheduling.kube.kinds import POD_GROUP, QUEUE
from scheduling.kube.ownership import managers_of
from scheduling.kube.port import Event, EventType, Kind
from tests.support.kube import CONFIG_MAP, Place

US, THEM = "osmo-admin", "somebody"
UNKNOWN = Kind("scheduling.run.ai", "v9", "queues", "Queue", namespaced=False)


def _queue(place: Place, short: str, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": place.name(short), "labels": {"osmo.namespace": place.namespace}},
        "spec": {"priority": 100, "resources": {"gpu": {"quota": 1, "limit": -1, "overQuotaWeight": 1}}} | spec,
    }


def _config(place: Place, name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": place.namespace}, "data": data}


def _ours(place: Place) -> str:
    return f"osmo.namespace={place.namespace}"


def test_it_names_its_version(place: Place) -> None:
    assert place.cluster.version().startswith("v1.")


def test_create_then_get(place: Place) -> None:
    made = place.cluster.create(QUEUE, _queue(place, "a"), owner=US)
    found = place.cluster.get(QUEUE, place.name("a"))
    assert found["spec"] == made["spec"] == _queue(place, "a")["spec"]
    assert (found["apiVersion"], found["kind"]) == ("scheduling.run.ai/v2", "Queue")
    assert found["metadata"]["uid"] == made["metadata"]["uid"]
    assert found["metadata"]["generation"] == 1


def test_a_name_is_taken_once(place: Place) -> None:
    place.cluster.create(QUEUE, _queue(place, "a"), owner=US)
    with pytest.raises(errors.AlreadyExists) as refused:
        place.cluster.create(QUEUE, _queue(place, "a"), owner=US)
    assert refused.value.status == 409
    assert place.name("a") in refused.value.message


def test_what_is_not_there(place: Place) -> None:
    with pytest.raises(errors.NotFound) as missing:
        place.cluster.get(QUEUE, place.name("nobody"))
    assert not isinstance(missing.value, errors.KindMissing)
    with pytest.raises(errors.NotFound):
        place.cluster.delete(QUEUE, place.name("nobody"))
    with pytest.raises(errors.NotFound):
        place.cluster.merge(QUEUE, place.name("nobody"), {"spec": {"priority": 1}}, owner=US)


def test_a_kind_that_is_not_served(place: Place) -> None:
    for call in (
        lambda: place.cluster.list(UNKNOWN),
        lambda: place.cluster.get(UNKNOWN, "a"),
        lambda: place.cluster.create(UNKNOWN, _queue(place, "a"), owner=US),
        lambda: place.cluster.apply(UNKNOWN, _queue(place, "a"), owner=US),
        lambda: place.cluster.delete(UNKNOWN, "a"),
        lambda: list(place.cluster.watch(UNKNOWN, since="1", seconds=1)),
    ):
        with pytest.raises(errors.KindMissing):
            call()


def test_a_namespace_that_is_not_there(place: Place) -> None:
    body = _config(place, "a", x="1")
    body["metadata"]["namespace"] = place.name("elsewhere")
    with pytest.raises(errors.NotFound) as missing:
        place.cluster.create(CONFIG_MAP, body, owner=US)
    assert not isinstance(missing.value, errors.KindMissing)
    assert place.name("elsewhere") in missing.value.message


def test_a_name_that_no_object_may_have(place: Place) -> None:
    with pytest.raises(errors.Invalid) as refused:
        place.cluster.create(QUEUE, _queue(place, "team--_shared"), owner=US)
    assert [fault.field for fault in refused.value.details] == ["metadata.name"]


def test_a_list_has_all_pages_and_only_what_was_asked(place: Place) -> None:
    for number in range(7):
        place.cluster.create(CONFIG_MAP, _config(place, f"c{number}", n=str(number)), owner=US)
    marked = _config(place, "marked", n="x")
    marked["metadata"]["labels"] = {"colour": "red"}
    place.cluster.create(CONFIG_MAP, marked, owner=US)

    def names(**how: Any) -> list[str]:
        found = place.cluster.list(CONFIG_MAP, **how).items
        assert {item["kind"] for item in found} == {"ConfigMap"}
        return sorted(item["metadata"]["name"] for item in found)

    everything = [f"c{number}" for number in range(7)] + ["marked"]
    assert names(namespace=place.namespace, page=3) == everything
    assert set(everything) <= set(names(page=2))
    assert names(namespace=place.namespace, labels="colour=red") == ["marked"]
    assert names(namespace=place.namespace, labels="!colour") == everything[:-1]
    assert names(namespace=place.namespace, labels="colour in (red, blue)") == ["marked"]
    assert names(namespace=place.namespace, fields="metadata.name=c3") == ["c3"]
    kept = place.cluster.list(CONFIG_MAP, namespace=place.namespace, page=3, keep=lambda item: item["data"]["n"])
    assert sorted(kept.items) == ["0", "1", "2", "3", "4", "5", "6", "x"]


def test_apply_makes_changes_and_takes_away_what_it_no_longer_says(place: Place) -> None:
    body = _queue(place, "a", displayName="A")
    made = place.cluster.apply(QUEUE, body, owner=US)
    assert made["spec"]["displayName"] == "A"
    without = _queue(place, "a", priority=50)
    after = place.cluster.apply(QUEUE, without, owner=US)
    assert after["spec"] == without["spec"]
    assert after["metadata"]["generation"] == 2
    assert managers_of(after, ("spec", "priority")) == [US]


def test_apply_of_the_same_changes_nothing(place: Place) -> None:
    first = place.cluster.apply(QUEUE, _queue(place, "a"), owner=US)
    again = place.cluster.apply(QUEUE, _queue(place, "a"), owner=US)
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_apply_leaves_the_fields_of_others(place: Place) -> None:
    place.cluster.apply(QUEUE, _queue(place, "a"), owner=US)
    theirs = {"metadata": {"name": place.name("a"), "labels": {"team": "x"}}, "spec": {"displayName": "theirs"}}
    place.cluster.apply(QUEUE, theirs, owner=THEM)
    after = place.cluster.apply(QUEUE, _queue(place, "a", priority=7), owner=US)
    assert after["spec"]["displayName"] == "theirs"
    assert after["spec"]["priority"] == 7
    assert after["metadata"]["labels"] == {"osmo.namespace": place.namespace, "team": "x"}


def test_somebody_elses_field_is_a_conflict_unless_forced(place: Place) -> None:
    place.cluster.apply(QUEUE, _queue(place, "a"), owner=US)
    place.cluster.merge(QUEUE, place.name("a"), {"spec": {"priority": 1}}, owner=THEM)
    with pytest.raises(errors.Conflict) as refused:
        place.cluster.apply(QUEUE, _queue(place, "a"), owner=US)
    assert [fault.field for fault in refused.value.details] == [".spec.priority"]
    assert THEM in refused.value.details[0].message
    assert place.cluster.get(QUEUE, place.name("a"))["spec"]["priority"] == 1
    assert managers_of(place.cluster.get(QUEUE, place.name("a")), ("spec", "priority")) == [THEM]
    after = place.cluster.apply(QUEUE, _queue(place, "a"), owner=US, force=True)
    assert after["spec"]["priority"] == 100
    assert managers_of(after, ("spec", "priority")) == [US]


def test_a_dry_run_writes_nothing(place: Place) -> None:
    shown = place.cluster.apply(QUEUE, _queue(place, "a"), owner=US, dry_run=True)
    assert shown["spec"]["priority"] == 100
    with pytest.raises(errors.NotFound):
        place.cluster.get(QUEUE, place.name("a"))


def test_a_merge_changes_only_its_keys(place: Place) -> None:
    place.cluster.create(CONFIG_MAP, _config(place, "c", x="1", y="2"), owner=US)
    after = place.cluster.merge(CONFIG_MAP, "c", {"data": {"x": None, "z": "3"}}, owner=THEM, namespace=place.namespace)
    assert after["data"] == {"y": "2", "z": "3"}
    assert managers_of(after, ("data", "y")) == [US]
    assert managers_of(after, ("data", "z")) == [THEM]


def test_a_merge_may_ask_for_the_version_it_saw(place: Place) -> None:
    place.cluster.create(CONFIG_MAP, _config(place, "c", x="1"), owner=US)
    seen = place.cluster.get(CONFIG_MAP, "c", namespace=place.namespace)["metadata"]["resourceVersion"]
    change = {"metadata": {"resourceVersion": seen}, "data": {"x": "2"}}
    place.cluster.merge(CONFIG_MAP, "c", change, owner=US, namespace=place.namespace)
    with pytest.raises(errors.Conflict):
        place.cluster.merge(CONFIG_MAP, "c", change | {"data": {"x": "3"}}, owner=US, namespace=place.namespace)
    assert place.cluster.get(CONFIG_MAP, "c", namespace=place.namespace)["data"] == {"x": "2"}


def test_the_status_has_its_own_door(place: Place) -> None:
    place.cluster.create(QUEUE, _queue(place, "a") | {"status": {"childQueues": ["x"]}}, owner=US)
    assert not place.cluster.get(QUEUE, place.name("a")).get("status")
    through_the_wrong_one = {"status": {"childQueues": ["x"]}, "spec": {"priority": 3}}
    assert not place.cluster.merge(QUEUE, place.name("a"), through_the_wrong_one, owner=THEM).get("status")
    right = {"status": {"childQueues": ["x"]}, "spec": {"priority": 4}}
    after = place.cluster.merge(QUEUE, place.name("a"), right, owner=THEM, status=True)
    assert (after["status"], after["spec"]["priority"]) == ({"childQueues": ["x"]}, 3)
    assert after["metadata"]["generation"] == 2
    applied = {"metadata": {"name": place.name("a")}, "status": {"childQueues": ["y"]}}
    assert place.cluster.apply(QUEUE, applied, owner=THEM, status=True, force=True)["status"]["childQueues"] == ["y"]


def test_a_delete_may_name_the_one_it_means(place: Place) -> None:
    first = place.cluster.create(QUEUE, _queue(place, "a"), owner=US)["metadata"]
    with pytest.raises(errors.Conflict):
        place.cluster.delete(QUEUE, first["name"], uid="11111111-1111-1111-1111-111111111111")
    place.cluster.merge(QUEUE, first["name"], {"spec": {"priority": 1}}, owner=THEM)
    with pytest.raises(errors.Conflict):
        place.cluster.delete(QUEUE, first["name"], resource_version=first["resourceVersion"])
    place.cluster.delete(QUEUE, first["name"], uid=first["uid"])
    with pytest.raises(errors.NotFound):
        place.cluster.get(QUEUE, first["name"])


def test_a_pod_group_stands_in_its_namespace(place: Place) -> None:
    body = {"metadata": {"name": "g", "namespace": place.namespace}, "spec": {"minMember": 2, "queue": "q"}}
    place.cluster.create(POD_GROUP, body, owner=US)
    assert place.cluster.get(POD_GROUP, "g", namespace=place.namespace)["spec"]["minMember"] == 2
    place.cluster.delete(POD_GROUP, "g", namespace=place.namespace, grace_seconds=0)
    assert place.cluster.list(POD_GROUP, namespace=place.namespace).items == []


def _told(events: list[Event]) -> list[tuple[EventType, str]]:
    return [(event.type, event.object["metadata"]["name"]) for event in events if event.type != EventType.BOOKMARK]


def _watched(place: Place, since: str, wanted: int, **how: Any) -> list[Event]:
    """The next events; the watch is left when it has told as many as are wanted."""
    found: list[Event] = []
    watch = place.cluster.watch(QUEUE, since=since, seconds=60, **how)
    for event in watch:
        if event.type != EventType.BOOKMARK:
            found.append(event)
        if len(found) == wanted:
            watch.close()  # type: ignore[attr-defined]  # both are generators
            break
    return found


def test_what_has_a_finalizer_goes_when_the_last_one_lets_go(place: Place) -> None:
    pod = {
        "metadata": {"name": "p", "namespace": place.namespace, "finalizers": ["osmo-admin/seen", "other/one"]},
        "spec": {"containers": [{"name": "c", "image": "ubuntu"}]},
    }
    uid = place.cluster.create(kinds.POD, pod, owner=US)["metadata"]["uid"]
    since = place.cluster.list(kinds.POD, namespace=place.namespace).resource_version
    place.cluster.delete(kinds.POD, "p", namespace=place.namespace, uid=uid, grace_seconds=0)
    place.cluster.delete(kinds.POD, "p", namespace=place.namespace, uid=uid, grace_seconds=0)
    going = place.cluster.get(kinds.POD, "p", namespace=place.namespace)
    assert going["metadata"]["deletionTimestamp"]
    failed = {"status": {"phase": "Failed"}}
    place.cluster.merge(kinds.POD, "p", failed, owner=US, namespace=place.namespace, status=True)
    for left in (["other/one"], []):
        place.cluster.merge(kinds.POD, "p", {"metadata": {"finalizers": left}}, owner=US, namespace=place.namespace)
    with pytest.raises(errors.NotFound):
        place.cluster.get(kinds.POD, "p", namespace=place.namespace)
    events = list(place.cluster.watch(kinds.POD, since=since, seconds=1, namespace=place.namespace))
    *_, last = (event for event in events if event.type is not EventType.BOOKMARK)
    assert (last.type, last.object["status"]["phase"]) == (EventType.DELETED, "Failed")


def test_a_watch_goes_on_from_the_list(place: Place) -> None:
    labels = _ours(place)
    place.cluster.create(QUEUE, _queue(place, "old"), owner=US)
    since = place.cluster.list(QUEUE, labels=labels).resource_version
    place.cluster.create(QUEUE, _queue(place, "new"), owner=US)
    place.cluster.merge(QUEUE, place.name("old"), {"spec": {"priority": 5}}, owner=US)
    place.cluster.delete(QUEUE, place.name("new"))
    events = _watched(place, since, 3, labels=labels)
    assert _told(events) == [
        (EventType.ADDED, place.name("new")),
        (EventType.MODIFIED, place.name("old")),
        (EventType.DELETED, place.name("new")),
    ]
    resumed = _watched(place, events[0].resource_version, 2, labels=labels)
    assert _told(resumed) == _told(events)[1:]


def test_a_watch_hears_what_happens_while_it_waits(place: Place) -> None:
    labels = _ours(place)
    since = place.cluster.list(QUEUE, labels=labels).resource_version
    heard: list[Event] = []
    listener = threading.Thread(target=lambda: heard.extend(_watched(place, since, 1, labels=labels)))
    listener.start()
    place.cluster.create(QUEUE, _queue(place, "a"), owner=US)
    listener.join(60)
    assert _told(heard) == [(EventType.ADDED, place.name("a"))]


def test_what_leaves_the_selection_of_a_watch_is_deleted_there(place: Place) -> None:
    labels = _ours(place)
    place.cluster.create(QUEUE, _queue(place, "a"), owner=US)
    since = place.cluster.list(QUEUE, labels=labels).resource_version
    place.cluster.merge(QUEUE, place.name("a"), {"metadata": {"labels": {"osmo.namespace": None}}}, owner=US)
    place.cluster.merge(QUEUE, place.name("a"), {"metadata": {"labels": {"osmo.namespace": place.namespace}}}, owner=US)
    name = place.name("a")
    assert _told(_watched(place, since, 2, labels=labels)) == [(EventType.DELETED, name), (EventType.ADDED, name)]


def test_a_watch_ends_by_itself_and_says_how_far_it_came(place: Place) -> None:
    since = place.cluster.list(QUEUE, labels=_ours(place)).resource_version
    place.cluster.create(QUEUE, _queue(place, "a"), owner=US)
    (added,) = _watched(place, since, 1, labels=_ours(place))
    quiet = list(place.cluster.watch(QUEUE, since=added.resource_version, seconds=1, labels=_ours(place)))
    assert _told(quiet) == []
    behind = quiet[-1].resource_version if quiet else added.resource_version
    place.cluster.delete(QUEUE, place.name("a"))
    assert _told(_watched(place, behind, 1, labels=_ours(place))) == [(EventType.DELETED, place.name("a"))]


def test_a_place_that_is_forgotten_is_gone() -> None:
    twin = Twin()
    since = twin.list(QUEUE).resource_version
    twin.create(kinds.NAMESPACE, {"metadata": {"name": "x"}}, owner=US)
    twin.forget_history()
    with pytest.raises(errors.Gone):
        list(twin.watch(QUEUE, since=since, seconds=1))
    assert list(twin.watch(QUEUE, since=twin.list(QUEUE).resource_version, seconds=0.1))[-1].type == EventType.BOOKMARK
