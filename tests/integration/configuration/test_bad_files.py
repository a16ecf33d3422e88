"""Every fault of every file at once, each with its file and line; nothing is written."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest
import yaml

from scheduling.configuration.files import BadFiles, ConfigurationFiles, read_file
from scheduling.configuration.folders import read_folder
from scheduling.configuration.schema import SCHEMA

FAULTS = {
    "pool: {}": ("unknown_key", 1),
    "pools:\n  a: {}": ("missing", 2),
    "pools:\n  a:\n    backend: x\n    subpools: {b: much}": ("bad_value", 4),
    "pools:\n  a:\n    backend: x\n    subpools:\n      b:": ("missing", 5),
    "pools:\n  a:\n    backend: x\n    subpools_owner: me": ("bad_value", 4),
    "pools:\n  a:\n    backend: x\n    resources:\n      gpu: {guarantee: -7}": ("negative_quota", 5),
    "pools:\n  a: {backend: x}\n  a: {backend: y}": ("duplicate_key", 2),
    "cohorts:\n  c:\n    weigth: 2": ("unknown_key", 3),
    "backends:\n  k:\n    type: kubernetes": ("missing", 3),
    "backends:\n  k:\n    type: kubernetes\n    kubeconfig: 'apiVersion: v1'": ("secret_in_file", 4),
    "gpu_quotas:\n  Prod: {}": ("bad_name", 2),
    "roles:\n  osmo-admin: [ann]": ("bad_value", 2),
    "roles:\n  osmo-admin: {users: ann}": ("bad_value", 2),
    "workflow:\n  max_retry_per_task: 1000": ("bad_value", 2),
    "pools: [a]": ("bad_value", 1),
    "pools:\n  a: {backend: !x y}": ("bad_value", 2),
    "pools:\n  a: {backend: .nan}": ("bad_value", 2),
    'pools:\n  a: {backend: "\\0"}': ("bad_value", 2),
    "pools:\n  a: [": ("bad_value", 3),
    "a\n---\nb": ("bad_value", 1),
    "- a": ("bad_value", 1),
}


@pytest.mark.parametrize("text", FAULTS)
def test_a_fault_has_its_line(text: str) -> None:
    found = ConfigurationFiles()
    read_file("team/file.yaml", text.encode(), found)
    (fault, *_) = found.faults
    expected, line = FAULTS[text]
    assert fault.code in {expected, "too_large"}
    assert (fault.line, fault.as_dict()["file"]) == (line, "team/file.yaml")


def test_all_faults_of_all_files_come_at_once(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/one.yaml").write_text("pools:\n  a: {}\n  b: {backend: x}\n")
    (tmp_path / "two.yml").write_text("pools:\n  b: {backend: y}\n  c: {colour: red}\n")
    (tmp_path / ".hidden.yaml").write_text("not: ours")
    (tmp_path / "three.yaml").write_bytes(b"\xff")
    (tmp_path / "notes.txt").write_text("pools: {}")
    found = read_folder(tmp_path)
    refusal = BadFiles.of_faults(found.faults)
    places = [(each.as_dict()["file"], each.line, each.code) for each in refusal.details]
    assert places == [
        ("a/one.yaml", 2, "missing"),
        ("three.yaml", 1, "bad_value"),
        ("two.yml", 2, "duplicate_name"),
        ("two.yml", 3, "unknown_key"),
        ("two.yml", 3, "missing"),
    ]
    assert "a/one.yaml line 3" in next(each.message for each in refusal.details if each.code == "duplicate_name")


def test_an_empty_folder_is_a_fault(tmp_path: Path) -> None:
    assert [each.code for each in read_folder(tmp_path).faults] == ["no_files"]


@pytest.mark.parametrize("text", ["pools: {a: {}}", "pool: {}", "roles: {r: {users: 1}}", "workflow: {x: 1}"])
def test_the_schema_refuses_forms_that_apply_refuses(text: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(text), SCHEMA)


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
