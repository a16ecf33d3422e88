"""The setup of Django searches for no garbage, and the process does afterwards."""

from __future__ import annotations

import gc

import django
import pytest

from osmo_admin.processes.django_setup import set_up_django


def test_the_collector_rests_during_the_setup_only(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, bool]] = []
    monkeypatch.setattr(django, "setup", lambda: seen.append(("setup", gc.isenabled())))
    monkeypatch.setattr(gc, "freeze", lambda: seen.append(("freeze", gc.isenabled())))
    set_up_django()
    assert seen == [("setup", False), ("freeze", True)]


def test_the_collector_works_again_after_a_failed_setup(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("a wrong setting")

    monkeypatch.setattr(django, "setup", fail)
    with pytest.raises(RuntimeError, match="a wrong setting"):
        set_up_django()
    assert gc.isenabled()
