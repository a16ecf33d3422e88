"""One mounted file in OSMO's form: what is read from it, and how its changes are followed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from osmo_admin.cli.server_commands.configuration import apply_mounted_file
from pools.domain.configuration.ownership import OwnedKind
from pools.models import Backend, Pool
from pools.services.changes.ownership import find_owner
from scheduling.configuration.follower import GATHER_SECONDS, START_SECONDS, FileFollower, FileMissing, FileRefused
from scheduling.configuration.osmo_file import read_osmo_file
from tests.support.world import make_subpool

OSMO_FILE = b"""\
service: {service_base_url: https://osmo.example.com}
workflow: {max_retry_per_task: 2, max_num_tasks: 20}
backends:
  prod:
    description: the cluster
    k8s_namespace: osmo
    scheduler_settings: {scheduler_type: kai, scheduler_name: kai-scheduler}
    router_address: wss://osmo.example.com
pools:
  team:
    backend: prod
    resources: {gpu: {guarantee: 8, maximum: -1, weight: 1}}
roles:
  osmo-user: {policies: []}
"""


@pytest.mark.django_db
def test_the_file_of_osmo_is_applied_and_owns_its_objects(capsys: pytest.CaptureFixture[str]) -> None:
    apply_mounted_file("config.yaml", OSMO_FILE)
    backend = Backend.objects.get(name="prod")
    assert (backend.kind, backend.namespace, backend.description) == ("kubernetes", "osmo", "the cluster")
    assert Pool.objects.get(name="team").guarantee == 8
    owner = find_owner(OwnedKind.POOL, "team")
    assert owner is not None
    assert (owner.source, owner.path) == ("config-file", "config.yaml")
    notes = capsys.readouterr().out
    for left_out in ("service is left out", "max_num_tasks", "router_address", "osmo-user"):
        assert left_out in notes
    make_subpool("team", "a", 4)
    apply_mounted_file("config.yaml", OSMO_FILE.replace(b"guarantee: 8", b"guarantee: 6"))
    with pytest.raises(FileRefused, match=r"config.yaml:12: .*below"):
        apply_mounted_file("config.yaml", OSMO_FILE.replace(b"guarantee: 8", b"guarantee: 3"))
    with pytest.raises(FileRefused, match="subpools"):  # a pool that is no longer in the file would be removed
        apply_mounted_file("config.yaml", b"workflow: {}")
    assert Pool.objects.get(name="team").guarantee == 6


def test_faults_keep_the_lines_of_the_file() -> None:
    found = read_osmo_file("config.yaml", OSMO_FILE.replace(b"backend: prod", b"colour: red"))
    assert sorted((each.line, each.code) for each in found.faults) == [(11, "missing"), (11, "unknown_key")]


class Scene:
    """A folder as a ConfigMap mounts it, a clock that only waits move, and the steps that happen while it runs."""

    def __init__(self, folder: Path, steps: dict[float, Callable[[], None]], end: float) -> None:
        self.folder, self.steps, self.end, self.now = folder, sorted(steps.items()), end, 0.0
        self.applied: list[tuple[float, bytes]] = []
        self.reports: list[str] = []
        self.refusals: list[FileRefused] = []

    @property
    def follower(self) -> FileFollower:
        return FileFollower(self.folder / "config.yaml", self.apply, self.reports.append, self.wait, lambda: self.now)

    def apply(self, content: bytes) -> None:
        if content == b"bad":
            raise FileRefused("it is bad")
        if self.refusals:
            raise self.refusals.pop()
        self.applied.append((self.now, content))

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        while self.steps and self.steps[0][0] <= self.now:
            self.steps.pop(0)[1]()
        return self.now >= self.end

    def mount(self, version: str, content: bytes) -> None:
        """Swap `..data` to a new folder in one step, as the kubelet does."""
        (self.folder / version).mkdir()
        (self.folder / version / "config.yaml").write_bytes(content)
        (self.folder / "..new").symlink_to(version)
        (self.folder / "..new").replace(self.folder / "..data")
        if not (self.folder / "config.yaml").is_symlink():
            (self.folder / "config.yaml").symlink_to("..data/config.yaml")


def test_a_swapped_symlink_is_applied_once_it_is_quiet(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {}, end=30)
    scene.mount("v1", b"one")
    scene.steps = [(5, lambda: scene.mount("v2", b"two")), (6, lambda: scene.mount("v3", b"three"))]
    scene.follower.follow()
    assert [content for _, content in scene.applied] == [b"one", b"three"]
    assert scene.applied[1][0] >= 6 + GATHER_SECONDS


def test_a_bad_change_keeps_the_old_configuration_and_a_good_one_follows(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {}, end=60)
    scene.mount("v1", b"one")
    scene.steps = [(5, lambda: scene.mount("v2", b"bad")), (30, lambda: scene.mount("v3", b"three"))]
    scene.follower.follow()
    assert [content for _, content in scene.applied] == [b"one", b"three"]
    (report,) = scene.reports
    assert "the old configuration stays. it is bad" in report


def test_a_busy_installation_gets_the_change_later(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {}, end=60)
    scene.mount("v1", b"one")

    def change() -> None:
        scene.mount("v2", b"two")
        scene.refusals.append(FileRefused("busy", may_pass=True))

    scene.steps = [(5, change)]
    scene.follower.follow()
    assert [content for _, content in scene.applied] == [b"one", b"two"]


def test_a_late_file_is_awaited_and_a_missing_one_ends_the_process(tmp_path: Path) -> None:
    late = Scene(tmp_path, {}, end=40)
    late.steps = [(START_SECONDS - 5, lambda: late.mount("v1", b"one"))]
    late.follower.follow()
    assert [content for _, content in late.applied] == [b"one"]
    with pytest.raises(FileMissing):
        Scene(tmp_path / "nowhere", {}, end=99).follower.follow()


def test_a_bad_file_at_start_ends_the_process(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {}, end=9)
    scene.mount("v1", b"bad")
    with pytest.raises(FileRefused):
        scene.follower.follow()


def test_flavors_of_a_backend_are_read() -> None:
    text = "backends: {sim: {type: simulated, nodes: [], flavors: [{name: h100, node_labels: {gpu: h100}}]}}\n"
    found = read_osmo_file("config.yaml", text.encode())
    assert (found.faults, found.notes) == ([], [])
    assert found.objects[OwnedKind.BACKEND, "sim"].body["flavors"] == [{"name": "h100", "node_labels": {"gpu": "h100"}}]
