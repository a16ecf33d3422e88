"""docs/runbooks.md has a section for each alert, and what it names exists."""

from __future__ import annotations

import re
from typing import Any

import typer
import yaml

from osmo_admin.cli import client, server
from osmo_admin.navigation import menu_of
from pools.models import User
from scheduling.selectors.status.problems import LATE_FACTOR, LATE_GRACE
from tests.support import world
from tests.support.services import ROOT

TEXT = (ROOT / "docs" / "runbooks.md").read_text()
SECTIONS = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", TEXT, flags=re.MULTILINE | re.DOTALL))
GROUPS = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yaml").read_text())["groups"]
ALERTS: dict[str, dict[str, Any]] = {rule["alert"]: rule for group in GROUPS for rule in group["rules"]}
ROOTS = {"osmo": typer.main.get_command(client.app), "osmo-admin": typer.main.get_command(server.app)}
METRICS = re.compile(r"\b(?:osmo|kai|django)_[a-z0-9_]+")
COMMANDS = re.compile(r"`(osmo(?:-admin)? [^`]+)`")


def test_each_alert_has_a_section_and_each_section_an_alert() -> None:
    assert list(SECTIONS) == list(ALERTS), "in the order of the rules"


def test_the_address_of_the_rule_is_its_section() -> None:
    addresses = {alert: rule["annotations"]["runbook_url"] for alert, rule in ALERTS.items()}
    assert addresses == {alert: f"docs/runbooks.md#{alert.lower()}" for alert in ALERTS}


def test_a_job_is_late_for_the_alert_when_home_says_so() -> None:
    late = f"> {LATE_FACTOR} * osmo_job_interval_seconds + {LATE_GRACE.total_seconds():.0f}"
    assert ALERTS["OsmoJobLate"]["expr"].endswith(late)


def test_a_section_says_what_it_means_and_what_to_do() -> None:
    for alert, rule in ALERTS.items():
        meaning, *points = re.split(r"^\* ", SECTIONS[alert], flags=re.MULTILINE)
        assert len(meaning.strip()) > 40, alert
        assert [re.split(r":| ", point)[0] for point in points] == ["Query", "Page", "Command", "Harmless", "Do"], alert
        assert COMMANDS.search(points[2]), f"{alert} has no command"
        named = set(METRICS.findall(rule["expr"])) or {"up"}
        assert any(metric.removesuffix("_bucket") in points[0] for metric in named), (
            f"the query of {alert} does not show the metric of the rule"
        )


NAMED_COMMANDS = (
    sorted({*COMMANDS.findall(TEXT), *(found for rule in ALERTS.values() for found in re.findall(
        r"((?:osmo|osmo-admin) (?:[a-z-]+ ?)+(?:--[a-z-]+ ?)*)", rule["annotations"]["action"]))})
)  # fmt: skip


def test_each_command_exists() -> None:
    assert len(NAMED_COMMANDS) > 20
    for text in NAMED_COMMANDS:
        words = text.split()
        command = ROOTS[words.pop(0)]
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]  # type: ignore[attr-defined]
        assert not hasattr(command, "commands"), f"{text} names no command"
        options = {name for parameter in command.params for name in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options, text


def test_each_page_is_in_the_menu(db: None, rf: Any) -> None:
    request = rf.get("/")
    world.make_user("root", "osmo-admin")
    request.user, request.auth = User.objects.get(username="root"), None
    titles = {item["title"] for group in menu_of(request) for item in group["items"]}
    named = {
        page
        for section in SECTIONS.values()
        for page in re.findall(r"\*([A-Z][a-zA-Z ]+)\*", section.split("* Page:")[1].split("\n* ")[0])
    }
    assert named - {"Targets"} <= titles, "Targets is a page of Prometheus"
