"""Export → empty installation → apply → export is byte-identical, and every export matches the published schema."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
import yaml
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pools.domain.changes.backends import PutBackend
from pools.domain.changes.cohorts import PutCohort
from pools.domain.changes.gpu_quotas import PutGpuQuota
from pools.domain.changes.pools import PutPool
from pools.domain.changes.subpools import CreateSubpool
from pools.domain.changes.users import CreateUser, DeleteUser, SetActive
from pools.domain.people.roles import SYSTEM
from pools.models import KubernetesSettings, Pool, User
from scheduling.configuration.files import ConfigurationFiles, read_file
from scheduling.configuration.folders import read_folder, write_folder
from scheduling.configuration.schema import SCHEMA
from scheduling.configuration.texts import file_texts
from scheduling.demo.seed import seed_demo
from scheduling.domain.changes.settings import UpdateSettings
from scheduling.selectors.cluster.configuration import read_export
from scheduling.services.configuration import ApplyOptions, apply_configuration, compare_configuration
from scheduling.services.seed import seed_defaults
from tests.support.world import apply_change, make_pool, make_subpool, make_user, submit_workflow

pytestmark = pytest.mark.django_db

GIT = ApplyOptions("git", commit="c0ffee")


def export_of(build: Callable[[], object]) -> dict[str, str]:
    """The export of an installation that is gone afterwards."""
    with transaction.atomic():
        build()
        texts = file_texts(read_export().objects)
        transaction.set_rollback(True)
    assert not Pool.objects.exists()
    return texts


def files_of(texts: dict[str, str]) -> ConfigurationFiles:
    found = ConfigurationFiles()
    for path, text in texts.items():
        read_file(path, text.encode(), found)
    assert not found.faults
    return found


def check_round_trip(build: Callable[[], object]) -> dict[str, str]:
    texts = export_of(build)
    for text in texts.values():
        jsonschema.validate(yaml.safe_load(text), SCHEMA)
    with transaction.atomic():
        apply_configuration(actor=SYSTEM, files=files_of(texts), options=GIT)
        assert file_texts(read_export().objects) == texts
        assert not compare_configuration(files_of(texts), GIT).changes
        transaction.set_rollback(True)
    return texts


@pytest.mark.nightly
def test_the_demo_comes_back_byte_by_byte() -> None:
    def build() -> None:
        seed_defaults()
        seed_demo()

    texts = check_round_trip(build)
    assert len([path for path in texts if path.startswith("pools/")]) == 12
    assert "subpools:\n      detect: 24\n" in texts["pools/vision.yaml"]
    assert {path.partition("/")[0] for path in texts} == {
        "pools", "cohorts", "backends", "roles", "gpu_quotas", "workflow.yaml"
    }  # fmt: skip


WORDS = st.sampled_from(["a", "b1", "team-x", "null", "yes", "no", "e1", "on"])
TEXTS = st.one_of(
    st.sampled_from(["1e5", "0x1F", "007", "nan", ".inf", "~", "yes", " x ", "a: b", "# no", "-", "1_000", "é\u2028x"]),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12),
)
VARIABLES = st.dictionaries(
    st.sampled_from(["A", "B", "0", "true", "1e3"]),
    st.one_of(TEXTS, st.booleans(), st.integers(-9, 9**9), st.floats(-9, 9, width=16)),
    max_size=3,
)
POOLS = st.fixed_dictionaries(
    {"resources": st.fixed_dictionaries({"gpu": st.fixed_dictionaries({"guarantee": st.integers(4, 40)})})},
    optional={
        "description": TEXTS,
        "enable_maintenance": st.booleans(),
        "max_exec_timeout": st.sampled_from(["30s", "15m", "12h", "7d"]),
        "default_exit_actions": st.just({"RESCHEDULE": "0,1-10", "FAIL": "3006"}),
        "common_default_variables": VARIABLES,
        "platforms": st.just({"h100": {"description": "x", "default_variables": {"v": 1.5}}, "a100": {}}),
        "topology_keys": st.just([{"key": "rack", "label": "example.com/rack"}]),
        "cohort": st.sampled_from(["root", "branch"]),
    },
)  # fmt: skip
OTHER_NODE = {"memory": "512Gi", "labels": {"1e5": "no"}}
SUBPOOLS = st.dictionaries(WORDS, st.integers(0, 2), max_size=2)
INSTALLATIONS = st.fixed_dictionaries(
    {
        "pools": st.dictionaries(WORDS, st.tuples(POOLS, SUBPOOLS), max_size=3),
        "nodes": st.lists(st.tuples(st.integers(0, 8), st.sampled_from([None, "h100"])), max_size=3),
        "weight": st.sampled_from([None, 1, 0.5, 2.25, 0.333333333]),
        "lending": st.sampled_from([None, 0, 3]),
        "users": st.lists(st.sampled_from(["ann", "1e5", "no", "bo@x.org"]), unique=True),
        "minutes": st.integers(1, 60),
        "policy": st.sampled_from(
            [
                {},
                {"reserve_after": None, "flavors": [{"name": "h100", "node_labels": {"x.org/gpu": "H100", "a": ""}}]},
                {"ageing": 60, "victims": "least_lost", "degraded": "ordered"},
            ]
        ),
        "quota": st.booleans(),
    }
)  # fmt: skip


@pytest.mark.parametrize("rule", ["youngest", "least_lost"])
def test_the_rule_for_victims_comes_back(rule: str) -> None:
    texts = check_round_trip(lambda: apply_change(PutBackend(name="sim", body={"victims": rule})))
    assert any("victims: least_lost" in text for text in texts.values()) is (rule == "least_lost")


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(facts=INSTALLATIONS)
def test_a_random_installation_comes_back_byte_by_byte(facts: dict) -> None:
    def build() -> None:
        nodes = [
            {
                "name": f"n{at}",
                "gpus": gpus,
                **(OTHER_NODE | {"platform": platform} if platform else {}),
            }
            for at, (gpus, platform) in enumerate(facts["nodes"])
        ]
        apply_change(PutBackend(name="sim", body={"nodes": nodes, "namespace": "ns"} | facts["policy"]))
        apply_change(PutCohort(name="root", body={"quotas": [{"resource": "gpu", "nominal": 3}]}))
        branch = {"parent": "root", "quotas": [{"resource": "gpu", "nominal": 9, "lending_limit": facts["lending"]}]}
        apply_change(PutCohort(name="branch", body=branch | {"weight": facts["weight"]}))
        for name, (pool, subpools) in facts["pools"].items():
            apply_change(PutPool(name=name, body={"backend": "sim", **pool}))
            for short, quota in subpools.items():
                make_subpool(name, short, quota)
            make_user(f"{name}-boss", f"osmo-{name}-admin")
        for user in facts["users"]:
            make_user(user, "osmo-viewer")
        if facts["quota"]:
            spec = {"total": {"limits": {"tflops": "1500m", "vram": "40Gi"}, "maxWorkers": 0}}
            apply_change(PutGpuQuota(namespace="prod", spec=spec))
        apply_change(UpdateSettings(subpool_drain_interval_minutes=facts["minutes"]))

    check_round_trip(build)


def test_a_folder_keeps_other_files_and_loses_those_of_objects_that_are_gone(tmp_path: Path) -> None:
    apply_change(PutBackend(name="sim", body={}))
    apply_change(PutPool(name="new", body={"backend": "sim"}))
    (tmp_path / "pools").mkdir()
    (tmp_path / "pools/gone.yaml").write_text("pools: {gone: {backend: sim}}\n")
    (tmp_path / "README.md").write_text("ours")
    assert write_folder(tmp_path, read_export().objects) == (3, 1)
    assert write_folder(tmp_path, read_export().objects) == (0, 0)
    assert (tmp_path / "README.md").exists()
    assert not read_folder(tmp_path).faults


def test_secrets_and_removed_accounts_are_not_exported() -> None:
    """A disabled account is: it keeps its roles, and comes back with them."""
    user = apply_change(CreateUser(id="ann", roles=["osmo-admin"]), password="Correct-Horse-9")
    make_user("eve", "osmo-viewer")
    apply_change(SetActive(username="eve", active=False))
    make_pool("team", 8)
    submit_workflow(make_user("zoe", "osmo-admin"), "team", 1)
    apply_change(DeleteUser(username="zoe"))
    everything = "".join(file_texts(read_export().objects).values())
    assert User.objects.get(username="zoe").is_removed
    assert {name for name in ("ann", "eve", "zoe") if name in everything} == {"ann", "eve"}
    assert user.password not in everything


def test_flavors_come_back_in_their_order() -> None:
    names = ("l40", "h100", "a100")

    def build() -> None:
        flavors = [{"name": name, "node_labels": {"gpu": name}} for name in sorted(names)]
        apply_change(PutBackend(name="sim", body={"flavors": flavors}))
        quotas = {name: {"guarantee": 4 + at, "maximum": 9} for at, name in enumerate(names)}
        resources = {"flavors": quotas, "gpu": {"weight": 3}}
        apply_change(PutPool(name="team", body={"backend": "sim", "resources": resources, "when_can_borrow": "next"}))
        apply_change(CreateSubpool(parent="team", subpool_name="a", quotas={"h100": 2}))

    texts = check_round_trip(build)
    text = texts["pools/team.yaml"]
    assert [text.index(f"{name}:\n") for name in names] == sorted(text.index(f"{name}:\n") for name in names)
    assert "guarantee: 15" not in text, "the sum follows from the flavors"
    body = yaml.safe_load(text)["pools"]["team"]
    assert body["subpools"] == {"a": {"l40": 0, "h100": 2, "a100": 0}}


@pytest.mark.parametrize(
    ("subpool", "fault"),
    [
        ("4", "flavor_needed"),
        ("{b200: 4}", "unknown_flavor"),
        ("{h100: -1}", "negative_quota"),
        ("{h100: 25%}", "bad_value"),
    ],
)
def test_what_is_wrong_with_the_flavors_of_a_file_is_named(subpool: str, fault: str) -> None:
    files = ConfigurationFiles()
    flavors = "{h100: {guarantee: 4}, a100: {guarantee: 4}}"
    text = f"pools:\n  team:\n    backend: sim\n    resources: {{flavors: {flavors}}}\n    subpools: {{a: {subpool}}}\n"
    read_file("team.yaml", text.encode(), files)
    assert [each.code for each in files.faults] == [fault]


def test_an_observed_cluster_comes_back_with_the_pools_of_its_queues() -> None:
    """A change in the file is one change; queues that a file does not name are none any more."""
    queue_pools = {"dept.science": "science--a", "shared.gpus": "science", "ns/local": "science"}
    body = {
        "type": "kubernetes", "access": "in_cluster", "mode": "observe", "namespace": "seen",
        "queue_pools": queue_pools, "owner_label": "firm.example/user",
    }  # fmt: skip

    def build() -> None:
        seed_defaults()
        apply_change(PutBackend(name="lab", body=body))
        apply_change(PutPool(name="science", body={"backend": "lab", "resources": {"gpu": {"guarantee": 8}}}))
        make_subpool("science", "a", 4)

    texts = check_round_trip(build)
    written = yaml.safe_load(texts["backends/lab.yaml"])["backends"]["lab"]
    assert (written["queue_pools"], written["owner_label"], written["mode"]) == (
        queue_pools, "firm.example/user", "observe",
    )  # fmt: skip
    apply_configuration(actor=SYSTEM, files=files_of(texts), options=GIT)
    changed = texts | {"backends/lab.yaml": texts["backends/lab.yaml"].replace("      ns/local: science\n", "")}
    (change,) = compare_configuration(files_of(changed), GIT).changes
    assert change.name == "lab"
    apply_configuration(actor=SYSTEM, files=files_of(changed), options=GIT)
    kept = {queue: pool for queue, pool in queue_pools.items() if queue != "ns/local"}
    assert KubernetesSettings.objects.get().queue_pools == kept
    wrong = changed["backends/lab.yaml"].replace("science--a", "Science A")
    found = ConfigurationFiles()
    read_file("backends/lab.yaml", wrong.encode(), found)
    assert [each.path for each in found.faults] == ["backends.lab.queue_pools.dept.science"]
