"""A pool is renamed while the owner of a destination changes the pools that it names: neither change is lost."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections, transaction

from pools.domain.changes.pools import RenamePool
from pools.models import NoticeTarget
from tests.concurrency.test_effects_in_races import wait_until_it_waits
from tests.support import world

pytestmark = [pytest.mark.race, pytest.mark.usefixtures("ledger")]


def test_a_rename_keeps_the_pools_that_were_added_meanwhile() -> None:
    world.make_pool("team", 8)
    target = NoticeTarget.objects.create(name="ops", channel="webhook", pools=["team"])

    def rename() -> None:
        try:
            world.apply_change(RenamePool(name="team", new_name="crew"))
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            NoticeTarget.objects.filter(pk=target.pk).update(pools=["team", "other"])
            renamed = threads.submit(rename)
            wait_until_it_waits()
        renamed.result(60)
    target.refresh_from_db()
    assert target.pools == ["crew", "other"]
