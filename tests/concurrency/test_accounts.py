"""Two osmo-admins, the only ones, close each other's account at the same moment."""

from __future__ import annotations

import pytest

from pools.domain.changes.users import SetActive
from pools.domain.errors import Conflict
from pools.models import User
from pools.services.people import accounts, users
from tests.support import world
from tests.support.races import Rendezvous
from tests.support.threads import run_concurrently

pytestmark = [pytest.mark.race, pytest.mark.django_db(transaction=True)]


def _race(monkeypatch: pytest.MonkeyPatch) -> list[object]:
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
