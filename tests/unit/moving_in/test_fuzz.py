"""Any file of other software gets an answer: objects with a report of every line, or faults with their lines."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from scheduling.moving_in.importing import import_sources
from scheduling.moving_in.options import GuaranteeFrom, ImportOptions, SourceKind
from scheduling.moving_in.report import report_text
from scheduling.moving_in.result import BadSource, ImportResult
from scheduling.moving_in.source_text import source_text
from tests.unit.moving_in import test_kueue, test_osmo
from tests.unit.moving_in.test_queues import queue
from tests.unit.moving_in.test_resource_quotas import quota
from tests.unit.moving_in.test_slurm import DUMP, NODES

PROJECT: dict[str, Any] = {
    "name": "vision", "departmentName": "research", "clusterId": "c",
    "resources": [{"nodePool": {"name": "default"}, "gpu": {"deserved": 4, "limit": 8, "overQuotaWeight": 2}}],
}  # fmt: skip
KAI = "---\n".join(
    [
        queue("team", "quota: 16, limit: 32, overQuotaWeight: 0.5"),
        queue("a", "quota: 8, limit: -1, overQuotaWeight: 1", "team"),
        queue("b", "quota: 4.5, limit: 8", "a"),
        test_kueue.NODE,
    ]
)
SAMPLES = {
    SourceKind.KUEUE: [test_kueue.EVERY_KEY, test_kueue.TWO_FLAVORS],
    SourceKind.KAI: [KAI],
    SourceKind.RUNAI: [json.dumps([PROJECT], indent=1), "runai project create a --resources gpu-deserved=2\n"],
    SourceKind.RESOURCEQUOTA: [quota("a", "team", "requests.nvidia.com/gpu: 8")],
    SourceKind.SLURM: [DUMP, NODES],
    SourceKind.OSMO: [test_osmo.VALUES, test_osmo.EVERY_KEY],
}
WORDS = (
    "", "-1", "0", "1e999", ".nan", "9" * 30, "-0.5", "null", "~", "[]", "{}", "[{}]", "true", "'", '"', "é",
    "\u202e", "\ufeff", "\x85", "\u2028", "\t", "0x10", "1_000", "500m", "2Gi", "2026-01-01", "a: b", "&a",
    "*a", "<<: *a", "!!int", "---", "...", "?", "#", "parent", "root", "gres/gpu=", "gres/gpu:a100=4",
    "n[1-9999999999]", "n[[1]", "\\",
    "=", ":", "Parent - 'sci'", "Account - 'sci'", "kind: Queue", "name:", "spec:", "x" * 300,
)  # fmt: skip


def answer_of(kind: SourceKind, text: str, **options: Any) -> ImportResult | None:
    """What an import of the text says, checked: the same twice, each place is a line of the file, no fault is empty."""
    count = len(re.split("\r\n|[\n\r\x85\u2028\u2029]", text))  # what YAML takes for ends of lines

    def read() -> ImportResult | tuple[Any, ...]:
        try:
            source = source_text("f", text.encode("utf-8", "surrogatepass"))
            return import_sources(kind, [source], ImportOptions(**options))
        except BadSource as refusal:
            faults = tuple(refusal.details)
        assert faults
        assert all(fault.message.strip() for fault in faults)
        lines = [int(fault.path.rpartition(":")[2]) for fault in faults]
        assert all(1 <= line <= count + 1 for line in lines), (lines, count)  # the end of a file counts as a line
        return faults

    first, second = read(), read()
    if isinstance(first, tuple):
        assert first == second
        return None
    assert isinstance(second, ImportResult)
    assert (first.objects, report_text(kind, first)) == (second.objects, report_text(kind, second))
    assert all(1 <= line.place.line <= count for line in first.lines)
    return first


changed_texts = st.sampled_from([(kind, text) for kind, texts in SAMPLES.items() for text in texts]).flatmap(
    lambda sample: st.tuples(
        st.just(sample),
        st.lists(st.tuples(st.floats(0, 1), st.integers(0, 30), st.sampled_from(WORDS)), min_size=1, max_size=4),
    )
)


@given(st.sampled_from([*SourceKind]), st.one_of(st.text(max_size=200), st.binary(max_size=200)))
def test_any_text(kind: SourceKind, text: str | bytes) -> None:
    try:
        known = text if isinstance(text, str) else source_text("f", text).text
    except BadSource:
        return
    answer_of(kind, known)


@given(st.sampled_from([*SourceKind]), st.lists(st.sampled_from([*WORDS, "\n", " ", "  "]), max_size=30).map("".join))
def test_text_of_marks(kind: SourceKind, text: str) -> None:
    answer_of(kind, text)


@given(changed_texts, st.sampled_from([*GuaranteeFrom]), st.sampled_from([None, 1, 2]))
def test_good_files_with_something_changed(sample: Any, guarantee: GuaranteeFrom, depth: int | None) -> None:
    (kind, text), changes = sample
    for where, removed, put in changes:
        at = int(where * len(text))
        text = text[:at] + put + text[at + removed :]
    answer_of(kind, text, guarantee=guarantee, depth=depth)


@given(st.data())
def test_good_documents_with_other_values(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from([kind for kind in SourceKind if kind is not SourceKind.SLURM]))
    documents = list(yaml.safe_load_all(SAMPLES[kind][0]))
    values = st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.lists(st.integers(), max_size=2),
        st.dictionaries(st.text(max_size=3), st.integers(), max_size=2), st.sampled_from(WORDS),
    )  # fmt: skip
    for _ in range(data.draw(st.integers(1, 3))):
        _change(documents, data, values)
    answer_of(kind, json.dumps(documents[0]) if len(documents) == 1 else yaml.safe_dump_all(documents))


def _change(value: Any, data: st.DataObject, values: st.SearchStrategy[Any]) -> None:
    """Put another value at some depth."""
    while isinstance(value, dict | list) and value:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(value[key], dict | list) or data.draw(st.integers(0, 3)) == 0:
            value[key] = data.draw(values)
            return
        value = value[key]


names = st.sampled_from(["bio", "chem", "Sci", "root", "ops", "a b", "x" * 70])
fields = st.dictionaries(
    st.sampled_from([
        "Description", "Fairshare", "GrpTRES", "GrpTRESMins", "MaxWall", "MaxJobs", "QOS", "DefaultQOS", "Priority",
        "Coordinator", "AdminLevel", "DefaultAccount", "Preempt", "Flags", "Shiny",
    ]),
    st.sampled_from(["1", "'a'", "parent", "gres/gpu=4", "gres/gpu:a100=2", "2-12", "'bio,chem'", "cpu=3", "''"]),
    max_size=4,
)  # fmt: skip
slurm_lines = st.tuples(
    st.sampled_from(["Account", "Account", "User", "User", "QOS", "Parent", "Cluster"]), names, fields
)


@given(st.lists(slurm_lines, max_size=12), st.sampled_from([*GuaranteeFrom]), st.sampled_from([None, 1]))
def test_no_line_and_no_key_of_slurm_is_silent(
    rows: list[tuple[str, str, dict[str, str]]], guarantee: GuaranteeFrom, depth: int | None
) -> None:
    texts = ["Cluster - 'tux'", "Parent - 'root'"]
    for word, name, keys in rows:
        texts.append(":".join([f"{word} - '{name}'", *(f"{key}={value}" for key, value in keys.items())]))
    result = answer_of(SourceKind.SLURM, "\n".join(texts), guarantee=guarantee, depth=depth)
    if result is None:
        return
    lines = {line.place.line for line in result.lines} | {place.line for place in result.origins.values()}
    places = [line.place for line in result.lines]
    for number, (_word, _name, keys) in enumerate(rows, 3):
        assert number in lines, texts[number - 1]
        for key in keys:
            assert any(place.line == number and f" {key}=" in place.key for place in places), (texts[number - 1], key)


@pytest.mark.parametrize("kind", [*SourceKind])
def test_the_samples_are_good(kind: SourceKind) -> None:
    for text in SAMPLES[kind]:
        result = answer_of(kind, text)
        assert result is not None
        assert result.objects
