"""The examples in `deploy/` name existing commands, files and variables. They are only read; nothing is built."""

from __future__ import annotations

import configparser
import inspect
import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from osmo_admin import provider_env
from osmo_admin.cli.server import app
from osmo_admin.env import SECTIONS, load_environment
from osmo_admin.ops.programs import process_commands
from osmo_admin.provider_env import DIRECTORIES, PROVIDERS
from scripts.reference.settings import render_settings, render_settings_file
from tests.support.services import ROOT

DEPLOY = ROOT / "deploy"
OF_COMPOSE = {"POSTGRES_PASSWORD", "POSTGRES_RUNTIME_PASSWORD", "VALKEY_PASSWORD"}


def is_accepted(arguments: list[str]) -> bool:
    """True if the command line parses; with `--help` nothing is executed."""
    return CliRunner().invoke(app, [*arguments, "--help"]).exit_code == 0


def variables_of_providers() -> set[str]:
    """The variables of an identity provider `corp` and of a directory `corp`."""
    known = {"OSMO_SSO", "OSMO_LDAP"}
    for prefix, functions in (
        ("OSMO_SSO_CORP_", (provider_env._read_provider, provider_env._read_common)),
        ("OSMO_LDAP_CORP_", (provider_env._read_directory, provider_env._read_common)),
    ):
        for source in map(inspect.getsource, functions):
            known |= {prefix + name for name in re.findall(r'(?:read\.\w+\(|_texts\(read, )"([A-Z_]+)"', source)}
            for name in re.findall(r'_read_secret\(read, prefix, "([A-Z_]+)"', source):
                known |= {prefix + name, f"{prefix}{name}_FILE"}
    return known


PAGE = dict(re.findall(r"^\| `([A-Z_]+)` \| (\S+) \| .+ \|$", render_settings(SECTIONS), re.MULTILINE))
"""The variables of the page about settings, and their defaults as the page has them."""


@pytest.fixture
def without_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in PAGE.keys() | variables_of_providers():
        monkeypatch.delenv(each, raising=False)


def test_the_example_is_the_generated_one_and_names_every_variable(without_variables: None) -> None:
    text = (DEPLOY / "osmo-admin.env").read_text()
    assert text == render_settings_file(SECTIONS, text), "make reference"
    named = re.findall(r"^#?([A-Z_]+)=", text, re.MULTILINE)
    assert sorted(named) == sorted(PAGE.keys() | variables_of_providers() | OF_COMPOSE)


def test_the_page_about_settings_names_every_variable_and_no_other(without_variables: None) -> None:
    assert load_environment().read_variables == PAGE.keys() | {"OSMO_SSO", "OSMO_LDAP"}
    for section, prefix in ((PROVIDERS, "OSMO_SSO_CORP_"), (DIRECTORIES, "OSMO_LDAP_CORP_")):
        read = {name for name in variables_of_providers() if name.startswith(prefix)}
        assert {prefix + each.name for each in section.variables} == read
        rows = render_settings(SECTIONS).partition(f"## {section.title}\n")[2].partition("\n## ")[0]
        assert re.findall(r"^\| `…([A-Z_]+)` ", rows, re.MULTILINE) == [each.name for each in section.variables]


@pytest.mark.parametrize(("section", "kind", "required"), [
    (PROVIDERS, "OSMO_SSO", {"ISSUER": "https://id.example", "CLIENT_ID": "osmo"}),
    (DIRECTORIES, "OSMO_LDAP", {"URLS": "ldaps://ldap.example", "USER_BASE": "dc=example"}),
])  # fmt: skip
def test_the_page_has_the_default_of_each_variable_of_a_provider(
    monkeypatch: pytest.MonkeyPatch, without_variables: None, section: Any, kind: str, required: dict[str, str]
) -> None:
    monkeypatch.setenv(kind, "corp")
    for name, value in required.items():
        monkeypatch.setenv(f"{kind}_CORP_{name}", value)
    usual = load_environment()
    given = [each for each in section.variables if each.default]
    assert len(given) > 5
    for each in given:
        with monkeypatch.context() as one:
            one.setenv(f"{kind}_CORP_{each.name}", each.default)
            assert load_environment() == usual, each.name


def test_the_page_about_settings_has_the_default(monkeypatch: pytest.MonkeyPatch, without_variables: None) -> None:
    usual = load_environment()
    for name, default in PAGE.items():
        with monkeypatch.context() as given:
            given.setenv(name, "" if default == "none" else default.strip("`"))
            assert load_environment() == usual, name


def test_the_chart_knows_the_variables_of_the_page() -> None:
    schema = json.loads((DEPLOY / "helm" / "osmo-admin" / "values.schema.json").read_text())
    _, names = schema["properties"]["settings"]["allOf"]
    assert names["properties"].keys() == {name for name in PAGE if name.startswith("OSMO_")}


def test_compose_starts_each_process_after_the_database_is_prepared() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert {"postgres", "valkey", "prepare", "web", "worker", "beat", "clusters"} == services.keys()
    for name in ("prepare", "web", "worker", "beat", "clusters"):
        assert is_accepted(services[name]["command"]), services[name]["command"]
        assert services[name]["command"][1] == name
    for name in ("web", "worker", "beat", "clusters"):
        assert services[name]["depends_on"] == {"prepare": {"condition": "service_completed_successfully"}}
    assert all(service.get("deploy", {}).get("replicas", 1) == 1 for service in services.values())


def test_compose_takes_every_right_away_that_a_container_does_not_need() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    for name, service in services.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert "/tmp" in service["tmpfs"], name
        assert "cap_add" not in service or name in ("postgres", "valkey")
        assert all(address.startswith("127.0.0.1:") for address in service.get("ports", []))


def test_compose_gives_each_secret_to_its_readers_only() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    for name in ("web", "worker", "beat", "clusters"):
        environment = services[name]["environment"]
        assert [environment[secret] for secret in ("OSMO_ADMIN_PASSWORD", "POSTGRES_PASSWORD", "VALKEY_PASSWORD")] == [
            "", "", "",
        ]  # fmt: skip
        assert "${VALKEY_PASSWORD:?" in environment["REDIS_URL"]
    assert services["prepare"]["environment"]["OSMO_ADMIN_PASSWORD"] == "${OSMO_ADMIN_PASSWORD:-}"
    assert services["valkey"]["environment"].keys() == {"VALKEY_PASSWORD", "REDISCLI_AUTH"}
    assert "requirepass" in " ".join(services["valkey"]["command"])
    assert services["postgres"].keys() & {"env_file"} == set()


@pytest.mark.parametrize("process", ["web", "worker", "beat", "clusters", "prepare"])
def test_serve_drops_the_secrets_of_the_preparation(process: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, str] = {}
    monkeypatch.setattr(os, "execv", lambda *_: seen.update(os.environ))
    for name in process_commands.SETUP_SECRETS:
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv(process_commands.METRICS_DIR, "")
    CliRunner().invoke(app, ["serve", process])
    assert seen["PATH"]
    kept = [name for name in process_commands.SETUP_SECRETS if name in seen]
    assert kept == (list(process_commands.SETUP_SECRETS) if process == "prepare" else [])


def test_only_the_preparation_of_compose_knows_the_owner_of_the_tables() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert services["prepare"]["environment"]["OSMO_OWNER_DATABASE_URL"].startswith("postgresql://osmo:")
    for name in ("web", "worker", "beat", "clusters"):
        environment = services[name]["environment"]
        assert "OSMO_OWNER_DATABASE_URL" not in environment
        assert environment["DATABASE_URL"].startswith("postgresql://osmo_app:${POSTGRES_RUNTIME_PASSWORD")
        assert environment["POSTGRES_PASSWORD"] == "", "env_file would hand the owner's password to every process"


def test_the_image_copies_existing_files_and_runs_without_root() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    sources = [word for line in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE) for word in line.split()]
    assert {"osmo_admin", "pools", "scheduling", "templates", "static", "requirements.lock"} <= set(sources)
    assert [source for source in sources if not (ROOT / source).exists()] == []
    assert re.search(r"^USER 10001$", text, re.MULTILINE)


def test_the_image_has_no_tools_that_build_programs() -> None:
    *_, final = re.split(r"^FROM ", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE)
    assert "COPY --from=build /opt/osmo-admin /opt/osmo-admin" in final
    assert re.findall(r"^COPY (?!--from=build)", final, re.MULTILINE) == [], "no sources and no files of the machine"
    installed = re.findall(r"apt-get install -y --no-install-recommends (.*?) &&", final)
    assert installed == ["postgresql-client"], "for backups"
    assert "pip install" not in final
    assert final.index("USER 10001") > final.index("RUN useradd")
    assert "RUN" not in final[final.index("USER 10001") :]


def test_systemd_gives_enough_time_to_stop_in_order() -> None:
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(DEPLOY / "osmo-admin.service")
    service = unit["Service"]
    command = shlex.split(service["ExecStart"])
    assert Path(command[0]).name == "osmo-admin"
    assert is_accepted(command[1:])
    assert service["KillMode"] == "mixed"
    assert int(service["TimeoutStopSec"]) > 10


def test_systemd_takes_every_right_away_that_the_processes_do_not_need() -> None:
    text = (DEPLOY / "osmo-admin.service").read_text()
    settings = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    assert settings["User"] != "root"
    assert settings["CapabilityBoundingSet"] == ""
    assert settings["ProtectSystem"] == "strict"
    for name in ("NoNewPrivileges", "PrivateTmp", "PrivateDevices", "ProtectHome", "ProtectKernelTunables"):
        assert settings[name] == "yes", name


SCRIPTS = ("audit", "check-words", "get-helm", "lock", "setup-venv")


@pytest.mark.parametrize(
    "script",
    [".ci/run", ".ci/tools", ".ci/nightly", *(f"scripts/{name}" for name in SCRIPTS)],
)
def test_scripts_can_be_executed(script: str) -> None:
    assert (ROOT / script).stat().st_mode & 0o111


@pytest.mark.parametrize(("code", "says"), [(0, ""), (1, "Without the internet nothing is known.")])
def test_the_audit_of_packages_is_strict_and_fails_if_it_could_not_ask(tmp_path: Path, code: int, says: str) -> None:
    uv = tmp_path / "uv"
    uv.write_text(f'#!/bin/sh\necho "$@"\nexit {code}\n')
    uv.chmod(0o755)
    done = subprocess.run([ROOT / "scripts" / "audit", uv], capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert says in done.stderr
    words = done.stdout.split()
    assert words[:2] == ["tool", "run"]
    assert {"--strict", "--require-hashes", "requirements.lock"} <= set(words)
