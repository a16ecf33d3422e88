"""Deleting a subpool with its pending work gives a command to the scheduling app; the command is never lost."""

from __future__ import annotations

import pytest

from pools.domain.changes.subpools import DeleteSubpool
from pools.models import Pool
from pools.services.configuration import subpools
from pools.services.configuration.pending_work import PendingWorkPort, pending_work
from scheduling.services.workflows.pending_work import WaitingWork
from tests.support import world

pytestmark = pytest.mark.django_db


def test_a_command_without_an_implementation_fails_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world.make_pool("team", 10, a=5)
    monkeypatch.setattr(subpools, "pending_work", PendingWorkPort())
    with pytest.raises(RuntimeError):
        world.apply_change(DeleteSubpool(parent="team", subpool_name="a", cancel_pending=True))
    assert Pool.objects.get(name="team--a").subpool_state == "ACTIVE"
    world.apply_change(DeleteSubpool(parent="team", subpool_name="a"))
    assert Pool.objects.get(name="team--a").subpool_state == "ARCHIVED"


def test_the_scheduling_app_registers_its_implementation() -> None:
    assert isinstance(pending_work._implementation, WaitingWork)
