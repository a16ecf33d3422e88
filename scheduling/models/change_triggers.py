"""The triggers that move change tokens when work changes (:mod:`pools.models.change_tokens`).

New submissions leave the plan as it is: a reconciliation finds them by their transactions
(:mod:`scheduling.services.simulated.dirty`).
"""

from __future__ import annotations

import pgtrigger

from pools.models.change_tokens import (
    MoveTokensOfRowsTrigger,
    MoveTokensTrigger,
    TokenKind,
    note,
    of_backends,
    plan_of_backends,
)

_OF_WORKFLOWS = "SELECT root.backend_id FROM new_rows JOIN pools_pool root ON root.id = new_rows.root_pool_id"
_OF_GROUPS = """
    SELECT root.backend_id FROM new_rows
    JOIN scheduling_workflow work ON work.uuid = new_rows.workflow_id
    JOIN pools_pool root ON root.id = work.root_pool_id"""
_OF_TASKS = """
    SELECT root.backend_id FROM new_rows
    JOIN scheduling_group gang ON gang.uuid = new_rows.group_id
    JOIN scheduling_workflow work ON work.uuid = gang.workflow_id
    JOIN pools_pool root ON root.id = work.root_pool_id"""
_CHANGED = " JOIN old_rows ON old_rows.uuid = new_rows.uuid WHERE new_rows IS DISTINCT FROM old_rows"


def _new(backend_ids: str, also: str = "") -> MoveTokensOfRowsTrigger:
    func = of_backends(backend_ids, [TokenKind.WORK], also=also)
    return MoveTokensOfRowsTrigger(func, operation=pgtrigger.Insert, name="move_tokens_of_new")


def _changed(backend_ids: str, also: str = "") -> MoveTokensOfRowsTrigger:
    func = of_backends(backend_ids + _CHANGED, [TokenKind.WORK]) + also
    return MoveTokensOfRowsTrigger(func, operation=pgtrigger.Update, name="move_tokens_of_changed")


WORKFLOWS = [
    _new(
        _OF_WORKFLOWS,
        f"IF NOT (SELECT offline FROM pools_backend WHERE id = concerned.id) THEN {note('submitted', 'concerned.id')}"
        " END IF;",
    ),
    _changed(_OF_WORKFLOWS),
]
GROUPS = [
    _new(_OF_GROUPS),
    _changed(
        _OF_GROUPS,
        plan_of_backends(
            f"""{_OF_GROUPS} JOIN old_rows ON old_rows.uuid = new_rows.uuid WHERE new_rows.status <> old_rows.status
                AND root.backend_id::text IS DISTINCT FROM current_setting('osmo.controller', true)"""
        ),
    ),
]
TASKS = [_new(_OF_TASKS), _changed(_OF_TASKS)]

START_RESERVATIONS = MoveTokensTrigger(of_backends("NEW.backend_id, OLD.backend_id", [TokenKind.WORK]))
NODE_STATES = MoveTokensTrigger(
    of_backends("SELECT backend_id FROM pools_node WHERE id IN (NEW.node_id, OLD.node_id)", [TokenKind.WORK])
)
