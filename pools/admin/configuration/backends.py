"""Clusters (backends), and the nodes of simulated ones."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from django.contrib import admin
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, reverse

from pools.admin import forms
from pools.admin.base import Breadcrumbs, PolicyAdmin, actor_of
from pools.admin.command_forms import reason_field
from pools.admin.configuration import cluster_forms
from pools.admin.configuration.backend_preview import backend_preview, format_node_line
from pools.admin.configuration.cluster_forms import backend_field
from pools.admin.confirm_flow import Change, ChangeForm, ConfirmFlow, FieldGroup, change_paths, typed_input
from pools.domain.changes.backends import PutBackend
from pools.domain.configuration.backend_config import POLICY_DEFAULTS
from pools.domain.configuration.cluster_config import KUBECONFIG
from pools.domain.configuration.flavors import (
    flavors_from_text,
    flavors_of,
    flavors_text,
    labels_from_words,
    parts_among,
)
from pools.domain.configuration.ownership import GitOwner, OwnedKind
from pools.domain.errors import Conflict
from pools.domain.list_columns import BACKEND_COLUMNS, MACHINE_COLUMNS, PROMISE_COLUMNS, UNASSIGNED_COLUMNS
from pools.domain.people.roles import Permission, is_allowed
from pools.domain.values.scalars import typed_number
from pools.models import Backend, KubernetesSettings, Node, Pool
from pools.permissions import require_platform
from pools.selectors.clusters import is_observed
from pools.selectors.quotas.backend_capacity import parts_of, read_capacities, read_used_gpus
from pools.selectors.quotas.degraded import read_degraded
from pools.services.changes.ownership import find_owner
from pools.services.configuration.backends import BackendResult, list_backends, put_backend, read_backend

MAX_POOLS_SHOWN, SOME_POOLS = 12, 5
"""Up to MAX_POOLS_SHOWN pools are all named; of more, the first SOME_POOLS."""
OWNER_NOTE = "Change it in that file; only Offline and a kubeconfig are changed here."
NEW_BACKEND_VALUES = {
    "namespace": "default", "auto_end": True, **POLICY_DEFAULTS,
}  # fmt: skip


class SimulatedBackendForm(ChangeForm):
    """A simulated cluster; one node a line."""

    kept_fields = frozenset({"nodes"})
    groups = (
        FieldGroup("Cluster", ("name", "namespace", "about")),
        FieldGroup("State and reason", ("offline", "auto_end", "description")),
        FieldGroup("Scheduling", ("reserve_after", "ageing", "victims", "degraded")),
        FieldGroup("Nodes", ("flavors", "nodes")),
    )

    namespace = backend_field("namespace", required=True)
    about = forms.text_area_field("Description", rows=2)
    offline = backend_field("offline", forms.checkbox_field)
    auto_end = backend_field("auto_end", forms.checkbox_field)
    reserve_after = backend_field("reserve_after", inputmode="numeric")
    ageing = backend_field("ageing", inputmode="numeric")
    victims = cluster_forms.backend_choice("victims", required=False)
    degraded = cluster_forms.degraded_field()
    flavors = cluster_forms.flavors_field()
    nodes = forms.code_field(
        "Nodes",
        rows=8,
        max_length=1_000_000,
        help_text="One node a line: NAME GPUS, then optionally cpu=128 memory=1Ti storage=4Ti platform=default "
        "labels=KEY=VALUE,KEY=VALUE. "
        "Work on a removed node continues until it ends.",
    )
    description = reason_field()
    field_by_path = {"description": "about"}

    def body(self) -> dict[str, Any]:
        """The configuration for the service."""
        data = self.cleaned_data
        return {
            "namespace": data["namespace"],
            "description": data["about"],
            "offline": data["offline"],
            "auto_end": data["auto_end"],
            "reserve_after": typed_number(data["reserve_after"]) if data["reserve_after"] else None,
            "ageing": typed_number(data["ageing"]) if data["ageing"] else None,
            "victims": data["victims"] or POLICY_DEFAULTS["victims"],
            "degraded": data["degraded"] or POLICY_DEFAULTS["degraded"],
            "flavors": flavors_from_text(data["flavors"]),
            "nodes": [_parse_node_line(line) for line in data["nodes"].splitlines() if line.strip()],
        }


class CreateSimulatedBackendForm(SimulatedBackendForm):
    """A new cluster."""

    field_order = ("name",)
    name = forms.text_field("Name", help_text="Lower-case letters, digits and hyphens, a letter first.", required=True)


class OwnedBackendForm(ChangeForm):
    """What the admins change of a cluster that Git owns."""

    offline = backend_field("offline", forms.checkbox_field)
    description = reason_field()

    def body(self) -> dict[str, Any]:
        """The keys that change."""
        return {"offline": self.cleaned_data["offline"]}


class OwnedClusterForm(OwnedBackendForm):
    """The same of a cluster with a stored kubeconfig."""

    field_order = ("offline", "kubeconfig")
    kubeconfig = cluster_forms.ClusterForm.base_fields["kubeconfig"]

    def body(self) -> dict[str, Any]:
        return super().body() | {"kubeconfig": self.cleaned_data["kubeconfig"].strip() or None}


def simulated_form_values(backend: Backend) -> dict[str, Any]:
    """A simulated backend as the values of its form."""
    return {
        "namespace": backend.namespace,
        "about": backend.description,
        "offline": backend.offline,
        "auto_end": backend.auto_end,
        **{key: getattr(backend, key) for key in POLICY_DEFAULTS},
        "flavors": flavors_text(flavors_of(backend.flavors)),
        "nodes": "\n".join(format_node_line(node) for node in backend.nodes.order_by("name")),
    }


def _form_of(backend: Backend, owner: GitOwner | None) -> tuple[type[ChangeForm], dict[str, Any]]:
    """The form of an existing backend, by its owner and its kind, and the present values."""
    cluster = KubernetesSettings.objects.filter(backend=backend).first()
    if owner is not None:
        has_kubeconfig = cluster is not None and cluster.access == KUBECONFIG
        return OwnedClusterForm if has_kubeconfig else OwnedBackendForm, {"offline": backend.desired_offline}
    if cluster is not None:
        return cluster_forms.ClusterForm, cluster_forms.cluster_form_values(backend, cluster)
    if backend.kind == Backend.Kind.KUBERNETES:
        return cluster_forms.ClusterForm, {**cluster_forms.NEW_CLUSTER_VALUES, "namespace": backend.namespace}
    return SimulatedBackendForm, simulated_form_values(backend)


def _parse_node_line(line: str) -> dict[str, Any]:
    """A line as the service's object; the service checks it."""
    words = line.split()
    node: dict[str, Any] = {"name": words[0]}
    if len(words) > 1:
        node["gpus"] = typed_number(words[1])
    for word in words[2:]:
        key, _, value = word.partition("=")
        node[key] = labels_from_words(value.split(",")) if key == "labels" else typed_number(value)
    return node


def _alike(nodes: Iterable[Node]) -> list[list[Node]]:
    """The nodes, those together of which all facts are the same: most clusters have a few kinds of them."""
    kinds: dict[tuple[object, ...], list[Node]] = {}
    for node in nodes:
        sizes = (node.gpus, node.advertised_gpus, node.cpu, node.memory_bytes, node.storage_bytes)
        kinds.setdefault((node.platform, node.flavor, *sizes), []).append(node)
    return list(kinds.values())


@admin.register(Backend)
class BackendAdmin(PolicyAdmin):
    """Read by the platform's admins and viewers, changed by osmo-admin."""

    address = "clusters"
    read_permission = Permission.PLATFORM_READ

    def extra_urls(self) -> list[URLPattern]:
        return [
            *change_paths("clusters/-/create", self.protect(self._create), name="pools_backend_create"),
            *change_paths("clusters/-/connect", self.protect(self._connect), name="pools_backend_connect"),
            *change_paths(
                "clusters/<str:name>/configuration", self.protect(self._configure), name="pools_backend_configure"
            ),
        ]

    def show_list(self, request: HttpRequest) -> HttpResponse:
        rows = list_backends(actor_of(request)).annotate(node_count=Count("nodes"))
        capacities = read_capacities()
        parts = parts_of(capacities)
        used = read_used_gpus(parts)
        return self.render_page(
            request,
            "osmo/backends.html",
            title="Clusters",
            columns=BACKEND_COLUMNS,
            script=forms.script_media("columns"),
            backends=[
                {"row": row, "capacity": capacities[row.pk], "used": used.get(row.pk, 0)}
                for row in rows
                if row.pk in capacities
            ],
            parts=parts,
            has_kubernetes=any(row.kind == Backend.Kind.KUBERNETES for row in rows),
            may_write=is_allowed(actor_of(request), Permission.PLATFORM_WRITE),
        )

    def show_object(self, request: HttpRequest, object_id: str) -> HttpResponse:
        backend = read_backend(actor_of(request), object_id)
        pools = Pool.objects.filter(backend=backend, archived=False, parent=None).order_by("name")
        count = pools.count()
        return self.render_page(
            request,
            "osmo/backend.html",
            title=backend.name,
            crumbs=[("Clusters", reverse("admin:pools_backend_changelist"))],
            tabs=cluster_tabs(request, backend),
            backend=backend,
            columns=MACHINE_COLUMNS,
            degraded=read_degraded([backend.pk]).get(backend.pk),
            promise_columns=PROMISE_COLUMNS,
            unassigned_columns=UNASSIGNED_COLUMNS,
            nodes=_alike(backend.nodes.order_by("name")),
            parts=parts_among(backend.flavors),
            pools=pools[: count if count <= MAX_POOLS_SHOWN else SOME_POOLS],
            pool_count=count,
            cluster=KubernetesSettings.objects.filter(backend=backend).first(),
            git_owner=find_owner(OwnedKind.BACKEND, backend.name),
            git_owner_note=OWNER_NOTE,
            may_write=is_allowed(actor_of(request), Permission.PLATFORM_WRITE),
        )

    def _create(self, request: HttpRequest) -> HttpResponse:
        words = ("Create a simulated cluster", "Create the cluster")
        return self._create_with(request, CreateSimulatedBackendForm, NEW_BACKEND_VALUES, *words)

    def _connect(self, request: HttpRequest) -> HttpResponse:
        words = ("Connect a Kubernetes cluster", "Connect the cluster")
        return self._create_with(request, cluster_forms.ConnectClusterForm, cluster_forms.NEW_CLUSTER_VALUES, *words)

    def _create_with(
        self, request: HttpRequest, form_class: type[ChangeForm], initial: dict[str, Any], title: str, button: str
    ) -> HttpResponse:
        actor = actor_of(request)
        require_platform(actor)
        name = typed_input(request).get("name", "").strip()
        is_cluster = issubclass(form_class, cluster_forms.ClusterForm)
        words = {
            "connect_commands": cluster_forms.CONNECT_COMMANDS,
            "observe_commands": cluster_forms.OBSERVE_COMMANDS,
            "script": forms.script_media("copy"),
        }

        def create(command: PutBackend, **note: Any) -> BackendResult:
            if Backend.objects.filter(name=name).exists():
                raise Conflict(f"Cluster {name} exists already; edit it on its own page.")
            return put_backend(command, **note)

        change = Change(
            title=title,
            button=button,
            breadcrumbs=_breadcrumbs(None),
            form_class=form_class,
            initial=initial,
            preview=backend_preview(actor, name, form_class, words if is_cluster else None),
            command=partial(_command, name),
            service=create,
            success_message=f"Cluster {name} was added." if is_cluster else f"Cluster {name} was saved.",
            success_url=_sync_address if is_cluster else _saved_address,
        )
        return ConfirmFlow(self, request, change).respond()

    def _configure(self, request: HttpRequest, name: str) -> HttpResponse:
        actor = actor_of(request)
        require_platform(actor)
        backend = read_backend(actor, name)
        owner = find_owner(OwnedKind.BACKEND, name)
        form_class, present = _form_of(backend, owner)
        words = {"lead": f"Owned by Git: {owner}. {OWNER_NOTE}"} if owner else None
        change = Change(
            title=f"Edit {name}",
            button="Save the cluster",
            breadcrumbs=_breadcrumbs(name),
            form_class=form_class,
            initial=present,
            version=backend.version,
            preview=backend_preview(actor, name, form_class, words),
            command=partial(_command, name),
            service=put_backend,
            success_message=f"Cluster {name} was saved.",
            success_url=_address(name),
        )
        return ConfirmFlow(self, request, change).respond()


_PAGES = (("Overview", "admin:pools_backend_change"), ("What if it breaks", "admin:pools_node_losses"))
_CLUSTER_PAGES: tuple[tuple[str, str], ...] = (
    ("Sync", "admin:scheduling_queuesync_change"),
    ("Webhooks", "admin:scheduling_queueguard_change"),
)
_OBSERVED_PAGES: tuple[tuple[str, str], ...] = (
    ("Differences", "admin:scheduling_schedulerdifference_change"),
    ("Connection", "admin:scheduling_queuesync_change"),
)


def cluster_tabs(request: HttpRequest, backend: Backend) -> list[dict[str, Any]]:
    """The pages of a cluster as tabs in the head of each of them; a simulated one has no queues and no webhooks, and of
    an observed one neither are ours."""
    more = _CLUSTER_PAGES if backend.kind == Backend.Kind.KUBERNETES else ()
    if is_observed(backend):
        more = _OBSERVED_PAGES
    pages = [(title, reverse(view, args=[backend.name])) for title, view in (*_PAGES, *more)]
    return [{"title": title, "link": link, "active": link == request.path} for title, link in pages]


def _command(name: str, form: Any) -> PutBackend:
    return PutBackend(name=name, body=form.body())


def _saved_address(result: BackendResult) -> str:
    return _address(result.row.name)


def _sync_address(result: BackendResult) -> str:
    """Where the next step is: of an observed cluster no queue is synced, and its page says what counts in no pool."""
    if is_observed(result.row):
        return _saved_address(result)
    return reverse("admin:scheduling_queuesync_change", args=[result.row.name])


def _breadcrumbs(name: str | None) -> Breadcrumbs:
    top = ("Clusters", reverse("admin:pools_backend_changelist"))
    return [top, (name, _address(name))] if name is not None else [top]


def _address(name: str) -> str:
    return reverse("admin:pools_backend_change", args=[name])
