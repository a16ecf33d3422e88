"""A recorded history, and replays of it."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pools.database.transactions import database_time
from scheduling.api.own_replay import ReplayAnswer
from scheduling.domain.changes.workflows import EndStatus, EndWorkflow
from scheduling.history.own import replays
from scheduling.services.simulated.reconcile import reconcile_backend
from tests.support import world
from tests.support.shapes import assert_has_shape
from tests.support.world import apply_change, workflow_file


def naive(at: datetime) -> str:
    return at.replace(tzinfo=None).isoformat()


class Story:
    """Pool `team` (8 GPUs: `a` 2, `b` 4) and pool `other` (8) on one node of 16. The second job of Ann waits in `a`,
    whose quota the first one fills, until the first one ends; Olga works in `other`."""

    def __init__(self) -> None:
        self.backend = world.make_backend(nodes=1, gpus=16)
        world.make_pool("team", 8, on=self.backend, a=2, b=4)
        world.make_pool("other", 8, on=self.backend)
        self.begin = database_time()
        world.make_user("ann", "osmo-team-user")
        world.make_user("olga", "osmo-other-user")
        self.ann, self.olga = world.call_as("ann"), world.call_as("olga")
        for who, to, name in ((self.ann, "team--a", "one"), (self.ann, "team--a", "two"), (self.olga, "other", "own")):
            who.submit(to, workflow_file(name, 2))
            reconcile_backend(self.backend.pk)
        apply_change(EndWorkflow(name="one-1", status=EndStatus.COMPLETED))
        reconcile_backend(self.backend.pk)
        self.end = database_time()

    def body(self, *changes: Any, **more: Any) -> dict[str, Any]:
        """A question about the whole story."""
        return {"since": naive(self.begin), "until": naive(self.end), "changes": list(changes), **more}


def replay(who: Any, body: dict[str, Any]) -> dict[str, Any]:
    """The answer of a replay after a worker has run it, or the refusal of the request or of the replay."""
    accepted = who.post("/api/replay", body)
    if who.status != 202:
        return accepted  # type: ignore[no-any-return]
    replays.run_replay(UUID(accepted["id"]))
    row = who.get(f"/api/replay/{accepted['id']}")
    assert_has_shape(row, ReplayAnswer)
    return row["answer"] or row["refusal"]  # type: ignore[no-any-return]


QUOTA_4 = {"set": {"name": "team--a", "quota": 4}}
