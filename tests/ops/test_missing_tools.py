"""A test without its tool is listed at the end with a remedy; in the pipeline it fails instead."""

from __future__ import annotations

import pytest

from tests.support.services import ROOT

pytest_plugins = ["pytester"]

CONFTEST = """
    import dataclasses
    from tests.support import optional_tools
    tools = optional_tools.TOOLS
    optional_tools.TOOLS = tuple(dataclasses.replace(tool, is_present=lambda: False) for tool in tools)
    def pytest_addoption(parser):
        parser.addoption("--nightly", action="store_true")
    def pytest_collection_modifyitems(config, items):
        optional_tools.mark_missing(items, nightly=config.getoption("--nightly"))
    def pytest_runtest_setup(item):
        optional_tools.fail_missing(item)
    def pytest_terminal_summary(terminalreporter):
        optional_tools.report_missing(terminalreporter)
"""
TESTS = """
    import pytest
    @pytest.mark.browser
    def test_page(): pass
    @pytest.mark.k8s
    def test_sync(): pass
    @pytest.mark.nightly
    def test_long(): pass
    def test_other(): pass
"""


def run_suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, *options: str, ci: str) -> pytest.RunResult:
    """A small suite on a machine without any tool."""
    monkeypatch.setenv("CI", ci)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # their imports take longer than the suite
    pytester.makeini("[pytest]\nmarkers =\n  browser\n  k8s\n  nightly\n")
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    return pytester.runpytest_subprocess("-p", "no:django", *options)


def test_each_group_is_named_with_the_command_that_installs_its_tool(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run_suite(pytester, monkeypatch, ci="")
    assert result.ret == 0
    result.assert_outcomes(passed=1, skipped=3)
    result.stdout.fnmatch_lines(
        [
            "*what could not run*",
            "*1 × not run: Chromium is missing; get it by: make deps-debian*",
            "*1 × not run: etcd and a Kubernetes API server is missing; get it by: make deps-debian*",
            "*1 × not run: nightly tests*make test-nightly*",
        ]
    )
    assert "1 passed, 3 skipped" in result.outlines[-1]


def test_a_pipeline_does_not_skip(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run_suite(pytester, monkeypatch, ci="true")
    assert result.ret == 1
    result.assert_outcomes(passed=1, skipped=1, errors=2)
    result.stdout.fnmatch_lines(["*Chromium is missing; get it by:*(CI does not skip)"])


def test_nightly_tests_run_on_request(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    run_suite(pytester, monkeypatch, "--nightly", ci="").assert_outcomes(passed=2, skipped=2)
