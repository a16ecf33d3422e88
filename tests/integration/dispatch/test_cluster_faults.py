"""A real API server that dies, restarts, falls silent or refuses us, while agents work with it. After each: everything
is done once, and nothing is left behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pools.domain.roles import SYSTEM
from pools.models import Backend
from pools.services.backends import put_backend
from scheduling.kube import connections as kube_connections
from scheduling.kube import errors
from scheduling.kube.client import Limits
from scheduling.kube.informer import Pace
from scheduling.kube.kinds import POD_GROUP
from scheduling.models import ClusterState, Workflow
from scheduling.services.kubernetes.agent import Agent, Rhythm
from scheduling.services.verify import verify
from tests.integration.dispatch.test_agents import becomes, empty, living, to_the_end
from tests.support import houses
from tests.support.bystanders import Bystanders
from tests.support.clusters import Room, file_of, group_of
from tests.support.kube import PINNED, KubeServer, Place, eventually, fresh_namespace
from tests.support.kube_proxy import Proxy
from tests.support.shaky import Shaky

pytestmark = pytest.mark.k8s

RHYTHM = Rhythm(
    look=0.5, recount=2, heartbeat=0.5, configuration=0.2, standby=0.2,
    pace=Pace(window=20, relist=120, first_pause=0.05, longest_pause=1),
)  # fmt: skip
LIMITS = Limits(connect=2, call=20, silence=60)


@pytest.fixture
def mortal(own_kube_server: KubeServer, ledger: None) -> Iterator[tuple[KubeServer, Room, Shaky]]:
    """A server of this test's own, a room on it beside others, and the connection that the agent gets."""
    own_kube_server.install(*PINNED)
    cluster = own_kube_server.cluster(limits=LIMITS)
    room = Room.make(cluster, fresh_namespace(cluster))
    shaky = Shaky(cluster)
    room.agent = Agent(room.backend.pk, connect=lambda _: shaky, rhythm=RHYTHM)  # type: ignore[arg-type, return-value]
    others = Bystanders(cluster, room.backend.namespace)
    yield own_kube_server, room, shaky
    others.assert_untouched()
    cluster.close()


@pytest.fixture
def place(kube: Place, ledger: None) -> Place:
    """The shared server, with committed rows."""
    return kube


def many(room: Room, count: int) -> list[Workflow]:
    return [room.submit(file_of("lead", "other", name=f"job-{number}")) for number in range(count)]


def all_end(room: Room, workflows: list[Workflow]) -> None:
    eventually(lambda: len(room.pods()) == 2 * len(workflows), seconds=120, what="all pods are made")
    room.run(*room.pods())
    for workflow in workflows:
        becomes(workflow, "RUNNING")
    room.finish(*room.pods())
    for workflow in workflows:
        becomes(workflow, "COMPLETED")
    eventually(lambda: empty(room), seconds=120, what="nothing is left behind")


def patiently(look: Callable[[], Any]) -> Callable[[], Any]:
    """A look at a server that may be away just now."""

    def attempt() -> Any:
        try:
            return look()
        except errors.ClusterError:
            return None

    return attempt


def test_an_api_server_is_killed_in_the_middle_of_dispatch_and_comes_back(
    mortal: tuple[KubeServer, Room, Shaky],
) -> None:
    server, room, shaky = mortal
    killed = threading.Event()

    def trouble(call: str, _: int) -> None:
        if call == "create" and sum(shaky.made.values()) >= 5 and not killed.is_set():
            killed.set()
            server.kill()

    shaky.trouble = trouble
    workflows = many(room, 5)
    with living(room.agent):
        eventually(killed.is_set)
        eventually(lambda: "cluster_fault" in str([group_of(each).waiting_reason for each in workflows]))
        server.restart()
        eventually(patiently(room.pods), seconds=120)
        all_end(room, workflows)
        assert set(shaky.made.values()) == {1}
        eventually(lambda: ClusterState.objects.get().fault == "")
    assert verify() == []


def test_etcd_and_api_server_are_restarted_while_work_runs(mortal: tuple[KubeServer, Room, Shaky]) -> None:
    server, room, shaky = mortal
    (workflow,) = many(room, 1)
    with living(room.agent):
        eventually(lambda: len(room.pods()) == 2)
        room.run(*room.pods())
        becomes(workflow, "RUNNING")
        server.stop()
        eventually(lambda: ClusterState.objects.get().fault != "")
        server.start()
        eventually(patiently(room.pods), seconds=120)
        room.finish(*room.pods())
        becomes(workflow, "COMPLETED")
        eventually(lambda: empty(room))
        to_the_end(room, room.submit())
    assert set(shaky.made.values()) == {1}
    assert verify() == []


def test_a_watch_that_dies_in_silence_is_noticed(kube_server: KubeServer, place: Place) -> None:
    """The connection stands, and nothing comes any more: the worst that a network can do."""
    proxy = Proxy(kube_server.address, kube_server.authority)
    proxy.answer("watch=true", delay=3600, times=None)
    cluster = kube_server.cluster(address=proxy.address, limits=Limits(connect=5, call=20, silence=1))
    room = Room.make(place.cluster, place.namespace)
    try:
        with living(Agent(room.backend.pk, connect=lambda _: cluster, rhythm=RHYTHM)):
            to_the_end(room, room.submit())
    finally:
        proxy.close()
        cluster.close()


def test_a_token_expires_and_a_new_one_is_taken_up(kube_server: KubeServer, place: Place) -> None:
    """The whole way of a credential: sealed in the ledger, used, refused, replaced through the API's own door."""

    def put(config: str) -> Backend:
        body = {"type": "kubernetes", "namespace": place.namespace, "kubeconfig": config}
        return put_backend(actor=SYSTEM, name="lab", body=body).row

    backend = put(kube_server.sendable())
    pool = houses.pool("team", 100, on=backend)
    agent = Agent(backend.pk, rhythm=RHYTHM)
    room = Room(place.cluster, backend, pool, agent)
    with living(agent):
        to_the_end(room, room.submit())
        put(kube_server.sendable("a-token-that-nobody-knows"))
        eventually(lambda: "expired" in ClusterState.objects.get().fault)
        workflow = room.submit()
        eventually(lambda: (group_of(workflow).waiting_reason or {}).get("code") == "cluster_fault")
        assert room.pods() == []
        put(kube_server.sendable())
        to_the_end(room, workflow)
    kube_connections.connect(backend).close()


def test_kai_is_installed_after_the_work_came(own_kube_server: KubeServer, ledger: None) -> None:
    cluster = own_kube_server.cluster(limits=LIMITS)
    room = Room.make(cluster, fresh_namespace(cluster))
    workflow = room.submit()
    with living(Agent(room.backend.pk, connect=lambda _: cluster, rhythm=RHYTHM)):
        eventually(lambda: "install KAI" in (group_of(workflow).waiting_reason or {}).get("message", ""))
        assert room.pods() == []
        own_kube_server.install(*PINNED)
        to_the_end(room, workflow)
        own_kube_server.uninstall(POD_GROUP)
        waits = room.submit()
        eventually(lambda: "install KAI" in (group_of(waits).waiting_reason or {}).get("message", ""))
        own_kube_server.install(*PINNED)
        to_the_end(room, waits)
    cluster.close()


ELASTIC = """
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata:
  name: replicas
  annotations: {osmo/image: ubuntu, osmo/command: "[sh]", osmo/gpus-per-pod: "1"}
spec:
  minSubGroup: 1
  subGroups:
  - {name: a, minMember: 1}
  - {name: b, minMember: 1}
"""


def test_an_older_kai_does_not_get_a_gang_it_would_misread(place: Place) -> None:
    """Its API server would drop `minSubGroup` in silence, and the gang would start as another one."""
    room = Room.make(place.cluster, place.namespace)
    workflow = room.submit(ELASTIC)
    room.look()
    workflow.refresh_from_db()
    assert workflow.status == "FAILED_BACKEND_ERROR"
    assert "spec.minSubGroup" in workflow.failure_message
    assert (room.pods(), room.pod_groups()) == ([], [])


def test_a_newer_one_gets_it_as_it_is(newer_kube_server: KubeServer, ledger: None) -> None:
    cluster = newer_kube_server.cluster()
    room = Room.make(cluster, fresh_namespace(cluster))
    workflow = room.submit(ELASTIC)
    room.look()
    (pod_group,) = room.pod_groups()
    assert pod_group["spec"]["minSubGroup"] == 1
    assert [pod["metadata"]["labels"]["kai.scheduler/subgroup-name"] for pod in room.pods()] == ["a", "b"]
    room.run(room.of_task(workflow, "a-0"))
    room.finish(room.of_task(workflow, "a-0"))
    room.look()
    workflow.refresh_from_db()
    assert workflow.status == "COMPLETED"  # one of two was enough
    assert room.pods() == []
    cluster.close()
