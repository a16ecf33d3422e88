"""Kueue's objects as pools and cohorts: absent limits, weights as quantities, flavors, both forms of the API."""

from __future__ import annotations

import pytest

from pools.domain.configuration.ownership import OwnedKind
from scheduling.moving_in.result import BadSource, PartOutcome
from tests.support.imports import body, gpu, imported, pool, silent_keys, told


def queue(
    name: str, spec: str, resources: str = "{name: nvidia.com/gpu, nominalQuota: 4}", version: str = "v1beta1"
) -> str:
    """A ClusterQueue with one flavor."""
    return f"""\
apiVersion: kueue.x-k8s.io/{version}
kind: ClusterQueue
metadata: {{name: {name}}}
spec:
  {spec}
  preemption: {{withinClusterQueue: LowerPriority, reclaimWithinCohort: Any}}
  resourceGroups:
  - flavors:
    - name: plain
      resources: [{resources}]
"""


FLAVOR = "apiVersion: kueue.x-k8s.io/v1beta1\nkind: ResourceFlavor\nmetadata: {name: plain}\n"
NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {allocatable: {nvidia.com/gpu: '8'}}\n"


def read(*documents: str):
    """The import of documents with the flavor and a node."""
    return imported("kueue", "---\n".join([FLAVOR, NODE, *documents]))


def test_absent_limits_are_no_limits_and_both_forms_name_the_cohort() -> None:
    result = read(
        queue("a", "cohort: all"),
        queue(
            "b", "cohortName: all", "{name: nvidia.com/gpu, nominalQuota: '4', borrowingLimit: 0, lendingLimit: 1}",
            version="v1beta2",
        ),
    )  # fmt: skip
    assert gpu(result, "a") == (4, -1, 1)
    assert {"borrowing_limit", "lending_limit"}.isdisjoint(pool(result, "a"))
    found = pool(result, "b")
    assert (found["cohort"], found["borrowing_limit"], found["lending_limit"]) == ("all", 0, 1)
    assert result.is_complete, told(result, PartOutcome.TO_DECIDE) + told(result, PartOutcome.NO_COUNTERPART)


def test_a_queue_without_a_cohort_never_gets_more_than_its_quota() -> None:
    result = read(
        queue("a", "{}".replace("{}", "cohort: ''"), "{name: nvidia.com/gpu, nominalQuota: 4, borrowingLimit: 2}")
    )
    assert gpu(result, "a") == (4, 4, 1)
    assert "borrowingLimit: the top of a tree" in told(result, PartOutcome.NO_COUNTERPART)


def test_weights_as_quantities_keep_their_ratio() -> None:
    result = read(
        queue("a", "cohort: all\n  fairSharing: {weight: 500m}"),
        queue("b", "cohort: all\n  fairSharing: {weight: '2'}"),
        queue("c", "cohort: all"),
        queue("d", "cohort: other\n  fairSharing: {weight: 3}"),
    )
    assert [gpu(result, name)[2] for name in "abcd"] == [1, 4, 2, 3]


def flavors(**labels: str) -> str:
    """ResourceFlavors whose nodes have these labels."""
    return "---\n".join(
        f"apiVersion: kueue.x-k8s.io/v1beta1\nkind: ResourceFlavor\nmetadata: {{name: {name}}}\n"
        f"spec: {{nodeLabels: {{{text}}}}}\n"
        for name, text in labels.items()
    )


TWO_FLAVORS = """\
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: a}
spec:
  cohort: all
  fairSharing: {weight: 3}
  flavorFungibility: {whenCanBorrow: TryNextFlavor, whenCanPreempt: MayStopSearch, preference: x}
  resourceGroups:
  - flavors:
    - {name: h100, resources: [{name: nvidia.com/gpu, nominalQuota: 8, lendingLimit: 2, borrowingLimit: 1}]}
    - {name: a100, resources: [{name: nvidia.com/gpu, nominalQuota: 4, borrowingLimit: 3}]}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: alone}
spec: {resourceGroups: [{flavors: [{name: a100, resources: [{name: nvidia.com/gpu, nominalQuota: 2}]}]}]}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: Cohort
metadata: {name: all}
spec: {resourceGroups: [{flavors: [{name: h100, resources: [{name: nvidia.com/gpu, nominalQuota: 5}]}]}]}
---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {gpu: a100, zone: z}}
status: {allocatable: {nvidia.com/gpu: 8}}
"""


class TestFlavors:
    """A ResourceFlavor with labels is a flavor of the cluster, and quotas count by flavor."""

    def test_each_flavor_has_its_quota_and_its_limits(self) -> None:
        result = imported("kueue", flavors(h100="gpu: h100", a100="gpu: a100", cpu="disk: ssd") + TWO_FLAVORS)
        found = pool(result, "a")
        assert found["resources"] == {
            "flavors": {
                "h100": {"guarantee": 8, "borrowing_limit": 1, "lending_limit": 2},
                "a100": {"guarantee": 4, "borrowing_limit": 3},
            },
            "gpu": {"weight": 3},
        }
        assert list(found["resources"]["flavors"]) == ["h100", "a100"]
        assert (found["when_can_borrow"], found["when_can_preempt"]) == ("next", "preempt")
        assert pool(result, "alone")["resources"]["flavors"] == {"a100": {"guarantee": 2, "maximum": 2}}
        assert body(result, OwnedKind.COHORT, "all")["quotas"] == [{"flavor": "h100", "resource": "gpu", "nominal": 5}]
        backend = body(result, OwnedKind.BACKEND, "imported")
        assert backend["flavors"] == [
            {"name": "a100", "node_labels": {"gpu": "a100"}},
            {"name": "h100", "node_labels": {"gpu": "h100"}},
        ]
        assert backend["nodes"][0]["labels"] == {"gpu": "a100"}
        assert "preference" in told(result, PartOutcome.NO_COUNTERPART)
        assert "no queue has GPUs of it" in told(result, PartOutcome.STATE)

    def test_a_flavor_with_more_labels_comes_first(self) -> None:
        text = flavors(h100="gpu: h100", a100="gpu: h100, spot: 'yes'") + TWO_FLAVORS
        assert [each["name"] for each in body(imported("kueue", text), OwnedKind.BACKEND, "imported")["flavors"]] == [
            "a100",
            "h100",
        ]
        same = flavors(h100="gpu: h100", a100="gpu: h100") + TWO_FLAVORS
        assert "those of h100 have a100" in told(imported("kueue", same), PartOutcome.TO_DECIDE)

    def test_flavors_that_no_labels_tell_apart_are_added_and_told(self) -> None:
        result = imported("kueue", TWO_FLAVORS.removeprefix("---\n"))
        assert gpu(result, "a") == (12, -1, 3)
        assert (pool(result, "a")["borrowing_limit"], pool(result, "a")["lending_limit"]) == (4, 6)
        text = told(result, PartOutcome.TO_DECIDE)
        assert "quotas of the flavors h100, a100 are added" in text
        assert "do not have the ResourceFlavor h100" in text

    def test_a_flavor_without_labels_is_the_nodes_without_a_flavor(self) -> None:
        plain = "---\napiVersion: kueue.x-k8s.io/v1beta1\nkind: ResourceFlavor\nmetadata: {name: a100}\n"
        result = imported("kueue", flavors(h100="gpu: h100") + plain + TWO_FLAVORS)
        assert list(pool(result, "a")["resources"]["flavors"]) == ["h100", "default"]
        assert gpu(result, "alone") == (2, 2, 1)

    def test_a_cluster_that_is_there_gets_its_flavors_by_hand(self) -> None:
        text = flavors(h100="gpu: h100", a100="gpu: a100") + TWO_FLAVORS
        result = imported("kueue", text, writes_backend=False)
        assert "give the cluster imported this flavor" in told(result, PartOutcome.TO_DECIDE)

    def test_a_labelled_flavor_that_is_called_default(self) -> None:
        text = flavors(default="gpu: x") + TWO_FLAVORS.replace("name: h100", "name: default")
        assert list(pool(imported("kueue", text), "a")["resources"]["flavors"]) == ["default-nodes", "default"]

    def test_a_name_that_is_too_long_is_refused(self) -> None:
        with pytest.raises(BadSource, match="1 fault"):
            imported("kueue", flavors(**{"x" * 64: "gpu: x"}) + TWO_FLAVORS)


def test_preemption_that_differs_is_named() -> None:
    text = queue("a", "cohort: all").replace(
        "{withinClusterQueue: LowerPriority, reclaimWithinCohort: Any}",
        "{withinClusterQueue: LowerOrNewerEqualPriority, borrowWithinCohort: {policy: LowerPriority}}",
    )
    lost = told(read(text), PartOutcome.NO_COUNTERPART)
    for word in ("withinClusterQueue LowerOrNewerEqual", "reclaimWithinCohort Never", "borrowWithinCohort"):
        assert word in lost


def test_a_tree_of_cohorts_with_its_own_quota() -> None:
    cohorts = """\
apiVersion: kueue.x-k8s.io/v1beta1
kind: Cohort
metadata: {name: all}
spec:
  parentName: top
  fairSharing: {weight: 1.5}
  resourceGroups:
  - flavors:
    - name: plain
      resources:
      - {name: nvidia.com/gpu, nominalQuota: 6, borrowingLimit: 2}
      - {name: cpu, nominalQuota: 9}
"""
    result = read(cohorts, queue("a", "cohort: all"))
    assert body(result, OwnedKind.COHORT, "all") == {
        "parent": "top", "weight": 3, "quotas": [{"resource": "gpu", "nominal": 6, "borrowing_limit": 2}]
    }  # fmt: skip
    assert (OwnedKind.COHORT, "top") not in result.objects
    assert "f1:21: Cohort all spec.resourceGroups[0].flavors[0].resources[1]: pools have a quota of GPUs only" in told(
        result, PartOutcome.NO_COUNTERPART
    )


def test_a_cycle_of_cohorts_is_refused_with_its_path() -> None:
    cohort = "apiVersion: kueue.x-k8s.io/v1beta1\nkind: Cohort\nmetadata: {{name: {}}}\nspec: {{parentName: {}}}\n"
    with pytest.raises(BadSource) as refusal:
        read(cohort.format("a", "b"), cohort.format("b", "a"))
    assert "a → b → a" in refusal.value.details[0].message


def test_names_are_made_valid_and_stay_apart() -> None:
    result = read(*(queue(name, "cohort: c") for name in ("team.a", "team-a", "x" * 50 + "1", "x" * 50 + "2")))
    pools = sorted(name for kind, name in result.objects if kind is OwnedKind.POOL)
    assert {"team-a", "team-a-2"} <= {*pools}
    assert len(pools) == 4
    assert max(map(len, pools)) == 36
    assert "the name team-a is taken" in told(result, PartOutcome.TO_DECIDE)


def test_shared_gpus_are_counted_whole() -> None:
    node = NODE.replace("name: n1", "name: n2, labels: {nvidia.com/gpu.replicas: '4'}")
    result = read(node, queue("a", "cohort: c"))
    assert [each["gpus"] for each in body(result, OwnedKind.BACKEND, "imported")["nodes"]] == [8, 2]
    assert "shares each GPU 4 times" in told(result, PartOutcome.TO_DECIDE)


def test_parts_of_gpus_are_not_whole_ones() -> None:
    node = NODE.replace("name: n1", "name: n2, labels: {nvidia.com/gpu.product: A100-MIG-1g.5gb}")
    result = read(node, queue("a", "cohort: c"))
    assert [each["gpus"] for each in body(result, OwnedKind.BACKEND, "imported")["nodes"]] == [8, 0]
    assert "is a part (MIG)" in told(result, PartOutcome.NO_COUNTERPART)


EVERY_KEY = """\
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {name: h100, uid: u, labels: {a: b}}
spec:
  nodeLabels: {gpu: h100}
  nodeTaints: [{key: a, effect: NoSchedule}]
  tolerations: [{key: a, operator: Exists}]
  topologyName: net
---
apiVersion: kueue.x-k8s.io/v1alpha1
kind: Topology
metadata: {name: net}
spec: {levels: [{nodeLabel: cloud/rack}, {nodeLabel: kubernetes.io/hostname}]}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: Cohort
metadata: {name: all, generation: 2}
spec:
  parentName: top
  fairSharing: {weight: 3}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors:
    - name: h100
      resources:
      - {name: nvidia.com/gpu, nominalQuota: 2, borrowingLimit: 3, lendingLimit: 1}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: a, annotations: {x: y}}
spec:
  cohort: all
  queueingStrategy: StrictFIFO
  namespaceSelector: {matchLabels: {a: b}}
  flavorFungibility: {whenCanBorrow: Borrow, whenCanPreempt: TryNextFlavor}
  preemption: {withinClusterQueue: LowerPriority, reclaimWithinCohort: Any, borrowWithinCohort: {policy: LowerPriority}}
  admissionChecks: [x]
  admissionChecksStrategy: {admissionChecks: [{name: x}]}
  admissionScope: {admissionMode: UsageBasedAdmissionFairSharing}
  stopPolicy: HoldAndDrain
  fairSharing: {weight: 5}
  somethingNew: 1
  resourceGroups:
  - coveredResources: [cpu, nvidia.com/gpu]
    flavors:
    - name: h100
      resources:
      - {name: cpu, nominalQuota: 9}
      - {name: nvidia.com/gpu, nominalQuota: 8, borrowingLimit: 3, lendingLimit: 1}
status: {conditions: [{type: Active}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: b}
spec:
  cohortName: all
  namespaceSelector: {}
  flavorFungibility: {whenCanBorrow: TryNextFlavor, whenCanPreempt: TryNextFlavor, preference: PreemptionOverBorrowing}
  preemption: {reclaimWithinCohort: Any, borrowWithinCohort: {policy: LowerPriority, maxPriorityThreshold: 5}}
  admissionChecksStrategy: {admissionChecks: [{name: x, onFlavors: [h100]}]}
  concurrentAdmissionPolicy: {migration: {mode: TryPreferredFlavors, constraints: {lastAcceptableFlavorName: h100}}}
  stopPolicy: None
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors: [{name: h100, resources: [{name: nvidia.com/gpu, nominalQuota: 1}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: q, namespace: ns}
spec:
  clusterQueue: a
  stopPolicy: Hold
  fairSharing: {weight: 1}
  wallTimePolicy: {wallTimeAllocatedHours: 5, actionWhenWallTimeExhausted: Hold}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: WorkloadPriorityClass
metadata: {name: hi}
value: 100
description: urgent
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: AdmissionCheck
metadata: {name: x}
spec: {controllerName: c}
---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {gpu: h100}}
spec: {taints: [{key: a, effect: NoSchedule}]}
status: {allocatable: {nvidia.com/gpu: 8, cpu: 96, memory: 64Gi, ephemeral-storage: 1Ti, nvidia.com/mig-1g.10gb: 1}}
"""


def test_every_key_does_something_or_stands_in_the_report() -> None:
    named_with_the_part_around = (
        ".metadata.labels", ".metadata.annotations", ".spec.nodeTaints[", ".spec.tolerations[",
        ".spec.flavorFungibility.", ".spec.namespaceSelector.", ".spec.admissionChecksStrategy.",
        ".spec.admissionScope.", ".status.", ".spec.taints[", ".spec.controllerName", ".spec.fairSharing.weight",
        ".resources[0].nominalQuota", ".borrowWithinCohort.maxPriorityThreshold", ".wallTimePolicy.",
        ".concurrentAdmissionPolicy.",
    )  # fmt: skip
    silent = silent_keys("kueue", EVERY_KEY.replace("kind: AdmissionCheck", "kind: Other"))
    rest = [key for key in silent if not any(each in key for each in named_with_the_part_around)]
    assert rest == [
        ".spec.stopPolicy",
        ".apiVersion",
        ".spec",
    ]  # `None` is the default; a kind that is named as a whole
    lost = told(imported("kueue", EVERY_KEY), PartOutcome.NO_COUNTERPART)
    assert "spec.concurrentAdmissionPolicy: work takes one flavor and stays there" in lost
    assert "LocalQueue ns/q spec.stopPolicy" in lost
