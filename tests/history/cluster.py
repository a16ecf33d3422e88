"""A Kubernetes cluster under test: an API server behind a line that can be cut, and a kubelet that runs its pods."""

from __future__ import annotations

import socket
import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from pools.domain.configuration.flavors import GPU_RESOURCE
from scheduling.domain.cluster.naming import POD_GROUP_OF_POD, TASK_UUID
from scheduling.kube.connection import errors, resource_kinds
from scheduling.kube.connection.port import Cluster
from tests.support.kube_server import PINNED, KubeServer

BACKEND = NAMESPACE = "lab"
GUARANTEE = 10
"""GPUs of the quota of its pool."""

CAPACITY = 16
"""GPUs of the cluster."""

RUN_SECONDS = 1.5
PAUSE_SECONDS = 0.4
KUBELET = "kubelet"
_CHUNK = 65_536


class CutLine:
    """A TCP line to `port` of this machine. While it is cut nothing passes; connections of before stay open and hang,
    as in a network that drops packets, or are closed, as by a firewall."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._passes = threading.Event()
        self._passes.set()
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True, name="line").start()

    def cut(self, *, closes: bool) -> None:
        """Let nothing pass; `closes` also closes what is open."""
        self._passes.clear()
        if closes:
            with self._lock:
                _close_all(self._sockets)

    def restore(self) -> None:
        """Let everything pass."""
        self._passes.set()

    def close(self) -> None:
        """End the line."""
        self._passes.set()
        self._listener.close()
        with self._lock:
            _close_all(self._sockets)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        self._passes.wait()
        try:
            far = socket.create_connection(("127.0.0.1", self._target), timeout=10)
        except OSError:
            near.close()
            return
        far.settimeout(None)
        with self._lock:
            self._sockets |= {near, far}
        threading.Thread(target=self._pump, args=(near, far), daemon=True).start()
        self._pump(far, near)

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(_CHUNK):
                self._passes.wait()
                target.sendall(data)
        with self._lock:
            self._sockets -= {source, target}
        _close_all((source, target))


def _close_all(sockets: Iterable[socket.socket]) -> None:
    for each in sockets:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()


class HistoryCluster:
    """The API server, the line to it, and one thread in place of KAI and the kubelets: it runs whole gangs in the order
    of their creation while GPUs are free, and ends them soon. It does not use the line."""

    def __init__(self, folder: Path) -> None:
        self._server = KubeServer(folder)
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kubelet")
        self._started: dict[str, float] = {}
        self.seen: dict[str, dict[str, Any]] = {}
        """Every pod that ever was, by uid: its name, and the attempt that it is for."""

    def start(self) -> None:
        """Everything answers when this returns."""
        self._server.start()
        self._server.install(*PINNED)
        with closing(self._server.connect()) as cluster:
            cluster.create(resource_kinds.NAMESPACE, {"metadata": {"name": NAMESPACE}}, field_manager="tests")
        self.line = CutLine(int(urlsplit(self._server.address).port or 0))
        self._thread.start()

    def stop(self) -> None:
        """Stop and delete everything."""
        self._enough.set()
        if self._thread.is_alive():
            self._thread.join()
            self.line.close()
        self._server.discard()

    def backend_body(self) -> dict[str, Any]:
        """The body that makes the backend, whose calls go through the line."""
        content = self._server.kubeconfig_body()
        content["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{self.line.port}"
        return {"type": "kubernetes", "namespace": NAMESPACE, "kubeconfig": yaml.safe_dump(content)}

    def reading(self) -> dict[str, Any]:
        """The pods that exist, and all that ever were."""
        with closing(self._server.connect()) as cluster:
            self._note(pods := _pods(cluster))
        return {"pods": [_summary(pod) for pod in pods], "seen": list(self.seen.values())}

    def _run(self) -> None:
        with closing(self._server.connect()) as cluster:
            while not self._enough.wait(PAUSE_SECONDS):
                with suppress(errors.ClusterError):
                    self._work(cluster)

    def _work(self, cluster: Cluster) -> None:
        pods = _pods(cluster)
        self._note(pods)
        free = CAPACITY
        waiting: defaultdict[str, list[Any]] = defaultdict(list)
        for pod in pods:
            phase, uid = pod.get("status", {}).get("phase"), pod["metadata"]["uid"]
            if phase == "Running":
                free -= _gpus(pod)
                if time.monotonic() - self._started.setdefault(uid, time.monotonic()) > RUN_SECONDS:
                    over = {"terminated": {"exitCode": 0, "reason": "Completed"}}
                    self._set_status(cluster, pod, phase="Succeeded", containerStatuses=[_container(pod, over)])
            elif phase == "Pending" and "deletionTimestamp" not in pod["metadata"]:
                waiting[_gang(pod)].append(pod)
        for _, gang in sorted(waiting.items(), key=lambda each: each[1][0]["metadata"]["creationTimestamp"]):
            if (needed := sum(map(_gpus, gang))) <= free:
                free -= needed
                for pod in gang:
                    started = {"running": {"startedAt": _now()}}
                    self._set_status(
                        cluster, pod, phase="Running", podIP="10.0.0.7", containerStatuses=[_container(pod, started)]
                    )

    def _note(self, pods: Iterable[Any]) -> None:
        for pod in pods:
            self.seen.setdefault(pod["metadata"]["uid"], _summary(pod))

    @staticmethod
    def _set_status(cluster: Cluster, pod: Any, **status: Any) -> None:
        with suppress(errors.ObjectNotFound):
            cluster.merge(
                resource_kinds.POD, pod["metadata"]["name"], {"status": status}, field_manager=KUBELET,
                namespace=NAMESPACE, status=True,
            )  # fmt: skip


def _pods(cluster: Cluster) -> list[Any]:
    return list(cluster.list(resource_kinds.POD, namespace=NAMESPACE).items)


def _summary(pod: Any) -> dict[str, Any]:
    metadata = pod["metadata"]
    labels = metadata.get("labels", {})
    return {
        "uid": metadata["uid"], "name": metadata["name"], "task": labels.get(TASK_UUID),
        "phase": pod.get("status", {}).get("phase"), "is_deleted": "deletionTimestamp" in metadata,
    }  # fmt: skip


def _gang(pod: Any) -> str:
    metadata = pod["metadata"]
    return str((metadata.get("annotations", {}) | metadata.get("labels", {})).get(POD_GROUP_OF_POD, metadata["name"]))


def _gpus(pod: Any) -> int:
    limits = [each.get("resources", {}).get("limits", {}) for each in pod["spec"]["containers"]]
    return sum(int(each.get(GPU_RESOURCE, 0)) for each in limits)


def _container(pod: Any, state: dict[str, Any]) -> dict[str, Any]:
    first = pod["spec"]["containers"][0]
    return {
        "name": first["name"], "image": first.get("image", ""), "imageID": "", "ready": "running" in state,
        "restartCount": 0, "state": state,
    }  # fmt: skip


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
