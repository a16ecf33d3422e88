"""`osmo-admin export`, `diff`, `apply` and `release` with their exit codes; the API and pages of what Git owns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.test import Client
from typer.testing import CliRunner

from osmo_admin.cli.server import app
from osmo_admin.cli.server_commands import configuration
from pools.domain.changes.pools import PatchPool
from pools.domain.changes.tokens import CreateToken
from pools.models import Pool, User
from pools.security.tokens import issue_jwt
from scheduling.moving_out.exporting import REPORT_FILE
from tests.support.world import apply_change, make_user, sign_in

pytestmark = pytest.mark.django_db

FILE = """\
backends:
  sim: {namespace: ns, nodes: [{name: n1, gpus: 64}]}
pools:
  team:
    backend: sim
    resources: {gpu: {guarantee: 32}}
    subpools: {a: 8}
    subpools_owner: git
"""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch):
    """A command of `osmo-admin` on the database of the test: (exit code, output, errors)."""
    monkeypatch.setattr(configuration, "use_django", lambda data_dir: None)

    def call(*arguments: str) -> tuple[int, str, str]:
        result = CliRunner().invoke(app, arguments)
        return result.exit_code, result.stdout, result.stderr

    return call


def test_export_diff_apply_and_drift(run, tmp_path: Path) -> None:
    folder = str(tmp_path)
    (tmp_path / "all.yaml").write_text(FILE)
    code, text, _ = run("diff", "-f", folder)
    assert code == 2
    assert "+ create pools.team  (all.yaml:5)" in text
    assert "pools.team.resources.gpu.guarantee: - → 32" in text
    assert not Pool.objects.exists()
    assert run("apply", "-f", folder, "--dry-run")[0] == 2
    assert not Pool.objects.exists()
    assert run("apply", "-f", folder, "--source", "git@example.com/x", "--commit", "abc")[0] == 0
    code, text, _ = run("diff", "-f", folder, "--source", "git@example.com/x")
    assert code == 0
    assert "In no file, left to the admins: workflow" in text
    assert run("apply", "-f", folder, "--source", "git@example.com/x")[:2] == (0, "Nothing to do.\n")

    assert run("release", "pool/team")[:2] == (0, "pool/team belongs to the admins.\n")
    apply_change(PatchPool(name="team", patch={"description": "by hand"}))
    code, text, _ = run("diff", "-f", folder, "--source", "git@example.com/x", "-o", "json")
    assert code == 2
    (drift,) = json.loads(text)["differences"]
    assert (drift["action"], drift["object"], drift["before"]["description"]) == ("change", "pools.team", "by hand")

    out = tmp_path / "out"
    assert run("export", "-f", str(out))[0] == 0
    assert "description: by hand" in (out / "pools/team.yaml").read_text()

    code, text, _ = run("export", "-f", str(tmp_path / "kueue"), "--format", "kueue")
    assert (code, f"lines in {REPORT_FILE}" in text) == (2, True)
    assert "name: team\n" in (tmp_path / "kueue/kueue-cohorts.yaml").read_text()
    code, _, errors = run("export", "-f", str(out), "--format", "kai")
    assert (code, "has other files" in errors) == (1, True)


def test_a_refusal_ends_with_one_and_names_each_place(run, tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(FILE.replace("backend: sim", "backend: nowhere").replace("{a: 8}", "{a: no}"))
    for command in (["diff"], ["apply"], ["apply", "--dry-run"]):
        code, _, errors = run(*command, "-f", str(tmp_path))
        assert code == 1
        assert "all.yaml:7: subpools.a must be a whole number" in errors
        assert "Nothing was written." in errors
    (tmp_path / "all.yaml").write_text(FILE.replace("backend: sim", "backend: nowhere"))
    code, text, _ = run("diff", "-f", str(tmp_path))
    assert code == 1
    assert "There is no cluster of this name" in text
    assert run("apply", "-f", str(tmp_path))[0] == 1
    assert not Pool.objects.exists()
    assert run("release", "pool/none")[0] == 1
    assert run("release", "pools")[0] == 1


def test_the_api_and_the_pages_say_where_an_object_comes_from(run, tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(FILE)
    assert run("apply", "-f", str(tmp_path), "--source", "git@example.com/x", "--commit", "abc")[0] == 0
    make_user("root", "osmo-admin")
    root = User.objects.get(username="root")
    client = sign_in(root)
    page = client.get("/pools/team").content.decode()
    assert "Owned by Git" in page
    assert "git@example.com/x, all.yaml, commit abc" in page
    assert "/pools/team/configuration" not in page
    assert "Create a subpool" not in page
    assert "Owned by Git" in client.get("/clusters/sim").content.decode()
    bearer = {"Authorization": f"Bearer {issue_jwt(apply_change(CreateToken(owner='root', name='t'))[0])[0]}"}
    body = {"backend": "sim", "resources": {"gpu": {"guarantee": 33}}}
    answer = Client().put("/api/configs/pool/team", {"configs": body}, content_type="application/json", headers=bearer)
    assert answer.status_code == 409
    (detail,) = answer.json()["details"]
    assert (detail["code"], detail["source"], detail["path"], detail["commit"]) == (
        "owned_by_git", "git@example.com/x", "all.yaml", "abc"
    )  # fmt: skip
    owners = Client().get("/api/configs/owner", headers=bearer).json()["owners"]
    assert [(each["kind"], each["name"], each["subpools"]) for each in owners] == [
        ("backend", "sim", False), ("pool", "team", True)
    ]  # fmt: skip
    schema = Client().get("/api/schema/configuration.json")
    assert schema.json()["title"] == "Configuration of OSMO Admin"


class TestFileOfOsmo:
    """A file in OSMO 6.4's form is seen before it changes anything."""

    CONTENT = """\
service: {cli_config: {latest_version: 6.4.0}}
backends:
  prod: {k8s_namespace: ns}
pools:
  team: {backend: prod, resources: {gpu: {guarantee: 32}}}
"""

    @pytest.fixture
    def file(self, tmp_path: Path) -> str:
        """The mounted file."""
        (tmp_path / "config.yaml").write_text(self.CONTENT)
        return str(tmp_path / "config.yaml")

    def test_it_is_shown_then_applied_then_without_a_difference(self, run, file: str) -> None:
        follow = ("follow", "--config_file", file)
        code, text, errors = run(*follow, "--dry-run")
        assert (code, Pool.objects.exists()) == (2, False)
        assert "+ create pools.team  (config.yaml:5)" in text
        assert "pools.team.resources.gpu.guarantee: - → 32" in text
        assert "config.yaml: service is left out: OSMO Admin has no such configuration.\n" in errors
        code, text, _ = run(*follow, "--once", "--dry-run", "-o", "json")
        assert (code, Pool.objects.exists()) == (2, False)
        assert {each["object"] for each in json.loads(text)["differences"]} >= {"backends.prod", "pools.team"}
        code, text, _ = run(*follow, "--once")
        assert (code, Pool.objects.filter(name="team").exists()) == (0, True)
        assert "config.yaml: 2 changes applied.\n" in text
        assert run(*follow, "--dry-run")[0] == 0
        Path(file).write_text(self.CONTENT.replace("32", "40"))
        assert "config.yaml: 1 change applied.\n" in run(*follow, "--once")[1]

    def test_a_faulty_file_is_refused_with_its_line(self, run, file: str) -> None:
        Path(file).write_text(self.CONTENT.replace("guarantee: 32", "guarantee: many"))
        for more in ("--dry-run", "--once"):
            code, _, errors = run("follow", "--config_file", file, more)
            assert (code, Pool.objects.exists()) == (1, False)
            assert "config.yaml:5: " in errors
        code, _, errors = run("follow", "--config_file", f"{file}.none", "--dry-run")
        assert (code, errors) == (1, f"{file}.none cannot be read: No such file or directory.\n")


def test_what_the_ledger_refuses_has_the_file_and_the_line_in_diff_as_in_apply(run, tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(FILE.replace("subpools: {a: 8}", "subpools: {a: 80}"))
    code, text, errors = run("apply", "-f", str(tmp_path))
    assert code == 1
    place = errors.partition(" ")[0]
    assert place.startswith("all.yaml:")
    code, text, errors = run("diff", "-f", str(tmp_path))
    assert code == 1
    assert place in text + errors
