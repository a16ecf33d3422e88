"""One text has one meaning wherever it is given: numbers, times, sizes and flags (docs/values.md)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from osmo_admin.cli.base.client_errors import ClientError
from osmo_admin.cli.base.yaml_files import read_yaml_text
from pools.admin.forms import time_field
from pools.domain.configuration.pool_config import parse_pool
from pools.domain.configuration.quota_file import parse_quota_file
from pools.domain.errors import BadInput, Violation
from pools.domain.quota.pool_balance import parse_quota
from pools.domain.values.byte_sizes import parse_size
from pools.domain.values.durations import parse_duration
from pools.domain.values.query_values import parse_datetime, parse_integer
from pools.domain.values.scalars import typed_number
from pools.models import Pool
from scheduling.configuration.files import ConfigurationFiles, read_file
from scheduling.history.traces.values import gpus
from scheduling.scenario.batch import document_value
from scheduling.scenario.parse import ScenarioError, parse_scenario
from scheduling.specs import parse
from scheduling.structured_yaml.value_reader import read_documents
from tests.support import world
from tests.support.world import sign_in

pytestmark = pytest.mark.django_db

REFUSED = (
    "010", "0x10", "0o10", "0b1", "1_0", "+3", "' 3'", "true", ".inf", ".nan", "NaN", "1e400", "9223372036854775808",
    "３", "8k", "1Gi", "1GI", "25%", "1:30", "2026-01-01", "1h", "yes", "no", "on", "off", "3.", ".5", "''", "[3]",
)  # fmt: skip
WHOLE: dict[str, int | None] = {"3": 3, "10": 10, **dict.fromkeys((*REFUSED, "1e1", "3.0", "3.5", "12.9", "-5"))}
DECIMAL: dict[str, float | None] = {
    "3": 3, "3.0": 3, "3.5": 3.5, "12.9": 12.9, "1e1": 10, **dict.fromkeys((*REFUSED, "-5")),
}  # fmt: skip
FLAGS: dict[str, bool | None] = {
    "true": True, "false": False, **dict.fromkeys(("yes", "no", "on", "off", "1", "0", "'true'x", "y", "n")),
}  # fmt: skip
TIMES: dict[str, int | None] = {
    "1h": 3600, "90m": 5400, "15s": 15, "1h30m": 5400, "90": 90,
    **dict.fromkeys(("010", "0x10", "1_0", "1e1", "3.5", "+3", "PT1H", "1:30", "1H", "-5", "yes", "３s", "01h")),
}  # fmt: skip
SIZES: dict[str, int | None] = {
    "1Gi": 2**30, "1.5Gi": 3 * 2**29, "1024": 1024,
    **dict.fromkeys(("010", "0x10", "1_0", "1e1", "3.5", "+3", "1GI", "8k", "-5", "1:30", "25%", "３Gi", "01Gi")),
}  # fmt: skip


def pool(path: str, text: str) -> str:
    """A pool as a flow map of YAML, which is JSON where the text is."""
    key, _, rest = path.partition(".")
    inner = text
    for step in reversed(rest.split(".") if rest else []):
        inner = f'{{"{step}": {inner}}}'
    return f'{{"backend": "sim", "{key}": {inner}}}'


def stored(row: Pool, path: str) -> Any:
    columns = {"resources.gpu.guarantee": row.guarantee, "enable_maintenance": row.enable_maintenance}
    found = columns[path] if path in columns else row.config.get(path)
    return None if found is None else parse_duration(found).total_seconds() if path.endswith("timeout") else found


def settings_value(body: Any, path: str) -> Any:
    settings, faults = parse_pool(body)
    if faults:
        return None
    row = Pool(guarantee=settings.guarantee, enable_maintenance=settings.enable_maintenance, config=settings.config)
    return stored(row, path)


def by_rest(path: str, text: str) -> Any:
    world.make_backend()
    client = sign_in(world.admin_actor().username)
    answer = client.put("/api/configs/pool/p", pool(path, text), content_type="application/json")
    if answer.status_code != 200:
        assert answer.status_code == 400, answer.content
        return None
    return stored(Pool.objects.get(name="p"), path)


def by_client(path: str, text: str) -> Any:
    try:
        return settings_value(read_yaml_text(pool(path, text), "f"), path)
    except ClientError:
        return None


def by_git(path: str, text: str) -> Any:
    found = ConfigurationFiles()
    read_file("f.yaml", f"pools:\n  p: {pool(path, text)}\n".encode(), found)
    if found.faults:
        return None
    (place,) = found.objects.values()
    return settings_value(place.body, path)


def by_page(path: str, text: str) -> Any:
    if text[:1] in "'[":
        return None
    body: dict[str, Any] = {"backend": "sim", "resources": {"gpu": {"guarantee": typed_number(text)}}}
    return settings_value(body, path)


def by_workflow(field: str, text: str) -> Any:
    file = f"""workflow:
  name: w
  timeout: {{{f"exec_timeout: {text}" if field == "exec_timeout" else ""}}}
  resources: {{default: {{{f"{field}: {text}" if field in ("gpu", "memory") else ""}}}}}
  tasks:
  - {{name: t, image: i, command: [c]{f", privileged: {text}" if field == "privileged" else ""}}}
"""
    spec = parse(file).spec
    if spec is None:
        return None
    task = spec.groups[0].tasks[0]
    time = None if spec.exec_timeout is None else spec.exec_timeout.total_seconds()
    return {"gpu": task.gpu, "memory": task.memory_bytes, "privileged": task.privileged, "exec_timeout": time}[field]


def by_annotation(text: str) -> Any:
    spec = parse(
        f"kind: PodGroup\nmetadata:\n  name: p\n  annotations:\n    osmo/gpus-per-pod: {text}\nspec: {{minMember: 1}}\n"
    ).spec
    return None if spec is None else spec.groups[0].tasks[0].gpu


def by_manifest(text: str) -> Any:
    spec = parse(f"kind: PodGroup\nmetadata: {{name: p}}\nspec: {{minMember: {text}}}\n").spec
    return None if spec is None else len(spec.groups[0].tasks)


def by_scenario(key: str, text: str) -> Any:
    line = f"{{gpus: 1, {key}: {text}}}" if key != "gpus" else f"{{gpus: {text}}}"
    file = f"queues: [{{name: q}}]\nworkloads:\n- {{name: w, queue: q, tasks: [{line}]}}\n"
    try:
        (gang,) = parse_scenario(document_value(read_documents(file)[-1])).facts.gangs
    except (ScenarioError, BadInput):
        return None
    return len(gang.tasks) if key == "count" else gang.tasks[0].request["default/gpu"]


GUARANTEE = "resources.gpu.guarantee"
WHOLE_READERS: dict[str, Callable[[str], Any]] = {
    "REST": lambda text: by_rest(GUARANTEE, text), "client": lambda text: by_client(GUARANTEE, text),
    "Git": lambda text: by_git(GUARANTEE, text), "page": lambda text: by_page(GUARANTEE, text),
    "workflow": lambda text: by_workflow("gpu", text), "annotation": by_annotation, "manifest": by_manifest,
    "scenario": lambda text: by_scenario("count", text), "trace": gpus, "query": parse_integer,
}  # fmt: skip


@pytest.mark.parametrize("reader", WHOLE_READERS)
def test_whole_numbers(reader: str) -> None:
    assert {text: WHOLE_READERS[reader](text) for text in WHOLE} == WHOLE


def quota_of(value: Any) -> Any:
    found = parse_quota(value, parent=100)
    return None if isinstance(found, Violation) else found.gpus


def json_quota(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return None if isinstance(value, str) else quota_of(value)


def csv_quota(text: str) -> Any:
    if text[:1] in "'[":
        return None
    return quota_of(parse_quota_file(f"pool,subpool,quota\nteam,a,{text}\n").quotas["team--a"])


def test_quotas_are_decimal_numbers_rounded_down() -> None:
    expected = {text: None if value is None else int(value) for text, value in DECIMAL.items() if "%" not in text}
    assert {text: json_quota(text) for text in expected} == expected
    plain = {text: value for text, value in expected.items() if text[:1] not in "'["}
    assert {text: csv_quota(text) for text in plain} == plain
    assert {text: quota_of(typed_number(text)) for text in plain} == plain


def test_a_number_of_the_client_that_no_json_can_hold_stays_a_text() -> None:
    assert typed_number("8e400") == "8e400"
    assert quota_of(typed_number("8e400")) is None


def test_a_percentage_is_a_quota_everywhere() -> None:
    assert csv_quota("25%") == quota_of(typed_number("25%")) == quota_of("25%") == 25
    assert quota_of("1:30%") is quota_of("025%") is quota_of("1_0%") is None


def test_amounts_of_scenarios_are_decimal_numbers() -> None:
    expected = {text: value for text, value in DECIMAL.items() if text != str(2**63)}  # far below the bound of amounts
    found = {text: by_scenario("gpus", text) for text in expected}
    assert {text: None if value is None else float(value) for text, value in found.items()} == expected


@pytest.mark.parametrize("reader", [by_rest, by_client, by_git])
def test_times(reader: Callable[[str, str], Any]) -> None:
    quoted = {text: text if text in ("90", "3.5", "1e1", "-5") else f'"{text}"' for text in TIMES}
    assert {text: reader("default_exec_timeout", quoted[text]) for text in TIMES} == TIMES
    if reader is not by_rest:
        assert {text: reader("default_exec_timeout", text) for text in TIMES} == TIMES


def test_times_and_flags_of_a_workflow() -> None:
    assert {text: by_workflow("exec_timeout", text) for text in TIMES} == TIMES
    assert {text: by_workflow("privileged", text) for text in FLAGS} == FLAGS


def test_sizes() -> None:
    assert {text: parse_size(text) for text in SIZES} == SIZES
    assert {text: by_workflow("memory", text) for text in SIZES} == SIZES


@pytest.mark.parametrize("reader", [by_rest, by_client, by_git])
def test_flags(reader: Callable[[str, str], Any]) -> None:
    assert {text: reader("enable_maintenance", text) for text in FLAGS} == FLAGS


@pytest.mark.parametrize("text", ["0001-01-01T00:00+23:00", "9999-12-31T23:59-05:00", "2026-13-01", "2026-12-01T24:00"])
def test_a_time_that_has_no_moment_in_utc_is_none(text: str) -> None:
    field = time_field("Until")
    assert parse_datetime(text) is None
    assert field.widget.format_value(text) == text
    with pytest.raises(ValidationError):
        field.clean(text)
