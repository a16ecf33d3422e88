"""Tests whose tool is missing on this machine are named at the end, with the command that installs it.

With `CI=true` a missing tool is a failure: a pipeline that skips has tested nothing.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

ENVTEST = Path(os.environ.get("OSMO_ENVTEST", "../shared/envtest/start.sh"))
NPM_PROVIDER = Path(__file__).with_name("oidc_provider_npm")
PREFIX = "not run: "


@dataclass(frozen=True, slots=True)
class OptionalTool:
    """A tool that a group of tests (a marker) needs, and the way to install it."""

    marker: str
    description: str
    install_hint: str
    is_present: Callable[[], bool]


TOOLS = (
    OptionalTool(
        "browser", "Chromium", "make deps-debian (or: apt-get install chromium)", lambda: bool(find_chromium())
    ),
    OptionalTool(
        "k8s",
        "etcd and a Kubernetes API server",
        "make deps-debian, and OSMO_ENVTEST=/path/to/start.sh",
        lambda: bool(shutil.which("etcd")) and ENVTEST.exists(),
    ),
    OptionalTool(
        "prometheus",
        "Prometheus with promtool",
        "make deps-debian (or: apt-get install prometheus)",
        lambda: bool(shutil.which("prometheus") and shutil.which("promtool")),
    ),
    OptionalTool(
        "ldap", "slapd (OpenLDAP)", "make deps-debian (or: apt-get install slapd)", lambda: bool(find_slapd())
    ),
    OptionalTool(
        "pgbouncer",
        "PgBouncer",
        "make deps-debian (or: apt-get install pgbouncer)",
        lambda: bool(find_pgbouncer()),
    ),
    OptionalTool("helm", "helm", "make setup-test (Linux on x86-64)", lambda: bool(find_helm())),
    OptionalTool(
        "oidc",
        "Node.js with npm's oidc-provider",
        "make deps-debian, then make setup-test",
        lambda: bool(shutil.which("node")) and (NPM_PROVIDER / "node_modules" / "oidc-provider").is_dir(),
    ),
)
_NIGHTLY = PREFIX + "nightly tests (minutes of work); run them by: make test-nightly"


def find_chromium() -> str | None:
    """The path of the browser."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def find_slapd() -> str | None:
    """The path of slapd, which is for administrators only on Debian's PATH."""
    return shutil.which("slapd") or shutil.which("slapd", path="/usr/sbin")


def find_pgbouncer() -> str | None:
    """The path of PgBouncer, which is for administrators only on Debian's PATH."""
    return shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")


def find_helm() -> str | None:
    """The path of helm: on the PATH, or next to the Python of the tests."""
    near = Path(sys.executable).with_name("helm")
    return shutil.which("helm") or (str(near) if near.exists() else None)


def is_ci() -> bool:
    """Whether a pipeline runs the tests."""
    return os.environ.get("CI", "").lower() in {"1", "true"}


def mark_missing(items: list[pytest.Item], *, nightly: bool) -> None:
    """Skip tests that cannot run here, with the reason; in CI only nightly tests may be skipped."""
    absent = {tool.marker: tool for tool in TOOLS if not tool.is_present()}
    for item in items:
        if not nightly and item.get_closest_marker("nightly"):
            item.add_marker(pytest.mark.skip(reason=_NIGHTLY))
        for marker in absent.keys() & {mark.name for mark in item.iter_markers()}:
            tool = absent[marker]
            reason = f"{PREFIX}{tool.description} is missing; get it by: {tool.install_hint}"
            if is_ci():
                item.user_properties.append(("missing tool", reason))
            else:
                item.add_marker(pytest.mark.skip(reason=reason))


def fail_missing(item: pytest.Item) -> None:
    """In CI: fail the test with the reason why it could not run."""
    for name, reason in item.user_properties:
        if name == "missing tool":
            pytest.fail(f"{reason} (CI does not skip)", pytrace=False)


def report_missing(terminal: pytest.TerminalReporter) -> None:
    """The groups that did not run, just above pytest's own last line."""
    reasons: Counter[str] = Counter()
    for skipped in terminal.stats.get("skipped", []):
        longrepr = skipped.longrepr
        text = longrepr[2] if isinstance(longrepr, tuple) else str(longrepr)
        text = text.removeprefix("Skipped: ")
        reasons[text if text.startswith(PREFIX) else f"{PREFIX}{text} ({skipped.nodeid})"] += 1
    if reasons:
        terminal.section("what could not run")
        for reason, count in sorted(reasons.items()):
            terminal.line(f"{count:4d} × {reason}")
