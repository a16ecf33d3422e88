"""Import → apply → export → import is a fixed point, for each kind of source."""

from __future__ import annotations

import json

import pytest

from pools.domain.changes.backends import PutBackend
from pools.domain.configuration.ownership import OwnedKind
from pools.domain.people.roles import SYSTEM
from scheduling.configuration.files import ConfigurationFiles, read_file
from scheduling.configuration.texts import file_texts
from scheduling.moving_in.options import GuaranteeFrom
from scheduling.selectors.cluster.configuration import read_export
from scheduling.services.configuration import ApplyOptions, apply_configuration, compare_configuration
from tests.support.imports import imported
from tests.support.observed_cluster import observed_backend
from tests.support.world import apply_change
from tests.unit.moving_in import test_queues
from tests.unit.moving_in.test_kueue import EVERY_KEY, TWO_FLAVORS, flavors
from tests.unit.moving_in.test_osmo import ACCOUNTS, ROLES, VALUES
from tests.unit.moving_in.test_queues import queue as kai_queue
from tests.unit.moving_in.test_resource_quotas import quota
from tests.unit.moving_in.test_slurm import DUMP, NODES
from tests.unit.moving_in.test_slurm_kinds import DUMP as KINDS
from tests.unit.moving_in.test_slurm_kinds import NODES as TYPED_NODES
from tests.unit.moving_in.test_walks import WALKS

pytestmark = pytest.mark.django_db

GIT = ApplyOptions("git")
RUNAI = [
    json.dumps({"projects": [test_queues.TestRunai.PROJECT], "departments": [test_queues.TestRunai.DEPARTMENT]}),
    json.dumps({"nodePools": test_queues.TestRunai.NODE_POOLS}),
]
KAI = "---\n".join(
    [
        kai_queue("team", "quota: 16, limit: 32, overQuotaWeight: 0.5"),
        kai_queue("a", "quota: 8, limit: -1, overQuotaWeight: 1", "team"),
        kai_queue("corp", "quota: 40, limit: -1, overQuotaWeight: 1"),
        kai_queue("x", "quota: 4.5, limit: 8, overQuotaWeight: 1", "corp"),
        kai_queue("free", "quota: -1, limit: -1", "corp"),
        kai_queue("unset", "quota: 3"),
    ]
)


@pytest.mark.parametrize(
    ("kind", "texts", "options"),
    [
        ("kueue", [EVERY_KEY], {}),
        ("kai", [KAI], {}),
        ("resourcequota", [quota("a", "team", "requests.nvidia.com/gpu: 8")], {}),
        ("slurm", [DUMP, NODES], {}),
        ("slurm", [DUMP, NODES], {"guarantee": GuaranteeFrom.LIMIT}),
        ("slurm", [DUMP, NODES], {"depth": 1, "guarantee": GuaranteeFrom.LIMIT}),
        ("slurm", [KINDS, TYPED_NODES], {"guarantee": GuaranteeFrom.LIMIT}),
        ("slurm", [KINDS, TYPED_NODES], {"depth": 1, "guarantee": GuaranteeFrom.LIMIT}),
        ("kueue", [flavors(h100="gpu: h100", a100="gpu: a100") + TWO_FLAVORS], {}),
        ("osmo", [VALUES], {}),
        ("osmo", [VALUES, ROLES.replace("backend: b", "backend: Prod"), ACCOUNTS], {}),
        ("runai", ["runai project create a --resources gpu-deserved=2,gpu-limit=4\n"], {}),
        ("runai", RUNAI, {}),
        ("runai", RUNAI[:1], {}),
        ("kueue", [WALKS["Kueue"][0]["kueue.yaml"]], {}),
        ("kai", [WALKS["KAI"][0]["kai.yaml"]], {}),
        ("slurm", [WALKS["Slurm"][0][name] for name in ("tux.cfg", "qos.txt", "nodes.txt")], {}),
    ],
)
def test_an_import_comes_back_from_the_installation(kind: str, texts: list[str], options: dict) -> None:
    wanted = file_texts(imported(kind, *texts, **options).objects)
    apply_configuration(actor=SYSTEM, files=files_of(wanted), options=GIT)
    exported = {path: text for path, text in file_texts(read_export().objects).items() if path in wanted}
    assert exported == wanted
    assert file_texts(imported("osmo", *exported.values()).objects) == wanted
    again = imported(kind, *texts, **options)
    assert not compare_configuration(files_of(file_texts(again.objects)), GIT).changes
    assert any(name for object_kind, name in again.objects if object_kind is OwnedKind.POOL)


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("kueue", [flavors(h100="gpu: h100", a100="gpu: a100") + TWO_FLAVORS]),
        ("kai", [KAI]),
        ("slurm", [DUMP, NODES]),
        ("resourcequota", [quota("a", "team", "requests.nvidia.com/gpu: 8")]),
        ("runai", RUNAI),
        ("runai", RUNAI[:1]),
        ("osmo", [VALUES.replace("h100: {desc", "default: {desc")]),
    ],
)
def test_pools_of_an_observed_cluster_come_back_with_it(kind: str, texts: list[str]) -> None:
    """The firm's own scheduler goes on; the export has the cluster with its mode and its flavors."""
    observed_backend("prod")
    named = [{"name": name, "node_labels": {"gpu": name}} for name in ("h100", "a100")]
    apply_change(PutBackend(name="prod", body={"flavors": named}))
    wanted = file_texts(imported(kind, *texts, backend="prod", writes_backend=False).objects)
    apply_configuration(actor=SYSTEM, files=files_of(wanted), options=GIT)
    exported = file_texts(read_export().objects)
    assert wanted.items() <= exported.items()
    assert "mode: observe" in exported["backends/prod.yaml"]
    assert file_texts(imported("osmo", *exported.values()).objects) == exported
    changes = compare_configuration(files_of(exported), GIT).changes
    assert all(each.before == each.after for each in changes), "Git would own what it did not make, and change nothing"


def files_of(texts: dict[str, str]) -> ConfigurationFiles:
    """The files as `apply` reads them."""
    found = ConfigurationFiles()
    for path, text in texts.items():
        read_file(path, text.encode(), found)
    assert not found.faults
    return found
