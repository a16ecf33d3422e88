"""Exports to Kueue and KAI: imported again they have the same quotas, and what has no counterpart is named."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from pools.domain.configuration.ownership import OwnedKind
from pools.domain.configuration.pool_fields import EDITABLE_KEYS
from pools.domain.errors import BadInput
from scheduling.configuration.bodies import SECTION_BY_KEY
from scheduling.moving_in.result import ImportResult
from scheduling.moving_out.exporting import ForeignFormat, export_objects, write_export
from scheduling.moving_out.quotas import ForeignExport
from tests.support.imports import body, gpu, imported, pool

FILES = """\
backends:
  dgx:
    type: simulated
    nodes: [{name: n1, gpus: 8, labels: {gpu: h100}}, {name: n2, gpus: 8}]
    flavors: [{name: h100, node_labels: {gpu: h100}}]
  other: {type: simulated, nodes: []}
pools:
  vision:
    backend: dgx
    cohort: research
    resources: {gpu: {guarantee: 64, maximum: 96, weight: 3}}
    lending_limit: 20
    subpools: {detect: 24, segment: 16}
  speech: {backend: dgx, cohort: research, resources: {gpu: {guarantee: 8, weight: 2}}, borrowing_limit: 4}
  mixed:
    backend: dgx
    cohort: research
    when_can_borrow: next
    resources: {flavors: {h100: {guarantee: 4, borrowing_limit: 2, lending_limit: 1}, default: {guarantee: 6}}}
  alone: {backend: dgx, resources: {gpu: {guarantee: 5, maximum: 5}}, hold_after: 0, enable_maintenance: true}
  elsewhere: {backend: other, resources: {gpu: {guarantee: 1}}}
cohorts:
  research: {parent: firm, weight: 5, quotas: [{resource: gpu, nominal: 8, borrowing_limit: 6}]}
  firm: {quotas: [{resource: gpu, nominal: 2}, {flavor: h100, resource: gpu, nominal: 3}]}
  empty: {}
roles:
  osmo-vision-admin: {users: [ann]}
gpu_quotas:
  inference: {total: {maxWorkers: 40}}
workflow: {max_retry_per_task: 1}
"""


BY_FLAVOR = """\
backends:
  dgx: {type: simulated, nodes: [], flavors: [{name: h100, node_labels: {gpu: h100}}]}
pools:
  both:
    backend: dgx
    cohort: research
    resources: {flavors: {h100: {guarantee: 4, borrowing_limit: 2}, default: {guarantee: 6}}}
    subpools: {a: {h100: 3, default: 2}}
"""


def objects_of(text: str) -> dict[tuple[OwnedKind, str], Mapping[str, Any]]:
    """The forms of objects of a file."""
    found = {}
    for key, section in yaml.safe_load(text).items():
        kind = SECTION_BY_KEY[key]
        for name, value in ({"workflow": section} if kind.is_single else section).items():
            form, faults = kind.read(name, value)
            assert not faults, faults
            found[kind.kind, name] = form
    return found


def exported(form: str, text: str, backend: str = "dgx") -> ForeignExport:
    """The export of a file's objects."""
    return export_objects(ForeignFormat(form), objects_of(text), backend)


def read_again(form: str, found: ForeignExport) -> ImportResult:
    """The import of an export."""
    texts = [yaml.safe_dump_all(documents, sort_keys=False) for documents in found.documents.values()]
    return imported(form, *texts, backend="dgx", writes_backend=False)


def leaves(objects: Mapping[tuple[OwnedKind, str], Mapping[str, Any]]) -> dict[str, int]:
    """The GPUs of each pool that no subpool has, and those of each subpool."""
    found: dict[str, int] = {}
    for (kind, name), value in objects.items():
        if kind is not OwnedKind.POOL or value["backend"] != "dgx":
            continue
        resources = value["resources"]
        rows = resources["flavors"].values() if "flavors" in resources else [resources["gpu"]]
        subpools = value.get("subpools", {})
        found[name] = sum(row["guarantee"] for row in rows) - sum(subpools.values())
        found |= {f"{name}-{short}": quota for short, quota in subpools.items()}
    return found


class TestKueue:
    """ClusterQueues, Cohorts and ResourceFlavors."""

    def test_the_same_quotas_come_back(self) -> None:
        result = read_again("kueue", exported("kueue", FILES))
        assert leaves(result.objects) == leaves(objects_of(FILES))
        assert pool(result, "mixed") == pool_of("mixed") | {"cohort": "research"}
        assert gpu(result, "speech") == (8, -1, 2)
        assert pool(result, "speech")["borrowing_limit"] == 4
        assert pool(result, "alone") == pool_of("alone")
        assert body(result, OwnedKind.COHORT, "firm") == form_of(OwnedKind.COHORT, "firm")
        assert body(result, OwnedKind.COHORT, "research") == form_of(OwnedKind.COHORT, "research")
        above = body(result, OwnedKind.COHORT, "vision")
        assert (above["parent"], above["weight"]) == ("research", 3)
        assert above["quotas"] == [{"resource": "gpu", "nominal": 0, "borrowing_limit": 32, "lending_limit": 20}]

    def test_subpools_by_flavor_come_back(self) -> None:
        result = read_again("kueue", exported("kueue", BY_FLAVOR))
        assert {name: pool(result, name)["resources"]["flavors"] for name in ("both", "both-a")} == {
            "both": {"h100": {"guarantee": 1}, "default": {"guarantee": 4}},
            "both-a": {"h100": {"guarantee": 3}, "default": {"guarantee": 2}},
        }
        assert body(result, OwnedKind.COHORT, "both")["quotas"] == [
            {"flavor": "h100", "resource": "gpu", "nominal": 0, "borrowing_limit": 2}
        ]

    def test_each_flavor_has_a_name_that_kueue_takes(self) -> None:
        names = ("H100_SXM", "h100-sxm", "a.100", "A.-b", "default-flavor")
        rows = ", ".join(f"{name}: {{guarantee: 1}}" for name in (*names, "default"))
        labels = ", ".join(f"{{name: {name}, node_labels: {{gpu: {name}}}}}" for name in names)
        text = f"backends: {{dgx: {{type: simulated, nodes: [], flavors: [{labels}]}}}}\n"
        found = exported("kueue", f"{text}pools: {{a: {{backend: dgx, resources: {{flavors: {{{rows}}}}}}}}}")
        flavors = found.documents["resourceflavors.yaml"]
        assert [each["metadata"]["name"] for each in flavors] == [
            "h100-sxm-2", "h100-sxm", "a.100", "a-b", "default-flavor-2", "default-flavor"
        ]  # fmt: skip
        (queue,) = found.documents["clusterqueues.yaml"]
        assert [each["name"] for each in queue["spec"]["resourceGroups"][0]["flavors"]] == [
            each["metadata"]["name"] for each in flavors
        ]
        assert [line for line in found.lost if line.startswith("flavor ")] == [
            f"flavor {name}: it is called {other} there, where names are in lower case and different."
            for name, other in (("default-flavor", "default-flavor-2"), ("A.-b", "a-b"), ("H100_SXM", "h100-sxm-2"))
        ]

    def test_an_export_of_the_import_is_the_same_export(self) -> None:
        first = exported("kueue", FILES)
        again = export_objects(ForeignFormat.KUEUE, read_again("kueue", first).objects, "dgx")
        kinds = {document["kind"] for documents in first.documents.values() for document in documents}
        assert kinds == {"ResourceFlavor", "Cohort", "ClusterQueue"}
        assert queues_of(again) == queues_of(first)

    def test_what_has_no_counterpart_is_named(self) -> None:
        lost = "\n".join(exported("kueue", FILES).lost)
        for words in (
            "pools.elsewhere: is on another cluster", "cohorts.empty: has no pool", "roles.osmo-vision-admin:",
            "gpu_quotas.inference:", "workflow:", "pools.vision: the maximum 96", "LocalQueues:",
        ):  # fmt: skip
            assert words in lost
        text = "pools: {a: {backend: dgx, resources: {gpu: {guarantee: 4}}}, b: {backend: dgx}}"
        lost = "\n".join(exported("kueue", text).lost)
        assert "pools.a: without a cohort nobody borrows in Kueue: at most 4" in lost
        assert "pools.b: an unlimited quota" in lost


class TestKai:
    """Queues."""

    def test_the_same_quotas_come_back(self) -> None:
        result = read_again("kai", exported("kai", FILES))
        wanted = leaves(objects_of(FILES))
        assert leaves(result.objects) == wanted
        assert pool(result, "vision")["subpools"] == {"detect": 24, "segment": 16}
        assert gpu(result, "vision") == (64, 96, 3)
        assert gpu(result, "speech") == (8, 12, 2)
        assert gpu(result, "alone") == (5, 5, 1)
        research = body(result, OwnedKind.COHORT, "research")
        assert (research["parent"], research["weight"]) == ("firm", 5)
        assert research["quotas"] == [{"resource": "gpu", "nominal": 8, "borrowing_limit": 6}]

    def test_what_has_no_counterpart_is_named(self) -> None:
        lost = "\n".join(exported("kai", FILES).lost)
        for words in (
            "pools.mixed: a queue of KAI has one number of GPUs", "pools.mixed: the lending limit 1:",
            "pools.alone.hold_after: KAI", "what no subpool has (24 GPUs)", "pools.vision: the lending limit 20:",
        ):  # fmt: skip
            assert words in lost
        found = exported("kai", "pools: {b: {backend: dgx}}")
        assert found.documents["queues.yaml"][0]["spec"]["resources"]["gpu"] == {
            "quota": -1, "limit": -1, "overQuotaWeight": 1
        }  # fmt: skip


@pytest.mark.parametrize("form", [*ForeignFormat])
def test_every_key_of_a_pool_is_written_or_named(form: str) -> None:
    written = {"backend", "cohort", "resources", "borrowing_limit", "lending_limit"}
    if form == ForeignFormat.KUEUE:
        written |= {"when_can_borrow", "when_can_preempt", "enable_maintenance", "hold_after"}
    found = objects_of("pools: {a: {backend: dgx, cohort: c, resources: {gpu: {guarantee: 1}}}}")
    more = {key: "x" for key in EDITABLE_KEYS if key not in written}
    objects = {key: {**value, **more} for key, value in found.items()}
    lost = export_objects(ForeignFormat(form), objects, "dgx").lost
    assert {line.partition(":")[0].rpartition(".")[2] for line in lost if line.startswith("pools.a.")} == set(more)


def test_several_clusters_need_a_name() -> None:
    assert exported("kai", "pools: {a: {backend: one}}", "").documents
    for text, backend in ((FILES, ""), (FILES, "none"), ("roles: {osmo-admin: {users: [a]}}", "")):
        with pytest.raises(BadInput, match="--backend"):
            exported("kai", text, backend)


def test_a_folder_of_other_files_is_left_alone(tmp_path: Path) -> None:
    found = exported("kueue", FILES)
    write_export(tmp_path, ForeignFormat.KUEUE, found)
    first = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert sorted(first) == [
        "REPORT.md", "kueue-clusterqueues.yaml", "kueue-cohorts.yaml", "kueue-resourceflavors.yaml"
    ]  # fmt: skip
    write_export(tmp_path, ForeignFormat.KUEUE, found)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == first
    with pytest.raises(BadInput, match="has other files"):
        write_export(tmp_path, ForeignFormat.KAI, found)
    (tmp_path / "pools").mkdir()
    (tmp_path / "pools/kueue-a.yaml").write_text("pools: {}")
    with pytest.raises(BadInput, match="has other files"):
        write_export(tmp_path, ForeignFormat.KUEUE, found)


def test_a_killed_process_leaves_whole_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is killed when half of a file is written: the former file stays, and the next run ends as if nothing was."""
    found = exported("kueue", FILES)
    write_export(tmp_path, ForeignFormat.KUEUE, found)
    first = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    write_text = Path.write_text

    def write_half(path: Path, text: str, **options: str) -> int:
        write_text(path, text[: len(text) // 2], **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_text", write_half)
    with pytest.raises(KeyboardInterrupt):
        write_export(tmp_path, ForeignFormat.KUEUE, found)
    monkeypatch.undo()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.name in first} == first
    write_export(tmp_path, ForeignFormat.KUEUE, found)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == first


def form_of(kind: OwnedKind, name: str) -> dict[str, Any]:
    """The form of an object of the file."""
    return dict(objects_of(FILES)[kind, name])


def pool_of(name: str) -> dict[str, Any]:
    """The form of a pool of the file."""
    return form_of(OwnedKind.POOL, name)


def queues_of(found: ForeignExport) -> dict[str, Any]:
    """The specs of all queues and cohorts."""
    return {
        f"{document['kind']}/{document['metadata']['name'].replace('--', '-')}": document.get("spec")
        for documents in found.documents.values()
        for document in documents
        if document["kind"] != "ResourceFlavor"
    }
