"""The flavors of a backend over HTTP: what its nodes are, and who sees it."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from pools.models import AuditEntry, Node
from tests.support import world
from tests.support.api_client import ApiClient
from tests.support.world import ModuleData

BACKEND = "/api/configs/backend"
FLAVORS = [
    {"name": "h100", "node_labels": {"product": "H100"}},
    {"name": "a100", "node_labels": {"product": "A100"}},
    {"name": "near", "node_labels": {"zone": "b"}},
]
NODES = [
    {"name": "n1", "gpus": 8, "labels": {"product": "H100"}},
    {"name": "n2", "gpus": 8, "labels": {"product": "A100", "zone": "b"}},
    {"name": "n3", "gpus": 8},
]


@pytest.fixture(scope="module")
def mixed_once(sim_once: str, admin_once: ApiClient, module_data: ModuleData) -> str:
    with module_data():
        assert admin_once("PUT", f"{BACKEND}/sim", {"nodes": NODES, "flavors": FLAVORS}).status == 200
    return sim_once


@pytest.fixture
def mixed(mixed_once: str, db: None) -> str:
    """The backend with nodes of several flavors."""
    return mixed_once


def kinds() -> dict[str, str]:
    return dict(Node.objects.order_by("name").values_list("name", "flavor"))


def test_a_node_has_the_first_flavor_that_matches(sim: str, admin: ApiClient) -> None:
    answer = admin("PUT", f"{BACKEND}/sim", {"nodes": NODES, "flavors": FLAVORS})
    assert kinds() == {"n1": "h100", "n2": "a100", "n3": "default"}
    assert answer.body["flavors"] == FLAVORS
    assert [(node["flavor"], node.get("labels")) for node in answer.body["nodes"]] == [
        ("h100", NODES[0]["labels"]),
        ("a100", NODES[1]["labels"]),
        ("default", None),
    ]
    assert answer.body["warnings"] == ["1 node (n2) matches the flavors a100, near: a100 counts, the first of them."]
    again = admin("PUT", f"{BACKEND}/sim", answer.body)
    assert (again.headers["ETag"], again.status) == (answer.headers["ETag"], 200), "put back, nothing changes"


def test_nodes_follow_the_flavors_and_their_labels(mixed: str, admin: ApiClient) -> None:
    admin("PUT", f"{BACKEND}/sim", {"flavors": FLAVORS[::-1]})
    assert kinds() == {"n1": "h100", "n2": "near", "n3": "default"}
    assert AuditEntry.objects.filter(object="node/n2").latest("id").after["flavor"] == "near"
    nodes = [NODES[0] | {"labels": {"product": "A100"}}, *NODES[1:]]
    admin("PUT", f"{BACKEND}/sim", {"nodes": nodes})
    assert kinds() == {"n1": "a100", "n2": "near", "n3": "default"}
    admin("PUT", f"{BACKEND}/sim", {"flavors": []})
    assert set(kinds().values()) == {"default"}
    assert "flavors" not in admin("GET", f"{BACKEND}/sim").body


def test_a_flavor_that_no_node_can_have_is_said(mixed: str, admin: ApiClient) -> None:
    hidden = [*FLAVORS, {"name": "new", "node_labels": {"product": "H100", "zone": "c"}}]
    dry = admin("PUT", f"{BACKEND}/sim", {"flavors": hidden}, query={"dry_run": True})
    warnings = admin("PUT", f"{BACKEND}/sim", {"flavors": hidden}).body["warnings"]
    assert warnings[0] == "No node can have the flavor new: h100, which comes first, has all its nodes."
    assert dry.body["after"]["flavors"] == hidden


def test_a_flavor_written_at_a_node_says_that_it_has_no_effect(mixed: str, admin: ApiClient) -> None:
    answer = admin("PUT", f"{BACKEND}/sim", {"nodes": [NODES[0] | {"flavor": "a100"}]})
    assert kinds() == {"n1": "h100"}
    (warning,) = [each for each in answer.body["warnings"] if "flavor" in each]
    assert warning.startswith("nodes[0].flavor is only shown")


def test_nodes_show_their_flavor_only_where_the_backend_names_flavors(mixed: str, admin: ApiClient) -> None:
    def shown() -> tuple[Any, Any, Any]:
        nodes = admin("GET", "/api/backend/sim/nodes").body["nodes"]
        resources = admin("GET", "/api/resources", query={"all_pools": True}).body["resources"]
        return (
            [node.get("flavor") for node in nodes],
            sorted(each.get("flavor") or "" for each in resources),
            [note for node in nodes for note in node["notes"]],
        )

    assert shown() == (
        ["h100", "a100", "default"],
        ["a100", "default", "h100"],
        ["matches the flavors a100, near: a100 counts, the first of them"],
    )
    admin("PUT", f"{BACKEND}/sim", {"flavors": []})
    assert shown() == ([None] * 3, [""] * 3, [])


def test_pages_show_flavors_only_where_the_backend_names_them(mixed: str, admin: ApiClient) -> None:
    client = world.sign_in("root")
    page = client.get("/clusters/sim").content.decode()
    assert "<dt>Flavors</dt>" in page
    assert ">Flavor<" in page
    assert "<dt>Flavor</dt>" in client.get("/nodes/sim/n1").content.decode()
    admin("PUT", f"{BACKEND}/sim", {"flavors": []})
    assert "lavor" not in client.get("/clusters/sim").content.decode()
    assert "lavor" not in client.get("/nodes/sim/n1").content.decode()


@pytest.mark.parametrize(
    ("sql", "rule"),
    [
        ("UPDATE pools_backend SET flavors = '{}'", "backend_flavors"),
        ("""UPDATE pools_backend SET flavors = '["h100"]'""", "backend_flavors"),
        ("""UPDATE pools_backend SET flavors = '[{"name": "a/b", "node_labels": {"a": ""}}]'""", "backend_flavors"),
        ("""UPDATE pools_backend SET flavors = '[{"name": "default", "node_labels": {"a": ""}}]'""", "backend_flavors"),
        ("""UPDATE pools_backend SET flavors = '[{"name": "x"}]'""", "backend_flavors"),
        ("""UPDATE pools_backend SET flavors = '[{"name": "x", "node_labels": {}}]'""", "backend_flavors"),
        ("UPDATE pools_backend SET flavors = flavors || flavors", "backend_flavors"),
        ("UPDATE pools_node SET flavor = 'b200' WHERE name = 'n1'", "node_flavor_known"),
        ("UPDATE pools_backend SET flavors = flavors - 0", "node_flavor_known"),
    ],
)
def test_raw_sql_meets_the_rules(mixed: str, sql: str, rule: str) -> None:
    with pytest.raises(DatabaseError) as refusal, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; " + sql)
    assert refusal.value.__cause__.diag.constraint_name == rule  # type: ignore[union-attr]
