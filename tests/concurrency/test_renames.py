"""A pool is renamed while others change what names it: neither change is lost."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections, transaction

from pools.domain.changes.pools import RenamePool
from pools.domain.changes.tokens import CreateToken
from pools.models import AccessToken, NoticeTarget
from tests.concurrency.test_effects_in_races import wait_until_it_waits
from tests.support import world

pytestmark = [pytest.mark.race, pytest.mark.usefixtures("ledger")]


def rename_beside(change: Callable[[], object]) -> None:
    """Rename the pool `team` while another transaction has made the change and not committed it."""

    def rename() -> None:
        try:
            world.apply_change(RenamePool(name="team", new_name="crew"))
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            change()
            renamed = threads.submit(rename)
            wait_until_it_waits()
        renamed.result(60)


def test_a_destination_keeps_the_pool_that_is_added() -> None:
    world.make_pool("team", 8)
    targets = NoticeTarget.objects.filter(
        pk=NoticeTarget.objects.create(name="ops", channel="webhook", pools=["team"]).pk
    )
    rename_beside(lambda: targets.update(pools=["team", "other"]))
    assert targets.get().pools == ["crew", "other"]


def test_a_token_does_not_get_back_the_role_that_is_taken() -> None:
    world.make_pool("team", 8)
    world.make_user("ann", "osmo-team-admin", "osmo-viewer")
    world.apply_change(CreateToken(owner="ann", name="ci", roles=("osmo-team-admin", "osmo-viewer")))
    tokens = AccessToken.objects.filter(owner__username="ann")
    rename_beside(lambda: tokens.update(roles=["osmo-team-admin"]))
    assert tokens.get().roles == ["osmo-crew-admin"]
