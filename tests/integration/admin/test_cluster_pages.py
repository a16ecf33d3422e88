"""The pages of Kubernetes clusters: the state first, then one next step with its commands."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from django.utils import timezone

from pools.domain.configuration.ownership import GitOwner, OwnedKind
from pools.models import Backend, KubernetesSettings, Node
from pools.services.changes.ownership import set_owners
from scheduling.models import ClusterState, QueueDrift, QueueSync
from tests.integration.admin.conftest import SignedIn, confirm_change

LIST = "/clusters/-/sync"
PAGE = "/clusters/prod/sync"


@pytest.fixture
def prod(pools_and_users: None) -> Backend:
    """A cluster that forbids the calls."""
    backend = Backend.objects.create(name="prod", kind=Backend.Kind.KUBERNETES, namespace="prod-ns")
    KubernetesSettings.objects.create(backend=backend, access=KubernetesSettings.Access.IN_CLUSTER)
    QueueSync.objects.create(backend=backend, synced="False", reason="Forbidden", message="It forbids this call.")
    return backend


def _text(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, answer.content.decode()
    return answer.content.decode()


def test_a_cluster_that_does_not_answer_is_not_called_out_of_sync(prod: Backend, as_person: SignedIn) -> None:
    """What its queues are is not known then."""
    QueueSync.objects.update(reason="Unreachable", message="No route to the cluster.")
    text = _text(as_person("root"), PAGE)
    assert ("The cluster does not answer" in text, "NO ANSWER" in text) == (True, True)
    assert "out of sync" not in text.lower()
    assert "NO ANSWER" in _text(as_person("root"), LIST)


def test_a_cluster_that_forbids_the_calls_has_one_next_step(prod: Backend, as_person: SignedIn) -> None:
    text = _text(as_person("root"), PAGE)
    assert "OUT OF SYNC" in text
    assert "osmo-admin webhook manifest prod --url" in text
    assert text.count(">Test the connection</button>") == 1
    assert "were never read completely" in text, "nothing is known about drift yet"
    listed = _text(as_person("root"), LIST)
    assert "1 of 1 cluster needs attention" in listed
    assert "apply the manifest" in listed
    text = _text(as_person("viewer"), PAGE)
    assert "Next step" in text
    assert "Test the connection</button>" not in text
    assert "Sync now" not in text


def test_only_open_drift_counts(prod: Backend, as_person: SignedIn) -> None:
    drift = {"backend": prod, "queue": "osmo-default-prod-ns", "field": "spec.priority", "theirs": 7, "ours": 100}
    row = QueueDrift.objects.create(**drift, author="kim", seen_at=timezone.now())
    root = as_person("root")
    assert "1 field differs now." in _text(root, PAGE)
    assert root.get(LIST).context["rows"][0].open_drift == 1
    QueueDrift.objects.filter(pk=row.pk).update(reapplied_at=timezone.now())
    text = _text(root, PAGE)
    assert "No field differs now" in text
    assert "Revert all" not in text
    assert root.get(LIST).context["rows"][0].open_drift == 0


def test_the_form_of_a_new_cluster_has_the_commands_before_it(as_person: SignedIn) -> None:
    text = _text(as_person("root"), "/clusters/-/connect")
    assert "kubectl config view --raw --minify --flatten" in text
    assert "an empty field keeps the stored one" not in text
    assert '<details class="oa-group"><summary>' in text, "usual values are folded"
    typed = "/clusters/-/connect?name=new&scheduler_name=mine"
    assert '<details class="oa-group" open><summary>' in _text(as_person("root"), typed)


def test_a_cluster_of_git_shows_only_what_its_admins_change(as_person: SignedIn) -> None:
    root = as_person("root")
    for access, shown in ((None, {"offline"}), ("in_cluster", {"offline"}), ("kubeconfig", {"offline", "kubeconfig"})):
        name = (access or "simulated").replace("_", "-")
        kind = Backend.Kind.SIMULATED if access is None else Backend.Kind.KUBERNETES
        backend = Backend.objects.create(name=name, kind=kind, namespace=name, description="from a file")
        if access is not None:
            sealed = {"sealed_kubeconfig": b"sealed", "credential_mark": "mark"} if access == "kubeconfig" else {}
            KubernetesSettings.objects.create(backend=backend, access=access, server="in-cluster", **sealed)
        set_owners({(OwnedKind.BACKEND, name): GitOwner("git@example.com:gpu", path="all.yaml")})
        address = f"/clusters/{name}/configuration"
        page = _text(root, address)
        assert set(re.findall(r'name="(namespace|about|nodes|access|context|offline|kubeconfig)"', page)) == shown
        assert "Owned by Git: git@example.com:gpu, all.yaml. Change it in that file; only Offline" in page
        if access != "kubeconfig":  # the stored text cannot be read
            assert confirm_change(root, address, offline="on").status_code == 302
            backend.refresh_from_db()
            assert (backend.desired_offline, backend.description, backend.namespace) == (True, "from a file", name)


def test_a_new_cluster_is_neither_online_nor_offline(as_person: SignedIn) -> None:
    backend = Backend.objects.create(name="prod", kind=Backend.Kind.KUBERNETES, namespace="prod-ns")
    KubernetesSettings.objects.create(backend=backend, access=KubernetesSettings.Access.IN_CLUSTER)
    viewer = as_person("viewer")

    def badges(address: str) -> list[str]:
        return re.findall(r'class="oa-badge[^"]*">([A-Z ]+)<', _text(viewer, address))

    assert sorted(badges("/clusters")) == ["NOT JUDGED YET", "ONLINE"]
    assert badges("/clusters/prod") == ["NOT JUDGED YET"]
    Backend.objects.filter(pk=backend.pk).update(offline=True)  # it was silent for too long
    assert (sorted(badges("/clusters")), badges("/clusters/prod")) == (["OFFLINE", "ONLINE"], ["OFFLINE"])
    page = _text(viewer, "/clusters/prod")
    assert "does not answer, so no work starts on it. Cause and next step" in re.sub("<[^>]+>", "", page)
    assert "The last 24 hours" not in page, "charts of nothing"
    Backend.objects.filter(pk=backend.pk).update(offline=False)
    ClusterState.objects.create(backend=backend, heartbeat_at=timezone.now())
    assert badges("/clusters/prod") == ["ONLINE"]


def test_the_cause_of_a_failure_is_said_once(prod: Backend, as_person: SignedIn) -> None:
    cause = "The cluster does not answer; the call will be repeated. (No connection: Connection refused)"
    check = {"name": "connection", "ok": False, "needed": True, "sentence": cause}
    test = {"ok": False, "sentence": cause, "version": "", "checks": [check]}
    QueueSync.objects.filter(backend=prod).update(
        reason="Unreachable", message=cause, connection_test=test, connection_tested_at=timezone.now()
    )
    unusable = f"Only the database keeps other processes away: the Lease cannot be used. {cause}"
    ClusterState.objects.create(backend=prod, cluster_lease="unusable", cluster_lease_message=unusable)
    assert _text(as_person("root"), PAGE).count("Connection refused") == 1


def test_the_pages_of_a_cluster_are_tabs_in_the_head_of_each(prod: Backend, as_person: SignedIn) -> None:
    root, tabs = as_person("root"), ["/clusters/prod", "/clusters/prod/losses", PAGE, "/clusters/prod/webhooks"]
    for page, title in zip(tabs, ("Overview", "What if it breaks", "Sync", "Webhooks"), strict=True):
        answer = root.get(page)
        assert [tab["link"] for tab in answer.context["tabs"]] == tabs
        assert [tab["link"] for tab in answer.context["tabs"] if tab["active"]] == [page]
        text = answer.content.decode()
        assert "<h1>prod</h1>" in text and f"<title>prod: {title} · " in text
    simulated = root.get("/clusters/sim").context["tabs"]
    assert [tab["link"] for tab in simulated] == ["/clusters/sim", "/clusters/sim/losses"]
    for page in ("sync", "webhooks"):
        refused = root.get(f"/clusters/sim/{page}")
        assert refused.status_code == 409 and "sim is simulated" in refused.content.decode()
    assert {LIST, "/clusters/-/webhooks"} <= set(re.findall(r'href="([^"]+)"', _text(root, "/clusters")))


def test_nodes_that_are_alike_are_one_row(as_person: SignedIn) -> None:
    page = _text(as_person("root"), "/clusters/sim")
    assert page.count('<th scope="row" class="oa-give oa-give--whole">') == 1
    assert "20 nodes, each with these amounts" in page
    assert all(f'href="/nodes/sim/n{number}"' in page for number in range(20))
    Node.objects.filter(name="n7").update(gpus=4)
    page = _text(as_person("root"), "/clusters/sim")
    assert page.count('<th scope="row" class="oa-give oa-give--whole">') == 2
    assert "19 nodes, each" in page
