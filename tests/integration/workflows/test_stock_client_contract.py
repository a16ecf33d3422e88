"""The requests of the stock client, as they were observed, and the answers, read as the client reads them
(design, O0 and all after it)."""

from __future__ import annotations

import os
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from pools.domain.changes.pools import PatchPool
from pools.domain.changes.tokens import CreateToken
from pools.models import Node, Pool
from scheduling.models import Workflow
from tests.support import stock_client_keys, world
from tests.support.flavors import make_flavored_pool
from tests.support.stock_client import ClientExit, StockClient, read_time

TEMPLATE = """workflow:
  name: {{ name }}
  resources: {default: {gpu: 2}}
  tasks:
  - {name: train, image: ubuntu, command: [sh]}
default-values: {name: hello}
"""


def logged_in(name: str, *roles: str) -> StockClient:
    """`osmo login URL --method token --token T` of a new user."""
    world.make_user(name, *roles)
    return StockClient(token=world.apply_change(CreateToken(owner=name, name="cli"))[1])


@pytest.fixture
def osmo(team: Any) -> StockClient:
    """A user of pool `team`."""
    return logged_in("alice", "osmo-team-user")


@pytest.fixture
def root(team: Any) -> StockClient:
    """A platform admin."""
    return logged_in("root", "osmo-admin")


def body_of(file: str, template: str | None = None) -> dict[str, Any]:
    """The body that `workflow submit` posts."""
    return {
        "file": file,
        "set_variables": [],
        "set_string_variables": [],
        "uploaded_templated_spec": template,
    }


def submit(osmo: StockClient, file: str, pool: str = "team", **query: Any) -> Any:
    """`osmo workflow submit FILE`: one post, or for a template a dry run first."""
    body = body_of(file)
    if any(mark in file for mark in ("{{", "{%", "{#", "default-values")):
        rendered = osmo.call("POST", f"api/pool/{pool}/workflow", query | {"dry_run": True}, body)
        body = body_of(rendered["spec"], template=file)
    answer = osmo.call("POST", f"api/pool/{pool}/workflow", query | {"dry_run": False}, body)
    assert {"name", "overview", "dashboard_url", "warnings"} <= answer.keys()
    assert (answer["logs"] is None) != (answer["spec"] is None)
    return answer


def numbers(usage: dict[str, str]) -> list[int]:
    """The six numbers of a row of `pool list`; they come as texts."""
    names = ("quota_used", "quota_free", "quota_limit", "total_usage", "total_capacity", "total_free")
    assert all(isinstance(usage[name], str) for name in names)
    return [int(usage[name]) for name in names]


# --- version, login, profile ---


def test_version(osmo: StockClient) -> None:
    version = osmo.call("GET", "api/version")
    assert all(isinstance(version[key], str) for key in ("major", "minor", "revision"))


def test_a_wrong_token_is_refused_in_words(team: Any) -> None:
    with pytest.raises(ClientExit) as end:
        StockClient(token="x" * 43)
    assert end.value.code == 2


def test_login_by_name_only_in_dev_mode(team: Any, settings: Any) -> None:
    world.make_user("dev", "osmo-team-user")
    with pytest.raises(ClientExit):
        StockClient(dev_user="dev").call("GET", "api/profile/settings")
    settings.DEV_LOGIN = True
    assert StockClient(dev_user="dev").call("GET", "api/profile/settings")["profile"]["username"] == "dev"


def test_profile(osmo: StockClient) -> None:
    assert osmo.call("POST", "api/profile/settings", body={"pool": "team"}) is None
    found = osmo.call("GET", "api/profile/settings")
    assert (found["profile"]["username"], found["profile"]["pool"]) == ("alice", "team")
    assert "team" in found["pools"]
    assert found["roles"] == ["osmo-team-user"]
    assert found["token"] is None or isinstance(found["token"]["expires_at"], str)
    assert osmo.call("POST", "api/profile/settings", body={"email_notification": True}) is None
    with pytest.raises(ClientExit) as end:
        osmo.call("POST", "api/profile/settings", body={"pool": "nowhere"})
    assert "nowhere" in end.value.text


# --- pools and nodes ---


def test_a_pool_with_gpu_flavors_shows_sums_and_judges_by_flavor(db: None) -> None:
    """16 h100 GPUs, the nodes of platform hopper, and 32 a100; 8 and 8 of them are the quota of subpool a."""
    make_flavored_pool("kinds", backend="mixed")
    Node.objects.filter(name__startswith="h").update(platform="hopper")
    world.apply_change(PatchPool(name="kinds", patch={"platforms": {"default": {}, "hopper": {}}}))
    osmo = logged_in("alice", "osmo-kinds-user")
    for number, pool in enumerate(("kinds", "kinds--a")):
        submit(osmo, world.workflow_file(f"w{number}", gpus=8), pool=pool)
        world.reconcile("mixed")
    answer = osmo.call("GET", "api/pool_quota", {"all_pools": True})
    rows = {
        row["name"]: numbers(row["resource_usage"]) for node_set in answer["node_sets"] for row in node_set["pools"]
    }
    assert rows == {"kinds": [8, 24, 32, 8, 48, 32], "kinds--a": [8, 8, 16, 8, 48, 32]}
    kinds = Pool.objects.get(name="kinds").flavors
    assert sum(row["quota"] for row in kinds) == rows["kinds"][2] + rows["kinds--a"][2] == 48
    assert not any(word in str(answer) for word in ("flavor", "h100", "a100"))

    on_hopper = world.workflow_file("big", gpus=8).replace("gpu: 8", "gpu: 8, platform: hopper")
    refusal = refusal_of(osmo, on_hopper, pool="kinds")
    assert "h100" in refusal and "a100" not in refusal
    assert submit(osmo, world.workflow_file("big", gpus=8), pool="kinds")["name"] == "big-1"


def refusal_of(osmo: StockClient, file: str, pool: str) -> str:
    with pytest.raises(ClientExit) as end:
        submit(osmo, file.replace("gpu: 8", "gpu: 9"), pool=pool)
    return end.value.text


def test_pool_list_in_both_modes(osmo: StockClient, reconcile_pool: Any) -> None:
    submit(osmo, world.workflow_file("x", gpus=8), priority="HIGH")
    submit(osmo, world.workflow_file("y", gpus=4), pool="team--a", priority="LOW")
    reconcile_pool()

    for query in ({"all_pools": True}, {"pools": ["team--a", "team"], "all_pools": False}):
        answer = osmo.call("GET", "api/pool_quota", query)
        rows = [row for node_set in answer["node_sets"] for row in node_set["pools"]]
        assert [row["name"] for row in rows] == ["team", "team--a"]  # the first one carries the node set's capacity
        assert all(isinstance(row["status"], str) and "description" in row for row in rows)
        usage = {row["name"]: numbers(row["resource_usage"]) for row in rows}
        assert usage["team"] == [8, 62, 70, 8, 128, 116]
        assert usage["team--a"] == [0, 30, 30, 4, 128, 116]
        assert numbers(answer["resource_sum"]) == [8, 92, 100, 12, 128, 116]  # capacity and free counted once
    assert osmo.call("GET", "api/pool_quota", {"pools": ["nowhere"], "all_pools": False})["node_sets"] == []


def test_resource_list_and_info(osmo: StockClient) -> None:
    pools = osmo.call("GET", "api/pool", {"all_pools": True})["pools"]
    assert "team" in pools
    found = osmo.call("GET", "api/resources", {"pools": ["team"], "all_pools": False})["resources"]
    assert len(found) == 4
    entry = found[0]
    assert {
        "hostname",
        "exposed_fields",
        "taints",
        "usage_fields",
        "allocatable_fields",
        "pool_platform_labels",
    } <= set(entry)
    assert entry["exposed_fields"]["node"]
    assert entry["pool_platform_labels"]["team"] == ["default"]
    (detail,) = osmo.call("GET", f"api/resources/{entry['hostname']}")["resources"]
    assert "default" in detail["config_fields"]["team"]


# --- workflows ---


def test_submit_plain_and_templated(osmo: StockClient) -> None:
    assert submit(osmo, world.workflow_file("plain"))["name"] == "plain-1"
    assert submit(osmo, TEMPLATE)["name"] == "hello-1"
    assert osmo.stream("api/workflow/hello-1/spec", {"use_template": True}) == TEMPLATE
    assert "name: hello" in osmo.stream("api/workflow/hello-1/spec", {"use_template": False})


def test_a_refused_submission_ends_with_1(osmo: StockClient) -> None:
    with pytest.raises(ClientExit) as end:
        submit(osmo, world.workflow_file("big", gpus=71), priority="HIGH")
    assert end.value.code == 1
    assert end.value.text.startswith("Workflow big submit failed:")
    with pytest.raises(ClientExit) as end:
        submit(osmo, "workflow: {name: 7x}")
    assert end.value.code == 1
    with pytest.raises(ClientExit) as end:
        submit(osmo, world.workflow_file(), pool="nowhere")
    assert end.value.code == 2


def test_validate(osmo: StockClient) -> None:
    query = {"validation_only": True, "dry_run": False}
    answer = osmo.call("POST", "api/pool/team/workflow", query, body_of(world.workflow_file()))
    assert isinstance(answer["logs"], str)
    assert (answer["warnings"], answer["spec"]) == ([], None)
    assert not Workflow.objects.exists()


def test_validate_of_a_template_answers_the_rendered_file(osmo: StockClient) -> None:
    template = world.workflow_file("{{ wanted }}") + "default-values:\n  wanted: hello\n"
    sent = {"file": template, "set_variables": [], "set_string_variables": []}
    answer = osmo.call("POST", "api/pool/team/workflow", {"validation_only": True, "dry_run": True}, sent)
    assert "name: hello" in answer["spec"]
    assert "{{" not in answer["spec"]
    assert isinstance(answer["logs"], str)


UPSTREAM = "OSMO_UPSTREAM_FILES"
"""A folder with workflow files of the upstream cookbook and documents; they are not part of this repository."""

OWN_TEMPLATES = {"values": TEMPLATE, "loop": TEMPLATE.replace("{name: train,", "{name: train{% if 1 %}{% endif %},")}


def templates_at_hand() -> dict[str, str]:
    """Our own, and the templates of the folder."""
    folder = os.environ.get(UPSTREAM)
    files = {} if folder is None else {str(path): path.read_text() for path in sorted(Path(folder).rglob("*.yaml"))}
    found = {name: text for name, text in files.items() if re.search(r"^workflow:", text, re.MULTILINE)}
    assert folder is None or found, f"{UPSTREAM} has no workflow file"
    return OWN_TEMPLATES | {name: text for name, text in found.items() if "{{" in text or "default-values" in text}


def refusal_of_validate(osmo: StockClient, template: str) -> str:
    """The text with which `osmo workflow validate` ends; empty if the file is valid."""
    path = "api/pool/team/workflow"
    try:
        rendered = osmo.call("POST", path, {"validation_only": True, "dry_run": True}, body_of(template))["spec"]
        sent = body_of(str(rendered or ""), template=template)
        osmo.call("POST", path, {"validation_only": True, "dry_run": False}, sent)
    except ClientExit as end:
        return end.text
    return ""


@pytest.mark.parametrize("name", sorted(templates_at_hand()))
def test_validate_renders_each_template_or_says_what_is_wrong_with_it(osmo: StockClient, name: str) -> None:
    """`workflow validate FILE` asks for the rendered file, and then for the verdict on it. A refusal because of the
    pool (a platform, an amount of GPUs) is an answer; a file that cannot be rendered or read is a fault."""
    template = templates_at_hand()[name]
    refusal = refusal_of_validate(osmo, template)
    assert refusal == "" or (name not in OWN_TEMPLATES and re.search("platform|GPU|quota|credential|resource", refusal))


def test_a_bad_value_in_the_query_is_a_fault_of_the_submission(osmo: StockClient) -> None:
    for name in ("validation_only", "dry_run"):
        with pytest.raises(ClientExit) as end:
            osmo.call("POST", "api/pool/team/workflow", {name: "perhaps"}, body_of(world.workflow_file()))
        assert end.value.text.startswith("Workflow ")
        assert end.value.code == 1


def test_a_filter_with_a_search_for_each_value_takes_fifty(osmo: StockClient) -> None:
    values = [f"team{number}=x" for number in range(51)]
    for address, query in (("api/queue", "pool"), ("api/workflow", "label"), ("api/workflow", "no_label")):
        assert osmo.call("GET", address, {query: values[:50]})["more_entries"] is False
        with pytest.raises(ClientExit, match="at most 50"):
            osmo.call("GET", address, {query: values})


def test_workflow_list_and_query(osmo: StockClient, reconcile_pool: Any) -> None:
    submit(osmo, world.workflow_file("x"), label=["project=a"])
    reconcile_pool()
    query = {"limit": 20, "offset": 0, "order": "DESC", "all_pools": True, "statuses": ["RUNNING", "PENDING"]}
    answer = osmo.call("GET", "api/workflow", query)
    assert answer["more_entries"] is False
    (entry,) = answer["workflows"]
    assert entry.keys() >= stock_client_keys.LIST_KEYS
    for key in ("submit_time", "start_time"):
        read_time(entry[key])
    assert isinstance(entry["queued_time"], int | float)

    detail = osmo.call("GET", "api/workflow/x-1", {"verbose": False})
    assert detail.keys() >= stock_client_keys.DETAIL_KEYS
    assert (detail["submitted_by"], detail["status"]) == ("alice", "RUNNING")
    (group,) = detail["groups"]
    assert group.keys() >= stock_client_keys.GROUP_KEYS
    (task,) = group["tasks"]
    assert task.keys() >= stock_client_keys.TASK_KEYS
    for moment in (detail["submit_time"], task["start_time"], group["scheduling_start_time"]):
        read_time(moment)


def test_cancel_spec_logs_events_tag_restart(osmo: StockClient) -> None:
    submit(osmo, world.workflow_file("x"))
    assert osmo.stream("api/workflow/x-1/spec", {"use_template": False}).startswith("workflow:")
    assert osmo.stream("api/workflow/x-1/events").endswith("\n")
    assert osmo.stream("api/workflow/x-1/logs", {"last_n_lines": 5, "task_name": "train"}) is not None
    assert osmo.stream("api/workflow/x-1/error_logs", {"task_name": "train", "retry_id": 0}) == ""
    assert osmo.call("POST", "api/workflow/x-1/tag", {"add": ["one", "two"], "remove": []}) is None
    assert osmo.call("GET", "api/tag")["tags"] == ["one", "two"]
    with pytest.raises(ClientExit) as end:
        osmo.call("POST", "api/pool/team/workflow/x-1/restart")
    assert end.value.code == 1
    assert osmo.call("POST", "api/workflow/x-1/cancel", {"force": False, "message": "enough"})["name"] == "x-1"
    with pytest.raises(ClientExit) as end:
        osmo.call("POST", "api/workflow/x-1/cancel", {"force": False})
    assert (end.value.code, "Error code: 400" in end.value.text) == (2, True)
    pool = osmo.call("GET", "api/workflow/x-1")["pool"]
    assert osmo.call("POST", f"api/pool/{pool}/workflow/x-1/restart")["name"] == "x-2"


def test_task_list(osmo: StockClient, reconcile_pool: Any) -> None:
    submit(osmo, world.workflow_file("x", gpus=2))
    reconcile_pool()
    query = {
        "limit": 20, "offset": 0, "order": "ASC", "all_users": False, "all_pools": True,
        "statuses": ["PROCESSING", "SCHEDULING", "INITIALIZING", "RUNNING"],
    }  # fmt: skip
    (entry,) = osmo.call("GET", "api/task", query)["tasks"]
    assert entry.keys() >= stock_client_keys.TASK_LIST_KEYS
    read_time(entry["start_time"])
    assert isinstance(entry["memory"], int | float)
    (row,) = osmo.call("GET", "api/task", query | {"summary": True})["summaries"]
    assert {"user", "pool", "storage", "cpu", "memory", "gpu", "priority"} <= row.keys()
    (row,) = osmo.call("GET", "api/task", query | {"summary": True, "aggregate_by_workflow": True})["summaries"]
    assert row["workflow_id"] == "x-1"


# --- configuration of pools ---


def test_config_show_update_history_delete(root: StockClient) -> None:
    shown = root.call("GET", "api/configs/pool")["pools"]["team"]
    assert shown["resources"]["gpu"]["guarantee"] == 100
    change = {"configs_dict": {"description": "ours"}, "description": "say whose it is", "tags": ["mine"]}
    assert root.call("PATCH", "api/configs/pool/team", body=change)["description"] == "ours"
    new = {"backend": "sim", "resources": {"gpu": {"guarantee": 5, "maximum": -1, "weight": 1}}}
    assert root.call("PUT", "api/configs/pool", body={"configs": {"fresh": new}, "description": "new"}) is None
    assert set(root.call("GET", "api/configs/pool", {"verbose": True})["pools"]) >= {"fresh", "team"}

    query = {"omit_data": True, "offset": 0, "limit": 20, "order": "ASC", "config_types": ["POOL"]}
    history = root.call("GET", "api/configs/history", query)["configs"]
    assert history[0].keys() >= stock_client_keys.REVISION_KEYS
    for entry in history:
        read_time(entry["created_at"])
    assert [entry["revision"] for entry in history] == sorted(entry["revision"] for entry in history)
    last = history[-1]
    query = {"omit_data": False, "config_types": ["POOL"], "revision": last["revision"]}
    assert "fresh" in root.call("GET", "api/configs/history", query)["configs"][0]["data"]["pools"]

    assert root.call("DELETE", "api/configs/pool/fresh", body={"description": "gone"}) is None
    assert "fresh" not in root.call("GET", "api/configs/pool")["pools"]
    now = timezone.now().replace(tzinfo=None).strftime("%Y-%m-%d %H:%M:%S.%f")
    listed = root.call("GET", "api/configs/history", {"config_types": ["POOL"], "omit_data": True, "at_timestamp": now})
    assert [entry["config_type"] for entry in listed["configs"]] == ["POOL"]


# --- tokens and users ---


def test_tokens(osmo: StockClient) -> None:
    expires = (timezone.now() + timedelta(days=5)).strftime("%Y-%m-%d")
    secret = osmo.call("POST", "api/auth/access_token/laptop", {"expires_at": expires, "description": "mine"})
    assert isinstance(secret, str)
    assert StockClient(token=secret).call("GET", "api/profile/settings")["profile"]["username"] == "alice"
    listed = {each["token_name"]: each for each in osmo.call("GET", "api/auth/access_token")}
    assert listed["laptop"]["expires_at"].split("T")[0] == expires
    roles = osmo.call("GET", "api/auth/access_token/laptop/roles")
    assert [each["role_name"] for each in roles["roles"]] == ["osmo-team-user"]
    assert osmo.call("DELETE", "api/auth/access_token/laptop") is None
    with pytest.raises(ClientExit):
        StockClient(token=secret)


def test_users(root: StockClient) -> None:
    world.make_user("bob", "osmo-team-user")
    listed = root.call("GET", "api/auth/user", {"count": 100, "start_index": 1})
    assert {"total_results", "start_index", "items_per_page", "users"} <= listed.keys()
    assert {"bob", "root"} <= {each["id"] for each in listed["users"]}
    found = root.call("GET", "api/auth/user/bob")
    assert [each["role_name"] for each in found["roles"]] == ["osmo-team-user"]
    assert root.call("DELETE", "api/auth/user/bob/roles/osmo-team-user") is None


# --- errors ---


def test_every_refusal_has_the_shape_the_client_reads(root: StockClient) -> None:
    for method, path in (
        ("GET", "api/workflow/nothing-1"),
        ("POST", "api/workflow/nothing-1/cancel"),
        ("GET", "api/nothing"),
        ("GET", "api/auth/user/nobody"),
        ("DELETE", "api/auth/access_token/nothing"),
        ("GET", "api/workflow?limit=1001"),
    ):
        with pytest.raises(ClientExit) as end:
            root.call(method, path)
        assert end.value.code == 2, path
        assert "Error code: 4" in end.value.text, path
