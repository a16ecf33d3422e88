"""The messages of all actions of the audit log."""

from __future__ import annotations

from typing import Any

import pytest

from pools.domain.audit_actions import LONGEST_VALUE, AuditAction, audit_message

SUBPOOL = {"id": 7, "name": "team--b", "parent_id": 1, "last_quota": 50, "subpool_state": "ACTIVE", "version": 3}
POOL = {"id": 1, "name": "team", "guarantee": 100, "maximum": -1, "enable_maintenance": False, "config": {}}
TOKEN = {"id": 4, "name": "ci", "owner": "bob", "roles": None}
WORK = {"name": "hello-1", "pool": "team--a", "priority": "HIGH", "status": "PENDING", "failure_message": ""}

CASES: dict[str, tuple[str, str, str, Any, Any, str]] = {
    "cut": ("subpool.updated", "pool/team--b", "alice", SUBPOOL, SUBPOOL | {"last_quota": 20, "version": 4},
        "alice cut team--b from 50 to 20"),
    "raised": ("subpool.updated", "pool/team--b", "alice", SUBPOOL, SUBPOOL | {"last_quota": 60},
        "alice raised team--b from 50 to 60"),
    "created": ("subpool.created", "pool/team--a", "bob", None, SUBPOOL | {"last_quota": 30},
        "bob created subpool team--a with 30 GPUs"),
    "one GPU": ("subpool.created", "pool/team--a", "bob", None, SUBPOOL | {"last_quota": 1},
        "bob created subpool team--a with 1 GPU"),
    "created with flavors": ("subpool.created", "pool/team--a", "bob", None,
        SUBPOOL | {"last_quota": 12, "flavors": [{"flavor": "h100", "quota": 8}, {"flavor": "t4", "quota": 4}]},
        "bob created subpool team--a with 8 h100, 4 t4"),
    "deleting": ("subpool.deleting", "pool/team--b", "bob", SUBPOOL, SUBPOOL | {"subpool_state": "DELETING"},
        "bob deleted subpool team--b, which is draining 50 GPUs"),
    "deleting, with a deadline": ("subpool.deleting", "pool/team--b", "bob", SUBPOOL,
        SUBPOOL | {"subpool_state": "DELETING", "drain_by": "2026-11-27T18:00:00+00:00"},
        "bob deleted subpool team--b, which is draining 50 GPUs; its work should have ended by 2026-11-27 18:00 UTC"),
    "a deadline": ("subpool.updated", "pool/team--b", "bob", SUBPOOL | {"subpool_state": "DELETING"},
        SUBPOOL | {"subpool_state": "DELETING", "drain_by": "2026-11-27T18:00:00+00:00"},
        "bob set the deadline of the drain of team--b to 2026-11-27 18:00 UTC"),
    "no deadline": ("subpool.updated", "pool/team--b", "bob",
        SUBPOOL | {"subpool_state": "DELETING", "drain_by": "2026-11-27T18:00:00+00:00"},
        SUBPOOL | {"subpool_state": "DELETING", "drain_by": None},
        "bob removed the deadline of the drain of team--b"),
    "drained": ("subpool.archived", "pool/team--a", "system", SUBPOOL | {"subpool_state": "DELETING"},
        SUBPOOL | {"subpool_state": "ARCHIVED"},
        "system archived team--a: drained"),
    "deleted empty": ("subpool.archived", "pool/team--a", "bob", SUBPOOL, SUBPOOL | {"subpool_state": "ARCHIVED"},
        "bob deleted subpool team--a, which held no GPUs and is archived"),
    "recreated": ("subpool.reactivated", "pool/team--b", "bob", SUBPOOL | {"subpool_state": "ARCHIVED"},
        SUBPOOL | {"last_quota": 10},
        "bob brought subpool team--b back with 10 GPUs"),
    "subpool renamed with its pool": ("subpool.renamed", "pool/squad--b", "root", SUBPOOL,
        SUBPOOL | {"name": "squad--b"},
        "root renamed subpool team--b to squad--b"),
    "pool created": ("pool.created", "pool/team", "root", None, POOL,
        "root created pool team with 100 GPUs"),
    "pool without limit": ("pool.created", "pool/team", "root", None, POOL | {"guarantee": None},
        "root created pool team without a limit"),
    "pool cut": ("pool.updated", "pool/team", "root", POOL, POOL | {"guarantee": 80, "description": "x"},
        "root cut pool team from 100 to 80 (Description: nothing → x)"),
    "pool unlimited": ("pool.updated", "pool/team", "root", POOL, POOL | {"guarantee": -1},
        "root raised pool team from 100 to unlimited"),
    "two spellings of unlimited": ("pool.updated", "pool/team", "root", POOL | {"guarantee": None},
        POOL | {"guarantee": -1},
        "root updated pool team (Quota in GPUs: nothing → no limit)"),
    "maintenance": ("pool.updated", "pool/team", "root", POOL, POOL | {"enable_maintenance": True},
        "root put pool team into maintenance"),
    "out of maintenance": ("pool.updated", "pool/team", "root", POOL | {"enable_maintenance": True}, POOL,
        "root took pool team out of maintenance"),
    "nested configuration": ("pool.updated", "pool/team", "root", POOL | {"config": {"a": {"b": 1}}},
        POOL | {"config": {"a": {"b": 2}}},
        "root updated pool team (a.b: 1 → 2)"),
    "pool renamed": ("pool.renamed", "pool/squad", "root", POOL, POOL | {"name": "squad"},
        "root renamed pool team to squad"),
    "pool archived": ("pool.archived", "pool/team", "root", POOL, POOL,
        "root archived pool team"),
    "pool back": ("pool.reactivated", "pool/team", "root", POOL, POOL,
        "root brought pool team back"),
    "pool deleted": ("pool.deleted", "pool/team", "root", POOL, None,
        "root deleted pool team"),
    "user created": ("user.created", "user/bob", "root", None, {"username": "bob"},
        "root created user bob"),
    "account closed": ("user.updated", "user/bob", "root", {"is_active": True}, {"is_active": False},
        "root disabled the account of bob"),
    "account opened": ("user.updated", "user/bob", "root", {"is_active": False}, {"is_active": True},
        "root enabled the account of bob"),
    "user removed": ("user.password_changed", "user/bob", "root", {"is_active": True}, {"is_active": False},
        "root removed user bob"),
    "user back": ("user.password_changed", "user/bob", "root", {"is_active": False}, {"is_active": True},
        "root brought back user bob"),
    "own profile": ("user.updated", "user/bob", "bob", {"default_pool": ""}, {"default_pool": "team"},
        "bob updated the own profile (Default pool: nothing → team)"),
    "own password": ("user.password_changed", "user/bob", "bob", {}, {},
        "bob changed the own password"),
    "password": ("user.password_changed", "user/bob", "root", {}, {},
        "root changed the password of bob"),
    "granted": ("role.granted", "user/bob", "alice", None, {"role": "osmo-team-user"},
        "alice granted osmo-team-user to bob"),
    "revoked": ("role.revoked", "user/bob", "alice", {"role": "osmo-team-user"}, None,
        "alice revoked osmo-team-user from bob"),
    "own token": ("token.created", "token/ci", "bob", None, TOKEN,
        "bob made token ci"),
    "another's token": ("token.created", "token/ci", "root", None, TOKEN,
        "root made token ci for bob"),
    "limited token": ("token.created", "token/ci", "bob", None, TOKEN | {"roles": ["osmo-team-user"]},
        "bob made token ci with the roles osmo-team-user"),
    "token deleted": ("token.deleted", "token/ci", "root", TOKEN, None,
        "root deleted token ci of bob"),
    "backend": ("backend.created", "backend/simulated", "system", None, {},
        "system created backend simulated"),
    "backend changed": ("backend.updated", "backend/simulated", "root", {"offline": False}, {"offline": True},
        "root updated backend simulated (Offline now: no → yes)"),
    "interval": ("workflow_config.updated", "config/workflow", "root", {"subpool_drain_interval_minutes": 15},
        {"subpool_drain_interval_minutes": 5},
        "root set the time between checks of drains from 15 to 5 minutes"),
    "submitted": ("workflow.submitted", "workflow/hello-1", "carol", None, WORK,
        "carol submitted hello-1 to team--a with priority HIGH"),
    "started": ("workflow.started", "workflow/hello-1", "system", WORK, WORK | {"status": "RUNNING"},
        "system started hello-1 on team--a"),
    "waiting": ("workflow.waiting", "workflow/hello-1", "system", WORK, WORK,
        "system put hello-1 back in the queue"),
    "cancelled": ("workflow.canceled", "workflow/hello-1", "carol", WORK, WORK | {"status": "FAILED_CANCELED"},
        "carol cancelled hello-1"),
    "ended": ("workflow.ended", "workflow/hello-1", "system", WORK, WORK | {"status": "COMPLETED"},
        "system ended hello-1: COMPLETED"),
    "ended badly": ("workflow.ended", "workflow/hello-1", "system", WORK,
        WORK | {"status": "FAILED_EXEC_TIMEOUT", "failure_message": "ran longer than its exec_timeout"},
        "system ended hello-1: FAILED_EXEC_TIMEOUT (ran longer than its exec_timeout)"),
    "unforeseen": ("bridge.created", "bridge/org", "root", None, {"weight": 1},
        "root created bridge org"),
    "a cohort": ("cohort.created", "cohort/org", "root", None,
        {"quotas": {"default/gpu": {"nominal": 4}}, "parent": "corp"},
        "root configured cohort org below corp with 4 GPUs"),
    "a cohort that has quota of one flavor and limits of another": ("cohort.created", "cohort/org", "root", None,
        {"quotas": {"a100/gpu": {"nominal": 0, "borrowing_limit": 8}, "h100/gpu": {"nominal": 4}}},
        "root configured cohort org with 4 h100/gpu"),
    "a cohort that only has limits": ("cohort.created", "cohort/org", "root", None,
        {"quotas": {"a100/gpu": {"nominal": 0, "borrowing_limit": 8}}},
        "root configured cohort org without a quota of its own"),
    "a cohort's limit": ("cohort.updated", "cohort/org", "root",
        {"quotas": {"default/gpu": {"nominal": 4, "lending_limit": None}}},
        {"quotas": {"default/gpu": {"nominal": 4, "lending_limit": 2}}},
        "root updated cohort org (Lending limit in GPUs: nothing → 2)"),
    "a cohort on top": ("cohort.moved", "cohort/org", "root", {"parent": "corp", "parent_id": 3},
        {"parent": None, "parent_id": None},
        "root made cohort org the top of its own tree"),
    "a pool joins": ("pool.updated", "pool/team", "root", {"cohort": None, "cohort_id": None, "lending_limit": None},
        {"cohort": "org", "cohort_id": 4, "lending_limit": 2},
        "root put pool team into cohort org (Lending limit in GPUs: nothing → 2)"),
    "a pool changes sides": ("pool.updated", "pool/team", "root", {"cohort": "a", "cohort_id": 1},
        {"cohort": "b", "cohort_id": 2},
        "root put pool team into cohort b instead of a"),
    "a pool leaves": ("pool.updated", "pool/team", "root", {"cohort": "org", "cohort_id": 4},
        {"cohort": None, "cohort_id": None},
        "root took pool team out of cohort org"),
    "unforeseen change": ("gpu_quota.limits_moved", "gpu_quota/ml", "root", {"total": 1}, {"total": 2},
        "root limits moved GPU quota ml (total: 1 → 2)"),
    "drain": ("node.updated", "node/n1", "root", {"taint": ""}, {"taint": "osmo-admin/drained"},
        "root drained node n1"),
    "end of a drain": ("node.updated", "node/n1", "root", {"taint": "osmo-admin/drained", "gpus": 8},
        {"taint": "", "gpus": 7},
        "root let node n1 take work again (GPUs: 8 → 7)"),
    "no object": ("", "", "", None, None,
        "somebody changed something"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_sentence(case: tuple[str, str, str, Any, Any, str]) -> None:
    action, subject, actor, before, after, expected = case
    assert audit_message(action, subject, actor, before, after) == expected


ROW = {
    "subject": "pool/team--a", "requested_by": "bob", "provider": "corp", "source": "infra", "title": "Cluster silent",
    "message": "the disk is full", "faults": 1, "failures": 3,
    "message_without_beneficiary": "work of a higher priority",
}  # fmt: skip
WORDS = {
    "node.suspected": "amy found node x suspect: 3 workflows failed there within minutes",
    "node.cleared": "amy ended the suspicion of node x",
    "cohort.named": "amy named cohort x, which has no quota until it is configured",
    "cohort.forgotten": "amy removed cohort x, which no pool or cohort names",
    "cohort.inactive": "amy found a cycle in the parents of cohort x: nothing new starts below it",
    "cohort.active": "amy found the cycle in the parents of cohort x resolved",
    "approval.requested": "amy requested the approval of a change of pool/team--a (request x)",
    "approval.approved": "amy approved the change of pool/team--a that bob requested (request x)",
    "approval.rejected": "amy rejected the change of pool/team--a that bob requested (request x)",
    "approval.withdrawn": "amy withdrew the request for a change of pool/team--a (request x)",
    "approval.expired": "amy let expire the change of pool/team--a that bob requested (request x)",
    "approval.superseded": "amy found out of date the change of pool/team--a that bob requested (request x)",
    "user.logged_in_by_password": "amy logged in with a password",
    "sign_on.linked": "amy linked x with corp",
    "sign_on.unlinked": "amy unlinked x from corp",
    "sign_on.signed_on": "amy signed x on through corp",
    "sign_on.ended": "amy ended the sign-on of x through corp",
    "sign_on.updated": "amy read x again from corp",
    "token.updated": "amy updated token x",
    "owner.taken": "amy made Git the owner of x (infra)",
    "owner.released": "amy released x to the admins",
    "config_file.refused": "amy could not apply x, so the former configuration stays: 1 fault (the disk is full)",
    "config_file.accepted": "amy could apply x again",
    "workflow.preempted": "amy preempted x: work of a higher priority",
    "condition.began": "amy saw a condition begin: the disk is full",
    "condition.ended": "amy saw a condition end: the disk is full",
    "notice.replayed": "amy sent notice x again: Cluster silent",
    "notice_target.created": "amy added the notice destination x",
    "notice_target.updated": "amy updated the notice destination x",
    "notice_target.deleted": "amy deleted the notice destination x",
}
"""The messages of the actions whose words need one row only."""


@pytest.mark.parametrize("action", WORDS)
def test_the_words_of_an_action(action: str) -> None:
    assert audit_message(action, "kind/x", "amy", None, ROW) == WORDS[action]


def test_each_action_with_words_of_its_own_is_tested() -> None:
    tested = {case[0] for case in CASES.values()} | set(WORDS)
    own = {action for action in AuditAction if getattr(action.words, "__name__", "") != "_plain"}
    assert {each for each in own - tested if not each.startswith(("gpu_allocation.", "gpu_quota."))} == set()


def test_a_reason_given_by_a_person_follows_the_message() -> None:
    said = audit_message(
        "subpool.updated", "pool/team--b", "alice", SUBPOOL, SUBPOOL | {"last_quota": 20}, "a paper is due"
    )
    assert said == "alice cut team--b from 50 to 20: a paper is due"


def test_a_reason_of_the_system_is_not_repeated() -> None:
    before, after = SUBPOOL | {"subpool_state": "DELETING"}, SUBPOOL | {"subpool_state": "ARCHIVED"}
    said = audit_message("subpool.archived", "pool/team--a", "system", before, after, "drained")
    assert said == "system archived team--a: drained"


def test_long_lists_of_changes_are_counted_not_listed() -> None:
    before = {f"key{n}": n for n in range(5)}
    after = {f"key{n}": n + 1 for n in range(5)}
    said = audit_message("backend.updated", "backend/b", "root", before, after)
    assert said == "root updated backend b (key0: 0 → 1, key1: 1 → 2, key2: 2 → 3, and 2 more)"


def test_new_parts_are_named() -> None:
    after = {"config": {"platforms": {"a": {}, "b": {"mounts": []}}, "topology_keys": [{"key": "rack", "label": "r"}]}}
    said = audit_message("pool.updated", "pool/team", "root", {"config": {}}, after)
    assert "{" not in said
    assert "nothing → a, b" in said and "nothing → key rack, label r" in said


def test_long_values_are_cut() -> None:
    said = audit_message("backend.updated", "backend/b", "root", {"note": ""}, {"note": "x" * 500})
    assert said == f"root updated backend b (note: nothing → {'x' * (LONGEST_VALUE - 1)}…)"


@pytest.mark.parametrize(
    ("action", "before", "after", "message"),
    [
        (
            "committed",
            None,
            {"count": 2, "state": "committed"},
            "amy allocated worker w1 of 2 GPUs in namespace team-a",
        ),
        ("assumed", None, {"count": 1, "state": "assumed"}, "amy reserved worker w1 of 1 GPU in namespace team-a"),
        (
            "committed",
            {"count": 1, "state": "assumed"},
            {"count": 1, "state": "committed"},
            "amy committed worker w1 of 1 GPU in namespace team-a",
        ),
        (
            "released",
            {"count": 1, "state": "committed"},
            {"count": 1, "state": "released"},
            "amy released worker w1 in namespace team-a",
        ),
    ],
)
def test_workers_of_a_gpu_quota(action: str, before: Any, after: Any, message: str) -> None:
    assert audit_message(f"gpu_allocation.{action}", "gpu_allocation/team-a/w1", "amy", before, after) == message


def test_the_alert_of_a_gpu_quota() -> None:
    message = audit_message("gpu_quota.alert", "gpu_quota/team-a", "amy", {"alerts": 0}, {"alerts": 1})
    assert message == "amy saw namespace team-a pass the alert threshold of its GPU quota"
    one, two = {"alerting": ["requests.vram"]}, {"alerting": ["requests.tflops", "requests.vram", "workers"]}
    message = audit_message("gpu_quota.alert", "gpu_quota/team-a", "amy", one, two)
    assert message == "amy saw namespace team-a pass the alert threshold of its GPU quota (TFLOPS requested, Workers)"
    message = audit_message("gpu_quota.calm", "gpu_quota/team-a", "amy", two, one)
    assert message.endswith("fall back below the alert threshold of its GPU quota (TFLOPS requested, Workers)")


@pytest.mark.parametrize("reason", ["reconciled", "settled", "drained"])
def test_a_reason_of_the_system_is_left_out(reason: str) -> None:
    work = {"name": "hello-1", "pool": "team--a", "priority": "HIGH", "status": "PENDING", "failure_message": ""}
    after = work | {"status": "RUNNING"}
    messages = [
        audit_message("workflow.updated", "workflow/hello-1", "system", work, after, text) for text in ("", reason)
    ]
    assert messages[0] == messages[1]
