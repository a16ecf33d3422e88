"""Revisions of the pool configuration, and many pools at once."""

from __future__ import annotations

from datetime import timedelta

import pgtrigger
from django.db import connection
from django.test.utils import CaptureQueriesContext

from pools.models import ConfigRevision, Pool
from tests.integration.pools.conftest import pool_config
from tests.support.api_client import ApiClient

CONFIG = "/api/configs/pool"
HISTORY = "/api/configs/history"


def guarantee_by_pool(data: dict[str, object]) -> dict[str, int]:
    return {name: body["resources"]["gpu"]["guarantee"] for name, body in data["pools"].items()}  # type: ignore[index]


def test_every_write_is_a_revision_that_shows_all_pools_as_they_were(sim: str, admin: ApiClient) -> None:
    admin("PUT", f"{CONFIG}/one", {"configs": pool_config(10), "description": "first", "tags": ["t"]})
    admin("PUT", CONFIG, {"configs": {"two": pool_config(20), "one": pool_config(11)}})
    admin("PATCH", f"{CONFIG}/two", {"configs_dict": {"resources": {"gpu": {"guarantee": 21}}}})
    admin("PUT", f"{CONFIG}/one/rename", {"new_name": "uno"})
    admin("DELETE", f"{CONFIG}/two", {"description": "over"})
    entries = admin("GET", HISTORY, query={"order": "ASC"}).body["configs"]
    assert [(entry["revision"], entry["name"], guarantee_by_pool(entry["data"])) for entry in entries] == [
        (1, "one", {"one": 10}),
        (2, "", {"one": 11, "two": 20}),
        (3, "two", {"one": 11, "two": 21}),
        (4, "uno", {"two": 21, "uno": 11}),
        (5, "two", {"uno": 11}),
    ]
    assert (entries[0]["config_type"], entries[0]["username"]) == ("POOL", "root")
    assert (entries[0]["description"], entries[0]["tags"]) == ("first", ["t"])
    assert (entries[4]["description"], entries[4]["tags"]) == ("over", None)
    assert entries[0]["created_at"].count(":") == 2
    assert not entries[0]["created_at"].endswith("Z")


def test_a_write_needs_the_same_queries_with_many_pools(sim: str, admin: ApiClient) -> None:
    counts = []
    for names in (["a"], [f"p{number}" for number in range(60)]):
        admin("PUT", CONFIG, {"configs": {name: pool_config(1) for name in names}})
        with CaptureQueriesContext(connection) as queries:
            admin("PATCH", f"{CONFIG}/{names[0]}", {"configs_dict": {"description": "x"}})
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_filters(sim: str, admin: ApiClient) -> None:
    for number in (1, 2, 3):
        admin("PUT", f"{CONFIG}/p{number}", {"configs": pool_config(number), "tags": [f"t{number}", "all"]})
    second = ConfigRevision.objects.get(revision=2)
    with pgtrigger.ignore("pools.ConfigRevision:keeps_content"):
        ConfigRevision.objects.filter(revision=1).update(created_at=second.created_at - timedelta(hours=2))
        ConfigRevision.objects.filter(revision=3).update(created_at=second.created_at + timedelta(hours=2))
    moment = second.created_at.replace(tzinfo=None)

    def find_revisions(**query: object) -> list[int]:
        answer = admin("GET", HISTORY, query={"omit_data": True, **query})
        assert all(entry["data"] is None for entry in answer.body["configs"])
        return [entry["revision"] for entry in answer.body["configs"]]

    assert find_revisions() == [3, 2, 1]
    assert find_revisions(order="ASC") == [1, 2, 3]
    assert find_revisions(limit=1, offset=1) == [2]
    assert find_revisions(name="p2") == [2]
    assert find_revisions(revision=3) == [3]
    assert find_revisions(revision=9) == []
    assert find_revisions(tags=["t1", "t3"]) == [3, 1]
    assert find_revisions(config_types=["POOL"]) == [3, 2, 1]
    assert find_revisions(config_types=["pool", "ROLE"]) == [3, 2, 1]
    assert find_revisions(config_types=["ROLE"]) == []
    assert find_revisions(created_after=moment + timedelta(hours=1)) == [3]
    assert find_revisions(created_before=moment - timedelta(hours=1)) == [1]
    nine = [
        "SERVICE", "WORKFLOW", "DATASET", "BACKEND", "POOL", "POD_TEMPLATE", "RESOURCE_VALIDATION", "ROLE",
        "BACKEND_TEST",
    ]  # fmt: skip
    assert find_revisions(config_types=nine, at_timestamp=f"{moment + timedelta(hours=1):%Y-%m-%d %H:%M:%S.%f}") == [2]
    for wrong in ({"limit": 0}, {"limit": 1001}, {"at_timestamp": "2026-01-01", "created_after": "2026-01-01"}):
        assert admin("GET", HISTORY, query=wrong).status == 400, wrong


def test_rollback_is_one_more_write(sim: str, admin: ApiClient) -> None:
    admin("PUT", CONFIG, {"configs": {"one": pool_config(10), "two": pool_config(20), "three": pool_config(30)}})
    admin("PATCH", f"{CONFIG}/one", {"configs_dict": {"resources": {"gpu": {"guarantee": 99}}}})
    admin("DELETE", f"{CONFIG}/two")
    admin("PUT", f"{CONFIG}/three/rename", {"new_name": "drei"})
    admin("PUT", f"{CONFIG}/four", {"configs": pool_config(40)})
    body = {"revision": 1, "config_type": "POOL", "description": "back"}
    dry = admin("POST", f"{HISTORY}/rollback", body, query={"dry_run": True}).body
    assert (dry["before"]["one"]["quota"], dry["after"]["one"]["quota"]) == (99, 10)
    answer = admin("POST", f"{HISTORY}/rollback", body, idempotency_key="k")
    assert (answer.status, answer.body) == (200, None)
    again = admin("POST", f"{HISTORY}/rollback", body, idempotency_key="k")
    assert (again.status, again.headers["Idempotent-Replayed"]) == (200, "true")
    assert guarantee_by_pool(admin("GET", CONFIG).body) == {"one": 10, "two": 20, "drei": 30, "four": 40}
    newest = admin("GET", HISTORY, query={"limit": 1}).body["configs"][0]
    assert (newest["revision"], newest["name"], newest["description"]) == (6, "", "back")


def test_rollback_refuses(empty_team: None, admin: ApiClient) -> None:
    admin("PATCH", f"{CONFIG}/team", {"configs_dict": {"resources": {"gpu": {"guarantee": 200}}}})
    admin("POST", f"{CONFIG}/team/subpool", {"subpool_name": "a", "quota": 150})
    too_small = admin("POST", f"{HISTORY}/rollback", {"revision": 1, "config_type": "POOL"})
    assert (too_small.status, too_small.codes) == (
        400,
        {("team.resources.gpu.guarantee", "guarantee_below_slices")},
    )
    assert admin("POST", f"{HISTORY}/rollback", {"revision": 9, "config_type": "POOL"}).status == 404
    for body in ({}, {"revision": True}, {"revision": 1, "config_type": "ROLE"}, {"revision": 1, "x": 1}):
        assert admin("POST", f"{HISTORY}/rollback", body).status == 400, body


def test_diff(empty_team: None, admin: ApiClient) -> None:
    admin("PATCH", f"{CONFIG}/team", {"configs_dict": {"resources": {"gpu": {"guarantee": 50}}}})
    query = {"config_type": "POOL", "first_revision": 1}
    for more in ({"second_revision": 2}, {}):
        answer = admin("GET", "/api/configs/diff", query={**query, **more}).body
        assert (guarantee_by_pool(answer["first_data"]), guarantee_by_pool(answer["second_data"])) == (
            {"team": 100},
            {"team": 50},
        )
    wrong = admin("GET", "/api/configs/diff", query={"second_revision": "x"})
    assert (wrong.status, wrong.codes) == (400, {("first_revision", "missing"), ("second_revision", "bad_query")})
    assert admin("GET", "/api/configs/diff", query={**query, "second_revision": 7}).status == 404
    assert admin("GET", "/api/configs/diff", query={**query, "config_type": "ROLE"}).status == 404


def test_delete_and_tag_revisions(empty_team: None, admin: ApiClient) -> None:
    admin("PATCH", f"{CONFIG}/team", {"configs_dict": {"description": "x"}})
    tags = f"{HISTORY}/pool/revision/1/tags"
    assert admin("POST", tags, {"set_tags": ["a", "b", "a"]}).body is None
    assert admin("POST", tags, {"set_tags": ["c"], "delete_tags": ["a"]}).status == 200
    assert admin("GET", HISTORY, query={"revision": 1}).body["configs"][0]["tags"] == ["b", "c"]
    assert admin("POST", tags, {"set_tags": "a"}).status == 400
    assert admin("POST", f"{HISTORY}/pool/revision/7/tags", {"set_tags": ["a"]}).status == 404
    assert admin("DELETE", f"{HISTORY}/pool/revision/2").status == 409, "the one in force"
    dry = admin("DELETE", f"{HISTORY}/pool/revision/1", query={"dry_run": True}).body
    assert (dry["before"]["revision"], dry["after"]) == (1, None)
    dry = admin("POST", tags, {"set_tags": ["z"]}, query={"dry_run": True}).body
    assert (dry["before"]["tags"], dry["after"]["tags"]) == (["b", "c"], ["b", "c", "z"])
    assert admin("DELETE", f"{HISTORY}/pool/revision/1").body is None
    assert [entry["revision"] for entry in admin("GET", HISTORY).body["configs"]] == [2]
    assert admin("DELETE", f"{HISTORY}/pool/revision/1").status == 404
    assert admin("DELETE", f"{HISTORY}/pool/revision/99999999999").status == 404


# --- many pools at once ---------------------------------------------------------------------------------------------


def test_many_pools_all_or_none_with_every_fault(empty_team: None, admin: ApiClient) -> None:
    admin("POST", f"{CONFIG}/team/subpool", {"subpool_name": "a", "quota": 60})
    bodies = {
        "fine": pool_config(10),
        "Bad": pool_config(10),
        "team": pool_config(50),
        "team--a": pool_config(1),
        "lost": {"backend": "moon"},
        "wrong": {"backend": "sim", "resources": {"gpu": {"guarantee": -7}}},
    }
    answer = admin("PUT", CONFIG, {"configs": bodies})
    assert answer.status == 400
    assert answer.codes == {
        ("Bad", "bad_name"),
        ("team.resources.gpu.guarantee", "guarantee_below_slices"),
        ("team--a", "separator_in_name"),
        ("lost.backend", "unknown_backend"),
        ("wrong.resources.gpu.guarantee", "negative_quota"),
    }
    assert not Pool.objects.filter(name="fine").exists()
    assert admin("PUT", CONFIG, {"configs": {"x": 5}}).codes == {("x", "bad_value")}
    assert admin("PUT", CONFIG, {"configs": {}}).codes == {("configs", "missing")}


def test_many_pools_are_an_upsert(empty_team: None, admin: ApiClient) -> None:
    answer = admin(
        "PUT", CONFIG, {"configs": {"new": pool_config(1), "newer": pool_config(2)}, "description": "d", "tags": ["x"]}
    )
    assert (answer.status, answer.body) == (200, None)
    assert guarantee_by_pool(admin("GET", CONFIG).body) == {"team": 100, "new": 1, "newer": 2}
    dry = admin("PUT", CONFIG, {"configs": {"new": pool_config(5)}}, query={"dry_run": True}).body
    assert (dry["before"]["new"]["quota"], dry["after"]["new"]["quota"]) == (1, 5)
    assert admin("GET", CONFIG, query={"backend": "none"}).body == {"pools": {}}
    verbose = admin("GET", CONFIG, query={"verbose": "True", "backend": "sim"}).body["pools"]
    assert admin("PUT", CONFIG, {"configs": verbose}).status == 200, "what is shown can be put back"
    assert verbose["team"]["last_heartbeat"]
    assert "tolerations" in verbose["team"]["platforms"]["default"]
