"""What an installation without pools shows: the ways to begin."""

from __future__ import annotations

import pytest

from tests.support.world import make_user, sign_in

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("address", ["/", "/pools"])
def test_admins_see_the_way_to_an_import(address: str) -> None:
    make_user("boss", "osmo-admin")
    make_user("reader", "osmo-viewer")
    main = sign_in("boss").get(address).content.decode().partition("<main")[2]
    assert 'href="/import">Import</a>' in main
    assert 'href="/import"' not in sign_in("reader").get(address).content.decode()
