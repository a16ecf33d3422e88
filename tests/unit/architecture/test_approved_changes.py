"""Each function that writes an amount of a pool asks whether a second person has to approve (docs/approvals.md)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from pools.services.changes import approval_check
from tests.support.product_source import module_texts

AMOUNTS = {
    "last_quota", "quota_until", "quota_after", "subpool_state", "guarantee", "maximum", "borrowing_limit",
    "lending_limit", "archived", "cohort", "cohort_id",
}  # fmt: skip
WRITES = {"create", "update", "bulk_create", "bulk_update", "get_or_create", "update_or_create", "Pool"}
NAMES = re.compile("|".join([*AMOUNTS, "Pool", "Cohort", "pools_"]))
"""A function that writes amounts has one of them."""
SQL = re.compile(r"(UPDATE|INSERT INTO|DELETE FROM|MERGE INTO)\s+(ONLY\s+)?pools_(pool|cohort)\b", re.IGNORECASE)
CHECKS = {name for name in vars(approval_check) if name.startswith("require_no_")}

WITHOUT_CHECK = {
    "pools/services/configuration/subpools.py:_end_temporary": "the lasting quota was measured with the temporary one",
    "pools/services/configuration/subpools.py:archive_if_drained": "a DELETING subpool has no quota any more",
    "pools/services/configuration/subpools.py:_archive": "a DELETING subpool has no quota any more",
    "pools/services/configuration/pool_configuration.py:_write": "write_pools has checked",
    "pools/services/configuration/cohorts.py:_save": "_write has checked",
    "pools/services/configuration/implicit_cohorts.py:get_or_create_cohorts": "a new cohort has no pools yet",
    "pools/services/people/notice_targets.py:update_target": "it sets columns of a target of notices",
    "pools/models/pool.py:leave_cohort": "each caller counts as a writer",
    "scheduling/history/own/own_history.py:_configuration": "a pool of the past, which is not stored",
    "scheduling/demo/acts.py:_write_pool": "a change of the past in a demo that is being made",
}
CALLERS_WITH_CHECK = {
    "pools/services/configuration/pool_configuration.py:_write": "write_pools",
    "pools/services/configuration/cohorts.py:_save": "_write",
}
"""Functions that write amounts and check nothing, each with its reason."""


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def _writes_amounts(function: ast.FunctionDef, *, knows_pools: bool) -> bool:
    for node in ast.walk(function):
        match node:
            case ast.Attribute(attr=name, ctx=ast.Store()) if knows_pools and name in AMOUNTS:
                return True
            case ast.Call(func=ast.Name(id="setattr") | ast.Attribute(attr="leave_cohort")) if knows_pools:
                return True
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=args, keywords=keywords) if (
                name in WRITES
            ):
                if AMOUNTS & {each.arg for each in keywords} or any("Pool" in ast.dump(each) for each in args):
                    return True
                if isinstance(node.func, ast.Attribute) and re.search(r"'(Pool|Cohort)'", ast.dump(node.func)):
                    return name != "update" or any(each.arg is None for each in keywords)
            case ast.Constant(value=str(text)) if SQL.search(text):
                return True
    return False


def _calls(function: ast.FunctionDef) -> set[str]:
    calls = (node.func for node in ast.walk(function) if isinstance(node, ast.Call))
    return {call.id for call in calls if isinstance(call, ast.Name)}


def _writers() -> dict[str, set[str]]:
    """The functions of the product that write amounts, and the functions that each calls."""
    found = {}
    for file, text in module_texts().items():
        if not NAMES.search(text):
            continue
        tree = ast.parse(text)
        imports = {name.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for name in node.names}
        for function in _functions(tree):
            if _writes_amounts(function, knows_pools=bool(imports & {"Pool", "Cohort"})):
                found[f"{file}:{function.name}"] = _calls(function)
    return found


@pytest.mark.parametrize(("name", "caller"), CALLERS_WITH_CHECK.items())
def test_the_only_caller_of_a_writer_checks_before(name: str, caller: str) -> None:
    file, _, writer = name.partition(":")
    functions = list(_functions(ast.parse(module_texts()[file])))
    callers = [each for each in functions if writer in _calls(each) and each.name != writer]
    assert {each.name for each in callers} == {caller}
    lines = {
        call.func.id: call.lineno
        for call in ast.walk(callers[0])
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    }
    assert min(line for called, line in lines.items() if called in CHECKS) < lines[writer]


@pytest.fixture(scope="module")
def writers() -> dict[str, set[str]]:
    return _writers()


def test_each_function_that_writes_an_amount_checks(writers: dict[str, set[str]]) -> None:
    unchecked = {name for name, calls in writers.items() if not calls & (CHECKS | {"_require_no_approvals"})}
    assert unchecked == set(WITHOUT_CHECK)
