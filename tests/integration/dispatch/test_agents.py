"""Agents as they live: in threads, woken by events, several at once, with databases and clusters that go away."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection, connections

from pools.models import Backend
from scheduling.kube import errors
from scheduling.kube.fake import Twin
from scheduling.kube.informer import Pace
from scheduling.models import ClusterState, Workflow
from scheduling.services.kubernetes import agent as agents_module
from scheduling.services.kubernetes.agent import Agent, Rhythm
from scheduling.services.kubernetes.agents import Agents
from scheduling.services.verify import verify
from tests.support.clusters import Room, file_of, kubernetes_backend
from tests.support.kube import eventually
from tests.support.shaky import Shaky
from tests.support.threads import together

QUICK = Rhythm(
    look=0.2, recount=0.5, heartbeat=0.2, configuration=0.1, standby=0.1, gather=0.0,
    pace=Pace(window=0.3, relist=60, first_pause=0.01, longest_pause=0.1),
)  # fmt: skip


@pytest.fixture
def house(ledger: None) -> Room:
    """Committed rows, seen by every thread."""
    return Room.make(Twin(namespaces=["osmo"]), "osmo")


@contextmanager
def living(*agents: Agent) -> Iterator[list[threading.Event]]:
    """These agents run; each stops when its event is set."""
    stops = [threading.Event() for _ in agents]

    def live(agent: Agent, stop: threading.Event) -> None:
        try:
            agent.run(stop)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=live, args=pair, daemon=True) for pair in zip(agents, stops, strict=True)]
    for thread in threads:
        thread.start()
    try:
        yield stops
    finally:
        for stop, agent in zip(stops, agents, strict=True):
            stop.set()
            agent.wake()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)


def agent_of(room: Room, cluster: Any = None, rhythm: Rhythm = QUICK) -> Agent:
    return Agent(room.backend.pk, connect=lambda _: cluster or room.cluster, rhythm=rhythm)


def becomes(workflow: Workflow, status: str) -> None:
    def there() -> bool:
        workflow.refresh_from_db()
        return workflow.status == status

    eventually(there, what=f"{workflow.name} is {status}")


def empty(room: Room) -> bool:
    return not room.pods() and not room.pod_groups()


def to_the_end(room: Room, workflow: Workflow, pods: int = 1) -> None:
    """The cluster does its part while the agents do theirs."""
    eventually(lambda: len(room.pods(workflow)) == pods, what="all pods are made")
    room.run(*room.pods(workflow))
    becomes(workflow, "RUNNING")
    room.finish(*room.pods(workflow))
    becomes(workflow, "COMPLETED")
    eventually(lambda: empty(room), what="nothing is left behind")


def test_events_are_followed(house: Room) -> None:
    with living(agent_of(house)):
        to_the_end(house, house.submit(file_of("lead", "other")), pods=2)
        eventually(lambda: not Backend.objects.get(pk=house.backend.pk).offline)
    assert verify() == []


def test_one_works_and_the_other_stands_by_until_it_is_needed(house: Room) -> None:
    first, second = Shaky(house.cluster), Shaky(house.cluster)
    with living(agent_of(house, first)) as (stop_first,):
        to_the_end(house, house.submit())
        with living(agent_of(house, second)):
            to_the_end(house, house.submit())
            assert not second.calls
            stop_first.set()
            to_the_end(house, house.submit())
            assert second.calls["create"]
    assert verify() == []


def test_a_lease_of_the_dead_ends_by_itself(house: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = agent_of(house)
    agents_module.heartbeats.state_of(house.backend)
    dead._lease.claim()
    shaky = Shaky(house.cluster)
    with living(agent_of(house, shaky)):
        workflow = house.submit()
        eventually(lambda: ClusterState.objects.get().holder is not None)
        assert not shaky.calls
        with connection.cursor() as cursor:
            cursor.execute("UPDATE scheduling_clusterstate SET held_until = now() - interval '1 second'")
        to_the_end(house, workflow)


def test_two_that_both_think_the_backend_is_theirs_make_nothing_twice(house: Room) -> None:
    """The lease taken away: both look at the same moment, many times, from submission to the end."""
    shaky = Shaky(house.cluster)
    two = [agent_of(house, shaky), agent_of(house, shaky)]
    workflows = [house.submit(file_of("lead", "other", name=f"job-{number}")) for number in range(6)]

    def both_look() -> None:
        for outcome in together([agent.look_now for agent in two]):
            assert outcome is None

    both_look()
    house.run(*house.pods())
    both_look()
    house.finish(*house.pods())
    for _ in range(3):
        both_look()
    assert set(shaky.made.values()) == {1}
    assert len(shaky.made) == 6 * 3
    assert empty(house)
    assert {Workflow.objects.get(pk=each.pk).status for each in workflows} == {"COMPLETED"}
    assert verify() == []


def test_an_agent_that_was_frozen_finds_its_lease_gone(house: Room) -> None:
    """It wakes in the middle of its work, somebody else has taken over meanwhile; it lets go and stands by."""
    rhythm = Rhythm(look=0.1, standby=0.1, gather=0.0, pace=QUICK.pace)
    frozen = agent_of(house, rhythm=rhythm)
    frozen._lease._renew_after = 0.0
    with living(frozen):
        eventually(lambda: frozen._is_leased)
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE scheduling_clusterstate SET holder = gen_random_uuid(), held_until = now() + interval '1 hour'"
            )
        eventually(lambda: not frozen._is_leased)
        workflow = house.submit()
        frozen.wake()
        for _ in range(3):
            seen = frozen.alive_at
            eventually(lambda seen=seen: frozen.alive_at > seen)  # type: ignore[misc]
        assert not house.pods(workflow)


def test_a_lost_database_is_waited_for(house: Room) -> None:
    with living(agent_of(house)):
        to_the_end(house, house.submit())
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        to_the_end(house, house.submit())
    assert verify() == []


def test_a_fault_of_our_own_does_not_end_an_agent(house: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    real, left = agents_module.compare, [3]

    def stumble(*args: Any, **kwargs: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise RuntimeError("a mistake of ours")
        return real(*args, **kwargs)

    monkeypatch.setattr(agents_module, "compare", stumble)
    with living(agent_of(house)):
        to_the_end(house, house.submit())
    assert left == [0]


class Silent:
    """A cluster whose every call hangs until the test is over."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.asked = threading.Event()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*_: Any, **__: Any) -> Any:
            self.asked.set()
            self.over.wait(120)
            raise errors.Unreachable("No answer in time.")

        return call


def test_a_dead_cluster_holds_up_no_other(house: Room) -> None:
    dead = kubernetes_backend("dead", name="dead")
    silent = Silent()
    clusters: dict[int, Any] = {dead.pk: silent, house.backend.pk: house.cluster}
    agents = Agents(lambda backend: Agent(backend, connect=lambda row: clusters[row.pk], rhythm=QUICK))
    try:
        agents.keep_up()
        eventually(silent.asked.is_set)
        to_the_end(house, house.submit())
        assert not silent.over.is_set()
        assert agents.are_alive
    finally:
        silent.over.set()
        agents.stop()
        eventually(lambda: not any(thread.name.startswith("cluster-") for thread in threading.enumerate()))


def test_backends_come_and_go(house: Room) -> None:
    started: list[int] = []

    class Idle(Agent):
        def run(self, stop: threading.Event) -> None:
            started.append(self.backend_id)
            stop.wait(60)

    agents = Agents(Idle)
    try:
        agents.keep_up()
        eventually(lambda: started == [house.backend.pk])
        more = kubernetes_backend("more", name="more")
        agents.keep_up()
        agents.keep_up()
        eventually(lambda: started == [house.backend.pk, more.pk])
        more.delete()
        agents.keep_up()
        eventually(lambda: sum(thread.name.startswith("cluster-") for thread in threading.enumerate()) == 1)
    finally:
        agents.stop()
    eventually(lambda: not any(thread.name.startswith("cluster-") for thread in threading.enumerate()))


def test_one_whose_thread_ended_is_started_again(house: Room) -> None:
    started: list[int] = []

    class Mortal(Agent):
        def run(self, stop: threading.Event) -> None:
            started.append(self.backend_id)

    agents = Agents(Mortal)
    agents.keep_up()
    eventually(lambda: not any(thread.name.startswith("cluster-") for thread in threading.enumerate()))
    agents.keep_up()
    eventually(lambda: started == [house.backend.pk] * 2)
    agents.stop()
