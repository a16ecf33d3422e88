"""The codes of the reasons why work waits: one enum, which the product names, and of which docs/error-codes.md
is made."""

from __future__ import annotations

import re

from scheduling.domain.reason_codes import ReasonCode
from scripts.reference.error_codes import render_error_codes
from tests.support.product_source import module_facts

HOME = "scheduling/domain/reason_codes.py"
OTHER_WORDS = {
    "cycle": {
        "scheduling/domain/judgement/dispatch_admission.py",  # the limit of a quota tree that has one
    },
    "elsewhere": {"scheduling/kube/cluster_lease.py", "scheduling/selectors/cluster/queue_sync_state.py"},
    "gpu_quota": {
        "osmo_admin/cli/commands/pool.py",
        "osmo_admin/cli/commands/quota.py",
        "osmo_admin/cli/text/pool_table.py",
        "osmo_admin/home.py",
        "osmo_admin/web/review_path.py",
        "scheduling/api/webhook_urls.py",
        "scheduling/kube/webhook_configuration.py",
        "scheduling/selectors/cluster/pool_quota.py",
        "scheduling/selectors/status/problems.py",
    },
    "not_ready": {"osmo_admin/monitoring/health.py"},
    "over_quota": {
        "scheduling/api/usage.py",
        "scheduling/selectors/usage/answers.py",
        "scheduling/selectors/usage/by_workflow.py",
        "scheduling/selectors/usage/charts.py",
        "scheduling/selectors/usage/computed_sums.py",
        "scheduling/templatetags/usage.py",
    },
}
"""Codes that are also words of something else (columns, faults, problems, addresses, states of a lease), and the
modules that mean the other."""


def test_the_page_has_each_code_with_its_meaning() -> None:
    section = render_error_codes().partition("## Why work waits")[2]
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", section, re.MULTILINE)
    assert rows == [(str(code), code.meaning) for code in ReasonCode]


def test_no_module_spells_a_code() -> None:
    codes = set(map(str, ReasonCode))
    found = {
        (path, text)
        for path, facts in module_facts().items()
        for _, text in facts.constants
        if path != HOME and not path.startswith("pools/") and text in codes
    }
    assert found == {(module, code) for code, modules in OTHER_WORDS.items() for module in modules}
