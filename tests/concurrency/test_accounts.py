"""Changes of accounts at the same moment."""

from __future__ import annotations

from threading import Event

import pytest

from pools.domain.changes.tokens import CreateToken
from pools.domain.changes.users import RevokeRole, SetActive
from pools.domain.errors import Conflict
from pools.models import AccessToken, User
from pools.services.people import access_tokens, accounts, users
from tests.support import world
from tests.support.races import Rendezvous
from tests.support.threads import run_concurrently

pytestmark = [pytest.mark.race, pytest.mark.django_db(transaction=True)]


def _race(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Two osmo-admins, the only ones, close each other's account."""
    ann, bob = world.make_user("ann", "osmo-admin"), world.make_user("bob", "osmo-admin")
    Rendezvous(2).after_call(monkeypatch, accounts, "require_another_admin")
    return list(
        run_concurrently(
            [
                lambda: world.apply_change(SetActive(username="bob", active=False), actor=ann),
                lambda: world.apply_change(SetActive(username="ann", active=False), actor=bob),
            ]
        )
    )


def test_without_the_lock_no_admin_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users, "lock_role", lambda role: None)
    monkeypatch.setattr(Rendezvous, "timeout_seconds", 30.0)
    assert _race(monkeypatch) == [None, None]
    assert not User.objects.filter(is_active=True).exists()


def test_with_the_lock_one_is_refused_as_the_last_admin(monkeypatch: pytest.MonkeyPatch) -> None:
    (refused,) = [result for result in _race(monkeypatch) if result is not None]
    assert isinstance(refused, Conflict)
    assert refused.details[0].code == "last_admin"
    assert User.objects.filter(is_active=True).count() == 1


def test_a_role_that_is_revoked_while_a_token_is_made_is_not_in_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would come back with the next grant, in a token that somebody has limited."""
    ann = world.make_user("ann", "osmo-viewer")
    is_read, is_revoked, require_room = Event(), Event(), access_tokens._require_room

    def pause(user: User) -> None:
        is_read.set()
        is_revoked.wait(0.5)
        require_room(user)

    def revoke() -> None:
        is_read.wait(10)
        world.apply_change(RevokeRole(username="ann", role_name="osmo-viewer"))
        is_revoked.set()

    monkeypatch.setattr(access_tokens, "_require_room", pause)
    make = CreateToken(owner="ann", name="ci", roles=["osmo-viewer"])
    results = run_concurrently([lambda: world.apply_change(make, actor=ann), revoke])
    assert not [result for result in results if isinstance(result, Exception)]
    assert AccessToken.objects.get(name="ci").roles == []
