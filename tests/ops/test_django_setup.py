"""The setup of Django searches for no garbage, and the process does afterwards."""

from __future__ import annotations

import gc
import subprocess
import sys

import django
import pytest

from osmo_admin.processes.django_setup import set_up_django
from tests.support.services import ROOT
from tests.support.up import clean_env


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


CODE = """
import importlib, sys
from osmo_admin.processes.django_setup import set_up_django
set_up_django()
from osmo_admin.celery import app
app.loader.import_default_modules()
for modules in (["osmo_admin.processes.beat", "scheduling.services.kubernetes.agent"], ["osmo_admin.urls"]):
    for name in modules:
        importlib.import_module(name)
    print(*(name for name in sys.modules if name.startswith(("pools.admin", "scheduling.admin"))))
"""


def test_only_processes_with_addresses_load_the_pages() -> None:
    """A fresh process loads what the processes without addresses load, and then the addresses."""
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        cwd=ROOT, env=clean_env({"DJANGO_SETTINGS_MODULE": "osmo_admin.settings"}), capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    without, with_addresses = done.stdout.splitlines()
    assert without == ""
    assert {"pools.admin.configuration.pools", "scheduling.admin.workflows"} <= set(with_addresses.split())
