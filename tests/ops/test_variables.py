"""Variables of the environment that nobody reads are named: by `check`, and by each process when it starts
(tests/ops/test_up.py)."""

from __future__ import annotations

import re

import pytest
from django.conf import settings

from osmo_admin import checks
from osmo_admin.env import SECTIONS
from osmo_admin.variables import OTHERS, unknown_variables
from scripts.reference.client import render_reference
from scripts.reference.settings import render_settings
from tests.support.services import ROOT
from tests.support.stack import SECRET_KEY
from tests.support.up import run_preloaded

READ = settings.OSMO.read_variables
MISTYPED = "OSMO_LOCK_TIMEOUT is set, and nothing reads a variable of this name. Did you mean OSMO_LOCK_TIMEOUT_MS?"


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("OSMO_LOCK_TIMEOUT", "Did you mean OSMO_LOCK_TIMEOUT_MS?"),
        ("OSMO_SECRETKEY", "Did you mean OSMO_SECRET_KEY?"),
        ("OSMO_SSO_NOBODY_ISSUER", "deploy/osmo-admin.env has all variables; remove it."),
        ("OSMO_XYZZY", "deploy/osmo-admin.env has all variables; remove it."),
    ],
)
def test_a_variable_that_nobody_reads_is_reported_with_the_nearest_one(name: str, advice: str) -> None:
    assert unknown_variables(READ, [name, "PATH"]) == [
        f"{name} is set, and nothing reads a variable of this name. {advice}"
    ]


def test_each_known_one_is_silent() -> None:
    assert unknown_variables(READ, {*READ, *OTHERS}) == []


def test_each_name_in_the_sources_is_known() -> None:
    found = set()
    for folder in ("osmo_admin", "pools", "scheduling", "client"):
        for path in (ROOT / folder).rglob("*.py"):
            found |= set(re.findall(r'"(OSMO_[A-Z_]+[A-Z])"', path.read_text()))
    assert found - READ - OTHERS == set()


def test_the_page_has_each_known_one() -> None:
    pages = "".join((ROOT / "docs" / f"{name}.md").read_text() for name in ("sign-on", "accounts"))
    pages += render_reference() + render_settings(SECTIONS)
    internal = {"OSMO_ADMIN_INSTALLATION", "OSMO_LOCAL_URL", "OSMO_PROCESS"}  # set by `up` for its own processes
    missing = {name for name in {*READ, *OTHERS} - internal if name.startswith("OSMO_") and name not in pages}
    assert missing == set()


def test_check_fails_with_it() -> None:
    usual = {"OSMO_SECRET_KEY": SECRET_KEY, "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}
    answer = run_preloaded("check", env={**usual, "OSMO_LOCK_TIMEOUT": "5"})
    assert answer.returncode == 1
    assert MISTYPED in answer.stderr


def test_it_is_a_check_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OSMO_LOCK_TIMEOUT", "5")
    assert MISTYPED in [message.msg for message in checks.check_variables(None)]
