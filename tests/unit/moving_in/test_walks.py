"""A firm's walk from its files to the printed page, for each origin, by the commands of docs/moving-in.md.

The files are small, and look as the tools of that system print them.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any, Final

import pytest

from tests.unit.replay.test_proof import job, rows_of, run
from tests.unit.replay.test_sacct import HEADER
from tests.unit.replay.test_workload_log import GROUP, condition, lines, pod, workload

PAGE: Final = Path(__file__).parents[3] / "docs" / "moving-in.md"

SLURM: Final = {
    "tux.cfg": """\
# To edit this file start with a cluster line for the new cluster
# Parent - 'root'
Cluster - 'tux':Fairshare=1:QOS='normal'
Parent - 'root'
User - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1
Account - 'research':Description='research: all':Organization='r&d':Fairshare=700:GrpTRES=gres/gpu=12:QOS='high,normal'
Account - 'Guests_25':Organization='guests':Fairshare=2147483647:MaxWallDurationPerJob=720
Parent - 'research'
Account - 'vision':Description='vision':Organization='r&d':Fairshare=400:GrpTRES=cpu=256,gres/gpu=8,gres/gpu:a100=8
Parent - 'vision'
User - 'ann':DefaultAccount='vision':Coordinator='research,vision':WCKeys='a,b':Fairshare=1
Parent - 'Guests_25'
User - 'eve':DefaultAccount='guests_25':Fairshare=1
""",
    "qos.txt": """\
Name|Priority|GraceTime|Preempt|PreemptExemptTime|PreemptMode|Flags|UsageThres|UsageFactor|GrpTRES|MaxWall|MaxTRESPU
normal|0|00:00:00|||cluster|||1.000000|||
high|1000|00:00:00|normal||requeue|DenyOnLimit||2.000000||1-00:00:00|gres/gpu=4
""",
    "nodes.txt": """\
NodeName=dgx01 Arch=x86_64 CoresPerSocket=64 CPUAlloc=0 CPUTot=256 ActiveFeatures=ib Gres=gpu:a100:8(S:0-1) \
OS=Linux 5.15.0-119-generic #129-Ubuntu SMP Fri Aug 2 19:25:20 UTC 2024 RealMemory=2000000 Sockets=2 State=IDLE \
CfgTRES=cpu=256,mem=2000000M,billing=256,gres/gpu=8,gres/gpu:a100=8 AllocTRES=
NodeName=dgx02 Arch=x86_64 CoresPerSocket=64 CPUAlloc=0 CPUTot=256 ActiveFeatures=ib Gres=gpu:a100:8(S:0-1) \
OS=Linux 5.15.0-119-generic #129-Ubuntu SMP Fri Aug 2 19:25:20 UTC 2024 RealMemory=2000000 Sockets=2 State=DOWN+DRAIN \
AllocTRES= Reason=GPU 3: see State=broken [root@2026-10-30T11:02:13]
""",
    "month.txt": HEADER
    + job(1, 0, 4, Account="vision", AllocTRES="billing=64,cpu=64,gres/gpu:a100=8,gres/gpu=8", NodeList="dgx01")
    + job(2, 1, 2, Account="guests_25", AllocTRES="gres/gpu=4", State="CANCELLED by 1000", NodeList="dgx02"),
}


def listed(*items: dict[str, Any]) -> str:
    """What `kubectl get -o yaml` prints; JSON is YAML, too."""
    body = {"apiVersion": "v1", "items": list(items), "kind": "List", "metadata": {"resourceVersion": ""}}
    return json.dumps(body, indent=2)


def thing(api: str, kind: str, name: str, spec: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """An object of Kubernetes with what a server adds to it."""
    meta = {
        "name": name, "uid": f"{kind}-{name}", "resourceVersion": "7", "generation": 2,
        "creationTimestamp": "2026-03-01T08:00:00Z",
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}\n"}, **more.pop("metadata", {}),
    }  # fmt: skip
    return {"apiVersion": api, "kind": kind, "metadata": meta, **({"spec": spec} if spec is not None else {}), **more}


def node(name: str, **labels: str) -> dict[str, Any]:
    """A node with 8 GPUs."""
    amounts = {"cpu": "191500m", "memory": "2113190572Ki", "nvidia.com/gpu": "8", "pods": "110", "hugepages-1Gi": "0"}
    status = {"allocatable": amounts, "capacity": amounts, "nodeInfo": {"kubeletVersion": "v1.33.1"}}
    return thing("v1", "Node", name, {"podCIDR": "10.0.1.0/24"}, status=status, metadata={"labels": labels})


def quotas_of(flavor: str, **amounts: str) -> dict[str, Any]:
    """A resource group of Kueue with GPUs of one flavor."""
    row = {"name": "nvidia.com/gpu", **amounts}
    return {"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": flavor, "resources": [row]}]}


KUEUE_API: Final = "kueue.x-k8s.io/v1beta2"
PREEMPTION: Final = {
    "borrowWithinCohort": {"policy": "Never"}, "reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"
}  # fmt: skip
KUEUE: Final = {
    "kueue.yaml": listed(
        thing(KUEUE_API, "ClusterQueue", "bio", {
            "cohortName": "labs", "fairSharing": {"weight": "500m"}, "namespaceSelector": {}, "preemption": PREEMPTION,
            "queueingStrategy": "BestEffortFIFO", "stopPolicy": "None",
            "resourceGroups": [quotas_of("h100", nominalQuota="4", borrowingLimit="8", lendingLimit="2")],
        }, status={"pendingWorkloads": 1}),
        thing(KUEUE_API, "ClusterQueue", "team.chem", {
            "cohortName": "labs", "namespaceSelector": {}, "preemption": PREEMPTION, "stopPolicy": "None",
            "resourceGroups": [quotas_of("h100", nominalQuota="4")],
        }),
        thing(KUEUE_API, "LocalQueue", "main", {"clusterQueue": "bio"}, metadata={"namespace": "a"}),
        thing(KUEUE_API, "ResourceFlavor", "h100", {"nodeLabels": {"gpu": "h100"}, "topologyName": "net"}),
        thing(KUEUE_API, "Topology", "net", {"levels": [{"nodeLabel": "cloud/rack"}]}),
        thing(KUEUE_API, "WorkloadPriorityClass", "high", value=1000, description="urgent"),
        node("n1", gpu="h100"),
    ),
    "month.txt": lines(
        workload("w", condition("Admitted", 30), condition("Finished", 90), gpus="4"),
        workload("v", condition("Admitted", 5), condition("Finished", 50), gpus="4", queue="team.chem"),
    ),
}  # fmt: skip

FREE: Final = {"limit": -1, "overQuotaWeight": 1, "quota": -1}


def kai_queue(name: str, gpu: dict[str, float], parent: str = "", **more: Any) -> dict[str, Any]:
    """A Queue of KAI."""
    above = {"parentQueue": parent} if parent else {}
    return thing(
        "scheduling.run.ai/v2", "Queue", name, {**above, **more, "resources": {"cpu": FREE, "gpu": gpu, "memory": FREE}}
    )


KAI: Final = {
    "kai.yaml": listed(
        kai_queue("default-parent-queue", FREE),
        kai_queue("default-queue", FREE, "default-parent-queue"),
        kai_queue("labs", {"quota": 8, "limit": 8, "overQuotaWeight": 2}, displayName="Labs"),
        kai_queue("bio", {"quota": 4.5, "limit": 8, "overQuotaWeight": 1}, "labs", priority=200),
        kai_queue("chem", {"quota": 2, "limit": -1, "overQuotaWeight": 1}, "labs"),
        kai_queue("old", {"quota": 2}),
        thing("kai.scheduler/v1alpha1", "Topology", "net", {"levels": [{"nodeLabel": "cloud/rack"}]}),
        thing("scheduling.k8s.io/v1", "PriorityClass", "train", value=50, preemptionPolicy="PreemptLowerPriority"),
        node("n1", **{"nvidia.com/gpu.product": "H100"}),
    ),
    "month.txt": lines(GROUP, pod("a", "g"), pod("b", "g", start=7), pod("c", start=9)),
}


def project(name: str, gpu: dict[str, float | None], **more: Any) -> dict[str, Any]:
    """A project or a department of Run:ai, as its API answers."""
    nothing = {"deserved": None, "limit": None, "overQuotaWeight": None}
    row = {
        "nodePool": {"id": "1", "name": "default"}, "gpu": gpu, "cpu": nothing, "memory": {**nothing, "units": "Mib"},
        "rank": "MediumLow",
    }  # fmt: skip
    return {
        "description": "", "schedulingRules": None, "defaultNodePools": [], "nodeTypes": {"training": [], "names": {}},
        "resources": [row], "name": name, "clusterId": "71f69d83", "status": {"phase": "Ready"}, "createdBy": "a",
        "totalResources": {"gpuQuota": 4}, "effective": {"defaultNodePools": ["default"]}, **more,
    }  # fmt: skip


NODE_POOL: Final = {
    "id": "1", "name": "default", "labelKey": "", "labelValue": "", "clusterId": "71f69d83", "isDefault": True,
    "phase": "Ready", "tenantId": 7, "schedulingConfiguration": {"placementStrategy": {"gpu": "binpack"}},
}  # fmt: skip
RUNAI: Final = {
    "projects.json": json.dumps({
        "projects": [
            project("bio", {"deserved": 4, "limit": None, "overQuotaWeight": 2}, id="10", parentId="5", parent=None),
            project("chem", {"deserved": 2.5, "limit": 8, "overQuotaWeight": 1}, id="11", parentId="5", parent=None),
        ],
        "next": None,
    }),
    "departments.json": json.dumps({
        "departments": [project("labs", {"deserved": 8, "limit": 8, "overQuotaWeight": 2}, id="5", projectsCount=2)]
    }),
    "node-pools.json": json.dumps({"nodepools": [NODE_POOL]}),
    "nodes.yaml": listed(node("n1")),
    "month.txt": KAI["month.txt"],
}  # fmt: skip


QUOTAS: Final = {
    "quotas.yaml": listed(
        thing("v1", "ResourceQuota", "gpu", {"hard": {"requests.nvidia.com/gpu": "8", "pods": "200"}},
              metadata={"namespace": "lab"}),
        thing("v1", "ResourceQuota", "less", {"hard": {"requests.nvidia.com/gpu": "4", "nvidia.com/gpu": "2"}},
              metadata={"namespace": "lab"}),
        thing("v1", "Namespace", "lab", {"finalizers": ["kubernetes"]}, status={"phase": "Active"}),
        node("n1"),
    ),
    "month.txt": lines(pod("a"), pod("b", start=9)),
}  # fmt: skip

OSMO: Final = {
    "values.yaml": """\
global: {osmoImageTag: 6.4.0}
services:
  service: {replicas: 3}
  configs:
    enabled: true
    secretRefs: [{secretName: osmo-workflow-data-cred}]
    service: {cli_config: {latest_version: 6.4.0}}
    workflow: {max_num_tasks: 100, max_retry_per_task: 3}
    podTemplates: {default_user: {spec: {}}}
    backendTests: {}
    backends:
      prod: {description: prod, k8s_namespace: osmo, scheduler_settings: {scheduler_name: kai-scheduler}}
    pools:
      Bio:
        backend: prod
        description: Biology
        common_default_variables: {USER_CPU: 1}
        common_pod_template: [default_user]
        resources: {gpu: {guarantee: 8, maximum: -1, weight: 2}}
        default_platform: h100
        platforms: {h100: {description: H100, host_network_allowed: true, default_variables: {USER_GPU: 1}}}
    roles:
      osmo-bio: {policies: [{effect: Allow, actions: ["workflow:Create"], resources: ["pool/Bio"]}]}
""",
    "month.txt": lines(
        {**GROUP, "spec": {"queue": "osmo-pool-osmo-bio", "priorityClassName": "osmo-high"}},
        pod("a", "g"),
        pod("b", "g"),
    ),
}

WALKS: Final[dict[str, tuple[dict[str, str], list[str], set[str]]]] = {
    "Slurm": (SLURM, ["--priority-of", "high=HIGH"], {"vision", "guests-25"}),
    "Kueue": (KUEUE, ["--priority-of", "high=HIGH"], {"bio", "team-chem"}),
    "KAI": (KAI, [], {"bio", "chem"}),
    "Run:ai": (RUNAI, [], {"department-labs--bio", "chem", "bio"}),
    "ResourceQuotas": (QUOTAS, ["--team-from", "namespace"], {"lab"}),
    "OSMO 6": (OSMO, ["--nodes", "2x8"], {"bio"}),
}


def commands(title: str, word: str) -> list[str]:
    """The command of a section of the page that begins with these words, without its remark."""
    section = PAGE.read_text(encoding="utf-8").split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]
    (found,) = re.findall(rf"^    ((?:osmo-admin) {word} .*)$", section, re.MULTILINE)
    return shlex.split(found, comments=True)[1:]


@pytest.mark.parametrize("origin", WALKS)
def test_a_firm_walks_from_its_files_to_the_printed_page(
    origin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, options, teams = WALKS[origin]
    monkeypatch.chdir(tmp_path)
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    code, text = run(*commands(f"From {origin}", "import"))
    assert code == 2, text
    first = {path: path.read_bytes() for path in (tmp_path / "config").rglob("*") if path.is_file()}
    assert run(*commands(f"From {origin}", "import"))[0] == 2
    assert {path: path.read_bytes() for path in (tmp_path / "config").rglob("*") if path.is_file()} == first
    code, text = run(*commands("The proof", "prove"), *options)
    assert code == 0, text
    page = (tmp_path / "proof" / "proof.html").read_text(encoding="utf-8")
    assert "month.txt under the quotas of config" in page
    rows = rows_of(tmp_path / "proof").values()
    assert {row["team"] for row in rows} <= teams
    assert rows
