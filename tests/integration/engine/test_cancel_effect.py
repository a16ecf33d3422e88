"""Cancelling waiting work can set off a reclaim: the dry run and the page say so beforehand."""

from __future__ import annotations

import pytest

from tests.integration.engine.conftest import Cluster

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(db: None) -> Cluster:
    """`a` runs two LOW jobs of 4 GPUs on the only node; `b` waits with 4 GPUs and `c` with 8. Without `c` the fair
    share of `b` is 4."""
    cluster = Cluster({"n": 8}, {"team": {"": 3, "a": 1, "b": 1, "c": 1}})
    cluster.submit("old", "team--a", "LOW", gpus=4)
    cluster.submit("new", "team--a", "LOW", gpus=4)
    cluster.reconcile()
    cluster.submit("mine", "team--b", "LOW", gpus=4)
    cluster.submit("large", "team--c", "LOW", gpus=8)
    cluster.reconcile()
    cluster.assert_running("old", "new")
    return cluster


def cancel(cluster: Cluster, query: str = "") -> dict:
    answer = cluster.admin.post(f"/api/workflow/large-1/cancel{query}", "{}", content_type="application/json")
    assert answer.status_code == 200, answer.content
    return answer.json()


def test_the_dry_run_names_the_work_that_starts_and_the_work_that_is_taken(cluster: Cluster) -> None:
    effect = cancel(cluster, "?dry_run=true")
    assert (effect["could_start"], effect["may_be_reclaimed"]) == (["mine-1"], ["new-1"])
    assert cluster.reconcile() == [], "a dry run changes nothing"
    cancel(cluster)
    assert cluster.reconcile() == [("reclaim", "new"), ("start", "mine")]


def test_the_page_shows_it_before_the_question(cluster: Cluster) -> None:
    text = cluster.admin.get("/workflows/-/cancel?name=large-1").content.decode()
    assert "LOW work that may be reclaimed" in text
    assert "new-1" in text
    assert "Could start" in text
    assert "mine-1" in text
    none = cluster.admin.get("/workflows/-/cancel?name=mine-1").content.decode()
    assert "may be reclaimed" not in none
