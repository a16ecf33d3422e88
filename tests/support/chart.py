"""The Helm chart, rendered by helm, and a real API server that knows its kinds.

The API server of the tests serves Pods, Services, Secrets and ServiceAccounts itself. The other kinds of the chart are
added as definitions whose schemas are those of Kubernetes, taken from the models of its Python client, so that unknown
fields and wrong types are refused by the same code as in a cluster.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import Any

import yaml
from kubernetes.client import models

from scheduling.kube.connection import resource_kinds
from scheduling.kube.connection.port import Cluster, ResourceKind
from tests.support.kube_server import CRD, KubeServer, is_served, wait_for
from tests.support.optional_tools import find_helm
from tests.support.services import ROOT

CHART = ROOT / "deploy" / "helm" / "osmo-admin"
NAMESPACE = "osmo-system"
REQUIRED = {"publicUrl": "https://osmo.example", "secrets.runtime": "osmo-runtime"}
NAMESPACE_KIND = resource_kinds.NAMESPACE
SERVICE_ACCOUNT = ResourceKind("", "v1", "serviceaccounts", "ServiceAccount")
CONFIG_MAP = ResourceKind("", "v1", "configmaps", "ConfigMap")
SERVED = {kind.name: kind for kind in (resource_kinds.SERVICE, resource_kinds.SECRET, SERVICE_ACCOUNT, CONFIG_MAP)}
# By kind: the model of its schema, its plural, whether it is namespaced.
DEFINED: Mapping[str, tuple[Any, str, bool]] = {
    "Deployment": (models.V1Deployment, "deployments", True),
    "CronJob": (models.V1CronJob, "cronjobs", True),
    "Job": (models.V1Job, "jobs", True),
    "Role": (models.V1Role, "roles", True),
    "RoleBinding": (models.V1RoleBinding, "rolebindings", True),
    "ClusterRole": (models.V1ClusterRole, "clusterroles", False),
    "ClusterRoleBinding": (models.V1ClusterRoleBinding, "clusterrolebindings", False),
    "PodDisruptionBudget": (models.V1PodDisruptionBudget, "poddisruptionbudgets", True),
    "NetworkPolicy": (models.V1NetworkPolicy, "networkpolicies", True),
    "Ingress": (models.V1Ingress, "ingresses", True),
    "HorizontalPodAutoscaler": (models.V2HorizontalPodAutoscaler, "horizontalpodautoscalers", True),
}
# Kinds of other projects; their own schemas are not at hand.
FOREIGN = {"Certificate", "ServiceMonitor", "PodMonitor", "PrometheusRule"}
GROUP = "chart.test"


def run_helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run helm; its exit code is not checked."""
    helm = find_helm()
    assert helm is not None
    return subprocess.run([helm, *arguments], capture_output=True, text=True, check=False, timeout=120)


def template(values: Mapping[str, Any], *, namespace: str = NAMESPACE) -> subprocess.CompletedProcess[str]:
    """Render the chart with these values and the required ones; names are as in `--set`."""
    given = [f"{name}={_text(value)}" for name, value in {**REQUIRED, **values}.items()]
    return run_helm("template", "osmo", str(CHART), "--namespace", namespace, "--set", ",".join(given))


def render(values: Mapping[str, Any], *, namespace: str = NAMESPACE) -> list[dict[str, Any]]:
    """The objects of the chart, hooks included."""
    done = template(values, namespace=namespace)
    assert done.returncode == 0, done.stderr
    # Ten times faster than the loader in Python, which took longer than helm.
    return [each for each in yaml.load_all(done.stdout, yaml.CSafeLoader) if each]


def render_by_template(values: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The objects of each template that renders any, by its name such as `network.yaml`."""
    done = template(values)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[dict[str, Any]]] = {}
    for text in re.split(r"^---$", done.stdout, flags=re.MULTILINE):
        if (source := re.search(r"^# Source: osmo-admin/templates/(\S+)$", text, re.MULTILINE)) is not None:
            found.setdefault(source[1], []).append(yaml.load(text, yaml.CSafeLoader))
    return found


def list_templates() -> list[str]:
    """The names of the templates that render objects."""
    return sorted(path.name for path in (CHART / "templates").glob("*.yaml"))


def find_read(template_name: str, names: Iterable[str]) -> list[str]:
    """Those of these values that a template reads, itself or by what it includes. `osmo.check` reads all and renders
    nothing."""
    helpers = (CHART / "templates" / "_helpers.tpl").read_text()
    _, *parts = re.split(r'\{\{-? define "([^"]+)"', helpers)
    definitions = dict(zip(parts[::2], parts[1::2], strict=True)) | {"osmo.check": ""}
    text, missing = "", [(CHART / "templates" / template_name).read_text()]
    while missing:
        text += (part := missing.pop())
        missing += [definitions.pop(name, "") for name in re.findall(r'include "([^"]+)"', part)]
    # `osmo.pod` has one name for all values.
    read = set(re.findall(r"(?:Values|\$values)\.([A-Za-z.]+)", text))
    return [name for name in names if any(f"{name}.".startswith(f"{each}.") for each in read)]


def named(objects: Iterable[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    """The object with this kind and name."""
    (found,) = [each for each in objects if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


def pod_templates(objects: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Component → the template of its pods."""
    found = (pod for each in objects if (pod := _pod_template(each)) is not None)
    return {each["metadata"]["labels"]["app.kubernetes.io/component"]: each for each in found}


def _pod_template(body: Mapping[str, Any]) -> dict[str, Any] | None:
    """The template of the pods of a Deployment, Job or CronJob; None for other kinds."""
    spec = body.get("spec", {})
    return spec.get("jobTemplate", {}).get("spec", spec).get("template")


def define_kinds(server: KubeServer) -> None:
    """Let the server know the kinds that it lacks; it serves them when this returns."""
    with closing(server.connect()) as cluster:
        for kind in DEFINED:
            cluster.apply(CRD, _definition(kind), field_manager="tests", force=True)
        for kind in DEFINED:
            wait_for(lambda kind=kind: is_served(cluster, _defined(kind)), description=f"{kind} is served")


def apply_objects(cluster: Cluster, objects: Iterable[dict[str, Any]]) -> None:
    """Apply objects strictly, as dry runs; and a Pod of each template. Raises the error of the API server."""
    for each in objects:
        kind = each["kind"]
        if kind in FOREIGN:
            continue
        body = each if kind in SERVED else {**each, "apiVersion": f"{GROUP}/v1"}
        _apply(cluster, SERVED.get(kind) or _defined(kind), body)
        if (pod := _pod_template(each)) is not None:
            metadata = {**pod["metadata"], "name": each["metadata"]["name"], "namespace": each["metadata"]["namespace"]}
            _apply(cluster, resource_kinds.POD, {"apiVersion": "v1", "kind": "Pod", **pod, "metadata": metadata})


def _apply(cluster: Cluster, kind: ResourceKind, body: dict[str, Any]) -> None:
    cluster.apply(kind, body, field_manager="chart", force=True, dry_run=True)


def _defined(kind: str) -> ResourceKind:
    _, plural, namespaced = DEFINED[kind]
    return ResourceKind(GROUP, "v1", plural, kind, namespaced=namespaced)


def _definition(kind: str) -> dict[str, Any]:
    model, plural, namespaced = DEFINED[kind]
    document = model.model_json_schema(by_alias=True)
    schema = _structural(document, document.get("$defs", {}))
    schema["properties"]["metadata"] = {"type": "object"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": CRD.api_version,
        "kind": CRD.name,
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced" if namespaced else "Cluster",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [version],
        },
    }


def _structural(part: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """The same schema without references, descriptions and `null`, as a definition has to have it."""
    if (reference := part.get("$ref")) is not None:
        return _structural(definitions[reference.rpartition("/")[2]], definitions)
    if (choices := part.get("anyOf")) is not None:
        real = [choice for choice in choices if choice.get("type") != "null"]
        if len(real) == 1:
            return _structural(real[0], definitions)
        return {"x-kubernetes-int-or-string": True}
    if part.get("type") == "array":
        return {"type": "array", "items": _structural(part["items"], definitions)}
    if part.get("type") == "object" and "properties" in part:
        fields = {name: _structural(field, definitions) for name, field in part["properties"].items()}
        return {
            "type": "object",
            "properties": fields,
            **({"required": part["required"]} if "required" in part else {}),
        }
    if part.get("type") == "object":
        values = part.get("additionalProperties")
        if isinstance(values, dict) and values:
            return {"type": "object", "additionalProperties": _structural(values, definitions)}
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    if "type" in part:
        return {"type": part["type"]}
    return {"x-kubernetes-preserve-unknown-fields": True}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
