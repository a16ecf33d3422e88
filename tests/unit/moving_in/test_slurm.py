"""Slurm's accounts, QOS and nodes: quotes, types of GPUs, time forms, host lists, shares of the parent."""

from __future__ import annotations

import pytest

from pools.domain.configuration.ownership import OwnedKind
from scheduling.moving_in.options import GuaranteeFrom
from scheduling.moving_in.result import BadSource, PartOutcome, SourcePlace
from scheduling.moving_in.slurm.lines import expand_hosts, gpu_limit, read_gres, read_time, read_tres
from tests.support.imports import body, gpu, imported, pool, told

HERE = SourcePlace("f", 1)
DUMP = """\
# a comment
Cluster - 'tux':Fairshare=1:QOS='normal'
Parent - 'root'
User - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1
Account - 'Sci':Description='a: b':Organization='lab':Fairshare=399:GrpTRES=gres/gpu=12:MaxWall=2-12
Account - 'ops':Description=ops:GrpTRES=cpu=20,gres/gpu:a100=4:GrpTRESMins=cpu=1
Parent - 'sci'
Account - 'bio':Fairshare=3:GrpTRES=gres/gpu=8,gres/gpu:a100=8
Account - 'chem':MaxNodesPerJob=3:Fairshare=parent
Parent - 'bio'
User - 'ann':DefaultAccount='bio':Coordinator='sci':MaxCPUMins=4
Parent - 'ops'
User - 'ann':Fairshare=parent:Partition='gpu'
User - 'bob@x':GrpTRES=gres/gpu=2
QOS - 'normal':Priority=0
QOS - 'high':Priority=1000:Preempt='scav':Flags='DenyOnLimit,NoDecay'
QOS - 'scav':Priority=0
"""
NODES = """\
ClusterName=tux
PriorityType=priority/multifactor   # how
NodeName=DEFAULT CPUs=64
NodeName=dgx[01-02] \\
   Gres=gpu:a100:8(S:0-1) RealMemory=1000000
NodeName=c[1-4]
PartitionName=gpu Nodes=dgx[01-02] Default=YES
"""


def test_the_tree_of_accounts() -> None:
    result = imported("slurm", DUMP, NODES)
    assert body(result, OwnedKind.COHORT, "tux") == {"quotas": [{"resource": "gpu", "nominal": 16}]}
    assert body(result, OwnedKind.COHORT, "sci") == {
        "parent": "tux", "weight": 399, "quotas": [{"resource": "gpu", "nominal": 0, "borrowing_limit": 12}]
    }  # fmt: skip
    assert [gpu(result, name) for name in ("bio", "chem", "ops")] == [(0, 8, 3), (0, -1, 1), (0, 4, 1)]
    assert (pool(result, "bio")["cohort"], pool(result, "bio")["max_exec_timeout"]) == ("sci", "60h")
    assert pool(result, "ops")["platforms"] == {"a100": {}}
    nodes = body(result, OwnedKind.BACKEND, "imported")["nodes"]
    assert [(node["name"], node["gpus"], node["cpu"]) for node in nodes] == [("dgx01", 8, 64), ("dgx02", 8, 64)]


def test_people_get_roles_of_their_pools() -> None:
    result = imported("slurm", DUMP, NODES)
    roles = {
        name: body(result, OwnedKind.ROLE, name)["users"] for kind, name in result.objects if kind is OwnedKind.ROLE
    }
    assert roles == {
        "osmo-bio-user": ["ann"], "osmo-ops-user": ["ann", "bob@x"],
        "osmo-bio-admin": ["ann"], "osmo-chem-admin": ["ann"],
    }  # fmt: skip
    assert "AdminLevel=Administrator: Administrator: give the role by hand" in told(result, PartOutcome.TO_DECIDE)


def test_what_has_no_counterpart_is_named() -> None:
    lost = told(imported("slurm", DUMP, NODES), PartOutcome.NO_COUNTERPART)
    for words in (
        "GrpTRESMins=cpu=1: there is no budget", "cpu: pools have a quota of GPUs only", "MaxNodesPerJob=3: this limit",
        "User ann MaxCPUMins=4: there is no budget", "Partition=gpu: a partition", "User bob@x GrpTRES", "high Flags=",
        "PriorityType: how Slurm orders", "f2:7: PartitionName=gpu", "Description=a: b: a cohort has no description",
    ):  # fmt: skip
        assert words in lost
    decide = told(imported("slurm", DUMP, NODES), PartOutcome.TO_DECIDE)
    assert "Account chem Fairshare=parent" in decide
    assert "QOS high: priority 1000: submit its work as HIGH" in decide
    assert "QOS scav: priority 0: submit its work as LOW" in decide


def test_a_ceiling_as_the_quota_too() -> None:
    result = imported("slurm", DUMP, NODES, guarantee=GuaranteeFrom.LIMIT)
    assert gpu(result, "bio") == (8, 8, 3)
    assert body(result, OwnedKind.COHORT, "tux")["quotas"][0]["nominal"] == 4
    assert body(result, OwnedKind.COHORT, "sci")["quotas"][0]["borrowing_limit"] == 4


def test_deeper_accounts_are_subpools() -> None:
    result = imported("slurm", DUMP, NODES, depth=1, guarantee=GuaranteeFrom.LIMIT)
    assert pool(result, "sci")["subpools"] == {"bio": 8, "chem": 0}
    assert gpu(result, "sci") == (12, 12, 399)
    assert body(result, OwnedKind.ROLE, "osmo-sci-user")["users"] == ["ann"]
    assert "a subpool has a quota and no maximum: the ceiling 8" in told(result, PartOutcome.NO_COUNTERPART)


def test_output_of_scontrol_replaces_the_line_of_the_node() -> None:
    line = (
        "NodeName=dgx01 Arch=x86_64 CPUTot=128 Gres=gpu:a100:4(S:0-1) OS=Linux 5.15.0 #1 SMP RealMemory=2000 "
        "State=DOWN Reason=Not responding [slurm@2026-01-01T00:00:00]\n"
    )
    nodes = body(imported("slurm", DUMP, NODES, line), OwnedKind.BACKEND, "imported")["nodes"]
    assert (nodes[0]["name"], nodes[0]["gpus"]) == ("dgx01", 4)
    assert "cpu" not in nodes[0]  # 128 is the default
    assert nodes[0]["memory"] == "2000Mi", "what follows the # in the name of the system is no comment"


SHOWN = """\
NodeName=dgx01 Arch=x86_64 CoresPerSocket=64
   CPUAlloc=0 CPUEfctv=256 CPUTot=256 CPULoad=0.01
   AvailableFeatures=a100,ib
   Gres=gpu:a100:8(S:0-1)
   OS=Linux 5.15.0-119-generic #129-Ubuntu SMP Fri Aug 2 19:25:20 UTC 2024
   RealMemory=2000000 AllocMem=0 FreeMem=1900000 Sockets=2 Boards=1
   State=DOWN*+DRAIN ThreadsPerCore=2 TmpDisk=0 Weight=1
   Partitions=gpu,all
   CfgTRES=cpu=256,mem=2000000M,billing=256,gres/gpu=8
   Comment=rack 4 Gres=broken
   Reason=GPU 3: ticket=INC-4711 State=7 [root@2026-10-30T11:02:13]

NodeName=v01 Arch=x86_64 CoresPerSocket=20
   CPUAlloc=0 CPUTot=80
   Gres=gpu:v100:4
   State=IDLE ThreadsPerCore=2

"""


@pytest.mark.parametrize("text", [SHOWN, SHOWN.replace("\n   ", " ")])
def test_nodes_as_scontrol_shows_them_with_or_without_one_line(text: str) -> None:
    result = imported("slurm", DUMP, text)
    nodes = body(result, OwnedKind.BACKEND, "imported")["nodes"]
    assert [(node["name"], node["gpus"], node["cpu"]) for node in nodes] == [("dgx01", 8, 256), ("v01", 4, 80)]
    assert nodes[0]["memory"] == "2000000Mi"
    decide = told(result, PartOutcome.TO_DECIDE)
    assert "State=DOWN*+DRAIN: the simulated node takes work all the same." in decide
    assert "State=IDLE" not in decide


def test_comments_of_slurm_conf_are_not_read() -> None:
    result = imported("slurm", DUMP, "NodeName=n1 Gres=gpu:4 # Gres=gpu:8\nNodeName=n2 Gres=gpu:2 Reason=a\\#b\n")
    assert [node["gpus"] for node in body(result, OwnedKind.BACKEND, "imported")["nodes"]] == [4, 2]


QOS_TABLE = """\
Name|Priority|GraceTime|Preempt|PreemptExemptTime|PreemptMode|Flags|UsageThres|UsageFactor|GrpTRES|MaxWall|MaxTRESPU|
normal|0|00:00:00||| cluster|||1.000000||||
high|1000|00:01:00|scav||requeue|DenyOnLimit,NoDecay||2.000000|gres/gpu=8|1-00:00:00|gres/gpu=4|
scav|0|00:00:00|||requeue|||0.000000||||
"""


@pytest.mark.parametrize("table", [QOS_TABLE, QOS_TABLE.replace("|\n", "\n")])
def test_the_table_of_qos(table: str) -> None:
    """Dumps of older Slurm have no line of a QOS."""
    dump = "".join(line for line in DUMP.splitlines(keepends=True) if not line.startswith("QOS"))
    assert "the files do not have its QOS. Add the output of: sacctmgr -P show qos." in told(
        imported("slurm", dump), PartOutcome.TO_DECIDE
    )
    result = imported("slurm", dump, table)
    decide = told(result, PartOutcome.TO_DECIDE)
    for words in (
        "f2:2: QOS normal: priority 0: submit its work as NORMAL",
        "f2:3: QOS high: priority 1000: submit its work as HIGH", "f2:4: QOS scav: priority 0: submit its work as LOW",
    ):  # fmt: skip
        assert words in decide
    assert "do not have its QOS" not in decide
    lost = told(result, PartOutcome.NO_COUNTERPART)
    for words in ("high GraceTime=00:01:00", "high Flags=DenyOnLimit,NoDecay", "high GrpTRES=", "high MaxWall=1-00"):
        assert words in lost
    assert "scav" not in lost


def test_of_a_qos_given_twice_the_later_line_counts() -> None:
    result = imported("slurm", DUMP, "Name|Priority\nHigh|7\n")
    assert "QOS High: priority 7" in told(result, PartOutcome.TO_DECIDE)
    assert "priority 1000" not in told(result, PartOutcome.TO_DECIDE)
    assert "QOS high: the same QOS is read in f2:2." in told(result, PartOutcome.STATE)


def test_a_row_of_another_length_is_refused() -> None:
    for text in ("Name|Priority\na|1|2|3\n", "a|1\n"):
        with pytest.raises(BadSource):
            imported("slurm", text)


def test_the_type_of_gres_conf_counts_where_slurm_conf_names_none() -> None:
    conf = "NodeName=n1 Gres=gpu:4 Sockets=2 CoresPerSocket=8 ThreadsPerCore=2\n"
    result = imported("slurm", DUMP, conf, "NodeName=n1 Name=gpu Type=v100 File=/dev/nvidia[0-3]\n")
    (node,) = body(result, OwnedKind.BACKEND, "imported")["nodes"]
    assert (node["platform"], node["cpu"]) == ("v100", 32)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 1800), ("30:00", 1800), ("1:30:00", 5400), ("2-12", 216_000), ("2-12:30", 217_800), ("2-0:0:5", 172_805),
        ("UNLIMITED", None), ("Partition_Limit", None), ("-1", None),
    ],
)  # fmt: skip
def test_time_forms(text: str, seconds: int | None) -> None:
    assert read_time(text, HERE) == seconds


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("gres/gpu=4,gres/gpu:a100=4", 4), ("gres/gpu:a100=4,gres/gpu:v100=2", 6), ("gres/gpu=-1", None),
        ("cpu=4", None), ("gres/gpu=0", 0), ("gres/gpu:a100_1g.5gb=7", None),
        ("gres/gpu:a100=8,gres/gpu:nvidia_a100-sxm4-40gb_1g.5gb=7", 8),
    ],
)  # fmt: skip
def test_a_total_is_not_added_to_its_types(text: str, limit: int | None) -> None:
    assert gpu_limit(read_tres(text, HERE))[0] == limit


@pytest.mark.parametrize(
    ("text", "by_type"),
    [
        ("gpu:a100:8(S:0-1)", {"a100": 8}), ("gpu:2,shard:16", {"": 2}), ("gpu", {"": 1}), ("(null)", {}),
        ("gpu:a100:no_consume:4", {"a100": 4}), ("gpu:a100:2(IDX:0,1),gpu:v100:1", {"a100": 2, "v100": 1}),
        ("gpu:1g.10gb:7", {}), ("gpu:a100_3g.20gb:2", {}), ("gpu:nvidia_a100-sxm4-40gb_1g.5gb:7", {}),
        ("gpu:a100:8,gpu:a100_1g.5gb:7", {"a100": 8}),
    ],
)  # fmt: skip
def test_gres(text: str, by_type: dict[str, int]) -> None:
    assert read_gres(text, HERE).by_type == by_type


def test_host_lists() -> None:
    assert expand_hosts("dgx[01-03,07],r[1-2]n[1-2],x", HERE) == [
        "dgx01", "dgx02", "dgx03", "dgx07", "r1n1", "r1n2", "r2n1", "r2n2", "x"
    ]  # fmt: skip
    for text in ("n[1-1000000000]", "a[1-1000]b[1-1000]", "n[3-1]", "n[1", "n]1[", "n[a-b]"):
        with pytest.raises(BadSource):
            expand_hosts(text, HERE)


@pytest.mark.parametrize(
    "text",
    [
        "Parent - 'gone'",
        "Account - 'a'\nAccount - 'A'",
        "Cluster - 'a'\nCluster - 'b'",
        "Account - 'a:Fairshare=1",
        "Account - 'a':Fairshare=x",
        "Account - 'a':GrpTRES=gres/gpu=-4",
        "NodeName=n1 Gres=gpu:8.5",
        "Account - 'a':MaxWall=soon",
        "hello world",
        "Account - 'a':Fairshare=1:FairShare=2",
        "NodeName=n Gres=gpu:4 RealMemory=lots",
        "QOS - 'q':Priority=high",
    ],
)
def test_lines_that_cannot_be_read_are_refused_with_their_place(text: str) -> None:
    with pytest.raises(BadSource) as refusal:
        imported("slurm", text)
    assert refusal.value.details[0].path.startswith("f1:")


_LIMITS = """
DefaultQOS Fairshare Shares GrpTRES GrpTRESMins GrpTRESRunMins GrpCPUMins GrpCPUs GrpJobs GrpJobsAccrue GrpMemory
GrpNodes GrpSubmitJobs GrpWall MaxTRES MaxTRESPerJob MaxTRESPerNode MaxTRESMins MaxTRESMinsPerJob MaxCPUMins
MaxCPUMinsPerJob MaxTRESRunMins MaxCPUs MaxCPUsPerJob MaxProcSecondsPerJob MaxJobs MaxJobsAccrue MaxNodes MaxNodesPerJob
MaxSubmitJobs MaxWall MaxWallDurationPerJob MinPrioThresh Priority QOS Flags SomethingNew
"""
LIMITS = _LIMITS.split()
KEYS = {
    "Cluster": [*LIMITS, "Classification"],
    "Account": [*LIMITS, "Description", "Organization"],
    "User": [*LIMITS, "DefaultAccount", "DefaultWCKey", "WCKeys", "AdminLevel", "Coordinator", "Partition", "Comment"],
    "QOS": [
        *LIMITS, "Description", "GraceTime", "MaxTRESPerUser", "MaxTRESPerAccount", "MaxTRESRunMinsPerUser",
        "MaxTRESRunMinsPerAccount", "MaxJobsPerUser", "MaxJobsPerAccount", "MaxJobsPU", "MaxJobsPA", "MaxJobsAccruePU",
        "MaxJobsAccruePA", "MaxSubmitJobsPerUser", "MaxSubmitJobsPU", "MaxSubmitJobsPA", "MinTRESPerJob", "Preempt",
        "PreemptMode", "PreemptExemptTime", "UsageFactor", "UsageThreshold", "LimitFactor",
    ],
}  # fmt: skip
VALUES = {"GrpTRES": "gres/gpu=2", "AdminLevel": "Administrator", "Preempt": "low"}


@pytest.mark.parametrize("word", KEYS)
def test_every_key_of_a_dump_stands_in_the_report(word: str) -> None:
    keys = [key for key in KEYS[word] if (word, key) != ("User", "Fairshare")]
    fields = ":".join(f"{key}={VALUES.get(key, '1')}" for key in keys)
    lines = {
        "Cluster": f"Cluster - 'x':{fields}\nParent - 'root'\nAccount - 'a'\n",
        "Account": f"Cluster - 'x'\nParent - 'root'\nAccount - 'x':{fields}\n",
        "User": f"Cluster - 'c'\nParent - 'root'\nAccount - 'a'\nParent - 'a'\nUser - 'x':{fields}\n",
        "QOS": f"Cluster - 'c'\nParent - 'root'\nAccount - 'a'\nQOS - 'x':{fields}\n",
    }
    result = imported("slurm", lines[word])
    told_keys = [line.place.key for line in result.lines]
    missing = [key for key in keys if not any(f"{word} x {key}=" in each for each in told_keys)]
    assert missing == []
    if word == "User":
        assert "do not have the account 1" in told(result, PartOutcome.TO_DECIDE)


_NODE_KEYS = """
NodeHostname NodeAddr BcastAddr Boards CoreSpecCount CoresPerSocket CpuBind CPUs CpuSpecList Features Feature Parameters
MemSpecLimit Port Procs RealMemory RestrictedCoresPerGPU Sockets SocketsPerBoard State ThreadsPerCore TmpDisk
TopologyName Topology Weight Reason
"""
NODE_KEYS = _NODE_KEYS.split()


def test_every_key_of_a_node_stands_in_the_report() -> None:
    """The node keys of slurm.conf, and those of gres.conf in one line for each device."""
    line = "NodeName=n1 Gres=gpu:4 " + " ".join(f"{key}=1" for key in NODE_KEYS)
    gres = "NodeName=n1 Name=gpu Type=a100 File=/dev/nvidia0 Cores=0-7 Links=-1 Count=1 Flags=x AutoDetect=off"
    result = imported("slurm", DUMP, f"{line}\n{gres}\n")
    (node,) = body(result, OwnedKind.BACKEND, "imported")["nodes"]
    assert (node["cpu"], node["platform"]) == (1, "a100")
    said = " ".join(line.text for line in result.lines if (line.place.file, line.place.line) == ("f2", 1))
    used = {"CPUs", "Procs", "RealMemory", "Sockets", "SocketsPerBoard", "CoresPerSocket", "ThreadsPerCore", "Boards"}
    assert [key for key in NODE_KEYS if key not in used and key not in said] == []
    assert "f2:2" in {str(each.place) for each in result.lines}


def test_every_line_of_nodes_and_settings_stands_in_the_report() -> None:
    result = imported("slurm", DUMP, NODES)
    said = {line.place.line for line in result.lines if line.place.file == "f2"}
    assert said == {1, 2, 3, 4, 6, 7}  # line 5 is the rest of 4
