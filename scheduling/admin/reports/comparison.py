"""The page that shows two workflows side by side."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from pools.admin.base import PolicyAdmin, actor_of
from pools.domain.errors import BadInput, Fault, NotFound, Violation
from pools.domain.values.counting import counted
from scheduling.models import Workflow
from scheduling.selectors.reports.comparison import MAX_LINES, compare_workflows
from scheduling.selectors.work.workflows import get_visible_workflow

MAX_SUGGESTIONS = 8


def comparison_page(admin: PolicyAdmin, request: HttpRequest) -> HttpResponse:
    """Two workflows by the parameters `name`; with one of them a form that asks for the other. Raises BadInput for more
    than two."""
    actor = actor_of(request)
    names = [name.strip() for name in request.GET.getlist("name") if name.strip()]
    if len(names) > 2:
        message = f"{counted(len(names), 'workflow is', 'workflows are')} chosen; two can be compared. Choose two."
        raise BadInput(message, [Violation("name", Fault.TOO_MANY, message)])
    context: dict[str, object] = {"names": [*names, "", ""][:2], "max_lines": MAX_LINES}
    try:
        if len(names) == 2:
            context["comparison"] = compare_workflows(actor, *names)
        elif names:
            only = get_visible_workflow(actor, names[0])
            alike = Workflow.objects.visible_to(actor).filter(spec_name=only.spec_name).exclude(pk=only.pk)
            context["suggestions"] = list(
                alike.order_by("-submit_time", "-name").values_list("name", "status", "submit_time")[:MAX_SUGGESTIONS]
            )
    except NotFound as refusal:
        context["refusal"] = refusal
    return admin.render_page(
        request,
        "osmo/comparison.html",
        title="Compare two workflows" if len(names) < 2 else f"{names[0]} and {names[1]}",
        crumbs=[("Workflows", reverse("admin:scheduling_workflow_changelist"))],
        status=404 if "refusal" in context else 200,
        **context,
    )
