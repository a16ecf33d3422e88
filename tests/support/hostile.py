"""Scenario files and PodGroup manifests that attack, or that are broken by chance, and the readers under test.

The texts are short, their evaluation would be large. `read_*` and `knock` run inside
:mod:`tests.support.resource_limits`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "docs" / "scenarios").glob("*.yaml"))

LAUGHS = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10))


def _list_text(count: int, entry: Callable[[int], str]) -> str:
    return "[" + ", ".join(entry(n) for n in range(count)) + "]"


def _chain_text(count: int, letter: str) -> str:
    return _list_text(count, lambda n: f"{{name: {letter}{n}" + (f", parent: {letter}{n - 1}}}" if n else "}"))


def _resources_text(count: int) -> str:
    return "{" + ", ".join(f"r{n}: 1" for n in range(count)) + "}"


def _workloads_text(count: int, queue: Callable[[int], str], tasks: str = "[{gpus: 1}]") -> str:
    return _list_text(count, lambda n: f"{{name: w{n}, queue: {queue(n)}, tasks: {tasks}}}")


SCENARIOS = {
    "a chain of 2,000 cohorts": f"cohorts: {_chain_text(2000, 'c')}\n"
    "queues: [{name: q, quota: 1, parent: c1999}]\nworkloads: [{name: w, queue: q, tasks: [{gpus: 2}]}]\n",
    "a chain of 2,000 queues": f"nodes: [{{name: n, gpus: 1}}]\nqueues: {_chain_text(2000, 'q')}\n"
    "workloads: [{name: w, queue: q1999, tasks: [{gpus: 1}]}]\n",
    "a chain of 9,000 queues with work at its end": f"nodes: [{{name: n, gpus: 1}}]\nqueues: {_chain_text(9000, 'q')}\n"
    f"workloads: {_workloads_text(2000, lambda _n: 'q8999')}\n",
    "a chain of 2,000 sub-groups": "queues: [{name: q, quota: 1}]\nworkloads: [{name: w, queue: q, gang: {sub_groups: "
    + _chain_text(2000, "g")
    + "}, tasks: [{gpus: 1, sub_group: g1999}]}]\n",
    "resources times queues": f"capacity: {_resources_text(10_000)}\n"
    "queues: " + _list_text(2500, lambda n: f"{{name: q{n}, quota: {{r{n}: 1}}}}"),
    "resources by alias": f"capacity: &c {_resources_text(900)}\nqueues: "
    + _list_text(1120, lambda n: f"{{name: q{n}, quota: *c}}"),
    "sub-groups times tasks": "nodes: [{name: n, gpus: 1000000}]\nqueues: [{name: q, quota: 1000000}]\n"
    "workloads: [{name: w, queue: q, gang: {min_sub_group: 1, sub_groups: "
    + _list_text(2000, lambda n: f"{{name: g{n}, min_member: 1}}")
    + "}, tasks: [{count: 19000, gpus: 1, sub_group: g7}]}]\n",
    "queues times workloads": f"queues: {_list_text(4500, lambda n: f'{{name: q{n}}}')}\n"
    f"workloads: {_workloads_text(4500, lambda n: f'q{n}')}\n",
    "changes times queues": f"queues: {_list_text(4500, lambda n: f'{{name: q{n}}}')}\n"
    f"changes: {_list_text(4500, lambda n: f'{{set: {{name: q{n}, parent: q0}}}}')}\n",
    "a cycle of 5,000": f"queues: {_list_text(5000, lambda n: f'{{name: q{n}, parent: q{(n + 1) % 5000}}}')}\n",
    "tasks without end": "queues: [{name: q}]\nworkloads: "
    + _workloads_text(10, lambda _n: "q", "[{count: 500000, gpus: 1}]"),
    "laughs": LAUGHS,
    "laughs inside a queue": f"queues: [{{name: q, quota: *a9}}]\n{LAUGHS}",
    "inside itself": "queues: &a [*a]",
    "deep lists": "[" * 100_000,
    "deep maps": "{a: " * 100_000,
    "deep blocks": "- " * 100_000 + "a",
    "deep JSON": '{"queues":' * 100_000,
    "many digits": "queues: [{name: q, quota: " + "9" * 100_000 + "}]",
    "a power": "queues: [{name: q, quota: 1e99999}]",
    "a power in JSON": '{"queues": [{"name": "q", "quota": 1e99999999}]}',
    "a power of ten digits": "queues: [{name: q, quota: 1e-9999999999}]",
    "NaN": '{"queues": [{"name": "q", "quota": NaN}]}',
    "not a number": "queues: [{name: q, quota: .nan, weight: -.inf}]",
    "a key twice": "queues: []\nqueues: [{name: q, name: q}]\n",
    "a key 20,000 times": "queues: []\n" * 20_000,
    "a list as a key": "? [a]\n: b",
    "a tag": "queues: !!python/object/apply:os.system [ls]",
    "control characters": "\x00\x01",
    "half a character": "\ud800",
    "only a dash": "-",
    "only a comment": "# nothing",
    "nothing": "",
    "fine numbers": "nodes: [{name: n, gpus: 0.0000000000000000000000000000000000007}]\nqueues: "
    + _list_text(500, lambda n: f"{{name: q{n}, weight: 0.{n + 1}, quota: 0.{'0' * 30}{n + 1}}}")
    + f"\nworkloads: {_workloads_text(500, lambda n: f'q{n}', '[{gpus: 0.000000000000000000000000000000000001}]')}\n",
}
"""By name; each is answered or refused, with little memory and little time."""

_GROUPS = "kind: PodGroup\nmetadata: {name: x}\nspec:\n  subGroups:\n"

MANIFESTS = {
    "laughs": "kind: PodGroup\n" + LAUGHS,
    "deep maps": "kind: PodGroup\nspec: " + "{a: " * 100_000,
    "deep JSON": '{"kind": "PodGroup", "spec":' * 50_000,
    "many digits": "kind: PodGroup\nmetadata: {name: x}\nspec: {minMember: " + "9" * 500_000 + "}",
    "a power": "kind: PodGroup\nmetadata: {name: x}\nspec: {minMember: 1e999999999}",
    "a hexadecimal number": "kind: PodGroup\nmetadata: {name: x}\nspec: {minMember: 0x" + "f" * 200_000 + "}",
    "NaN": '{"kind": "PodGroup", "metadata": {"name": "x"}, "spec": {"minMember": NaN}}',
    "infinity": "kind: PodGroup\nmetadata: {name: x}\nspec: {minMember: .inf}",
    "a key twice": "kind: PodGroup\nmetadata: {name: x}\nspec: {minMember: 1, minMember: 2}",
    "a key 50,000 times": "kind: PodGroup\n" * 50_000,
    "a tag": "kind: PodGroup\nmetadata: {name: x}\nspec: {minMember: !!python/name:os.system }",
    "inside itself": "kind: PodGroup\nmetadata: {name: x}\nspec: &a {subGroups: [*a]}",
    "a bomb in quotes": "kind: PodGroup\nmetadata: {name: x, annotations: {osmo/pods: '"
    + "{a: " * 90_000
    + "'}}\nspec: {}",
    "pods without end": "kind: PodGroup\nmetadata: {name: x, annotations: {osmo/pods: '2147483647'}}\n"
    "spec: {minMember: 2147483647}",
    "a star": _GROUPS + "".join(f"  - {{name: g{n}, minMember: 1}}\n" for n in range(9000)),
    "a star of many pods": _GROUPS + "".join(f"  - {{name: g{n}, minMember: 1000000}}\n" for n in range(500)),
    "a chain": _GROUPS
    + "".join(f"  - {{name: g{n}, parent: g{n + 1}}}\n" for n in range(9000))
    + "  - {name: g9000, minMember: 1}\n",
    "a circle": _GROUPS + "".join(f"  - {{name: g{n}, parent: g{(n + 1) % 9000}}}\n" for n in range(9000)),
    "half a character": 'kind: PodGroup\nmetadata: {name: "\\ud800"}\nspec: {minMember: 1}',
    "NUL": 'kind: PodGroup\nmetadata: {name: "a\\0"}\nspec: {minMember: 1}',
    "a long name": "kind: PodGroup\nmetadata: {name: " + "a" * 200_000 + "}\nspec: {minMember: 1}",
}
"""By name; each is refused."""

_PIECES = (
    "[", "]", "{", "}", ": ", "- ", "\n", "  ", "\t", "&a ", "*a", "!!int ", "!x ", "|\n", ">-\n", "'", '"', "---\n",
    "...\n", "%YAML 1.1\n", "\0", "\ud800", "\ufeff", "\x85", "1e999", "1e40", "-1", "-0.5", ".nan", ".inf", "0x10",
    "~", "null", "true", "? ", "#", "name: x, ", "parent: pool, ", "queue: pool1, ", "count: 100000, ", "quota: -1, ",
    "priority: HIGH, ", "gpus: 0, ", "sub_group: x, ", "min_member: 0, ", "state: running, ", "node: n1, ", "spec: ",
    "minMember: 0\n", "minSubGroup: 9\n", "parent: prefill\n", "changes: [{remove: pool}]\n",
)  # fmt: skip

_MANIFEST = """\
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata:
  name: inference-service
  annotations: {osmo/priority: HIGH}
spec:
  minSubGroup: 2
  subGroups:
  - {name: prefill, minSubGroup: 1}
  - {name: prefill-0, parent: prefill, minMember: 2}
  - {name: prefill-1, parent: prefill, minMember: 2}
  - {name: decode, minMember: 1}
"""


def mutated_scenarios(count: int, seed: int) -> Iterator[str]:
    """The documented examples with random insertions and deletions."""
    return _mutate([path.read_text() for path in EXAMPLES], count, seed)


def mutated_manifests(count: int, seed: int) -> Iterator[str]:
    """A manifest with random insertions and deletions."""
    return _mutate([_MANIFEST], count, seed)


def _mutate(texts: list[str], count: int, seed: int) -> Iterator[str]:
    pick = random.Random(seed)
    for _ in range(count):
        text = pick.choice(texts)
        for _ in range(pick.randint(1, 4)):
            at = pick.randrange(len(text) + 1)
            text = text[:at] + pick.choice(_PIECES) * pick.choice([1, 1, 1, 3]) + text[at + pick.randint(0, 12) :]
        yield text


def read_scenario(text: str) -> list[dict[str, Any]]:
    """The output of `osmo simulate -` for the text, reduced to errors and convergence."""
    from scheduling.scenario import simulate_sources

    lines = list(simulate_sources(["-"], stdin=text).output_objects())
    for line in lines:
        json.dumps(line)
    return [{key: line.get(key) for key in ("error_code", "details", "settled")} for line in lines]


def read_manifest(text: str) -> dict[str, Any]:
    """The output of `osmo podgroup validate -`, and the violations of a submission of the text."""
    from scheduling.scenario.podgroup_batches import validate_files
    from scheduling.specs import parse

    entries = validate_files(["-"], stdin=text).entries
    found = parse(text)
    return {
        "validated": [entry.body for entry in entries],
        "codes": [fault.code for fault in found.violations],
        "readable": found.spec is not None,
    }


_CLIENTS: dict[str, Any] = {}


def run_away(_case: int) -> None:
    """Never return; the limits must end it."""
    while True:
        pass


def submission(text: str) -> str:
    """The body with which a stock client submits a file."""
    return json.dumps({"file": text, "set_variables": [], "set_string_variables": []})


def knock(case: dict[str, str]) -> dict[str, Any]:
    """POST `text` to `path` as the user `name`, in this process; the environment names the database."""
    client = _client(case["name"])
    body = case["text"].encode("utf-8", "surrogatepass")
    answer = client.post(case["path"], body, content_type=case["kind"])
    return {"status": answer.status_code, "body": answer.json() if answer.status_code != 200 else None}


def _client(name: str) -> Any:
    if name not in _CLIENTS:
        import django

        django.setup()
        from django.test import Client

        from pools.models import User

        # As in production, an error of ours becomes an answer of 500.
        _CLIENTS[name] = Client(raise_request_exception=False, headers={"host": "localhost"})
        _CLIENTS[name].force_login(User.objects.get(username=name), "django.contrib.auth.backends.ModelBackend")
    return _CLIENTS[name]
