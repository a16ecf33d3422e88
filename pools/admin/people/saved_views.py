"""Saved views: the person's own, a page that saves the filters of a list, and one that deletes a view."""

from __future__ import annotations

from urllib.parse import urlencode

from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse

from pools.admin import forms
from pools.admin.base import PolicyAdmin, actor_of
from pools.domain.changes.saved_views import DeleteView, SaveView
from pools.domain.list_columns import VIEW_COLUMNS
from pools.domain.people.saved_views import FilteredList, filtered_list
from pools.domain.structured_input.declared_values import fields_of
from pools.models import SavedView
from pools.representations.saved_views import LIST_TITLES, view_address
from pools.selectors.saved_views import get_view, list_views
from pools.services.people.saved_views import delete_view, save_view

_NAME = fields_of(SaveView)["name"]


class SaveViewForm(forms.ServiceForm):
    """The name of a view. Its list and its filters are in the address."""

    name = forms.text_field(_NAME.label, help_text=_NAME.help)


@admin.register(SavedView)
class SavedViewAdmin(PolicyAdmin):
    """Each person sees their own views only."""

    address = "views"

    def extra_urls(self) -> list[URLPattern]:
        return [
            path("views/-/save/<str:page>", self.protect(self._save), name="pools_savedview_save"),
            path("views/-/delete/<str:page>/<str:name>", self.protect(self._delete), name="pools_savedview_delete"),
        ]

    def show_list(self, request: HttpRequest) -> HttpResponse:
        views = list_views(actor_of(request))
        return self.render_page(
            request,
            "osmo/saved_views.html",
            title="Saved views",
            columns=VIEW_COLUMNS,
            views=[(view, LIST_TITLES[FilteredList(view.page)], view_address(view)) for view in views],
        )

    def _save(self, request: HttpRequest, page: str) -> HttpResponse:
        chosen = filtered_list(page)
        query = urlencode([(name, text) for name in request.GET for text in request.GET.getlist(name)])
        form = SaveViewForm(forms.submitted_data(request))

        def save() -> HttpResponse:
            command = SaveView(page=chosen, name=form.cleaned_data["name"], query=query)
            view = save_view(command, actor=actor_of(request))
            self.show_success(request, f"View {view.name} was saved: it is above the filters of this list.")
            return HttpResponseRedirect(view_address(view))

        return self.change_by_form(
            request,
            form,
            save,
            title=f"Save a view of {LIST_TITLES[chosen]}",
            button="Save the view",
            crumbs=[("Saved views", _list_address())],
            lead="Only you see this view. A view of the same name is replaced.",
        )

    def _delete(self, request: HttpRequest, page: str, name: str) -> HttpResponse:
        chosen = filtered_list(page)
        if request.method == "POST":
            delete_view(DeleteView(page=chosen, name=name), actor=actor_of(request))
            return self.show_removed(request, f"View {name} was deleted.", _list_address())
        get_view(actor_of(request), chosen, name)
        return self.render_form_page(
            request,
            forms.ServiceForm(),
            title=f"Delete the view {name}",
            button="Delete the view",
            crumbs=[("Saved views", _list_address())],
            danger=True,
            lead=f"The view {name} of {LIST_TITLES[chosen]} is deleted. The list itself stays as it is.",
        )


def _list_address() -> str:
    return reverse("admin:pools_savedview_changelist")
