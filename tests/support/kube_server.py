"""A real Kubernetes API server for tests: started from `OSMO_ENVTEST`, with KAI's CRDs from the neighbouring folder.

A server belongs to one pytest worker and is shared by its tests, each in a namespace of its own; names of cluster-wide
objects begin with that namespace. Tests that kill a server use one of their own.
"""

from __future__ import annotations

import itertools
import lzma
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml

from scheduling.kube.connection import errors, resource_kinds
from scheduling.kube.connection.call_limits import CallLimiter
from scheduling.kube.connection.client import KubernetesCluster, Timeouts
from scheduling.kube.connection.cluster_access import KubeconfigAccess
from scheduling.kube.connection.port import Cluster, ResourceKind
from tests.support import services
from tests.support.optional_tools import ENVTEST

CRDS = ENVTEST.parent.parent / "crds"
PINNED = ("scheduling.run.ai_queues.yaml", "scheduling.run.ai_podgroups.yaml", "kai.scheduler_topologies.yaml")
NEWER = (
    "newer/scheduling.run.ai_queues.yaml",
    "newer/scheduling.run.ai_podgroups.yaml",
    "kai.scheduler_topologies.yaml",
)
TENSOR_FUSION = "tensor-fusion.ai_gpuresourcequotas.yaml"
CRD = ResourceKind(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
CONFIG_MAP = ResourceKind("", "v1", "configmaps", "ConfigMap")
"""A kind that only tests of the port use."""

FAKE_THEN_REAL = ["fake", pytest.param("real", marks=[pytest.mark.k8s, pytest.mark.nightly])]
"""Parameters of a fixture: the fake cluster each day, and a real server too at night. Each day
tests/integration/kube/test_port_contract.py compares the two."""

PROGRAM = "kube-apiserver-lite"
START_SECONDS = 120
ORDERLY_SECONDS = 1.0
_numbers = itertools.count(1)
Found = TypeVar("Found")


def with_a_real_one(fixture: str) -> pytest.MarkDecorator:
    """A test that has a real server each day, as one of its kind: behaviour that a server has and a fake may lack."""
    both = ["fake", pytest.param("real", marks=pytest.mark.k8s)]
    return pytest.mark.parametrize(fixture, both, indirect=True)


def wait_for(condition: Callable[[], Found], *, seconds: float = 60, description: str = "") -> Found:
    """The first true result of `condition`; AssertionError after the timeout."""
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds:.0f} s: {description or condition!r}")
        time.sleep(0.05)


@dataclass
class KubeServer:
    """One API server with its etcd, on `folder`. Restarted, it keeps its address, its data and its tokens."""

    folder: Path

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of the admin."""
        return self.folder / "kubeconfig"

    def start(self) -> None:
        """Start both servers; they answer when this returns."""
        port = self.address.rpartition(":")[2] if self.kubeconfig.exists() else "0"
        _give_unpacked_program(self.folder)
        done = subprocess.run(
            [ENVTEST, self.folder, port], capture_output=True, text=True, timeout=START_SECONDS, check=False
        )
        if done.returncode:
            raise RuntimeError(f"the Kubernetes API server did not start: {done.stderr}")

    def stop(self, *, delete: bool = False) -> None:
        """Stop both servers in order. The API server waits for the end of every watch, and `stop.sh` kills it after ten
        seconds; here it is killed after one."""
        self._end_soon("apiserver")
        options = ["--delete"] if delete else []
        stop = ENVTEST.with_name("stop.sh")
        subprocess.run([stop, self.folder, *options], capture_output=True, timeout=START_SECONDS, check=False)

    def kill(self) -> None:
        """The API server dies at once; etcd stays."""
        self._kill("apiserver")

    def discard(self) -> None:
        """Both servers die at once, and their folder goes: in order, the API server waits ten seconds for watches."""
        for name in ("apiserver", "etcd"):
            if (self.folder / f"{name}.pid").exists():
                self._kill(name)
        self.stop(delete=True)

    def _end_soon(self, name: str) -> None:
        file = self.folder / f"{name}.pid"
        if not file.exists():
            return
        pid, end = int(file.read_text()), time.monotonic() + ORDERLY_SECONDS
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
            while time.monotonic() < end:
                os.kill(pid, 0)
                time.sleep(0.05)
            os.kill(pid, signal.SIGKILL)

    def _kill(self, name: str) -> None:
        pid = int((self.folder / f"{name}.pid").read_text())
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def restart(self) -> None:
        """Stop and start both, with the same data."""
        self.stop()
        self.start()

    @property
    def address(self) -> str:
        """`https://127.0.0.1:PORT`."""
        return str(self.kubeconfig_body()["clusters"][0]["cluster"]["server"])

    @property
    def certificate(self) -> Path:
        """Its certificate."""
        return self.folder / "certs" / "apiserver.crt"

    def kubeconfig_body(self, user: str = "admin") -> dict[str, Any]:
        """The kubeconfig of `admin`, of `viewer` (reads all) or of `nobody` (403 everywhere)."""
        path = self.kubeconfig if user == "admin" else self.folder / f"kubeconfig-{user}"
        return dict(yaml.safe_load(path.read_text()))

    def kubeconfig_text(self, token: str | None = None) -> str:
        """The admin's kubeconfig as it is sent to a backend; `token` in place of the right credential."""
        content = self.kubeconfig_body()
        if token is not None:
            content["users"][0]["user"] = {"token": token}
        return yaml.safe_dump(content)

    def connect(self, user: str = "admin", *, limits: Timeouts | None = None, address: str = "") -> KubernetesCluster:
        """A connection; `address` is that of a proxy."""
        content = self.kubeconfig_body(user)
        if address:
            content["clusters"][0]["cluster"] = {"server": address}
        return KubernetesCluster(
            KubeconfigAccess(content), timeouts=limits or Timeouts(call=60), limiter=CallLimiter(rate=1_000_000)
        )

    def install(self, *files: str) -> None:
        """Apply these CRDs; the server serves their kinds when this returns."""
        with closing(self.connect()) as cluster:
            for body in (yaml.safe_load((CRDS / file).read_text()) for file in files):
                cluster.apply(CRD, body, field_manager="tests", force=True)
                name, spec = body["metadata"]["name"], body["spec"]
                kind = ResourceKind(
                    spec["group"], spec["versions"][-1]["name"], spec["names"]["plural"], spec["names"]["kind"]
                )
                wait_for(lambda kind=kind: is_served(cluster, kind), description=f"{name} is served")

    def uninstall(self, kind: ResourceKind) -> None:
        """Remove a kind with all its objects; the server no longer serves it when this returns."""
        with closing(self.connect()) as cluster:
            cluster.delete(CRD, f"{kind.plural}.{kind.group}")
            wait_for(lambda: not is_served(cluster, kind), description=f"{kind} is gone")


def _give_unpacked_program(folder: Path) -> None:
    """Put the API server's program where `start.sh` looks for it: it unpacks the archive of 15 MB for each new folder,
    and once is enough for a session."""
    archive, program = ENVTEST.with_name(f"{PROGRAM}.xz"), folder / PROGRAM
    known = program.exists() or ENVTEST.with_name(PROGRAM).exists()
    if known or not archive.exists() or services.FOLDER not in os.environ:
        return
    here = services.current_services(None)
    unpacked = here.folder / PROGRAM
    with here.exclusive_lock(PROGRAM):
        if not unpacked.exists():
            part = unpacked.with_suffix(".part")
            with lzma.open(archive) as packed, part.open("wb") as out:
                shutil.copyfileobj(packed, out)
            part.chmod(0o755)
            part.rename(unpacked)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        program.hardlink_to(unpacked)
    except OSError:  # another file system
        shutil.copy2(unpacked, program)


@dataclass(frozen=True)
class KubeNamespace:
    """A connection as admin, and a namespace of one test."""

    cluster: Cluster
    namespace: str

    def object_name(self, short: str) -> str:
        """A name for a cluster-wide object of this test."""
        return f"{self.namespace}-{short}"


def is_served(cluster: Cluster, kind: ResourceKind) -> bool:
    """Whether lists of this kind are answered."""
    try:
        cluster.list(kind)
    except errors.KindMissing:
        return False
    return True


def create_namespace(cluster: Cluster) -> str:
    """Create a namespace with a fresh name."""
    name = f"t{os.getpid()}-{next(_numbers)}"
    cluster.create(resource_kinds.NAMESPACE, {"metadata": {"name": name}}, field_manager="tests")
    return name


def run_server(folder: Path, *crds: str) -> Iterator[KubeServer]:
    """For fixtures: a server with these CRDs, stopped and deleted at the end."""
    server = KubeServer(folder)
    try:
        server.start()
        server.install(*crds)
        yield server
    finally:
        server.discard()


@dataclass
class RecordingCluster:
    """A connection that records its calls. `before_call` gets verb, kind and name of each call before it is made, and
    may raise."""

    cluster: Cluster
    before_call: Callable[[str, ResourceKind, str], None] = lambda verb, kind, name: None
    calls: list[tuple[str, str, str]] = field(default_factory=list)

    def __getattr__(self, verb: str) -> Any:
        real = getattr(self.cluster, verb)
        if verb not in VERBS:
            return real

        def call(kind: ResourceKind, *arguments: Any, **options: Any) -> Any:
            name = _find_name(arguments)
            self.before_call(verb, kind, name)
            self.calls.append((verb, kind.name, name))
            return real(kind, *arguments, **options)

        return call

    @property
    def writes(self) -> list[str]:
        """The write calls, as `apply osmo-pool-ns-team`."""
        return [f"{verb} {name}" for verb, kind, name in self.calls if verb in WRITES and kind != "Event"]

    def clear_calls(self) -> None:
        """Forget the recorded calls."""
        self.calls.clear()


READS = ("list", "watch", "get")
WRITES = ("apply", "create", "merge", "delete")
VERBS = READS + WRITES


def _find_name(arguments: tuple[Any, ...]) -> str:
    if not arguments:
        return ""
    return arguments[0] if isinstance(arguments[0], str) else str(arguments[0]["metadata"]["name"])
