"""Forms of Kubernetes backends. A kubeconfig is never sent back to the page."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from django.core.exceptions import ValidationError
from django.forms import BoundField, Field, Textarea

from pools.admin import forms
from pools.admin.command_forms import reason_field
from pools.admin.confirm_flow import ChangeForm, FieldGroup
from pools.domain.changes.backends import BACKEND_KEYS
from pools.domain.configuration import cluster_config
from pools.domain.configuration.backend_config import CHOICE_WORDS, POLICY_DEFAULTS
from pools.domain.configuration.cluster_config import queue_pools_from_text, queue_pools_text
from pools.domain.configuration.flavors import flavors_from_text, flavors_of, flavors_text
from pools.models import Backend, KubernetesSettings


def backend_field(key: str, make: Callable[..., Field] = forms.text_field, **more: Any) -> Any:
    """The field of a key of a backend's configuration, with its declared label and sentence."""
    about = BACKEND_KEYS[key]
    words = {"unit": about.unit, "empty": about.empty} if make is forms.text_field else {}
    return make(about.label, help_text=about.help, **words, **more)


def backend_choice(key: str, *, required: bool = True) -> Any:
    """The field of a key with few values, in their declared words."""
    return backend_field(key, partial(forms.choice_field, choices=CHOICE_WORDS[key].items(), required=required))


def degraded_field() -> Any:
    """The rule for too few GPUs, which simulated and other clusters have."""
    return backend_choice("degraded", required=False)


def flavors_field() -> Any:
    """The flavors, one a line."""
    about = BACKEND_KEYS["flavors"]
    words = "One a line, the first ones first: NAME KEY=VALUE, as h100 nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3."
    return forms.code_field(about.label, rows=3, max_length=100_000, help_text=f"{about.help} {words}")


def queue_pools_field() -> Any:
    """The pools of queues, one queue a line."""
    about = BACKEND_KEYS["queue_pools"]
    words = "One queue a line: QUEUE = POOL."
    return forms.code_field(about.label, rows=4, max_length=1_000_000, help_text=f"{about.help} {words}")


class SealedTextarea(Textarea):
    """An input that is never sent back to the page, not even when the form is refused."""

    def format_value(self, value: Any) -> None:
        """Renders no value."""


def kubeconfig_field(fate: str) -> forms.SecretField:
    """The text of a kubeconfig; `fate` says what becomes of it."""
    attrs = {"rows": 8, "spellcheck": "false", "wrap": "off", "autocomplete": "off", "class": "oa-mono"}
    return forms.SecretField(
        label="Kubeconfig",
        required=False,
        strip=False,
        max_length=262_144,
        help_text=f"Paste its text, including certificates and token. {fate}",
        widget=SealedTextarea(attrs=attrs),
    )


class ClusterForm(ChangeForm):
    """The configuration of a cluster. An empty field keeps the stored value, in particular the kubeconfig."""

    groups = (
        FieldGroup("Cluster", ("name", "namespace", "about")),
        FieldGroup("Mode and reason", ("mode", "description")),
        FieldGroup("Queues of a managed cluster", ("sync_mode",), usual={"sync_mode": cluster_config.APPLY}),
        FieldGroup(
            "Queues and owners of an observed cluster",
            ("queue_pools", "owner_label"),
            usual={"queue_pools": "", "owner_label": ""},
        ),
        FieldGroup("Connection", ("access", "kubeconfig", "kubeconfig_file", "context")),
        FieldGroup(
            "Scheduler and state: the defaults fit KAI as it is installed",
            ("scheduler_name", "node_pool_key", "node_pool", "degraded", "flavors", "offline"),
            usual={
                "scheduler_name": cluster_config.SCHEDULER,
                "node_pool_key": cluster_config.NODE_POOL_KEY,
                "degraded": POLICY_DEFAULTS["degraded"],
            },
        ),
    )
    namespace = backend_field("namespace", required=True)
    about = forms.text_area_field("Description", rows=2)
    offline = backend_field("offline", forms.checkbox_field)
    access = backend_choice("access")
    kubeconfig = kubeconfig_field("It is stored encrypted and never shown again; an empty field keeps the stored one.")
    kubeconfig_file = backend_field("kubeconfig_file")
    context = backend_field("context")
    scheduler_name = backend_field("scheduler_name")
    node_pool_key = backend_field("node_pool_key")
    node_pool = backend_field("node_pool")
    degraded = degraded_field()
    flavors = flavors_field()
    mode = backend_choice("mode", required=False)
    sync_mode = backend_choice("sync_mode")
    queue_pools = queue_pools_field()
    owner_label = backend_field("owner_label")
    description = reason_field()
    field_by_path = {"description": "about"}

    def grouped_fields(self) -> list[tuple[FieldGroup, list[BoundField], bool]]:
        """What only an observed cluster has is open where it is one, what only a managed one has where it is not."""
        is_observed = self["mode"].value() == cluster_config.OBSERVE
        opened = {"queue_pools": is_observed, "sync_mode": not is_observed}
        return [
            (group, fields, opened.get(group.names[0], False) or is_open)
            for group, fields, is_open in super().grouped_fields()
        ]

    def clean_queue_pools(self) -> dict[str, str]:
        """The pools by queue."""
        try:
            return queue_pools_from_text(self.cleaned_data["queue_pools"])
        except ValueError as error:
            raise ValidationError("A queue has two lines; give it one pool.") from error

    def body(self) -> dict[str, Any]:
        """The configuration for the service."""
        data = self.cleaned_data
        access = data["access"]
        body = {key: data[key] for key in BACKEND_KEYS if key in data and key not in ("kubeconfig", "kubeconfig_file")}
        body |= {"type": cluster_config.KUBERNETES, "description": data["about"]}
        body["flavors"] = flavors_from_text(data["flavors"])
        body["mode"] = data["mode"] or cluster_config.MANAGE
        body["degraded"] = data["degraded"] or POLICY_DEFAULTS["degraded"]
        if access == cluster_config.KUBECONFIG:
            body["kubeconfig"] = data["kubeconfig"].strip() or None
        if access == cluster_config.FILE:
            body["kubeconfig_file"] = data["kubeconfig_file"].strip()
        return body


class ConnectClusterForm(ClusterForm):
    """A new cluster."""

    kubeconfig = kubeconfig_field("It is stored encrypted and never shown again.")
    name = forms.text_field("Name", help_text="Lower-case letters, digits and hyphens, a letter first.", required=True)


CONNECT_COMMANDS = (
    "kubectl get crd queues.scheduling.run.ai podgroups.scheduling.run.ai topologies.kai.scheduler",
    "kubectl create namespace osmo",
    "kubectl config view --raw --minify --flatten",
)
"""The check of a cluster, the namespace of its work, and the kubeconfig to paste."""

OBSERVE_COMMANDS = (
    "kubectl create namespace osmo",
    "kubectl apply -f deploy/observer.yaml",
    "kubectl -n osmo create token osmo-admin-observer --duration=8760h",
)
"""The account of an observed cluster, and the token for its kubeconfig."""

NEW_CLUSTER_VALUES: dict[str, Any] = {
    "namespace": "osmo",
    "access": cluster_config.KUBECONFIG,
    "scheduler_name": cluster_config.SCHEDULER,
    "node_pool_key": cluster_config.NODE_POOL_KEY,
    "mode": cluster_config.MANAGE,
    "sync_mode": cluster_config.APPLY,
    "degraded": POLICY_DEFAULTS["degraded"],
}


def cluster_form_values(backend: Backend, settings: KubernetesSettings) -> dict[str, Any]:
    """The backend as the values of its form, without its credential."""
    return {
        "namespace": backend.namespace,
        "about": backend.description,
        "offline": backend.desired_offline,
        "degraded": backend.degraded,
        "flavors": flavors_text(flavors_of(backend.flavors)),
        **{key: getattr(settings, key) for key in cluster_config.ClusterKeys.__annotations__},
        "queue_pools": queue_pools_text(settings.queue_pools),
    }
