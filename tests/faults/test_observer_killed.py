"""A process dies in the middle of a look at an observed cluster, or of a switch of its mode: nothing is half done, and
the next look repairs the record."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress

import httpx
import pytest
import yaml

from osmo_admin.ops.programs import process_commands
from tests.faults.installation import FaultyInstallation
from tests.support.kube_server import KubeServer, create_namespace
from tests.support.observed_cluster import Firm

pytestmark = [pytest.mark.fault, pytest.mark.k8s, pytest.mark.timeout(600)]
RESERVATIONS = "SELECT FROM pools_reservation WHERE workflow_name LIKE %s FOR UPDATE"


class ObservedPlace:
    """A namespace of a real API server, which the installation observes as a backend, and the pool of its work."""

    def __init__(self, installation: FaultyInstallation, server: KubeServer) -> None:
        self.installation, self.cluster = installation, server.connect()
        self.firm, self.namespace = Firm(self.cluster), create_namespace(self.cluster)
        self.backend, self.pool = installation.unique_name("lab"), installation.unique_name("team")
        self.work = installation.unique_name("job")
        self.firm.add_node(f"{self.namespace}-n", gpus=8)
        body = {
            "type": "kubernetes", "mode": "observe", "namespace": self.namespace,
            "kubeconfig": yaml.safe_dump(server.kubeconfig_body()), "queue_pools": {self.namespace: self.pool},
        }  # fmt: skip
        self.put("backend", self.backend, body)
        gpu = {"guarantee": 8, "maximum": -1}
        self.put("pool", self.pool, {"configs": {"backend": self.backend, "resources": {"gpu": gpu}}})

    def put(self, kind: str, name: str, body: object) -> None:
        """Change the configuration, as an admin."""
        answer = self.installation.admin_client.put(f"/api/configs/{kind}/{name}", json=body)
        assert answer.status_code == 200, answer.text

    def add_work(self) -> None:
        """A pod that runs, and is on record."""
        self.firm.add_pod(self.work, namespace=self.namespace, gpus=2, node=f"{self.namespace}-n")
        self.wait_for("RUNNING")

    def record(self) -> list[tuple[str, bool, int | None]]:
        """Of each record of the work: the status, whether it is followed, and the GPUs that it holds."""
        rows = self.installation.query(
            "SELECT workflow.status, seen.is_open, held.held_gpus FROM scheduling_observedwork seen"
            " JOIN scheduling_workflow workflow ON workflow.uuid = seen.workflow_id"
            " LEFT JOIN pools_reservation held ON held.workflow = seen.workflow_id"
            " WHERE seen.name = %s ORDER BY workflow.submit_time, workflow.name",
            self.work,
        )
        return [(row["status"], row["is_open"], row["held_gpus"]) for row in rows]

    def mode(self) -> str:
        """The mode in the ledger."""
        (row,) = self.installation.query(
            "SELECT mode FROM pools_kubernetessettings WHERE backend_id ="
            " (SELECT id FROM pools_backend WHERE name = %s)",
            self.backend,
        )
        return str(row["mode"])

    def wait_for(self, status: str) -> None:
        """The newest record has this status."""
        self.installation.wait_until(
            lambda: [row[0] for row in self.record()][-1:] == [status], seconds=120, what=f"the work is {status}"
        )

    def wait_for_lock(self, name: str) -> None:
        """A process of the installation waits for the lock in the middle of its transaction."""
        self.installation.wait_until(self.installation.is_waiting_for_lock, seconds=120, what=f"{name} waits")


@pytest.fixture
def place(installation: FaultyInstallation, kube_server: KubeServer) -> Iterator[ObservedPlace]:
    found = ObservedPlace(installation, kube_server)
    yield found
    found.cluster.close()


def test_killed_in_the_middle_of_a_look(installation: FaultyInstallation, place: ObservedPlace) -> None:
    place.add_work()
    # The rows of the work are written before its reservation: this lock stops the observer between the two.
    with installation.hold_locks(RESERVATIONS, f"{place.work}-%"):
        place.firm.set_phase(place.work, "Succeeded", namespace=place.namespace)
        place.wait_for_lock("the observer")
        installation.kill_process(process_commands.CLUSTERS)
    assert place.record() == [("RUNNING", True, 2)], "all of the look, or nothing"
    installation.assert_consistent()
    # What happens while nobody looks is found by the next look.
    second = f"{place.work}-b"
    place.firm.add_pod(second, namespace=place.namespace, gpus=1, node=f"{place.namespace}-n")
    installation.restart_dead()
    place.wait_for("COMPLETED")
    assert place.record() == [("COMPLETED", False, None)]
    place.work = second
    place.wait_for("RUNNING")
    installation.assert_consistent()


def can_switch(place: ObservedPlace) -> bool:
    """Whether the change of the mode is taken now."""
    try:
        client = place.installation.admin_client
        return client.put(f"/api/configs/backend/{place.backend}", json={"mode": "manage"}).status_code == 200
    except httpx.HTTPError:
        return False


def test_killed_in_the_middle_of_a_switch(installation: FaultyInstallation, place: ObservedPlace) -> None:
    place.add_work()
    client = installation.admin_client

    def switch() -> None:
        with suppress(httpx.TransportError):  # the server dies
            client.put(f"/api/configs/backend/{place.backend}", json={"mode": "manage"})

    asking = threading.Thread(target=switch, daemon=True)
    with installation.hold_locks(RESERVATIONS, f"{place.work}-%"):
        asking.start()
        place.wait_for_lock("the switch")
        installation.kill_process(process_commands.WEB)
    asking.join(60)
    assert (place.mode(), place.record()) == ("observe", [("RUNNING", True, 2)]), "all of the switch, or nothing"
    installation.assert_consistent()

    # The process of the clusters dies, and the switch is made before another one is there.
    installation.kill_process(process_commands.CLUSTERS)
    installation.start_process(process_commands.WEB)
    installation.wait_until(lambda: can_switch(place), what="the server takes the switch")
    assert (place.mode(), place.record()) == ("manage", [("FAILED_CANCELED", False, None)])
    installation.restart_dead()
    installation.wait_ready()
    assert place.record() == [("FAILED_CANCELED", False, None)], "a managed cluster is not observed"
    # And back: the next look has the work again.
    place.put("backend", place.backend, {"mode": "observe"})
    place.wait_for("RUNNING")
    assert place.record() == [("FAILED_CANCELED", False, None), ("RUNNING", True, 2)]
    installation.assert_consistent()
