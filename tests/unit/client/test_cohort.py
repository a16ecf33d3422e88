"""`osmo cohort`: typed quota rows, the printed tree, dry runs and confirmations."""

from __future__ import annotations

import re
from typing import Any

import pytest

from osmo_admin.cli.commands.cohort import parse_quota_rows
from osmo_admin.cli.text.effect_text import effect_text
from tests.unit.client.stub_server import StubReply

ONE = "/api/configs/cohort/prod"


def quota_row(nominal: Any, borrow: Any = None, lend: Any = None, **more: Any) -> dict[str, Any]:
    limits = {"nominal": nominal, "borrowing_limit": borrow, "lending_limit": lend}
    return {"flavor": "default", "resource": "gpu", **limits, **more}


def cohort_body(**more: Any) -> dict[str, Any]:
    body: dict[str, Any] = {
        "name": "prod",
        "parent": "corp",
        "quotas": [quota_row(6, 8)],
        "weight": 1,
        "explicit": True,
    }
    body |= {"active": True, "condition": None, "cohorts": [], "pools": ["serve"], "version": 3, "warnings": []}
    return body | more


def tree_node(
    name: str, kind: str, parent: str | None, numbers: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    zero = dict.fromkeys(("subtree_quota", "usage", "t", "available", "potential_available"), 0)
    zero |= dict.fromkeys(("borrowed", "lent", "lendable", "debt", "pending"), 0)
    body = {"name": name, "kind": kind, "parent": parent, "active": True, "condition": None, "weighted_share": 0}
    return body | {"quotas": [quota_row(0) | zero | (numbers or {})]} | more


BAR = {"guaranteed": 4, "low_inside": 6, "free": 0, "over_quota": 9, "draining": 0, "lent": 1}
TREE = [
    tree_node("corp", "cohort", None, {"nominal": 4, "subtree_quota": 29}),
    tree_node("prod", "cohort", "corp", {"nominal": 6, "borrowing_limit": 8}),
    tree_node(
        "prod",
        "pool",
        "prod",
        {
            "usage": 18,
            "borrowed": 8,
            "quota": 10,
            "total_usage": 19,
            "can_start_now": 1,
            "low_can_start_now": 0,
            "bar": BAR,
        },
        weighted_share=286,
    ),
    tree_node("prod--_shared", "shared", "prod", {"nominal": 10}),
    tree_node("labs", "pool", "corp"),
    tree_node("alone", "pool", None),
]


@pytest.mark.parametrize(
    ("typed", "sent"),
    [
        ("gpu=6", {"resource": "gpu", "nominal": 6, "borrowing_limit": None, "lending_limit": None}),
        ("gpu=6:8", {"resource": "gpu", "nominal": 6, "borrowing_limit": 8, "lending_limit": None}),
        ("gpu=0::5", {"resource": "gpu", "nominal": 0, "borrowing_limit": None, "lending_limit": 5}),
        (
            "h100/nvidia.com/gpu=1:2:3",
            {"flavor": "h100", "resource": "nvidia.com/gpu", "nominal": 1, "borrowing_limit": 2, "lending_limit": 3},
        ),
    ],
)
def test_a_typed_row_is_parsed(typed, sent):
    assert parse_quota_rows([typed]) == [sent]


@pytest.mark.parametrize(
    "typed", ["gpu", "=4", "gpu=1:2:3:4", "", "gpu=-1", "gpu=l2", "gpu=1:x", "gpu=1::-5", "gpu=1.5", f"gpu={2**53}"]
)
def test_text_that_is_not_a_row_of_whole_numbers_is_refused_by_its_option(osmo, stub, typed):
    refused = osmo("cohort", "put", "lab", "--quota", typed)
    assert refused.exit_code == 2
    assert "--quota: write RESOURCE=NOMINAL[:BORROW[:LEND]], each a whole number from 0 to" in refused.stderr
    assert stub.requests == []


def test_put(osmo, stub):
    stub.on("PUT", ONE, cohort_body(warnings=["prod uses 2 GPUs beyond its limits"]))
    result = osmo(
        "cohort", "put", "prod", "--parent", "corp", "-q", "gpu=6:8", "cpu=100", "--weight", "0.5", "-d", "why"
    )
    assert result.stdout == "Cohort prod is below corp, with gpu 6 (borrows at most 8).\n"
    assert "2 GPUs beyond its limits" in result.stderr
    assert stub.last.body == {
        "parent": "corp",
        "quotas": parse_quota_rows(["gpu=6:8", "cpu=100"]),
        "weight": 0.5,
        "description": "why",
    }


def test_a_move_to_the_top_is_one_request(osmo, stub):
    stub.on("PATCH", ONE, cohort_body(parent=None, quotas=[quota_row(6)]))
    assert osmo.ok("cohort", "move", "prod") == "Cohort prod is a root, with gpu 6.\n"
    assert stub.last.body == {"parent": None}
    osmo.ok("cohort", "move", "prod", "--parent", "other")
    assert stub.last.body == {"parent": "other"}


def test_a_dry_run_lists_every_changed_number_and_every_overrun(osmo, stub):
    before = cohort_body() | {"nodes": TREE}
    after = cohort_body(quotas=[quota_row(6, 3)]) | {
        "nodes": [
            tree_node("prod", "cohort", "corp", {"nominal": 6, "borrowing_limit": 3, "t": -5, "debt": 2}),
            *TREE[2:],
        ]
    }
    debts = [{"name": "prod", "kind": "cohort", "flavor": "default", "resource": "gpu", "before": 0, "after": 2}]
    answer = {"dry_run": True, "before": before, "after": after, "violations": [], "draining": [], "debts": debts}
    work = {"may_be_reclaimed": ["hello-1"], "could_start": ["a-1", "b-1"], "could_start_elsewhere": 3}
    work |= {"becomes_reclaimable": ["low-1"]}
    stub.on("PUT", ONE, answer | work | {"could_no_longer_start": ["c-1"], "could_no_longer_start_elsewhere": 0})
    text = osmo.ok("cohort", "put", "prod", "-q", "gpu=6:3", "--dry-run")
    assert text.splitlines()[1:] == [
        "cohort corp: leaves the tree",
        "cohort prod (default/gpu): borrowing limit 8 → 3, over limit 0 → 2",
        "Over limit: prod (default/gpu): 0 → 2",
        "May be reclaimed: hello-1",
        "Becomes reclaimable: low-1",
        "Could start: a-1, b-1",
        "Could start (other users): 3",
        "Could no longer start: c-1",
    ]


def test_delete(osmo, stub):
    stub.on("DELETE", ONE, None)
    assert osmo.ok("cohort", "delete", "prod", "--orphan", "--yes") == "Cohort prod deleted.\n"
    assert stub.last.query == {"orphan": ["True"]}


def test_list_and_show(osmo, stub):
    stub.on(
        "GET", "/api/configs/cohort", {"cohorts": [cohort_body(), cohort_body(name="corp", explicit=False, quotas=[])]}
    )
    lines = osmo.ok("cohort", "list").splitlines()
    assert lines[2].split("  ")[0] == "prod"
    assert "gpu 6 (borrows at most 8)" in lines[2]
    assert lines[3].startswith("corp (implicit)")
    file = osmo.ok("cohort", "list", "-o", "csv").splitlines()
    assert [line.split(",")[0] for line in file] == ["cohort", "prod", "corp"]
    assert file[1].split(",")[3] == "gpu=6:8", "as --quota takes it"
    stub.on("GET", ONE, cohort_body(condition={"message": "The parents form a cycle, a → b → a."}))
    output = osmo.ok("cohort", "show", "prod")
    assert "Quota of gpu   : 6 (borrows at most 8)" in output
    assert "Not active     : The parents form a cycle" in output
    assert "Inactive since : not recorded yet" in output


def tree_names(text: str) -> list[str]:
    return [re.split(r" +(?:cohort|pool|shared) ", line)[0] for line in text.splitlines()[2:]]


def test_the_tree_is_printed(osmo, stub):
    stub.on("GET", "/api/quota_tree", {"nodes": TREE})
    text = osmo.ok("cohort", "tree")
    assert tree_names(text) == [
        "corp",
        "├─ prod",
        "│  └─ prod",
        "│     └─ Pool remainder (shared) of prod",
        "└─ labs",
        "alone",
    ]
    heads, cells = (re.split(r" {2,}", text.splitlines()[at].strip()) for at in (0, 4))
    line = dict(zip(heads[1:], cells[-len(heads[1:]) :], strict=True))
    assert (line["Quota"], line["Total in use"], line["Counted use"], line["Borrowed"]) == ("10", "19", "18", "8")
    assert (line["Can start now"], line["LOW can start now"], line["Fair-share usage"]) == ("1", "0", "286")
    assert line["GPUs"] == "███▓▓▓▓▓▒▒▒▒▒▒▒░"
    without = osmo.ok("cohort", "tree", "corp", "--no-leaves")
    assert "remainder" not in without
    assert stub.last.query == {"root": ["corp"]}
    assert "-" in osmo.ok("cohort", "tree", "--resource", "cpu").splitlines()[2]


def test_a_cycle_is_printed_too(osmo, stub):
    a, p, b = (
        tree_node(name, kind, parent, active=False)
        for name, kind, parent in (("a", "cohort", "b"), ("p", "pool", "a"), ("b", "cohort", "a"))
    )
    stub.on("GET", "/api/quota_tree", {"nodes": [a, p, b]})
    assert tree_names(osmo.ok("cohort", "tree")) == ["a (cycle)", "└─ p (cycle)", "b (cycle)"]


def test_a_refusal_reaches_the_user(osmo, stub):
    message = "The parents would form a cycle, a → b → a."
    body = {"message": message, "error_code": "USER", "workflow_id": None}
    stub.on(
        "PUT", ONE, StubReply(body | {"details": [{"path": "parent", "code": "cycle", "message": message}]}, status=400)
    )
    result = osmo("cohort", "put", "prod", "--parent", "prod")
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


def test_a_change_of_a_pool_lists_overruns():
    debts = [{"name": "prod", "kind": "cohort", "flavor": "default", "resource": "gpu", "before": 0, "after": 2}]
    before, after = {"serve": {"configs": {"borrowing_limit": 4}}}, {"serve": {"configs": {"borrowing_limit": 1}}}
    answer = {"before": before, "after": after, "violations": [], "debts": debts}
    assert effect_text(answer).splitlines() == [
        "Dry run: nothing was changed.",
        "serve.configs.borrowing_limit: 4 → 1",
        "Over limit: prod (default/gpu): 0 → 2",
    ]
