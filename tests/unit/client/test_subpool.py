"""`osmo pool subpool`: requests, messages, dry runs, confirmations."""

from __future__ import annotations

import json
from typing import Any

import pytest

from osmo_admin.cli.base.yaml_files import parse_number
from osmo_admin.cli.commands.subpool import _result_message
from tests.unit.client.stub_server import StubReply

COLLECTION = "/api/configs/pool/team/subpool"
ONE = f"{COLLECTION}/a"


def subpool_body(state: str = "ACTIVE", **more: Any) -> dict[str, Any]:
    row = {"name": "team--a", "parent_pool": "team", "subpool_name": "a", "subpool_state": state, "quota": 30}
    row |= {"last_quota": 30, "scheduling_quota": 30, "used": 5, "available": 25, "total_usage": 7}
    row |= {"live_workflows": 2, "queue": "osmo-pool-ns-team--a", "k8s_queue": "osmo-pool-ns-team--a"}
    return row | {"warnings": [], "version": 3, "reactivated": False} | more


def tree_body(unallocated: int, *subpools: tuple[str, str, int]) -> dict[str, Any]:
    rows = [{"name": name, "subpool_state": state, "quota": quota} for name, state, quota in subpools]
    return {"pool": "team", "quota": 100, "unallocated": unallocated, "shared": {}, "subpools": rows}


def effect_body(before: Any, after: Any, **more: Any) -> dict[str, Any]:
    body = {"dry_run": True, "before": before, "after": after, "violations": [], "draining": [], "may_be_reclaimed": []}
    return body | more


@pytest.mark.parametrize(
    ("typed", "sent"),
    [("30", 30), ("12.9", 12.9), ("25%", "25%"), ("-5", -5), (" 8 ", 8), ("many", "many"), ("1e9", 1e9), ("0", 0)],
)
def test_a_typed_quota_is_sent_unchanged(typed, sent):
    assert parse_number(typed) == sent
    assert type(parse_number(typed)) is type(sent)


def test_create(osmo, stub):
    stub.on("POST", COLLECTION, subpool_body())
    text = osmo.ok("pool", "subpool", "create", "team", "a", "--quota", "30", "-d", "for vision")
    assert text == "Subpool team--a created: ACTIVE, quota 30, guaranteed in use 5, guaranteed free 25.\n"
    assert stub.last.body == {"subpool_name": "a", "quota": 30, "description": "for vision"}
    assert stub.last.query == {}
    assert len(stub.last.headers["idempotency-key"]) == 36


def test_create_reports_rounding_and_reactivation(osmo, stub):
    stub.on("POST", COLLECTION, subpool_body(reactivated=True, quota=12, warnings=["12.9 was rounded down to 12."]))
    result = osmo("pool", "subpool", "create", "team", "a", "-q", "12.9")
    assert stub.last.body == {"subpool_name": "a", "quota": 12.9}
    assert result.stdout.startswith("Subpool team--a reactivated: ACTIVE, quota 12")
    assert result.stderr == "WARNING: 12.9 was rounded down to 12.\n"


def test_a_dry_run_shows_a_flavor_whose_quota_changes_in_an_equal_sum(osmo, stub):
    def tree(h100: int, a100: int) -> dict[str, Any]:
        own = [{"flavor": "h100", "quota": h100}, {"flavor": "a100", "quota": a100}]
        left = [{"flavor": "h100", "quota": 16 - h100}, {"flavor": "a100", "quota": 16 - a100}]
        part = {"name": "team--a", "subpool_name": "a", "subpool_state": "ACTIVE", "quota": 16, "flavors": own}
        return {"pool": "team", "quota": 32, "unallocated": 16, "shared": {"flavors": left}, "subpools": [part]}

    body = {"dry_run": True, "before": tree(8, 8), "after": tree(12, 4), "violations": []}
    stub.on("PATCH", "/api/configs/pool/team/subpool/a", body)
    text = osmo.ok("pool", "subpool", "update", "team", "a", "--quotas", "h100=12,a100=4", "--dry-run")
    assert {line.split("  ")[0]: line.split("  ")[-1] for line in text.splitlines() if "→" in line} == {
        "team, h100": "8 → 4", "team, a100": "8 → 12", "└─ team--a, h100": "8 → 12", "└─ team--a, a100": "8 → 4"
    }  # fmt: skip


def test_a_dry_run_says_a_warning_once(osmo, stub):
    tree = tree_body(30, ("team--a", "ACTIVE", 30))
    stub.on("POST", COLLECTION, effect_body(tree, tree, warnings=["12.9 was rounded down to 12."]))
    result = osmo("pool", "subpool", "create", "team", "a", "-q", "12.9", "--dry-run")
    assert (result.stdout + result.stderr).count("12.9 was rounded") == 1


def test_update_with_a_version(osmo, stub):
    stub.on("PATCH", ONE, subpool_body(quota=50))
    osmo.ok("pool", "subpool", "update", "team", "a", "--quota", "25%", "--if-match", "3")
    assert stub.last.body == {"quota": "25%"}
    assert stub.last.headers["if-match"] == '"3"'
    assert "idempotency-key" not in stub.last.headers


def test_a_negative_quota_reaches_the_server_and_its_message_the_user(osmo, stub):
    message = "A quota is 0 or more GPUs; -5 is less."
    body = {"message": message, "error_code": "USER", "workflow_id": None}
    body["details"] = [{"path": "quota", "code": "negative", "message": message}]
    stub.on("PATCH", ONE, StubReply(body, status=400))
    result = osmo("pool", "subpool", "update", "team", "a", "--quota", "-5")
    assert stub.last.body == {"quota": -5}
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"Error: quota: {message}\n"


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ("ARCHIVED", "Subpool team--a is ARCHIVED; its quota returned to team.\n"),
        (
            "DELETING",
            (
                "Subpool team--a is DELETING: it takes no new work and is archived when its 2 active workflows have"
                " ended (guaranteed in use: 5 GPUs).\n"
            ),
        ),
    ],
)
def test_delete(osmo, stub, state, text):
    stub.on("DELETE", ONE, subpool_body(state))
    assert osmo.ok("pool", "subpool", "delete", "team", "a") == text
    assert stub.last.body is None


def test_delete_with_pending_workflows(osmo, stub):
    stub.on("DELETE", ONE, subpool_body("DELETING") | {"cancelled_workflows": 3})
    said = osmo.ok("pool", "subpool", "delete", "team", "a", "--cancel-pending", "-d", "project ended")
    assert said.endswith("3 workflows that had not started were cancelled.\n")
    assert stub.last.body == {"cancel_pending": True, "description": "project ended"}


@pytest.mark.parametrize(
    ("words", "method", "address"),
    [
        (("create", "team", "a", "--quota", "30"), "POST", COLLECTION),
        (("update", "team", "a", "--quota", "30"), "PATCH", ONE),
        (("delete", "team", "a"), "DELETE", ONE),
    ],
)
def test_dry_run_shows_the_tree_before_and_after(osmo, stub, words, method, address):
    before = tree_body(30, ("team--b", "ACTIVE", 40), ("team--a", "ACTIVE", 30))
    after = tree_body(20, ("team--a", "DELETING", 0), ("team--b", "ACTIVE", 50), ("team--c", "ACTIVE", 30))
    answer = effect_body(
        before, after, draining=["w-1", "w-2"], may_be_reclaimed=["low-1"], may_be_reclaimed_elsewhere=2
    )
    stub.on(method, address, answer)
    text = osmo.ok("pool", "subpool", *words, "--dry-run")
    assert stub.last.query == {"dry_run": ["True"]}
    assert text == (
        "Dry run: nothing was changed.\n"
        "Pool        Subpool State      GPU Quota\n"
        "----------  -----------------  --------------------\n"
        "team        -                  30 → 20 (Total: 100)\n"
        "├─ team--a  ACTIVE → DELETING  30 → 0\n"
        "├─ team--b  ACTIVE             40 → 50\n"
        "└─ team--c  - → ACTIVE         - → 30\n"
        "Would drain: w-1, w-2\n"
        "May be reclaimed: low-1\n"
        "May be reclaimed (other users): 2\n"
    )
    assert json.loads(osmo.ok("pool", "subpool", *words, "--dry-run", "-o", "json")) == answer


def test_a_dry_run_of_a_forbidden_change_names_the_rule_and_fails(osmo, stub):
    wrong = {"path": "quota", "code": "over_parent", "message": "130 GPUs do not fit into the 30 that are unallocated."}
    stub.on("POST", COLLECTION, effect_body(tree_body(30), None, violations=[wrong]))
    result = osmo("pool", "subpool", "create", "team", "a", "--quota", "130", "--dry-run")
    assert result.exit_code == 2
    assert result.stdout.startswith("Dry run: the change would be refused.\n")
    assert f"Refused: quota: {wrong['message']}" in result.stdout


def test_a_server_that_ignores_the_dry_run_is_not_trusted(osmo, stub):
    stub.on("POST", COLLECTION, subpool_body())
    result = osmo("pool", "subpool", "create", "team", "a", "--quota", "30", "--dry-run")
    assert "did not confirm the dry run" in result.stderr


def test_list(osmo, stub):
    shared = {"used": 50, "total_usage": 52, "available": -40, "quota": 10}
    body = {"pool": "team", "quota": 100, "unallocated": 10, "shared": shared}
    stub.on(
        "GET",
        COLLECTION,
        body | {"subpools": [subpool_body(), subpool_body("DELETING", name="team--old", quota=0, available=-5)]},
    )
    lines = osmo.ok("pool", "subpool", "list", "team").splitlines()
    assert lines[2].split() == ["team", "-", "100", "60", "40", "66", "4", "-", "-", "-"]
    remainder = ["├─", "Pool", "remainder", "(shared)", "-", "10", "50", "-40", "52", "-", "-", "-", "-"]
    assert lines[3].split() == remainder
    assert lines[4].split() == ["├─", "team--a", "ACTIVE", "30", "5", "25", "7", "2", "-", "-", "-"]
    assert lines[5].split() == ["└─", "team--old", "DELETING", "0", "5", "-5", "7", "2", "-", "-", "-"]
    assert (
        osmo.ok("pool", "subpool", "list", "team", "-o", "csv").splitlines()[2].startswith("team--_shared,,10,50,-40,")
    )
    osmo.ok("pool", "subpool", "list", "team", "--include-archived")
    assert stub.last.query == {"include_archived": ["True"], "start_room": ["True"]}


def test_a_pool_without_subpools_shows_its_quota(osmo, stub):
    shared = {"used": 0, "total_usage": 0, "available": 100, "quota": 100}
    stub.on("GET", COLLECTION, {"pool": "team", "quota": 100, "unallocated": 100, "shared": shared, "subpools": []})
    assert osmo.ok("pool", "subpool", "list", "team").splitlines()[-1].split()[:3] == ["team", "-", "100"]


def test_show(osmo, stub):
    stub.on("GET", ONE, subpool_body())
    text = osmo.ok("pool", "subpool", "show", "team", "a")
    assert "Guaranteed free   : 25" in text
    assert json.loads(osmo.ok("pool", "subpool", "show", "team", "a", "-o", "json")) == subpool_body()


def test_names_cannot_change_the_path(osmo, stub):
    stub.on("GET", f"{COLLECTION}/a%2F..%2Fb", subpool_body())
    osmo.ok("pool", "subpool", "show", "team", "a/../b")
    for name in ("..", ".", ""):
        result = osmo("pool", "subpool", "show", "team", name)
        assert result.exit_code == 2
        assert "no address can hold" in result.stderr
    assert len(stub.requests) == 1


def test_a_quota_is_required(osmo, stub):
    result = osmo("pool", "subpool", "create", "team", "a")
    assert result.exit_code == 2
    assert "--quota" in result.stderr
    assert stub.requests == []


def test_one_active_workflow_is_singular():
    answer = {"name": "team--a", "subpool_state": "DELETING", "live_workflows": 1, "used": 4}
    assert "when its 1 active workflow has ended (guaranteed in use: 4 GPUs)" in _result_message(answer, "deleted")


def test_a_temporary_quota_is_sent_and_shown_with_its_end(osmo, stub):
    stub.on("PATCH", ONE, subpool_body(quota=50, quota_until="2026-11-27T18:00:00", quota_after=30))
    text = osmo.ok("pool", "subpool", "update", "team", "a", "--quota", "50", "--until", "2026-11-27T18:00+00:00")
    assert stub.last.body == {"quota": 50, "until": "2026-11-27T18:00:00"}
    assert "2026-11-27" in text
    assert "it is 30 again." in text
    kinds = {"quotas": {"h100": 20, "t4": 30}, "quotas_after": {"h100": 10, "t4": 20}}
    stub.on("PATCH", ONE, subpool_body(quota=50, quota_until="2026-11-27T18:00:00", quota_after=30, **kinds))
    text = osmo.ok("pool", "subpool", "update", "team", "a", "--quotas", "h100=20", "--until", "2026-11-27T18:00+00:00")
    assert "it is 30 (10 h100, 20 t4) again." in text


def test_a_deadline_of_a_drain_is_sent_and_shown(osmo, stub):
    draining = subpool_body("DELETING", quota=0, drain_by="2026-11-27T18:00:00")
    stub.on("DELETE", ONE, draining)
    text = osmo.ok("pool", "subpool", "delete", "team", "a", "--yes", "--drain-by", "2026-11-27T18:00+00:00")
    assert stub.last.body == {"drain_by": "2026-11-27T18:00:00"}
    assert "Deadline: 2026-11-27" in text
    stub.on("PATCH", ONE, draining)
    osmo.ok("pool", "subpool", "deadline", "team", "a", "2026-11-27T18:00+00:00", "-d", "agreed")
    assert stub.last.body == {"drain_by": "2026-11-27T18:00:00", "description": "agreed"}
    stub.on("PATCH", ONE, subpool_body("DELETING", quota=0, drain_by=None))
    assert "Deadline" not in osmo.ok("pool", "subpool", "deadline", "team", "a")
    assert stub.last.body == {"drain_by": None}


QUOTAS = "/api/configs/subpool_quotas"


def test_export_and_import_of_quotas(osmo, stub, tmp_path):
    stub.on("GET", QUOTAS, {"quotas": {"other--c": 4, "team--a": 30}})
    exported = osmo.ok("pool", "subpool", "export")
    assert exported == "pool,subpool,quota\nother,c,4\nteam,a,30\n"
    file = tmp_path / "quotas.csv"
    file.write_text(exported.replace("30", "25%") + "team,,9\n", encoding="utf-8")
    stub.on("PATCH", QUOTAS, {"subpools": [{"name": "team--a"}], "warnings": ["25% of 50 is 12.5"]})
    result = osmo("pool", "subpool", "import", str(file), "-d", "plan")
    assert stub.last.body == {"quotas": {"other--c": 4, "team--a": "25%"}, "description": "plan"}
    assert result.stdout == "1 of 2 subpools have new quotas: team--a.\n"
    assert "1 line of pools" in result.stderr
    assert "25% of 50 is 12.5" in result.stderr


def test_a_dry_run_of_an_import_shows_each_pool(osmo, stub, tmp_path):
    file = tmp_path / "quotas.csv"
    file.write_bytes("pool,subpool,quota\r\nteam,a,40\r\n".encode("utf-16"))
    before, after = tree_body(70, ("team--a", "ACTIVE", 30)), tree_body(60, ("team--a", "ACTIVE", 40))
    stub.on("PATCH", QUOTAS, effect_body({"team": before}, {"team": after}))
    text = osmo.ok("pool", "subpool", "import", str(file), "--dry-run")
    assert stub.last.query == {"dry_run": ["True"]}
    assert "30 → 40" in text


def test_a_file_with_faults_is_not_sent(osmo, stub, tmp_path):
    file = tmp_path / "quotas.csv"
    file.write_text("pool,subpool,quota\nteam,a,1\nteam,a,2\n", encoding="utf-8")
    result = osmo("pool", "subpool", "import", str(file))
    assert result.exit_code == 2
    assert "names team--a again" in result.stderr
    assert not stub.requests


def test_a_refused_file_is_refused_in_the_words_of_a_file(osmo, stub, tmp_path):
    file = tmp_path / "quotas.csv"
    file.write_text("pool,subpool,quota\nteam,a,4\n")
    said = (
        "Pool team has quotas of 2 flavors (h100 and a100): say how many GPUs of each, as quotas.team--a "
        '{"h100": GPUS, "a100": GPUS}.'
    )
    detail = {"path": "quotas.team--a", "code": "flavor_needed", "message": said, "flavors": ["h100", "a100"]}
    body = {"message": said, "error_code": "USER", "workflow_id": None, "details": [detail]}
    stub.on("PATCH", "/api/configs/subpool_quotas", StubReply(body, status=400))
    refused = osmo("pool", "subpool", "import", str(file))
    assert refused.exit_code == 2
    assert refused.stderr == (
        "Error: team--a: Pool team has quotas of 2 flavors (h100 and a100). Give the file the column flavor, and "
        "team--a a line for each flavor whose quota changes.\n"
    )
