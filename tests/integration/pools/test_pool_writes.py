"""Writing a top-level pool: put, patch, delete, rename, platforms; and who may."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from pools.domain.changes.backends import PutBackend
from pools.models import AccessToken, AuditEntry, ConfigurationOwner, Pool, User
from scheduling.services.simulated.reconcile import reconcile_backend
from tests.integration.pools.conftest import pool_config
from tests.support import world
from tests.support.api_client import ApiClient, Callers

CONFIG = "/api/configs/pool"


def create_subpool(admin: ApiClient, name: str, quota: int, pool: str = "team") -> None:
    assert admin("POST", f"{CONFIG}/{pool}/subpool", {"subpool_name": name, "quota": quota}).status == 200


def run_workflow(admin: ApiClient, leaf: str, gpus: int) -> Any:
    """A workflow that runs on a leaf."""
    work = world.submit_workflow(admin.actor, leaf, gpus)
    reconcile_backend(Pool.objects.get(name=leaf).root.backend_id)
    return work


def test_put_creates_a_pool_with_its_roles(sim: str, admin: ApiClient) -> None:
    answer = admin("PUT", f"{CONFIG}/team", {"configs": pool_config(100), "description": "why", "tags": ["t"]})
    assert answer.status == 200
    assert answer.body["resources"]["gpu"] == {"guarantee": 100, "maximum": -1, "weight": 1}
    assert answer.headers["ETag"] == '"1"'
    assert admin("POST", "/api/auth/user", {"id": "u", "roles": ["osmo-team-admin", "osmo-team-user"]}).status == 200
    entry = AuditEntry.objects.get(action="pool.created")
    assert (entry.actor, entry.description) == ("root", "why")


def test_the_answer_of_get_can_be_put_back_and_changes_nothing(empty_team: None, admin: ApiClient) -> None:
    seen = admin("GET", f"{CONFIG}/team", query={"verbose": True})
    audited = AuditEntry.objects.count()
    assert admin("PUT", f"{CONFIG}/team", {"configs": seen.body}).headers["ETag"] == '"1"'
    assert admin("PUT", f"{CONFIG}/team", seen.body).status == 200, "without the wrapper too"
    assert AuditEntry.objects.count() == audited


def test_all_faults_come_at_once(empty_team: None, admin: ApiClient) -> None:
    create_subpool(admin, "a", 60)
    body = {"backend": "moon", "resources": {"gpu": {"guarantee": 50, "weight": -1}}, "colour": 1}
    for method in ("PUT", "PATCH"):
        answer = admin(method, f"{CONFIG}/team", {"configs": body})
        assert (answer.status, answer.body["error_code"]) == (400, "USER")
        assert answer.codes == {
            ("colour", "unknown_key"),
            ("backend", "unknown_backend"),
            ("resources.gpu.weight", "bad_value"),
            ("resources.gpu.guarantee", "guarantee_below_slices"),
        }


def test_names_of_new_pools(sim: str, admin: ApiClient) -> None:
    """The longest name counts the namespace and the shared queue."""
    for name, code in (("Team", "bad_name"), ("_shared", "reserved_name"), ("a" * 42, "name_too_long")):
        answer = admin("PUT", f"{CONFIG}/{name}", {"configs": pool_config(1)})
        assert (answer.status, answer.codes) == (400, {("name", code)})
    assert not Pool.objects.exists()
    longest = "a" * (63 - len("osmo-pool-ns----shared"))
    assert admin("PUT", f"{CONFIG}/{longest}", {"configs": pool_config(1)}).status == 200
    assert admin("PUT", f"{CONFIG}/{longest}a", {"configs": pool_config(1)}).codes == {("name", "name_too_long")}


def test_cut_of_the_guarantee(empty_team: None, admin: ApiClient) -> None:
    create_subpool(admin, "a", 60)
    answer = admin("PATCH", f"{CONFIG}/team", {"configs_dict": {"resources": {"gpu": {"guarantee": 59}}}})
    (fault,) = answer.body["details"]
    assert (answer.status, fault["requested"], fault["limit"]) == (400, 59, 60)
    assert admin("PATCH", f"{CONFIG}/team", {"configs_dict": {"resources": {"gpu": {"guarantee": 60}}}}).status == 200
    unlimited = admin("PATCH", f"{CONFIG}/team", {"configs_dict": {"resources": {"$action": "delete"}}})
    assert (unlimited.status, unlimited.codes) == (400, {("resources.gpu.guarantee", "no_guarantee")})


def test_a_cut_below_running_work_stops_nothing_and_warns(empty_team: None, admin: ApiClient) -> None:
    work = run_workflow(admin, "team", 20)
    answer = admin("PATCH", f"{CONFIG}/team", {"configs_dict": {"resources": {"gpu": {"guarantee": 5}}}})
    assert answer.status == 200
    assert "15 GPUs drain" in answer.body["warnings"][0]
    work.refresh_from_db()
    assert work.status == "RUNNING"


def test_patch_merges_and_keeps_the_rest(empty_team: None, admin: ApiClient) -> None:
    patch = {"platforms": {"h100": {"privileged_allowed": True}}, "description": "new"}
    assert admin("PATCH", f"{CONFIG}/team", {"configs_dict": patch, "description": "why"}).status == 200
    body = admin("GET", f"{CONFIG}/team").body
    assert (body["description"], list(body["platforms"]), body["default_platform"]) == (
        "new",
        ["default", "h100"],
        "default",
    )
    assert body["resources"]["gpu"]["guarantee"] == 100
    gone = admin("PATCH", f"{CONFIG}/team", {"configs_dict": {"platforms": {"default": {"$action": "delete"}}}})
    assert gone.codes == {("default_platform", "unknown_platform")}


def test_moving_to_another_backend_needs_an_idle_pool(empty_team: None, admin: ApiClient) -> None:
    world.apply_change(PutBackend(name="other", body={"namespace": "a-namespace-of-its-own-that-is-long", "nodes": []}))
    create_subpool(admin, "a" * 20, 10)
    work = run_workflow(admin, "team", 1)
    answer = admin("PATCH", f"{CONFIG}/team", {"configs_dict": {"backend": "other"}})
    assert (answer.status, answer.codes) == (400, {("backend", "live_work"), ("backend", "name_too_long")})
    world.apply_change(PutBackend(name="third", body={"namespace": "t"}))
    busy = admin("PATCH", f"{CONFIG}/team", {"configs_dict": {"backend": "third"}})
    assert (busy.status, busy.codes) == (409, {("backend", "live_work")})
    assert admin("POST", f"/api/workflow/{work.name}/cancel").status == 200
    assert admin("PATCH", f"{CONFIG}/team", {"configs_dict": {"backend": "third"}}).body["backend"] == "third"


# --- delete ---------------------------------------------------------------------------------------------------------


def test_a_pool_without_a_history_is_deleted_with_its_roles(
    empty_team: None, admin: ApiClient, caller: Callers
) -> None:
    ann = caller("ann", "osmo-team-user")
    assert ann("GET", f"{CONFIG}/team").status == 200
    answer = admin("DELETE", f"{CONFIG}/team", {"description": "over"})
    assert (answer.status, answer.body) == (200, None)
    assert not Pool.objects.filter(name="team").exists()
    assert admin("PUT", f"{CONFIG}/team", {"configs": pool_config(1)}).status == 200
    assert ann("GET", f"{CONFIG}/team").status == 404, (
        "a role on the old pool says nothing about a new one of that name"
    )
    assert admin("DELETE", f"{CONFIG}/nothing").status == 404


def test_a_pool_with_a_history_is_archived_and_restored(empty_team: None, admin: ApiClient, caller: Callers) -> None:
    ann = caller("ann", "osmo-team-user")
    create_subpool(admin, "a", 30)
    busy = admin("DELETE", f"{CONFIG}/team")
    assert (busy.status, busy.codes) == (409, {("subpools", "has_slices")})
    assert admin("DELETE", f"{CONFIG}/team/subpool/a").status == 200
    gone = admin("DELETE", f"{CONFIG}/team")
    assert (gone.status, gone.body) == (200, None)
    assert "archived" in base64.b64decode(gone.headers["x-osmo-warning"]).decode()

    assert admin("GET", CONFIG).body == {"pools": {}}
    assert admin("GET", CONFIG, query={"include_archived": True}).body["pools"]["team"]["archived"] is True
    assert admin("GET", "/api/pool").body["pools"] == {}
    assert admin("GET", f"{CONFIG}/team").body["archived"] is True
    for method, path, body in (
        ("PATCH", "", {"configs_dict": {"description": "x"}}),
        ("DELETE", "", None),
        ("PUT", "/rename", {"new_name": "b"}),
        ("PUT", "/platform/x", {"configs": {}}),
        ("POST", "/subpool", {"subpool_name": "a", "quota": 1}),
    ):
        assert admin(method, f"{CONFIG}/team{path}", body).status == 409

    back = admin("PUT", f"{CONFIG}/team", {"configs": pool_config(50)})
    assert (back.status, back.body["archived"], back.body["reactivated"]) == (200, False, True)
    assert AuditEntry.objects.filter(object="pool/team", action="pool.reactivated").count() == 1
    assert ann("GET", f"{CONFIG}/team").status == 200
    revived = admin("POST", f"{CONFIG}/team/subpool", {"subpool_name": "a", "quota": 10})
    assert revived.body["reactivated"] is True


def test_a_pool_with_live_work_cannot_be_deleted(empty_team: None, admin: ApiClient) -> None:
    work = run_workflow(admin, "team", 1)
    assert admin("DELETE", f"{CONFIG}/team").codes == {("", "live_work")}
    assert admin("PUT", f"{CONFIG}/team/rename", {"new_name": "b"}).status == 409
    admin("POST", f"/api/workflow/{work.name}/cancel")
    assert admin("DELETE", f"{CONFIG}/team").status == 200
    assert Pool.objects.get(name="team").archived, "it had workflows"


# --- rename ---------------------------------------------------------------------------------------------------------


def test_a_rename_includes_roles_tokens_and_archived_subpools(
    empty_team: None, admin: ApiClient, caller: Callers
) -> None:
    ann = caller("ann", "osmo-team-admin")
    token = AccessToken.objects.get(owner__username="ann")
    AccessToken.objects.filter(pk=token.pk).update(roles=["osmo-team-admin"])
    User.objects.filter(username="ann").update(default_pool="team")
    create_subpool(admin, "a", 30)
    assert admin("PUT", f"{CONFIG}/team/rename", {"new_name": "crew"}).codes == {("subpools", "has_slices")}
    assert admin("DELETE", f"{CONFIG}/team/subpool/a").status == 200

    answer = admin("PUT", f"{CONFIG}/team/rename", {"new_name": "crew"})
    assert (answer.status, answer.body["name"]) == (200, "crew")
    assert list(Pool.objects.order_by("name").values_list("name", flat=True)) == ["crew", "crew--a"]
    ann.token.refresh_from_db()
    assert ann("POST", f"{CONFIG}/crew/subpool", {"subpool_name": "a", "quota": 5}).body["reactivated"] is True
    assert ann("GET", f"{CONFIG}/team").status == 404
    assert User.objects.get(username="ann").default_pool == "crew"


def test_a_rename_includes_targets_of_notices_and_saved_views(
    empty_team: None, admin: ApiClient, caller: Callers
) -> None:
    ann = caller("ann", "osmo-team-admin")
    hook = {"name": "ci", "channel": "webhook", "address": "https://ci.example.com/hook", "pools": ["team"]}
    views = "/api/profile/views/workflows"
    assert ann("POST", "/api/notices/target", hook).status == 200
    for name, query in (("mine", "pools=team--a,teams&status=RUNNING"), ("other", "user=team")):
        assert ann("PUT", f"{views}/{name}", {"query": query}).status == 200

    assert admin("PUT", f"{CONFIG}/team/rename", {"new_name": "crew"}).status == 200
    assert [each["pools"] for each in ann("GET", "/api/notices/target").body] == [["crew"]]
    kept = {each["name"]: each["query"] for each in ann("GET", "/api/profile/views").body["views"]}
    assert kept == {"mine": "pools=crew--a%2Cteams&status=RUNNING", "other": "user=team"}


def test_a_rename_does_not_rename_a_role_that_git_owns(empty_team: None, admin: ApiClient) -> None:
    for role in ("osmo-team-admin", "osmo-crew-user"):
        owner = ConfigurationOwner.objects.create(kind="role", name=role, source="git")
        answer = admin("PUT", f"{CONFIG}/team/rename", {"new_name": "crew"})
        assert (answer.status, answer.codes) == (409, {("new_name", "owned_by_git")})
        owner.delete()
    assert Pool.objects.filter(name="team").exists()


def test_rename_refuses(empty_team: None, admin: ApiClient) -> None:
    assert admin("PUT", f"{CONFIG}/other", {"configs": pool_config(1)}).status == 200
    for to, status, code in (
        ("other", 409, "name_taken"), ("a--b", 400, "separator_in_name"), ("b" * 42, 400, "name_too_long"),
        (None, 400, "missing"), (5, 400, "bad_value"),
    ):  # fmt: skip
        answer = admin("PUT", f"{CONFIG}/team/rename", {"new_name": to})
        assert (answer.status, answer.codes) == (status, {("new_name", code)})


# --- platforms ------------------------------------------------------------------------------------------------------


def test_platforms(empty_team: None, admin: ApiClient) -> None:
    assert list(admin("GET", f"{CONFIG}/team/platform").body["platforms"]) == ["default"]
    put = admin("PUT", f"{CONFIG}/team/platform/h100", {"configs": {"host_network_allowed": True}})
    assert (put.status, put.body["host_network_allowed"], put.body["allowed_mounts"]) == (200, True, [])
    assert admin("GET", f"{CONFIG}/team/platform/h100").body == put.body
    assert admin("GET", f"{CONFIG}/team/platform/none").status == 404
    bad = admin("PUT", f"{CONFIG}/team/platform/h100", {"configs": {"host_network_allowed": 1}})
    assert bad.codes == {("platforms.h100.host_network_allowed", "bad_value")}
    assert admin("PUT", f"{CONFIG}/team/platform/default/rename", {"new_name": "h100"}).status == 409
    assert admin("PUT", f"{CONFIG}/team/platform/none/rename", {"new_name": "b"}).status == 404
    assert admin("PUT", f"{CONFIG}/team/platform/default/rename", {"new_name": "cpu"}).status == 200
    body = admin("GET", f"{CONFIG}/team").body
    assert (list(body["platforms"]), body["default_platform"]) == (["cpu", "h100"], "cpu")


# --- addresses of subpools --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "", {"configs": pool_config(1)}),
        ("PATCH", "", {"configs_dict": {"description": "x"}}),
        ("DELETE", "", None),
        ("PUT", "/rename", {"new_name": "b"}),
        ("PUT", "/platform/x", {"configs": {}}),
    ],
)
def test_writing_a_subpool_names_its_own_address(
    empty_team: None, admin: ApiClient, method: str, path: str, body: Any
) -> None:
    create_subpool(admin, "a", 30)
    for query in ({}, {"dry_run": True}):
        answer = admin(method, f"{CONFIG}/team--a{path}", body, query=query)
        assert (answer.status, answer.codes) == (400, {("name", "subpool_endpoint")})
        assert "/api/configs/pool/team/subpool/a" in answer.body["message"]


def test_a_subpool_reads_the_same_at_both_addresses(empty_team: None, admin: ApiClient) -> None:
    create_subpool(admin, "a", 30)
    own, among_pools = admin("GET", f"{CONFIG}/team/subpool/a"), admin("GET", f"{CONFIG}/team--a")
    assert (own.body, own.headers["ETag"]) == (among_pools.body, among_pools.headers["ETag"])
    assert admin("GET", f"{CONFIG}/team--b").status == 404


# --- dry runs -------------------------------------------------------------------------------------------------------


def test_dry_runs_show_the_effect_and_what_is_in_the_way(empty_team: None, admin: ApiClient) -> None:
    """That they write nothing: tests/integration/identity/test_authorisation.py."""
    dry = {"dry_run": True}
    gone = admin("DELETE", f"{CONFIG}/team", query=dry).body
    assert (gone["before"]["pool"], gone["after"], gone["violations"]) == ("team", None, [])
    named = admin("PUT", f"{CONFIG}/team/rename", {"new_name": "crew"}, query=dry).body
    assert (named["before"]["pool"], named["after"]["pool"]) == ("team", "crew")
    new = admin("PUT", f"{CONFIG}/new", {"configs": pool_config(10)}, query=dry).body
    assert (new["before"], new["after"]["quota"]) == (None, 10)
    create_subpool(admin, "a", 30)
    cut = admin("PATCH", f"{CONFIG}/team", {"configs_dict": {"resources": {"gpu": {"guarantee": 50}}}}, query=dry).body
    assert (cut["before"]["unallocated"], cut["after"]["unallocated"], cut["violations"]) == (70, 20, [])
    assert cut["after"]["configs"]["resources"]["gpu"]["guarantee"] == 50
    for method, path, body, code in (
        ("PUT", "", {"configs": pool_config(10)}, "guarantee_below_slices"),
        ("DELETE", "", None, "has_slices"),
        ("PUT", "/rename", {"new_name": "b"}, "has_slices"),
    ):
        refused = admin(method, f"{CONFIG}/team{path}", body, query=dry)
        assert (refused.status, refused.body["after"]) == (200, None)
        assert [fault["code"] for fault in refused.body["violations"]] == [code]
    assert admin("PUT", f"{CONFIG}/team", {"configs": {"backend": 5}}, query=dry).status == 400, "unreadable"
    assert admin("PATCH", f"{CONFIG}/gone", {"configs_dict": {}}, query=dry).status == 404
    assert admin("PATCH", f"{CONFIG}/team", {"configs_dict": {}}, query={"dry_run": "perhaps"}).status == 400


def test_if_match(empty_team: None, admin: ApiClient) -> None:
    patch = {"configs_dict": {"description": "x"}}
    assert admin("PATCH", f"{CONFIG}/team", patch, if_match='"7"').status == 412
    assert admin("PUT", f"{CONFIG}/team", {"configs": pool_config(1)}, if_match='"7"').status == 412
    assert admin("PUT", f"{CONFIG}/new", {"configs": pool_config(1)}, if_match='"1"').status == 412
    assert admin("PUT", f"{CONFIG}/team/rename", {"new_name": "b"}, if_match='"7"').status == 412
    assert admin("PUT", f"{CONFIG}/team/platform/x", {"configs": {}}, if_match='"7"').status == 412
    assert admin("DELETE", f"{CONFIG}/team", if_match='"7"').status == 412
    assert admin("PATCH", f"{CONFIG}/team", patch, if_match='"1"').headers["ETag"] == '"2"'
    assert admin("DELETE", f"{CONFIG}/team", if_match="*").status == 200
