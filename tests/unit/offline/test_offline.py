"""`osmo simulate` and `osmo podgroup` as a user types them: forms, batches, exit codes; no Django, no server."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
import yaml
from typer.testing import CliRunner

from osmo_admin.cli.local.offline import add_to

ROOT = Path(__file__).resolve().parents[3]
SCENARIO = "queues: [{name: q, quota: 2}]\nworkloads: [{name: w, queue: q, tasks: [{gpus: 3}]}]\n"
VALID = "kind: PodGroup\nspec: {minMember: 2}\n"
INVALID = "kind: PodGroup\nspec: {minMember: 0}\n"

app = typer.Typer()
add_to(app)


def osmo(*words, stdin=None):
    return CliRunner().invoke(app, [str(word) for word in words], input=stdin)


@pytest.fixture
def files(tmp_path):
    for name, text in {
        "s.yaml": SCENARIO,
        "bad.yaml": "queues: [{name: q, size: 2}]\n",
        "valid.yaml": VALID,
        "invalid.yaml": INVALID,
        "broken.yaml": "kind: [\n",
        "twice.yaml": "spec: {minMember: 1, minMember: 2}\n",
        "plan.yaml": "podgroup: {spec: {minMember: 1}}\npods: [{name: p, state: Pending}]\n",
    }.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_simulate_for_people_and_programs(files):
    result = osmo("simulate", files / "s.yaml")
    assert result.exit_code == 0
    assert "w     pending  1" in result.stdout
    assert "more than the quota of q (2) could ever give" in result.stdout
    as_json = json.loads(osmo("simulate", files / "s.yaml", "-o", "json").stdout)
    as_yaml = yaml.safe_load(osmo("simulate", files / "s.yaml", "-o", "yaml").stdout)
    assert as_json == as_yaml
    assert "source" not in as_json
    assert as_json["workloads"]["w"]["reason"]["code"] == "never_fits"


def test_a_position_is_the_place_in_its_own_queue(files):
    """As in the list of the queue and on pages; the answer has the order of the whole cluster too."""
    queues, works = "{name: q, quota: 2}, {name: r, quota: 2}", "{name: w, queue: q, tasks: [{gpus: 3}]}"
    text = f"queues: [{queues}]\nworkloads: [{works}, {works.replace('w,', 'x,').replace('q,', 'r,')}]\n"
    (files / "two.yaml").write_text(text)
    assert re.findall(r"^\w +pending  (\d)", osmo("simulate", files / "two.yaml").stdout, re.MULTILINE) == ["1", "1"]


def test_simulate_reports_faults_with_their_place(files):
    result = osmo("simulate", files / "bad.yaml")
    assert result.exit_code == 2
    assert f"{files}/bad.yaml:1: queues[0].size is not known here" in result.stderr
    body = json.loads(osmo("simulate", files / "bad.yaml", "-o", "json").stdout)
    assert (body["error_code"], body["details"][0]["path"]) == ("SCENARIO", "queues[0].size")
    assert osmo("simulate", files / "nothing.yaml").exit_code == 2


def test_a_batch_is_one_json_object_a_line(files):
    result = osmo("simulate", files / "s.yaml", files / "bad.yaml", "-", stdin=SCENARIO + "---\n" + SCENARIO)
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["source"] for line in lines] == [f"{files}/s.yaml", f"{files}/bad.yaml", "-#1", "-#2"]
    assert ["error_code" in line for line in lines] == [False, True, False, False]
    assert result.exit_code == 2


@pytest.mark.parametrize(
    ("names", "exit_code"),
    [
        (["valid.yaml"], 0),
        (["invalid.yaml"], 1),
        (["broken.yaml"], 2),
        (["twice.yaml"], 2),
        (["valid.yaml", "invalid.yaml"], 1),
        (["invalid.yaml", "broken.yaml"], 2),
    ],
)
def test_podgroup_validate_exit_codes(files, names, exit_code):
    result = osmo("podgroup", "validate", *(files / name for name in names))
    assert result.exit_code == exit_code


def test_podgroup_validate_names_the_rule(files):
    assert osmo("podgroup", "validate", files / "valid.yaml").stdout == "valid\n"
    result = osmo("podgroup", "validate", files / "invalid.yaml").stdout
    assert "error: spec.minMember: The PodGroup sets minMember to 0" in result
    body = json.loads(osmo("podgroup", "validate", files / "invalid.yaml", "-o", "json").stdout)
    assert body["valid"] is False
    assert set(body["violations"][0]) == {"path", "code", "message", "severity"}


def test_podgroup_plan(files):
    result = osmo("podgroup", "plan", files / "plan.yaml")
    assert result.exit_code == 0
    assert "ready, 0 of 1" in result.stdout
    assert json.loads(osmo("podgroup", "plan", files / "plan.yaml", "-o", "json").stdout)["next"] == ["p"]
    assert osmo("podgroup", "plan", files / "s.yaml").exit_code == 2


def test_a_podgroup_that_would_take_minutes_to_plan_is_refused(files):
    groups = [{"name": f"g{number}", "minMember": 1} for number in range(2000)]
    pods = [{"name": f"p{number}", "sub_group": "g0", "state": "Running"} for number in range(5001)]
    body = {"podgroup": {"kind": "PodGroup", "spec": {"subGroups": groups}}, "pods": pods}
    (files / "large.json").write_text(json.dumps(body))
    result = osmo("podgroup", "plan", files / "large.json")
    assert result.exit_code == 2
    assert "2,000 groups with 5,001 pods" in result.output + result.stderr


def test_neither_django_nor_the_network_is_imported():
    code = (
        "import sys; from osmo_admin.cli.client import app;"
        " app(['simulate', 'docs/scenarios/preemption.yaml', '-o', 'json'], standalone_mode=False);"
        " print(*sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    loaded = set(done.stderr.split())
    assert "scheduling.domain.engine.cycle" in loaded
    assert not {name for name in loaded if name.split(".")[0] in {"django", "celery", "httpx", "psycopg"}}


def test_a_file_of_one_dash_is_a_list_and_a_dash_as_a_name_is_standard_input(tmp_path):
    (tmp_path / "dash.yaml").write_text("-")
    refused = osmo("simulate", tmp_path / "dash.yaml", "-o", "json")
    assert refused.exit_code == 2
    assert json.loads(refused.stdout)["details"][0]["message"] == (
        "The input must be a scenario, which is a map, not a list."
    )
    assert osmo("simulate", "-", "-o", "json", stdin="-").exit_code == 2
    read = osmo("simulate", "-", "-o", "json", stdin=SCENARIO)
    assert (read.exit_code, json.loads(read.stdout)["settled"]) == (0, True)
