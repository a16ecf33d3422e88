"""Clusters (backends), and the nodes of simulated ones."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Count, Sum
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse

from pools.admin import cluster_forms, forms
from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.confirm_flow import REASON_HELP
from pools.domain.byte_sizes import exact_size_text
from pools.domain.errors import Conflict, DomainError, Stale
from pools.domain.ownership import OwnedKind
from pools.domain.roles import Actor, Permission, is_allowed
from pools.models import Backend, KubernetesSettings, Node, Pool
from pools.models.backend import DEFAULT_AGEING, DEFAULT_RESERVE_AFTER
from pools.permissions import require_platform
from pools.selectors.backend_capacity import read_capacities, read_used_gpus
from pools.services.backends import put_backend, read_backend
from pools.services.ownership import find_owner

MAX_POOLS_SHOWN = 5
NEW_BACKEND_VALUES = {
    "namespace": "default", "auto_end": True, "reserve_after": DEFAULT_RESERVE_AFTER, "ageing": DEFAULT_AGEING,
}  # fmt: skip


class SimulatedBackendForm(forms.ServiceForm):
    """A simulated cluster; one node a line."""

    namespace = forms.text_field(
        "Namespace", help_text="Part of every queue name; cannot change while pools use the cluster.", required=True
    )
    about = forms.text_area_field("Description", rows=2)
    offline = forms.checkbox_field("Offline", help_text="Submissions are accepted and wait; running work continues.")
    auto_end = forms.checkbox_field(
        "Work ends automatically", help_text="After its run time. Otherwise its end is reported by hand."
    )
    reserve_after = forms.text_field(
        "Reserve after (seconds)",
        help_text="After this wait the first gang of a leaf gets a start reservation. Empty: never.",
        inputmode="numeric",
    )
    ageing = forms.text_field(
        "Ageing (seconds)",
        help_text="NORMAL work that is so much older comes before HIGH work of its leaf. Empty: never.",
        inputmode="numeric",
    )
    nodes = forms.code_field(
        "Nodes",
        rows=8,
        max_length=1_000_000,
        help_text="One node a line: NAME GPUS, then optionally cpu=128 memory=1Ti storage=4Ti platform=default. "
        "Work on a removed node continues until it ends.",
    )
    description = forms.text_field("Reason", help_text=REASON_HELP)
    version = forms.hidden_number_field()
    field_by_path = {"description": "about"}

    def body(self) -> dict[str, Any]:
        """The configuration for the service."""
        data = self.cleaned_data
        return {
            "namespace": data["namespace"],
            "description": data["about"],
            "offline": data["offline"],
            "auto_end": data["auto_end"],
            "reserve_after": _parse_number(data["reserve_after"]) if data["reserve_after"] else None,
            "ageing": _parse_number(data["ageing"]) if data["ageing"] else None,
            "nodes": [_parse_node_line(line) for line in data["nodes"].splitlines() if line.strip()],
        }


class CreateSimulatedBackendForm(SimulatedBackendForm):
    """A new cluster."""

    field_order = ("name",)
    name = forms.text_field("Name", help_text="Lower-case letters, digits and hyphens, a letter first.", required=True)


BackendForm = SimulatedBackendForm | cluster_forms.ClusterForm


def _existing_backend_form(backend: Backend, request: HttpRequest) -> BackendForm:
    """The form of an existing backend, by its kind."""
    cluster = KubernetesSettings.objects.filter(backend=backend).first()
    if cluster is not None:
        return cluster_forms.ClusterForm(
            forms.submitted_data(request), initial=cluster_forms.cluster_form_values(backend, cluster)
        )
    if backend.kind == Backend.Kind.KUBERNETES:
        initial = {**cluster_forms.NEW_CLUSTER_VALUES, "namespace": backend.namespace, "version": backend.version}
        return cluster_forms.ClusterForm(forms.submitted_data(request), initial=initial)
    present = {
        "namespace": backend.namespace,
        "about": backend.description,
        "offline": backend.offline,
        "auto_end": backend.auto_end,
        "reserve_after": backend.reserve_after,
        "ageing": backend.ageing,
        "nodes": "\n".join(_format_node_line(node) for node in backend.nodes.order_by("name")),
        "version": backend.version,
    }
    initial = forms.initial_values(request, SimulatedBackendForm, present)
    return SimulatedBackendForm(forms.submitted_data(request), initial=initial)


def _parse_node_line(line: str) -> dict[str, Any]:
    """A line as the service's object; the service checks it."""
    words = line.split()
    node: dict[str, Any] = {"name": words[0]}
    if len(words) > 1:
        node["gpus"] = _parse_number(words[1])
    for word in words[2:]:
        key, _, value = word.partition("=")
        node[key] = _parse_number(value)
    return node


def _parse_number(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else text


def _format_node_line(node: Node) -> str:
    """A node as a line of the form."""
    return (
        f"{node.name} {node.gpus} cpu={node.cpu} memory={exact_size_text(node.memory_bytes)} "
        f"storage={exact_size_text(node.storage_bytes)} platform={node.platform}"
    )


@admin.register(Backend)
class BackendAdmin(PolicyAdmin):
    """Read by the platform's admins and viewers, changed by osmo-admin."""

    def may_see(self, actor: Actor) -> bool:
        return is_allowed(actor, Permission.PLATFORM_READ)

    def extra_urls(self) -> list[URLPattern]:
        return [
            path("create/", self.protect(self._create), name="pools_backend_create"),
            path("connect/", self.protect(self._connect), name="pools_backend_connect"),
            path("<str:name>/configuration/", self.protect(self._configure), name="pools_backend_configure"),
        ]

    def show_list(self, request: HttpRequest) -> HttpResponse:
        rows = Backend.objects.annotate(node_count=Count("nodes"), gpus=Sum("nodes__gpus")).order_by("name")
        capacities, used = read_capacities(), read_used_gpus()
        return self.render_page(
            request,
            "osmo/backends.html",
            title="Clusters and nodes",
            backends=[
                {"row": row, "capacity": capacities[row.pk], "used": used.get(row.pk, 0)}
                for row in rows
                if row.pk in capacities
            ],
            may_write=is_allowed(actor_of(request), Permission.PLATFORM_WRITE),
        )

    def show_object(self, request: HttpRequest, object_id: str) -> HttpResponse:
        backend = read_backend(actor_of(request), object_id)
        pools = Pool.objects.filter(backend=backend, archived=False, parent=None).order_by("name")
        return self.render_page(
            request,
            "osmo/backend.html",
            title=backend.name,
            crumbs=[("Clusters and nodes", reverse("admin:pools_backend_changelist"))],
            backend=backend,
            nodes=list(backend.nodes.order_by("name")),
            pools=list(pools[:MAX_POOLS_SHOWN]),
            pool_count=pools.count(),
            cluster=KubernetesSettings.objects.filter(backend=backend).first(),
            git_owner=find_owner(OwnedKind.BACKEND, backend.name),
            git_owner_note="Change it in that file; only Offline and a kubeconfig are changed here.",
            may_write=is_allowed(actor_of(request), Permission.PLATFORM_WRITE),
        )

    def _create(self, request: HttpRequest) -> HttpResponse:
        require_platform(actor_of(request))
        form = CreateSimulatedBackendForm(forms.submitted_data(request), initial=NEW_BACKEND_VALUES)
        return self._create_from(request, form, "Create a simulated cluster", "Create the cluster")

    def _connect(self, request: HttpRequest) -> HttpResponse:
        require_platform(actor_of(request))
        form = cluster_forms.ConnectClusterForm(forms.submitted_data(request), initial=cluster_forms.NEW_CLUSTER_VALUES)
        return self._create_from(request, form, "Connect a Kubernetes cluster", "Connect the cluster")

    def _create_from(self, request: HttpRequest, form: BackendForm, title: str, button: str) -> HttpResponse:
        if request.method == "POST" and form.is_valid():
            name = form.cleaned_data["name"]
            if Backend.objects.filter(name=name).exists():
                form.add_errors(Conflict(f"Cluster {name} exists already; edit it on its own page."))
            elif answer := self._put(request, form, name, None):
                return answer
        return self._form(request, form, title, button, None)

    def _configure(self, request: HttpRequest, name: str) -> HttpResponse:
        require_platform(actor_of(request))
        backend = read_backend(actor_of(request), name)
        form = _existing_backend_form(backend, request)
        if request.method == "POST" and form.is_valid():
            answer = self._put(request, form, backend.name, form.cleaned_data["version"])
            if answer is not None:
                return answer
        return self._form(request, form, f"Edit {backend.name}", "Save the cluster", backend)

    def _put(self, request: HttpRequest, form: BackendForm, name: str, version: int | None) -> HttpResponse | None:
        """Save and redirect to the cluster's page; None if the service refused, which the form then shows."""
        try:
            result = put_backend(
                actor=actor_of(request),
                name=name,
                body=form.body(),
                description=form.cleaned_data["description"],
                expected_version=version,
            )
        except Stale as refusal:
            form.add_stale_error(refusal, "version", str(Backend.objects.get(name=name).version))
            return None
        except DomainError as refusal:
            form.add_errors(refusal)
            return None
        self.show_success(request, f"Cluster {result.row.name} was saved.")
        for warning in result.warnings:
            self.show_warning(request, warning)
        return HttpResponseRedirect(reverse("admin:pools_backend_change", args=[result.row.name]))

    def _form(
        self, request: HttpRequest, form: BackendForm, title: str, button: str, backend: Backend | None
    ) -> HttpResponse:
        crumbs = [("Clusters and nodes", reverse("admin:pools_backend_changelist"))]
        if backend is not None:
            crumbs.append((backend.name, reverse("admin:pools_backend_change", args=[backend.name])))
        return self.render_form_page(request, form, title=title, button=button, crumbs=crumbs)
