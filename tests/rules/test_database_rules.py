"""Each rule of the database has a test, and this test fails without the rule."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.apps import apps

from tests.rules.database_rules import DATABASE_RULES
from tests.support.services import FOLDER, ROOT, Services
from tests.support.up import clean_env

NO_TRUNCATE = "tests/integration/ledger/test_raw_writes.py::test_truncate_is_refused"
SAMPLE = ("pools_pool:pool_no_negative_quota", "pools_pool:state_machine", "pools_reservation:leaf_takes_work")


def all_rules() -> set[str]:
    """`table:name` of each trigger and each named constraint of the models."""
    return {
        f"{model._meta.db_table}:{rule.name}"
        for label in ("pools", "scheduling")
        for model in apps.get_app_config(label).get_models()
        for rule in (*model._meta.constraints, *getattr(model._meta, "triggers", ()))
    }


def chosen_tests() -> dict[str, str]:
    """The table, with the test of each trigger against TRUNCATE."""
    truncation = {rule for rule in all_rules() if rule.endswith(":no_truncate")}
    return DATABASE_RULES | {rule: f"{NO_TRUNCATE}[{rule.partition(':')[0]}]" for rule in truncation}


def test_each_rule_has_a_test() -> None:
    assert chosen_tests().keys() == all_rules()


def outcomes_without(tests: dict[str, str], here: Services, folder: Path) -> dict[str, str]:
    """By rule: the outcome of its test in a session on a database without it, on the servers of this session. `nothing`
    removes no rule."""
    table = folder / "without.json"
    table.write_text(json.dumps(tests), encoding="utf-8")
    files = sorted({test.partition("::")[0] for test in tests.values()})
    servers = {name: value for name, value in os.environ.items() if name.startswith(FOLDER)}
    env = clean_env({**servers, "OSMO_TEST_WITHOUT": str(table), "OSMO_TEST_NUMBER": str(here.number)})
    command = [sys.executable, "-m", "pytest", "-p", "tests.rules.database_removal", "--nightly", "-q"]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", *files],
        cwd=ROOT, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert table.with_suffix(".out").exists(), f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    found: dict[str, str] = json.loads(table.with_suffix(".out").read_text(encoding="utf-8"))
    return found


def test_the_tests_of_some_rules_fail_without_them(template: Services, tmp_path: Path) -> None:
    tests = {rule: DATABASE_RULES[rule] for rule in SAMPLE}
    expected = dict.fromkeys(tests, "failed") | {"nothing": "passed"}
    assert outcomes_without(tests | {"nothing": tests[SAMPLE[0]]}, template, tmp_path) == expected


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_the_test_of_each_rule_fails_without_it(template: Services, tmp_path: Path) -> None:
    tests = chosen_tests()
    same = {f"nothing but {rule}": test for rule, test in tests.items()}  # each test passes with all rules
    expected = dict.fromkeys(tests, "failed") | dict.fromkeys(same, "passed")
    found = outcomes_without(tests | same, template, tmp_path)
    assert {rule: found.get(rule) for rule in expected if found.get(rule) != expected[rule]} == {}
