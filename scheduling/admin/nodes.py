"""Nodes: a map of each backend's GPUs with the work on them, and a page for each node."""

from __future__ import annotations

from dataclasses import replace

from django import forms as django_forms
from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.http import urlencode

from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.configuration.backends import cluster_tabs
from pools.admin.filters import FilterChip
from pools.admin.forms import MAX_TEXT_LENGTH, WholeNumberField, script_media
from pools.admin.paging import parse_page_number
from pools.domain.errors import DomainError, NotFound, Throttled, joined_messages
from pools.domain.list_columns import FLAVOR_COLUMN
from pools.domain.people.roles import Permission, is_allowed
from pools.models import Backend, Node
from pools.representations.csv_files import is_csv_request, list_csv
from pools.representations.page_parameters import also_say, read_choice, unread_filter
from scheduling.admin.reports.last_losses import keep_losses, read_last_losses
from scheduling.domain.changes.nodes import ClearNode, DrainNode, RestoreNode
from scheduling.domain.list_columns import LOST_WORK_COLUMNS, NODE_LOSS_COLUMNS, WORKFLOW_COLUMNS
from scheduling.history.starts.after_loss import starts_after_loss
from scheduling.locking import hold_what_if_turn
from scheduling.scenario import ScenarioError
from scheduling.scenario.node_changes import typed_node_changes
from scheduling.selectors.cluster.node_map import pools_of_node, read_mapped_node, read_node_map, visible_backends
from scheduling.selectors.cluster.node_tiles import ColourBy, draw_tiles
from scheduling.selectors.what_if.live_question import read_loss_of
from scheduling.selectors.what_if.single_losses import SingleLosses, read_single_losses
from scheduling.services.node_care import clear_node, drain_node, restore_node

NODES_PER_PAGE = 2000
MAX_FREE_GPUS = 10_000
MAX_LOSSES_SHOWN = 100


class NodeFilterForm(django_forms.Form):
    """The filters of the map, for the bar above it; an invalid value is named and filters nothing."""

    name = django_forms.CharField(
        label="Node",
        help_text="a part of its name",
        required=False,
        max_length=MAX_TEXT_LENGTH,
        widget=django_forms.TextInput(attrs={"autocomplete": "off"}),
    )
    flavor = django_forms.CharField(label="Flavor", required=False, max_length=MAX_TEXT_LENGTH)
    free = WholeNumberField(
        label="Free GPUs, at least",
        required=False,
        min_value=0,
        max_value=MAX_FREE_GPUS,
        widget=django_forms.TextInput(attrs={"inputmode": "numeric", "autocomplete": "off"}),
    )

    has_flavors = False

    @property
    def search_field(self) -> django_forms.BoundField:
        """The field with the box in the bar."""
        return self["name"]

    @property
    def other_fields(self) -> list[django_forms.BoundField]:
        """The fields behind the button."""
        return [*([self["flavor"]] if self.has_flavors else []), self["free"]]

    @property
    def chips(self) -> list[FilterChip]:
        """The filters that are in force, except the text in the box."""
        found = ((name, self.cleaned_data.get(name)) for name in ("flavor", "free"))
        return [FilterChip(name, str(self.fields[name].label), str(value)) for name, value in found if value]

    @property
    def is_active(self) -> bool:
        """Whether any field filters."""
        return any(self.cleaned_data.values())

    @property
    def faults(self) -> list[str]:
        """A message for each value in the address that cannot be read, and therefore does not filter."""
        return [
            unread_filter(str(self.fields[name].label), " ".join(map(str, errors)))
            for name, errors in self.errors.items()
        ]


class LossForm(django_forms.Form):
    """The nodes of a question: what they take with them, or what happens with fewer GPUs on them."""

    nodes = django_forms.CharField(
        required=False,
        max_length=MAX_TEXT_LENGTH,
        widget=django_forms.TextInput(attrs={"placeholder": "n1 n2, rack7-*, rack=r7", "autocomplete": "off"}),
    )
    gpus = WholeNumberField(
        label="GPUs left",
        required=False,
        min_value=0,
        max_value=MAX_FREE_GPUS,
        widget=django_forms.TextInput(attrs={"inputmode": "numeric", "placeholder": "none", "autocomplete": "off"}),
    )


@admin.register(Node)
class NodeAdmin(PolicyAdmin):
    """Everybody sees the nodes of their pools; the work of other pools is shown as a number."""

    address = "nodes"

    def extra_urls(self) -> list[URLPattern]:
        return [
            path("nodes/<str:backend>/<str:name>", self.protect(self._node_page), name="pools_node_page"),
            path("clusters/<str:backend>/losses", self.protect(self._losses_page), name="pools_node_losses"),
        ]

    def show_list(self, request: HttpRequest) -> HttpResponse:
        actor, query = actor_of(request), request.GET
        backends = visible_backends(actor)
        found, page = None, parse_page_number(query.get("page"))
        filters = NodeFilterForm(query)
        filters.is_valid()
        also_say(query, lambda: filters.faults)
        name, free = filters.cleaned_data.get("name") or "", filters.cleaned_data.get("free") or 0
        flavor = filters.cleaned_data.get("flavor") or ""
        colour_by = ColourBy(read_choice(query, "colour", ColourBy, ColourBy.POOL))
        if backends:
            backend = query.get("backend") or backends[0]
            offset = (page - 1) * NODES_PER_PAGE
            found = read_node_map(
                actor, backend, name=name, free=free, flavor=flavor, limit=NODES_PER_PAGE, offset=offset
            )
            filters.has_flavors = bool(found.flavors)
        return self.render_page(
            request,
            "osmo/nodes.html",
            title="Nodes",
            backends=backends,
            map=found,
            drawn=None if found is None else draw_tiles(found.nodes, colour_by, found.part_flavors),
            colours=list(ColourBy),
            filters=filters,
            kept={} if found is None else {"backend": found.backend, "colour": colour_by},
            number=page,
            previous=page - 1,
            next=page + 1 if found is not None and page * NODES_PER_PAGE < found.total else 0,
        )

    def show_object(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """A node without its cluster, as a person types it: its page, or the list of those of the name."""
        found = Node.objects.filter(backend__name__in=visible_backends(actor_of(request)), name=object_id)
        backends = list(found.order_by("backend__name").values_list("backend__name", flat=True)[:2])
        if not backends:
            raise Http404
        if len(backends) == 1:
            return HttpResponseRedirect(reverse("admin:pools_node_page", args=[backends[0], object_id]))
        query = urlencode({"backend": backends[0], "name": object_id})
        return HttpResponseRedirect(f"{reverse('admin:pools_node_changelist')}?{query}")

    def _node_page(self, request: HttpRequest, backend: str, name: str) -> HttpResponse:
        actor = actor_of(request)
        node = read_mapped_node(actor, backend, name)
        if request.method == "POST":
            return self._care_for(request, backend, name)
        row = Backend.objects.get(name=backend)
        nodes = reverse("admin:pools_node_changelist")
        return self.render_page(
            request,
            "osmo/node.html",
            title=name,
            crumbs=[("Nodes", nodes), (backend, f"{nodes}?{urlencode({'backend': backend})}")],
            backend=row,
            columns=WORKFLOW_COLUMNS,
            is_drained=node.usage.state == "drained",
            drain_commands=[f"kubectl drain {name} --ignore-daemonsets"] if row.kind != Backend.Kind.SIMULATED else [],
            script=script_media("copy"),
            may_write=is_allowed(actor, Permission.PLATFORM_WRITE),
            node=node,
            drawn=draw_tiles([node], ColourBy.POOL),
            pools=pools_of_node(actor, node.usage),
            reads_platform=is_allowed(actor, Permission.PLATFORM_READ),
        )

    def _care_for(self, request: HttpRequest, backend: str, name: str) -> HttpResponse:
        """Drain the node, let it take work again, or end its suspicion."""
        actor = actor_of(request)
        try:
            match request.POST.get("do"):
                case "drain":
                    drain_node(DrainNode(backend=backend, node=name), actor=actor)
                    self.show_success(request, f"Node {name} is drained: no new work starts there.")
                case "restore":
                    restore_node(RestoreNode(backend=backend, node=name), actor=actor)
                    self.show_success(request, f"Node {name} takes work again.")
                case "clear":
                    clear_node(ClearNode(backend=backend, node=name), actor=actor)
                    self.show_success(request, f"Node {name} is not suspect any more.")
        except DomainError as refusal:
            self.show_warning(request, refusal.message)
        return HttpResponseRedirect(request.path)

    def _losses_page(self, request: HttpRequest, backend: str) -> HttpResponse:
        """What if it breaks: every single node, and the full answer for those that the reader names."""
        actor, form = actor_of(request), LossForm(request.GET)
        assert actor.user_id is not None, "only people ask"
        may_ask = actor.can_read_all or bool(actor.pools_with(Permission.POOL_PARTITION))
        nodes = form.cleaned_data.get("nodes", "") if form.is_valid() and may_ask else ""
        question = request.get_full_path()
        found: SingleLosses | None = None
        loss, clock, wait = None, "", 0
        try:
            with hold_what_if_turn(actor.user_id):
                found = read_single_losses(actor, backend)
                if nodes:
                    try:
                        changes = typed_node_changes(nodes, form.cleaned_data["gpus"])
                        loss = read_loss_of(actor, backend, changes, starts_after_loss)
                    except ScenarioError as refusal:
                        form.add_error("nodes", joined_messages(refusal.details))
            keep_losses(actor, question, found, loss)
        except Throttled as busy:
            if is_csv_request(request):
                raise
            if last := read_last_losses(actor, question):
                found, loss, clock = last.found, last.loss, last.clock
            elif backend in visible_backends(actor):
                wait = busy.retry_after or 0
            else:
                raise NotFound(f"There is no cluster {backend} that you can see.") from None
        if found and is_csv_request(request):
            lines = ((name, loss) for loss in found.losses for name in loss.nodes)
            flavor = {"flavor": replace(FLAVOR_COLUMN, value=lambda row: row[1].flavor)}
            has_flavors = any(loss.flavor for loss in found.losses)
            return list_csv("losses", NODE_LOSS_COLUMNS | (flavor if has_flavors else {}), lines)
        reads_platform = is_allowed(actor, Permission.PLATFORM_READ)
        above = reverse("admin:pools_backend_changelist" if reads_platform else "admin:pools_node_changelist")
        page = self.render_page(
            request,
            "osmo/losses.html",
            title=backend if reads_platform else f"{backend}: what if it breaks",
            crumbs=[("Clusters" if reads_platform else "Nodes", above)],
            tabs=cluster_tabs(request, Backend.objects.get(name=backend)) if reads_platform else [],
            found=found,
            columns=NODE_LOSS_COLUMNS,
            work_columns=LOST_WORK_COLUMNS,
            shown=f":{MAX_LOSSES_SHOWN}",
            more=max(0, len(found.losses) - MAX_LOSSES_SHOWN) if found else 0,
            form=form,
            nodes=nodes,
            loss=loss,
            clock=clock,
            read_at=timezone.now(),
            wait=wait,
            may_ask=may_ask,
        )
        if wait:
            page.headers["Refresh"] = str(wait)
        return page
