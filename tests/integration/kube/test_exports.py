"""What is exported for another scheduler is what its API server takes, and is read again as the server keeps it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

import pytest
import yaml

from pools.domain.configuration.ownership import OwnedKind
from scheduling.kube.connection import errors
from scheduling.kube.connection.port import Cluster, ResourceKind
from scheduling.kube.connection.resource_kinds import QUEUE
from scheduling.moving_in.result import ImportResult
from tests.support.imports import imported
from tests.support.kube_server import CRD, KubeServer, is_served, wait_for
from tests.unit.moving_in.test_ways_out import BY_FLAVOR, FILES, exported, read_again

WORD: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
NAME: Final = {"type": "string", "maxLength": 253, "pattern": rf"^{WORD}(\.{WORD})*$"}
QUANTITY: Final = {
    "x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": r"^(\+|-)?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE])?$",
}  # fmt: skip
NO_BORROWING: Final = (
    "has(self.cohort) || !has(self.resourceGroups) || self.resourceGroups.all(g, g.flavors.all(f, "
    "f.resources.all(r, !has(r.borrowingLimit))))"
)


def a_map(required: tuple[str, ...] = (), **keys: Any) -> dict[str, Any]:
    return {"type": "object", "properties": keys, **({"required": list(required)} if required else {})}


def a_list(of: dict[str, Any], most: int = 16) -> dict[str, Any]:
    return {"type": "array", "items": of, "minItems": 1, "maxItems": most}


def one_of(*words: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(words)}


_ROW = a_map(
    ("name", "nominalQuota"),
    name={"type": "string", "maxLength": 63},
    nominalQuota=QUANTITY,
    borrowingLimit=QUANTITY,
    lendingLimit=QUANTITY,
)
_FLAVOR = a_map(("name", "resources"), name=NAME, resources=a_list(_ROW))
_GROUPS = a_list(
    a_map(("coveredResources", "flavors"), coveredResources=a_list({"type": "string"}), flavors=a_list(_FLAVOR))
)
_SHARING = a_map(weight=QUANTITY)
_LABELS = {"type": "object", "additionalProperties": {"type": "string"}}
KUEUE: Final = {
    "ResourceFlavor": a_map(nodeLabels={**_LABELS, "maxProperties": 8}),
    "Cohort": a_map(parentName=NAME, resourceGroups=_GROUPS, fairSharing=_SHARING),
    "ClusterQueue": a_map(
        cohort=NAME, resourceGroups=_GROUPS, fairSharing=_SHARING,
        namespaceSelector=a_map(matchLabels=_LABELS),
        queueingStrategy=one_of("StrictFIFO", "BestEffortFIFO"), stopPolicy=one_of("None", "Hold", "HoldAndDrain"),
        flavorFungibility=a_map(
            whenCanBorrow=one_of("Borrow", "TryNextFlavor"), whenCanPreempt=one_of("Preempt", "TryNextFlavor")
        ),
        preemption=a_map(
            reclaimWithinCohort=one_of("Never", "LowerPriority", "Any"),
            withinClusterQueue=one_of("Never", "LowerPriority", "LowerOrNewerEqualPriority"),
        ),
    ) | {"x-kubernetes-validations": [{"rule": NO_BORROWING, "message": "no cohort, so nothing to borrow"}]},
}  # fmt: skip
"""The specs of Kueue's API (v1beta1) as far as quotas go: the names of fields, their forms and their bounds."""


def kueue_kind(kind: str) -> ResourceKind:
    return ResourceKind("kueue.x-k8s.io", "v1beta1", f"{kind.lower()}s", kind, namespaced=False)


@pytest.fixture(scope="module")
def cluster(kube_server: KubeServer) -> Iterator[Cluster]:
    """The server with KAI's CRDs, and with those of Kueue's quotas."""
    kinds = [kueue_kind(kind) for kind in KUEUE]
    with closing(kube_server.connect()) as cluster:
        for kind in kinds:
            names = {"kind": kind.name, "plural": kind.plural, "singular": kind.name.lower()}
            schema = {"type": "object", "properties": {"spec": KUEUE[kind.name]}}
            version = {"name": kind.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            approved = {"api-approved.kubernetes.io": "unapproved"}
            body = {
                "metadata": {"name": f"{kind.plural}.{kind.group}", "annotations": approved},
                "spec": {"group": kind.group, "scope": "Cluster", "names": names, "versions": [version]},
            }  # fmt: skip
            cluster.apply(CRD, body, field_manager="tests", force=True)
            wait_for(lambda kind=kind: is_served(cluster, kind), description=f"{kind.name} is served")
        yield cluster
        for kind in kinds:
            kube_server.uninstall(kind)


def as_kept(cluster: Cluster, documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The objects as the server would keep them; a field that it does not know is refused."""
    kinds = {kind: kueue_kind(kind) for kind in KUEUE} | {"Queue": QUEUE}
    return [cluster.apply(kinds[each["kind"]], each, field_manager="t", dry_run=True) for each in documents]


@pytest.mark.parametrize("text", [FILES, BY_FLAVOR])
@pytest.mark.parametrize("form", ["kai", "kueue"])
def test_the_server_takes_each_object_and_gives_the_same_pools_back(cluster: Cluster, form: str, text: str) -> None:
    found = exported(form, text)
    kept = as_kept(cluster, [each for documents in found.documents.values() for each in documents])
    result = imported(form, yaml.safe_dump_all(kept, sort_keys=False), backend="dgx", writes_backend=False)
    assert quotas(result) == quotas(read_again(form, found))
    assert any(kind is OwnedKind.POOL for kind, _name in result.objects)


def test_unknown_fields_are_refused(cluster: Cluster) -> None:
    """So the test above would fail for a field that the scheduler does not have."""
    found = exported("kai", FILES).documents["queues.yaml"][0]
    found["spec"]["resources"]["gpu"]["lendingLimit"] = 1
    with pytest.raises(errors.ClusterError, match="lendingLimit"):
        as_kept(cluster, [found])


def quotas(result: ImportResult) -> dict[Any, Any]:
    return dict(result.objects)
