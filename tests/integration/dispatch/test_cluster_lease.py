"""Two installations on one namespace exclude each other by a Lease in the cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field

import psycopg
import pytest
from psycopg import sql

from scheduling.domain.cluster.election import Candidate, lease_name
from scheduling.kube.cluster_lease import ClusterLease, HolderCheck, LeaseState
from scheduling.kube.connection import errors
from scheduling.kube.connection.port import Cluster
from scheduling.kube.connection.resource_kinds import LEASE
from scheduling.models import ClusterState
from scheduling.services.kubernetes.instance_id import INSTANCE_ID_QUERY, read_instance_id
from tests.support.agent_harness import AgentHarness
from tests.support.fake_cluster import BUILT_IN_KINDS, FakeCluster
from tests.support.services import Services


@dataclass
class Scene:
    """A cluster, and a clock that the test moves."""

    cluster: Cluster
    namespace: str
    now: float = field(default_factory=time.monotonic)

    def candidate(self, installation: str, process: str = "host/1") -> ClusterLease:
        """A process of an installation."""
        return ClusterLease(self.namespace, Candidate(installation, process), clock=lambda: self.now)

    @property
    def spec(self) -> dict[str, object]:
        """The Lease in the cluster."""
        return dict(self.cluster.get(LEASE, lease_name(self.namespace), namespace=self.namespace)["spec"])


@pytest.fixture(params=[pytest.param("fake"), pytest.param("real", marks=pytest.mark.k8s)])
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    """On both clusters."""
    if request.param == "real":
        kube = request.getfixturevalue("kube")
        yield Scene(kube.cluster, kube.namespace)
    else:
        yield Scene(FakeCluster(namespaces=["osmo"]), "osmo")


def test_two_installations_exclude_each_other(scene: Scene) -> None:
    first, copy = scene.candidate("one"), scene.candidate("two")
    assert first.step(scene.cluster) is LeaseState.HELD
    for _ in range(10):
        scene.now += 3
        assert first.step(scene.cluster) is LeaseState.HELD
        assert copy.step(scene.cluster) is LeaseState.ELSEWHERE
        assert (first.may_write(), copy.may_write()) == (True, False)
    assert copy.holder == "one/host/1"
    assert copy.since
    assert scene.spec["leaseTransitions"] == 0
    assert HolderCheck(scene.namespace, "two").find_other(scene.cluster) == "one/host/1"
    assert HolderCheck(scene.namespace, "one").find_other(scene.cluster) == ""


def test_a_silent_holder_is_replaced_after_the_duration(scene: Scene) -> None:
    first, copy = scene.candidate("one"), scene.candidate("two")
    first.step(scene.cluster)
    assert copy.step(scene.cluster) is LeaseState.ELSEWHERE
    scene.now += 4.6
    assert not first.may_write()
    scene.now += 2.3
    assert copy.step(scene.cluster) is LeaseState.ELSEWHERE
    scene.now += 0.2
    assert copy.step(scene.cluster) is LeaseState.HELD
    assert scene.spec["leaseTransitions"] == 1
    assert first.step(scene.cluster) is LeaseState.ELSEWHERE
    assert not first.may_write()


def test_the_same_installation_takes_over_at_once(scene: Scene) -> None:
    scene.candidate("one").step(scene.cluster)
    assert scene.candidate("one", "host/2").step(scene.cluster) is LeaseState.HELD
    assert scene.spec["holderIdentity"] == "one/host/2"


def test_a_clean_stop_releases(scene: Scene) -> None:
    first, copy = scene.candidate("one"), scene.candidate("two")
    first.step(scene.cluster)
    copy.step(scene.cluster)
    first.release(scene.cluster)
    assert not first.may_write()
    assert not scene.spec.get("holderIdentity")
    assert copy.step(scene.cluster) is LeaseState.HELD
    assert first.step(scene.cluster) is LeaseState.UNKNOWN, "it never comes back"
    assert not first.may_write()


def test_a_look_counts_for_two_seconds(scene: Scene) -> None:
    check = HolderCheck(scene.namespace, "two", clock=lambda: scene.now)
    assert check.find_other(scene.cluster) == ""
    scene.candidate("one").step(scene.cluster)
    scene.now += 1.9
    assert check.find_other(scene.cluster) == ""
    scene.now += 0.2
    assert check.find_other(scene.cluster) == "one/host/1"


def test_a_cluster_without_leases_is_worked_with() -> None:
    kinds = [kind for kind in BUILT_IN_KINDS if kind != LEASE]
    scene = Scene(FakeCluster(served_kinds=kinds, namespaces=["osmo"]), "osmo")
    lease = scene.candidate("one")
    assert lease.step(scene.cluster) is LeaseState.UNUSABLE
    assert lease.may_write()
    assert lease.problem


@pytest.mark.k8s
def test_an_account_without_rights_is_worked_with(request: pytest.FixtureRequest) -> None:
    kube, server = request.getfixturevalue("kube"), request.getfixturevalue("kube_server")
    with closing(server.connect("nobody")) as cluster:
        lease = Scene(cluster, kube.namespace).candidate("one")
        assert lease.step(cluster) is LeaseState.UNUSABLE
    assert lease.may_write()


@pytest.mark.parametrize("error", [errors.Unreachable, errors.ServerError, errors.Unauthorized, errors.TooManyRequests])
def test_no_answer_is_no_permission(monkeypatch: pytest.MonkeyPatch, error: type[errors.ClusterError]) -> None:
    scene = Scene(FakeCluster(namespaces=["osmo"]), "osmo")
    lease = scene.candidate("one")

    def fail(*_: object, **__: object) -> None:
        raise error("silent")

    monkeypatch.setattr(scene.cluster, "get", fail)
    assert lease.step(scene.cluster) is LeaseState.UNKNOWN
    assert not lease.may_write()


def read_instance(session: psycopg.Connection, identity: str) -> str:
    """The id that an installation on this database has."""
    found = session.execute(INSTANCE_ID_QUERY, [identity]).fetchone()
    assert found is not None
    return str(found[0])


def test_processes_of_an_installation_have_one_id(fake_harness: AgentHarness, running_services: Services) -> None:
    """The role of the processes may read it."""
    found = read_instance_id(fake_harness.backend)
    assert len(found) == 20
    identity = str(ClusterState.objects.get(backend=fake_harness.backend).identity)
    with psycopg.connect(running_services.runtime_url(running_services.database_name("test"))) as session:
        assert read_instance(session, identity) == found


@pytest.fixture
def session(django_db_setup: None, running_services: Services) -> Iterator[psycopg.Connection]:
    """A session at the test's database."""
    url = running_services.database_url(running_services.database_name("test"))
    with psycopg.connect(url, autocommit=True) as found:
        yield found


def test_a_copied_database_is_another_instance(running_services: Services, session: psycopg.Connection) -> None:
    """The rows of a copy are equal, its `identity` too."""
    original, copy = read_instance(session, "4d7f"), running_services.database_name("copied")
    session.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(copy)))
    try:
        with psycopg.connect(running_services.database_url(copy)) as of_copy:
            assert read_instance(of_copy, "4d7f") != original
    finally:
        session.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(copy)))


def test_a_copied_data_directory_is_another_instance(session: psycopg.Connection) -> None:
    """It has the same databases, on a server that started at another time."""
    original = read_instance(session, "4d7f")
    with session.transaction(force_rollback=True):
        session.execute(
            "CREATE FUNCTION public.pg_postmaster_start_time() RETURNS timestamptz LANGUAGE sql"
            " AS 'SELECT pg_catalog.pg_postmaster_start_time() + make_interval(secs => 1)'"
        )
        session.execute("SET LOCAL search_path = public, pg_catalog")
        assert read_instance(session, "4d7f") != original
    assert read_instance(session, "4d7f") == original
