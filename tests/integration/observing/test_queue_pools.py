"""The queues of a firm have other names than its pools: a map of the cluster says in which pool each counts."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError

from pools.domain.audit_actions import AuditAction
from pools.domain.changes.backends import PutBackend
from pools.domain.people.roles import SYSTEM
from pools.models import AuditEntry, KubernetesSettings
from scheduling.configuration.texts import file_texts
from scheduling.kube.observed_kinds import LOCAL_QUEUES, WORKLOADS
from scheduling.models import Workflow
from scheduling.services.configuration import apply_configuration
from scheduling.services.verify import verify
from tests.integration.configuration.test_imports import GIT, files_of
from tests.integration.observing.test_seen_work import Lab
from tests.support import world
from tests.support.api_client import ApiClient
from tests.support.imports import imported
from tests.support.observed_cluster import FIRM, observed_backend
from tests.unit.moving_in.test_queues import queue


@pytest.fixture
def lab(db: None) -> Lab:
    world.make_user("root", "osmo-admin")
    found = Lab()
    world.make_pool("research", 4, on=found.backend, llm=2)
    world.make_pool("notebooks", 4, on=found.backend)
    return found


@pytest.fixture
def root(lab: Lab) -> ApiClient:
    return world.call_as("root")


def set_pools(lab: Lab, **pools: str) -> Any:
    body = {"queue_pools": {queue.replace("__", "."): pool for queue, pool in pools.items()}}
    return world.apply_change(PutBackend(name=lab.backend.name, body=body))


def leaves() -> dict[str, str]:
    """The leaf of each open piece of work, by its object."""
    rows = Workflow.objects.filter(observed__is_open=True)
    return dict(rows.values_list("observed__name", "pool__name"))


def test_work_counts_in_the_pool_of_its_queue(lab: Lab) -> None:
    lab.firm.add_pod_group("pretrain", namespace="science", queue="dept.language")
    lab.firm.add_pod("notebook", namespace="vision", node="n1")
    lab.firm.add_pod_group("mine", namespace="science", queue="research")
    lab.look()
    assert leaves() == {"mine": "research"}
    assert [row["queue"] for row in lab.unassigned()] == ["dept.language", "vision"]
    assert set_pools(lab, dept__language="research--llm", vision="notebooks").warnings == ()
    lab.look()
    assert leaves() == {"mine": "research", "pretrain": "research--llm", "notebook": "notebooks"}
    assert (lab.unassigned(), lab.other_gpus()["n1"]) == ([], 0)


def test_a_changed_map_moves_the_work(lab: Lab) -> None:
    """The map comes before the name."""
    lab.firm.add_pod("job", namespace="vision", node="n1")
    lab.firm.add_pod_group("mine", namespace="science", queue="research")
    set_pools(lab, vision="notebooks", research="notebooks")
    lab.look()
    assert leaves() == {"job": "notebooks", "mine": "notebooks"}
    set_pools(lab, vision="research", research="notebooks")
    for _ in range(2):  # it leaves one pool, and comes to the other
        lab.look()
    assert leaves() == {"job": "research", "mine": "notebooks"}
    assert (lab.used("notebooks"), lab.used("research")) == ((0, 0), (1, 1))
    assert verify() == []


def test_a_pool_that_is_not_there_is_named(lab: Lab) -> None:
    """It may come later, in one file with the cluster: so it is no fault."""
    lab.firm.add_pod("job", namespace="vision", gpus=2, node="n1")
    (warning,) = set_pools(lab, vision="later").warnings
    assert "1 queue (vision) are not on cluster lab" in warning
    lab.look()
    assert leaves() == {}
    assert lab.unassigned() == [{"queue": "vision", "workloads": 1, "gpus": 2, "pool": "later"}]
    page = world.sign_in("root").get("/clusters/lab").content.decode()
    assert "its pool later is not on this cluster" in page
    world.make_pool("later", 4, on=lab.backend)
    lab.look()
    assert leaves() == {"job": "later"}


def test_a_local_queue_comes_before_its_cluster_queue(lab: Lab) -> None:
    """Teams share a ClusterQueue, each with a LocalQueue in its namespace."""
    lab.cluster.install_kinds(WORKLOADS[0], LOCAL_QUEUES[0])
    for namespace in ("science", "vision"):
        queue = {"metadata": {"name": "lq", "namespace": namespace}, "spec": {"clusterQueue": "shared"}}
        lab.cluster.create(LOCAL_QUEUES[0], queue, field_manager=FIRM)
        template = {"spec": {"containers": [{"name": "m", "resources": {"requests": {"nvidia.com/gpu": "1"}}}]}}
        body = {
            "metadata": {"name": f"job-{namespace}", "namespace": namespace},
            "spec": {"queueName": "lq", "podSets": [{"name": "main", "count": 1, "template": template}]},
        }
        lab.cluster.create(WORKLOADS[0], body, field_manager=FIRM)
    set_pools(lab, shared="research", **{"vision/lq": "notebooks"})
    lab.look()
    assert leaves() == {"job-science": "research", "job-vision": "notebooks"}


def test_it_is_a_key_of_the_cluster(lab: Lab, root: ApiClient) -> None:
    pools = {"dept.language": "research--llm", "vision/lq": "notebooks"}
    answer = root("PUT", "/api/configs/backend/lab", {"queue_pools": pools})
    assert (answer.status, answer.body["queue_pools"], answer.body["version"]) == (200, pools, 2)
    assert root("PUT", "/api/configs/backend/lab", {"mode": "observe"}).body["queue_pools"] == pools, "left out: kept"
    entry = AuditEntry.objects.filter(action=AuditAction.BACKEND_UPDATED, object="backend/lab").latest("id")
    assert (entry.actor, (entry.before or {})["queue_pools"], (entry.after or {})["queue_pools"]) == ("root", {}, pools)
    assert root("PUT", "/api/configs/backend/lab", {"queue_pools": {}}).body["queue_pools"] == {}


def test_what_is_wrong_is_named(root: ApiClient) -> None:
    cases: tuple[tuple[object, str, str], ...] = (
        ({"a b": "team"}, "queue_pools.a b", "bad_name"),
        ({"-a": "team"}, "queue_pools.-a", "bad_name"),
        ({"a": "Team"}, "queue_pools.a", "bad_value"),
        ({"a": ""}, "queue_pools.a", "bad_value"),
        ({"a": 7}, "queue_pools.a", "bad_value"),
        ({"a": None}, "queue_pools.a", "bad_value"),
        (["a"], "queue_pools", "bad_value"),
        ({f"q{number}": "team" for number in range(5001)}, "queue_pools", "too_many"),
    )
    for pools, path, code in cases:
        answer = root("PUT", "/api/configs/backend/lab", {"queue_pools": pools})
        assert (answer.status, answer.codes) == (400, {(path, code)})


@pytest.mark.parametrize(
    "pools", [[], {"a b": "team"}, {"a": 7}, {"a": "Team"}], ids=["a list", "a bad queue", "a number", "a bad pool"]
)
def test_the_database_is_the_floor(db: None, pools: object) -> None:
    observed_backend()
    with pytest.raises(IntegrityError, match="queue"):
        KubernetesSettings.objects.update(queue_pools=pools)


def test_the_form_has_a_queue_on_a_line(lab: Lab, root: ApiClient) -> None:
    set_pools(lab, dept__language="research--llm")
    client = world.sign_in("root")
    form = client.get("/clusters/lab/configuration").content.decode()
    assert "dept.language = research--llm" in form
    typed = {
        "namespace": "osmo-lab", "access": "in_cluster", "mode": "observe", "sync_mode": "apply",
        "queue_pools": "dept.language = research\r\n\r\nvision=notebooks\r\n",
    }  # fmt: skip
    shown = client.get("/clusters/lab/configuration/-/preview", typed).content.decode()
    for text in ("Pool of queue dept.language", "Pool of queue vision", "counts in these pools from the next look on"):
        assert text in shown
    twice = client.get("/clusters/lab/configuration/-/preview", {**typed, "queue_pools": "a = b\na = c"})
    assert "A queue has two lines" in twice.content.decode()
    wrong = client.get("/clusters/lab/configuration/-/preview", {**typed, "queue_pools": "a"})
    assert "must be the name of a pool" in wrong.content.decode()


def test_a_renamed_pool_keeps_its_queues(lab: Lab, root: ApiClient) -> None:
    set_pools(lab, dept__vision="notebooks", dept__language="research--llm")
    version = root("GET", "/api/configs/backend/lab").headers["ETag"]
    assert root("PUT", "/api/configs/pool/notebooks/rename", {"new_name": "vision"}).status == 200
    body = root("GET", "/api/configs/backend/lab")
    assert body.body["queue_pools"] == {"dept.language": "research--llm", "dept.vision": "vision"}
    assert body.headers["ETag"] != version
    lab.firm.add_pod_group("mine", namespace="science", queue="dept.vision")
    lab.look()
    assert leaves() == {"mine": "vision"}


def test_an_import_gives_the_map(db: None) -> None:
    """Import, apply, observe: the work of each queue counts in what its queue became."""
    lab = Lab()
    result = imported(
        "kai",
        "---\n".join(queue(name, "quota: 1, limit: -1") for name in ("team.a", "team-a", "9lives", "Long")),
        writes_backend=False,
        backend=lab.backend.name,
    )
    apply_configuration(actor=SYSTEM, files=files_of(file_texts(result.objects)), options=GIT)
    world.apply_change(PutBackend(name=lab.backend.name, body={"queue_pools": result.renamed_queues()}))
    for number, name in enumerate(result.queue_pools):
        lab.firm.add_pod_group(f"w{number}", namespace="science", queue=name)
    lab.look()
    assert leaves() == {f"w{number}": pool for number, pool in enumerate(result.queue_pools.values())}
    assert set(result.renamed_queues()) == {"team-a", "9lives"}
