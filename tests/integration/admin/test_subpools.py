"""The confirmation flow of subpools, without a browser: preview, confirmation, refusals."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from pools.domain.changes.cohorts import PutCohort
from pools.domain.changes.gpu_quotas import PutGpuQuota
from pools.domain.changes.subpools import DeleteSubpool, ResizeSubpool
from pools.domain.configuration.ownership import GitOwner, OwnedKind
from pools.domain.names import REMAINDER_LABEL
from pools.models import AuditEntry, Pool
from pools.services.changes.ownership import set_owners
from tests.integration.admin.conftest import SignedIn, actor_named, confirm_change, submit_workflow
from tests.support.world import apply_change, reconcile

CREATE = "/pools/team/subpools/create"
RESIZE = "/pools/team/subpools/a/resize"
DELETE = "/pools/team/subpools/a/delete"
DEADLINE = "/pools/team/subpools/a/deadline"
RECREATE = "/pools/team/subpools/a/recreate"


def test_a_preview_writes_nothing_and_a_confirmation_what_it_showed(as_person: SignedIn) -> None:
    chief = as_person("chief")
    before = AuditEntry.objects.count()
    preview = chief.post(
        CREATE, {"subpool_name": "c", "quota": "20", "description": "why not", "step": "preview"}, follow=True
    )
    assert AuditEntry.objects.count() == before
    shown = {node.label: (node.quota_before, node.quota_after) for node in preview.context["nodes"]}
    assert shown == {"team": (100, 100), REMAINDER_LABEL: (50, 30), "a": (30, 30), "b": (20, 20), "c": (None, 20)}
    answer = chief.post(CREATE, {**preview.context["hidden"], "step": "confirm"})
    assert answer.status_code == 302
    entry = AuditEntry.objects.get(object="pool/team--c")
    assert (entry.actor, entry.description, entry.action) == ("chief", "why not", "subpool.created")
    assert entry.request_id


def test_a_preview_has_the_bars_of_the_page_after_the_change(as_person: SignedIn) -> None:
    submit_workflow("team--a", gpus=4)
    reconcile()
    chief = as_person("chief")
    preview = chief.post(RESIZE, {"quota": "2", "step": "preview"}, follow=True)
    shown = {node.label: node.bar for node in preview.context["nodes"]}
    assert shown["a"].draining == 2
    assert preview.content.decode().count('class="oa-usage"') == len(shown)
    assert chief.post(RESIZE, {**preview.context["hidden"], "step": "confirm"}).status_code == 302
    tree = chief.get("/pools/team").context["tree"]
    assert shown == {row.label: row.bar for row in (tree.head, *tree.leaves)}
    gone = chief.post("/pools/team/subpools/b/delete", {"step": "preview"}, follow=True)
    assert {node.label: node.bar for node in gone.context["nodes"]}["b"] is None


def test_a_change_in_between_is_shown_before_the_confirmation_counts(as_person: SignedIn) -> None:
    chief = as_person("chief")
    preview = chief.post(RESIZE, {"quota": "40", "step": "preview"}, follow=True)
    apply_change(ResizeSubpool(parent="team", subpool_name="b", quota=5), actor=actor_named("root"))
    again = chief.post(RESIZE, {**preview.context["hidden"], "step": "confirm"}, follow=True)
    assert "changed meanwhile" in again.content.decode()
    assert Pool.objects.get(name="team--a").last_quota == 30
    done = chief.post(RESIZE, {**again.context["hidden"], "step": "confirm"})
    assert done.status_code == 302
    assert Pool.objects.get(name="team--a").last_quota == 40


def test_the_version_of_the_subpool_is_checked_under_the_lock(as_person: SignedIn) -> None:
    """The tree's fingerprint is compared before the lock; the version that the service gets is what counts."""
    chief = as_person("chief")
    preview = chief.post(RESIZE, {"quota": "40", "step": "confirm"}, follow=True)
    assert "nodes" in preview.context, "a confirmation without a preview becomes one"
    answer = chief.post(RESIZE, {**preview.context["hidden"], "version": 999, "step": "confirm"}, follow=True)
    assert "changed meanwhile" in answer.content.decode()
    assert Pool.objects.get(name="team--a").last_quota == 30


def test_refusals_are_shown_at_their_fields_and_keep_the_input(as_person: SignedIn) -> None:
    chief = as_person("chief")
    for quota, sentence in {
        "": "not a valid quota: give whole GPUs",
        "lots": "not a valid quota",
        "-1": "negative",
        "51": "50 are free to give",
        "9" * 60: "not a valid quota",
        "NaN": "not a valid quota",
    }.items():
        answer = chief.post(CREATE, {"subpool_name": "c", "quota": quota, "step": "preview"}, follow=True)
        assert answer.status_code == 400, quota
        assert sentence in answer.context["form"].errors["quota"][0], quota
        assert answer.context["form"]["quota"].value() == quota
    answer = chief.post(CREATE, {"subpool_name": "_shared", "quota": "x", "step": "preview"}, follow=True)
    assert set(answer.context["form"].errors) == {"subpool_name"} | {"quota"}
    answer = chief.post(CREATE, {"subpool_name": "a", "quota": "1", "step": "preview"}, follow=True)
    assert "exists and is ACTIVE" in answer.context["form"].errors["subpool_name"][0]


def test_deleting_with_and_without_work(as_person: SignedIn) -> None:
    held, waits = submit_workflow("team--a", gpus=8), submit_workflow("team--a", gpus=30, name="big")
    reconcile()
    chief = as_person("chief")
    preview = chief.post(DELETE, {"step": "preview"}, follow=True)
    assert {row.workflow_name for row in preview.context["remaining"]} == {held.name, waits.name}
    assert "2 workflows on team--a keep running." in preview.content.decode()
    preview = chief.post(DELETE, {"cancel_pending": "on", "step": "preview"}, follow=True)
    assert [row.workflow_name for row in preview.context["remaining"]] == [held.name]
    text = preview.content.decode()
    assert "1 workflow that has not started is cancelled." in text
    assert "1 workflow on team--a keeps running." in text
    chief.post(DELETE, {**preview.context["hidden"], "step": "confirm"})
    assert Pool.objects.get(name="team--a").subpool_state == "DELETING"
    waits.refresh_from_db()
    assert waits.status == "FAILED_CANCELED"
    page = chief.get("/pools/team").content.decode()
    assert "team--a is draining" in page
    assert "1 workflow that had not started was cancelled." in page
    assert "1 workflow still holds 8 GPUs" in page
    assert held.name in page
    empty = confirm_change(chief, "/pools/team/subpools/b/delete")
    assert empty.status_code == 302
    assert Pool.objects.get(name="team--b").subpool_state == "ARCHIVED"


def test_a_wrong_state_is_shown_at_once_and_refused(as_person: SignedIn) -> None:
    apply_change(DeleteSubpool(parent="team", subpool_name="a"), actor=actor_named("root"))
    chief = as_person("chief")
    assert "only while it is ACTIVE" in chief.get(RESIZE).content.decode()
    assert chief.post(RESIZE, {"quota": "1", "step": "preview"}).status_code == 409
    assert chief.post(DELETE, {"step": "preview"}).status_code == 409
    assert "1 archived subpool" in chief.get("/pools/team").content.decode()
    assert confirm_change(chief, RECREATE, quota="15").status_code == 302
    row = Pool.objects.get(name="team--a")
    assert (row.subpool_state, row.last_quota) == ("ACTIVE", 15)
    assert "only while it is ARCHIVED" in chief.get(RECREATE).content.decode()


def test_unknown_subpools_and_invalid_addresses_are_404(as_person: SignedIn) -> None:
    root = as_person("root")
    for address in (
        "/pools/team/subpools/ghost/resize",
        "/pools/ghost/subpools/a/resize",
        "/pools/team--a/subpools/a/resize",
        "/pools/team--ghost",
        "/pools/%00",
        "/pools/'; drop",
    ):
        assert root.get(address).status_code in {400, 404}, address
    assert root.get("/pools/team--a").headers["Location"] == "/pools/team#a"


OF_GIT = (
    "/pools/team/configuration", "/pools/team/configuration/-/preview", "/cohorts/org/configuration",
    "/cohorts/org/delete", "/pools/team/archive", "/gpu-quotas/team-a/configuration", "/gpu-quotas/team-a/delete",
    "/settings",
)  # fmt: skip
WITH_SUBPOOLS = (
    "/pools/team/subpools/create", "/pools/team/subpools/a/resize", "/pools/team/subpools/a/delete",
    "/pools/team/quotas",
)  # fmt: skip


def test_a_page_of_an_object_of_git_says_so_and_has_no_form(as_person: SignedIn) -> None:
    apply_change(PutCohort(name="org", body={}))
    apply_change(PutGpuQuota(namespace="team-a", spec={}))
    root = as_person("root")
    kinds = (OwnedKind.POOL, "team"), (OwnedKind.COHORT, "org"), (OwnedKind.GPU_QUOTA, "team-a")
    kinds += ((OwnedKind.SETTINGS, "workflow"),)
    for subpools, closed in ((False, OF_GIT), (True, OF_GIT + WITH_SUBPOOLS)):
        set_owners({each: GitOwner("git@example.com:gpu", path="all.yaml", subpools=subpools) for each in kinds})
        for address in closed:
            answer = root.get(address)
            page = answer.content.decode()
            assert answer.status_code == 409 and "owned by Git (git@example.com:gpu, all.yaml)" in page, address
            assert "<textarea" not in page and 'name="quota"' not in page, address
        assert subpools or {root.get(address).status_code for address in WITH_SUBPOOLS} == {200}


def test_the_deadline_of_a_drain_is_given_shown_and_changed(as_person: SignedIn) -> None:
    submit_workflow("team--a", gpus=8)
    reconcile()
    chief = as_person("chief")
    assert "this is possible only while it is DELETING" in chief.get(DEADLINE).content.decode()
    preview = chief.post(DELETE, {"drain_by": "2999-01-01 10:00", "step": "preview"}, follow=True)
    assert "drain_by" in preview.context["form"].errors
    end = timezone.now().replace(second=0, microsecond=0) + timedelta(days=2)
    preview = chief.post(DELETE, {"drain_by": f"{end:%Y-%m-%d %H:%M}", "step": "preview"}, follow=True)
    assert f"{end:%a} {end.day} {end:%b %H:%M} UTC" in preview.content.decode()
    chief.post(DELETE, {**preview.context["hidden"], "step": "confirm"})
    assert Pool.objects.get(name="team--a").drain_by == end
    page = " ".join(chief.get("/pools/team").content.decode().split())
    assert "<dt>Deadline</dt>" in page
    assert "time limits do not end all its work by then" in page
    assert DEADLINE in page
    assert DEADLINE not in as_person("worker").get("/pools/team").content.decode()
    preview = chief.post(DEADLINE, {"drain_by": "", "step": "preview"}, follow=True)
    assert "The drain of team--a has no deadline." in preview.content.decode()
    chief.post(DEADLINE, {**preview.context["hidden"], "step": "confirm"})
    assert Pool.objects.get(name="team--a").drain_by is None
    Pool.objects.filter(name="team--a").update(drain_by=timezone.now() - timedelta(seconds=1))
    assert "The deadline of this drain has passed" in chief.get("/pools/team").content.decode()


def test_the_form_of_a_raised_quota_says_until_when(as_person: SignedIn) -> None:
    chief = as_person("chief")
    assert "Raised until" not in chief.get(RESIZE).content.decode()
    end = timezone.now() + timedelta(days=2)
    apply_change(ResizeSubpool(parent="team", subpool_name="a", quota=40, until=end))
    form = chief.get(RESIZE).content.decode()
    assert "Raised until" in form and "then 30 again" in form
