"""A plugin of pytest: tests run on a database without one trigger or constraint.

`OSMO_TEST_WITHOUT` is the path of a JSON object: `table:rule` to the id of the test that needs it. Each test runs once
for each of its rules, which is dropped inside the test's own transaction, so the end of the test restores it; a test
that commits is refused. The outcomes are written to the same path with `.out`: `table:rule` to `failed`, `passed`, or
`error` where the test did not get as far as its first line.
"""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import pytest
from django.db import connection

from tests.support import services
from tests.support.services import Services

VARIABLE = "OSMO_TEST_WITHOUT"
NOTHING = "nothing"
"""In place of a rule: the test runs with all of them."""

FIRST_NUMBER = 24
"""Databases of lower numbers belong to the workers of the session around this one, whose servers these tests use."""

_current_services = services.current_services


def _services_of_this_session(worker: str | None) -> Services:
    number = FIRST_NUMBER + int(os.environ["OSMO_TEST_NUMBER"])
    return dataclasses.replace(_current_services(worker), number=number)


services.current_services = _services_of_this_session

_path = Path(os.environ[VARIABLE])
_tests: dict[str, str] = json.loads(_path.read_text(encoding="utf-8"))
_outcomes: dict[str, str] = {}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    rules = [rule for rule, test in _tests.items() if test.partition("[")[0] == metafunc.definition.nodeid]
    if rules:
        metafunc.parametrize("without_rule", rules, ids=rules, indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = [item for item in items if isinstance(item, pytest.Function) and _is_chosen(item)]


def _is_chosen(item: pytest.Function) -> bool:
    if not hasattr(item, "callspec") or "without_rule" not in item.callspec.params:
        return False
    rule = item.callspec.params["without_rule"]
    rest = item.callspec.id.removeprefix(rule).removeprefix("-")
    item.user_properties.append(("rule", rule))
    return _tests[rule] == item.nodeid.partition("[")[0] + (f"[{rest}]" if rest else "")


@pytest.fixture(autouse=True)
def without_rule(request: pytest.FixtureRequest) -> None:
    """The transaction of the test, without its rule."""
    marker = request.node.get_closest_marker("django_db")
    if "transactional_db" in request.fixturenames or (marker is not None and marker.kwargs.get("transaction")):
        raise LookupError(f"{request.node.nodeid} commits; choose a test that is rolled back.")
    request.getfixturevalue("db")
    if not request.param.startswith(NOTHING):
        drop_rule(*request.param.split(":"))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    rule = dict(report.user_properties)["rule"]
    if report.when == "call":
        _outcomes[rule] = report.outcome
    elif report.failed:
        _outcomes.setdefault(rule, "error")  # what a deferred rule says at the end is no news after a failure


def pytest_sessionfinish() -> None:
    _path.with_suffix(".out").write_text(json.dumps(_outcomes, indent=1), encoding="utf-8")


def drop_rule(table: str, name: str) -> None:
    """Drop this constraint, or this trigger by its name in the model. Raises LookupError if there is none."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT format('DROP TRIGGER %%I ON %%s', tgname, tgrelid::regclass) FROM pg_trigger"
            " WHERE tgrelid = %(table)s::regclass AND tgname ~ ('^pgtrigger_' || %(name)s || '_[0-9a-f]+$')"
            " UNION ALL SELECT format('ALTER TABLE %%s DROP CONSTRAINT %%I', conrelid::regclass, conname)"
            " FROM pg_constraint WHERE conrelid = %(table)s::regclass AND conname = %(name)s AND contype <> 't'"
            " UNION ALL SELECT format('DROP INDEX %%I', relname) FROM pg_class JOIN pg_index ON indexrelid = oid"
            " WHERE indrelid = %(table)s::regclass AND indisunique AND relname = %(name)s"
            " AND NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conindid = indexrelid)",
            {"table": table, "name": name},
        )
        statements = [statement for (statement,) in cursor.fetchall()]
        if len(statements) != 1:
            raise LookupError(f"{table} has {len(statements)} triggers or constraints {name}.")
        cursor.execute(statements[0])
