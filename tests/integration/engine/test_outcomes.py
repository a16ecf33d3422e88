"""What was said about the future, and what came of it, as one list: page, API and file."""

from __future__ import annotations

import csv
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.utils import timezone

from pools.domain.people.roles import Actor
from pools.models import Backend, User
from pools.selectors.change_tokens import OwnChange, read_tokens
from pools.signals import effect_confirmed
from scheduling.models import Group, PromisedStart, ShownEffect
from scheduling.selectors.what_if.impact import _seen_tokens
from tests.integration.engine.conftest import Cluster
from tests.support.world import ModuleData

pytestmark = pytest.mark.django_db

LIST, PAGE = "/api/outcomes", "/activity/outcomes"


@pytest.fixture(scope="module")
def cluster(module_data: ModuleData) -> Cluster:
    """Of pools a and b: a promised start in each, and two previews, one of which came true."""
    with module_data():
        cluster = Cluster({"n1": 8}, {"a": 4, "b": 4})
        now = timezone.now()
        for pool in ("a", "b"):
            cluster.submit(f"waits-{pool}", pool, gpus=4)
            group = Group.objects.get(workflow__spec_name=f"waits-{pool}")
            PromisedStart.objects.create(
                group=group, backend_id=cluster.backend.pk, gang=f"waits-{pool}-1", waits_since=group.ready_at,
                made_at=now - timedelta(hours=2), latest_start=now + timedelta(hours=1),
            )  # fmt: skip
        PromisedStart.objects.filter(gang="waits-b-1").update(outcome="kept", ended_at=now)
        effect = {
            "backend_id": cluster.backend.pk, "user_id": User.objects.get(username="root").pk, "shown_at": now,
            "made_at": now - timedelta(hours=1), "tokens": {}, "lost": ["1"], "started": ["2", "3"],
        }  # fmt: skip
        for title, ended in (
            ("Configure a", {"outcome": "kept", "found_lost": ["1"], "found_started": ["2", "3"], "ended_at": now}),
            ("Configure b", {"outcome": "broken", "found_lost": [], "found_started": ["2"], "ended_at": now}),
        ):
            row = ShownEffect.objects.create(title=title, **effect)
            ShownEffect.objects.filter(pk=row.pk).update(**ended)
        return cluster


def listed(cluster: Cluster, query: str = "", name: str = "root", *roles: str) -> list[str]:
    rows = cluster.get(LIST + query, cluster.client(name, *roles))["outcomes"]
    return [row["subject"] for row in rows]


def test_each_row_says_what_was_said_and_what_came(cluster: Cluster) -> None:
    rows = {row["subject"]: row for row in cluster.get(LIST)["outcomes"]}
    assert list(rows) == ["Configure b", "Configure a", "waits-b-1", "waits-a-1"], "the newest first"
    said = [(each["kind"], each["outcome"], each["said"], each["found"]) for each in rows.values()]
    assert said[0] == ("preview", "broken", "1 gang loses GPUs, 2 gangs start", "1 gang starts")
    assert said[1] == ("preview", "kept", "1 gang loses GPUs, 2 gangs start", "1 gang loses GPUs, 2 gangs start")
    assert (said[2][1], said[2][3][:8]) == ("kept", "started ")
    assert (said[3][1], said[3][2][:10], said[3][3]) == ("open", "starts by ", "")
    assert rows["waits-a-1"]["workflow"] == "waits-a-1"
    assert rows["Configure a"]["workflow"] is None


def test_the_list_is_filtered(cluster: Cluster) -> None:
    for query, found in (
        ("?outcome=broken", ["Configure b"]),
        ("?outcome=kept", ["Configure a", "waits-b-1"]),
        ("?outcome=withdrawn", []),
        ("?kind=start", ["waits-b-1", "waits-a-1"]),
        ("?kind=preview&outcome=kept", ["Configure a"]),
        ("?backend=sim&limit=1&offset=1", ["Configure a"]),
        ("?backend=other", []),
    ):
        assert listed(cluster, query) == found, query
    assert cluster.get(f"{LIST}?limit=3")["more_entries"]
    assert not cluster.get(f"{LIST}?limit=4")["more_entries"]
    assert cluster.admin.get(f"{LIST}?outcome=soon").status_code == 400


def test_others_see_the_starts_of_their_work_and_their_own_previews(cluster: Cluster) -> None:
    assert len(listed(cluster, "", "viewer", "osmo-viewer")) == 4
    assert listed(cluster, "", "worker", "osmo-a-user") == ["waits-a-1"]
    chief = cluster.client("chief", "osmo-b-admin")
    assert listed(cluster, "", "chief") == ["waits-b-1"]
    ShownEffect.objects.create(
        title="Resize b--x", backend_id=cluster.backend.pk, user_id=User.objects.get(username="chief").pk,
        shown_at=timezone.now(), made_at=timezone.now(), tokens={}, lost=[], started=["1"],
    )  # fmt: skip
    assert listed(cluster, "", "chief") == ["Resize b--x", "waits-b-1"]
    page = chief.get(PAGE).content.decode()
    assert "Resize b--x" in page
    assert "Configure" not in page
    assert "waits-a-1" not in page
    assert listed(cluster, "", "stranger") == []


def test_the_page_and_the_file(cluster: Cluster) -> None:
    page = cluster.admin.get(f"{PAGE}?outcome=broken")
    assert [row.subject for row in page.context["window"].rows] == ["Configure b"]
    assert "1 gang starts" in page.content.decode()
    assert len(cluster.admin.get(f"{PAGE}?outcome=nonsense").context["window"].rows) == 4
    file = cluster.admin.get(f"{PAGE}?format=csv&outcome=kept").content.decode()
    rows = list(csv.DictReader(StringIO(file)))
    assert [(row["about"], row["outcome"], row["kind"]) for row in rows] == [
        ("Configure a", "kept", "preview"),
        ("waits-b-1", "kept", "start"),
    ]


def test_what_a_cluster_decides_is_not_judged(cluster: Cluster) -> None:
    """KAI decides when it likes, so the row says at once that nothing is compared."""
    backend = cluster.backend
    assert _seen_tokens([backend], read_tokens())[backend.pk], "a simulated one has cycles"
    backend.kind = Backend.Kind.KUBERNETES
    memo: dict[str, Any] = {
        "backend": backend.pk, "shown_at": timezone.now().isoformat(), "clock": "", "lost": [], "started": ["1"],
        "tokens": _seen_tokens([backend], read_tokens())[backend.pk],
    }  # fmt: skip
    root: Actor = User.objects.get(username="root").as_actor()
    effect_confirmed.send(sender=None, actor=root, title="Configure kai", memos=[memo], tokens=OwnChange({}, {}))
    row = cluster.get(LIST)["outcomes"][0]
    assert (row["subject"], row["outcome"], row["reason"]) == ("Configure kai", "withdrawn", "not_judged")
    assert row["found"] == "not compared: the cluster decides"
