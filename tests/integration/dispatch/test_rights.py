"""The whole life of work with no more rights than the manifests give, and each of them needed."""

from __future__ import annotations

import pytest

from pools.models import KubernetesSettings
from scheduling.kube import connections, errors, kinds, rbac
from scheduling.models import Workflow
from scheduling.services.kubernetes.agent import Agent, Rhythm
from scheduling.services.kubernetes.connection_test import run_test
from scheduling.services.kubernetes.queue_sync import sync_backend
from scheduling.services.workflows.user_actions import cancel_workflow
from tests.support import houses
from tests.support.clusters import Room, file_of, statuses
from tests.support.granted import Granted

FILES = "files: [{path: /tmp/run.sh, contents: 'ping {{host:other}}'}]"


@pytest.fixture
def lawful(twin: Room, monkeypatch: pytest.MonkeyPatch) -> Granted:
    """The room's agent, and every run of the worker, through a connection that has only these rights."""
    granted = Granted(twin.cluster, "osmo")
    monkeypatch.setattr(connections, "connect", lambda _: granted)
    twin.agent = Agent(twin.backend.pk, connect=lambda _: granted, rhythm=Rhythm(recount=0))  # type: ignore[arg-type, return-value]
    return granted


def test_the_rights_are_enough(twin: Room, lawful: Granted) -> None:
    twin.pool.config["topology_keys"] = [{"key": "rack", "label": "rack"}]
    twin.pool.save()
    run_test(twin.backend.pk)
    assert sync_backend(twin.backend.pk, by_hand=True).synced == "True"
    workflow = twin.submit(file_of("lead", "other", more=FILES))
    twin.look()
    twin.run(*twin.pods(workflow))
    twin.look()
    twin.finish(*twin.pods(workflow))
    twin.look()
    assert {status for _, _, status, _ in statuses(workflow)} == {"COMPLETED"}
    other = twin.submit(file_of("lead", "other", more=FILES))
    twin.look()
    cancel_workflow(actor=houses.admin(), name=other.name)
    twin.look()
    assert Workflow.objects.get(pk=other.pk).status == "FAILED_CANCELED"
    for kind in (kinds.POD, kinds.POD_GROUP, kinds.SECRET, kinds.SERVICE):
        assert twin.cluster.list(kind, namespace="osmo").items == [], kind
    assert KubernetesSettings.objects.get().backend.queue_sync.connection["ok"]


def test_none_is_left_over(twin: Room, lawful: Granted) -> None:
    """Every right in the namespace is used by somebody; what only watches use an agent that follows would."""
    test_the_rights_are_enough(twin, lawful)
    twin.submit()
    twin.look()
    (pod,), (pod_group,) = twin.pods(), twin.pod_groups()
    bare = {"metadata": {"labels": {"osmo.house": None}}}
    moved = {"spec": {"queue": "elsewhere"}}
    for kind, there, change in ((kinds.POD, pod, bare), (kinds.POD_GROUP, pod_group, moved)):
        twin.cluster.merge(kind, there["metadata"]["name"], change, owner="somebody", namespace="osmo")
    twin.look()
    given = {(kind.plural, verb) for kind, verbs in rbac.IN_NAMESPACE for verb in verbs}
    watched = {(kind.plural, "watch") for kind in (kinds.POD, kinds.POD_GROUP)}
    taken = {(kind.plural, "get") for kind in (kinds.SECRET, kinds.SERVICE, kinds.POD_GROUP)}  # whose is that name?
    assert given - lawful.used <= watched | taken


def test_without_a_right_the_call_is_refused(lawful: Granted) -> None:
    """That the judge judges."""
    pod = {"metadata": {"name": "p", "namespace": "elsewhere"}, "spec": {"containers": []}}
    with pytest.raises(errors.Forbidden, match="create pods in elsewhere"):
        lawful.create(kinds.POD, pod, owner="osmo-admin")
    with pytest.raises(errors.Forbidden, match="list secrets in the cluster"):
        lawful.list(kinds.SECRET)
