"""Files like those of real users, with every feature that was seen in use, in files of our own."""

from __future__ import annotations

from datetime import timedelta

from scheduling.specs import parse
from tests.unit.specs.sample_files import read_valid

# Loops over tasks, a lead chosen by `if`, OSMO's own tokens, one of them built with raw blocks, comments with
# tokens in the header that must not be rendered, JSON with braces in a file.
DISTRIBUTED = """\
# Train on several nodes.  Use:  --set store={{ your bucket }}

workflow:
  name: train-many
  resources:
    default:  # of each task
      gpu: {{ per_node }}
      cpu: 16
      memory: 30Gi
      storage: 1.5Ti
  groups:
  - name: training
    ignoreNonleadStatus: {{ ignore }}
    tasks:
    {% for rank in range(nodes) %}
    {% if rank == 0 %}
    - name: master
      lead: true
      outputs:
      - url: {{ store }}/{{ prefix }}/{{workflow_id}}/
    {% else %}
    - name: worker_{{rank}}
    {% endif %}
      image: registry.example/torch:24.03
      command: [bash]
      args: [/tmp/run.sh, --rank, {{ rank }}]
      environment:
        NCCL_DEBUG: WARN
        ACCEPT: Y
        RETRIES: 3
      exitActions:
        RESCHEDULE: {{ code }}
      checkpoint:
      - path: /tmp/models
        url: {{ store }}/models
        frequency: {{ cadence }}
      files:
      - path: /tmp/run.sh
        contents: |
          set -ex
          mkdir -p {{output}}/models   # ünïcode ✓
          run --node {{rank}} --to {{host:master}}:{{port}} --from "{{input:0}}" \\
              --n ${NODES:-2}
      - path: /tmp/config.json
        contents: |
          {"batch": {{batch}}, "adam": {"params": {"betas": [0.9, 0.999]}}}
      - path: /tmp/hosts
        contents: |
          {{host:master}} slots={{per_node}}
          {% for rank in range(1, nodes) %}
          {% raw %}{{host:worker_{% endraw %}{{rank}}{% raw %}}}{% endraw %} slots={{per_node}}
          {% endfor %}
    {% endfor %}
  timeout:
    exec_timeout: 3d
    queue_timeout: 90m

default-values:
  per_node: 4     # GPUs
  nodes: 3
  ignore: false
  code: 3
  cadence: 1m
  port: 29400
  batch: 32
  # the last part of the way, {{ not a template }}
  prefix: model
"""

# Maps as variables, conditional sections, credentials whose names are variables, oddly indented comments.
SERVICE = """\
version: 2
workflow:
  name: "{{ name }}"
  labels:
    team: robotics
    run: 42
    {% if experiment %}
    example.com/experiment: "{{ experiment }}"
    {% endif %}
  resources:
    {% if not url %}
    server: {{ server }}
    {% endif %}
    client:
      cpu: 1
      {% if platform %}
      platform: "{{ platform }}"
      {% endif %}
  groups:
  - name: serve
    tasks:
      {% if not url %}
      # runs beside the client
    - name: server
      image: {{ image }}
      credentials:
        {{ key.name }}:
          API_KEY: {{ key.part }}
      command: [/opt/start.sh, /opt/serve.sh]
      resource: server
      {% endif %}

    - name: client
      resource: client
      image: ubuntu:24.04
      lead: true
      credentials: {plain-mount: /secrets}
      files:
      - path: /use.sh
        localpath: use.sh
      command:
      - bash
      - -c
      - |
          {% if url %}
            bash use.sh --url "{{ url }}"
          {% else %}
            bash use.sh --url "http://{{host:server}}:8000"
          {% endif %}


default-values:
  name: serve-it
  server: {gpu: 1, cpu: 8, memory: 16Gi, platform: big}
  image: registry.example/nim:1
  key:
    name: api-key
    part: key
  url: ''
  platform: ""
  experiment: ""
"""

# Anchors, merge keys, groups that read from each other, all kinds of inputs and outputs, topology, mounts.
PIPELINE = """\
---
workflow:
  name: data-pipeline
  groups:
  ##############################
  # first: prepare
  - name: prepare
    tasks:
    - &prepare
      name: generate
      image: ubuntu:24.04
      command: ["bash", "-c"]
      args:
      - |
        for i in {1..10}; do echo "sample_$i" >> {{output}}/data.csv; done
        echo "${#array[@]} done ✓"
      lead: true
    - <<: *prepare
      name: validate
      lead: false
  - name: train
    barrier: false
    tasks:
    - name: model-a
      lead: true
      image: ubuntu:24.04
      command: [bash, -c, "cat {{input:0}}/data.csv"]
      resource: racks
      volumeMounts: [/dev/shm, '/dev/shm:/home/data']
      inputs:
      - task: generate  # (1)
        regex: .*\\.csv$
      - url: s3://bucket/more
      - dataset: {name: mine/set, regex: .*\\.txt$}
      - dataset: named-only
      - task: earlier-7:its-task
      outputs:
      - dataset: {name: results, path: out, labels: [labels.yaml]}
      - update_dataset: {name: results, paths: [more]}
      kpis: [{index: kpi, path: kpi.json}]
      downloadType: download
      cacheSize: 10Gi
    - {name: model-b, image: ubuntu, command: [wc], inputs: [{task: generate}, {task: validate}]}
  resources:
    default:
    racks:
      gpu: "8"
      nodesExcluded: [worker1, worker2]
      topology:
      - key: rack
      - {key: zone, group: near, requirementType: preferred}
  timeout:
...
"""


def test_distributed_training() -> None:
    spec = read_valid(DISTRIBUTED, set_variables=["store=s3://b/x", "nodes=2"])
    (group,) = spec.groups
    assert [task.name for task in group.tasks] == ["master", "worker_1"]
    assert (group.gpus, spec.largest_gang_gpus, group.ignore_nonlead_status) == (8, 8, False)
    master, worker = group.tasks
    assert (master.lead, worker.lead) == (True, False)
    assert master.outputs[0]["url"] == "s3://b/x/model/{{workflow_id}}/"
    assert master.environment == {"NCCL_DEBUG": "WARN", "ACCEPT": "Y", "RETRIES": "3"}
    assert master.args == ("/tmp/run.sh", "--rank", "0")
    assert master.exit_actions == {"RESCHEDULE": ((3, 3),)}
    assert master.storage_bytes == 3 * 2**39
    assert "mkdir -p {{output}}/models   # ünïcode ✓" in master.files[0]["contents"]
    assert "--to {{host:master}}:29400" in worker.files[0]["contents"]
    assert "{{host:worker_1}} slots=4" in worker.files[2]["contents"]
    assert (spec.exec_timeout, spec.queue_timeout) == (timedelta(days=3), timedelta(minutes=90))


def test_conditional_sections() -> None:
    parsed = parse(SERVICE)
    assert parsed.violations == ()
    assert parsed.spec is not None
    server, client = parsed.spec.tasks
    assert (server.gpu, server.platform, server.credentials) == (1, "big", {"api-key": {"API_KEY": "key"}})
    assert client.credentials == {"plain-mount": "/secrets"}
    assert 'http://{{host:server}}:8000"' in client.command[2]
    assert parsed.spec.labels == {"team": "robotics", "run": "42"}
    assert any("localpath" in warning for warning in parsed.warnings)
    assert any("not checked" in warning for warning in parsed.warnings)

    (alone,) = read_valid(SERVICE, set_variables=["url=https://model.example", "experiment=e-1"]).groups
    assert [task.name for task in alone.tasks] == ["client"]


def test_pipeline_without_templates() -> None:
    spec = read_valid(PIPELINE)
    prepare, train = spec.groups
    assert train.inputs == ("prepare",)
    assert prepare.tasks[1].command == ("bash", "-c")
    assert prepare.tasks[1].lead is False
    model = train.tasks[0]
    assert (model.gpu, model.nodes_excluded) == (8, ("worker1", "worker2"))
    assert [(t.key, t.group, t.required) for t in model.topology] == [
        ("rack", "default", True),
        ("zone", "near", False),
    ]
    assert model.upstream_tasks == ("generate",)


def test_the_answer_of_a_dry_run_gives_the_same_spec() -> None:
    """The stock client posts the file for a dry run and then submits the answer (design, O7.1)."""
    for text, given in ((DISTRIBUTED, ["store=s3://b/x"]), (SERVICE, []), (PIPELINE, [])):
        first = parse(text, set_variables=given)
        again = parse(first.rendered_text, is_rendered=True)
        assert again.violations == ()
        assert again.spec == first.spec
        assert "default-values" not in first.rendered_text


def test_an_empty_section_of_defaults_is_none() -> None:
    assert (
        read_valid("workflow:\n  name: n\n  tasks:\n  - {name: a, image: b, command: [sh]}\ndefault-values:\n").name
        == "n"
    )


def test_a_repeated_key_with_an_equal_value_is_accepted() -> None:
    """OSMO's own tests have such a file; a YAML reader uses the last value, so nothing is lost."""
    parsed = parse("workflow:\n  name: n\n  tasks:\n  - name: a\n    image: b\n    command: [sh]\n    name: a\n")
    assert parsed.spec is not None
    assert "lines 4 and 7" in parsed.warnings[0]
