"""Changes on the pages, by an osmo-admin and by users of their own account: through services, with kept input."""

from __future__ import annotations

from django.core.cache import cache

from pools.domain.changes.users import SetPassword
from pools.domain.people.role_changes import right_changes
from pools.models import AccessToken, AuditEntry, Backend, IdempotencyRecord, Pool, User
from scheduling.models import Workflow
from tests.integration.admin.conftest import WORKFLOW, SignedIn, actor_named, confirm_change, submit_workflow
from tests.support import world

SECRET = "only-for-tests-4711"
POOL = {"guarantee": "100", "maximum": "-1", "weight": "1"}


def test_configuring_a_pool_shows_its_effect_first(as_person: SignedIn) -> None:
    root, address = as_person("root"), "/pools/team/configuration"
    form = root.get(address).context["form"]
    assert [form[name].value() for name in ("guarantee", "maximum", "weight")] == [100, "", 1]
    refused = root.post(address, {**POOL, "guarantee": "49", "about": "ours", "step": "preview"}, follow=True)
    assert refused.status_code == 400
    assert "below the 50 GPUs allocated" in refused.context["form"].errors["guarantee"][0]
    assert refused.context["form"]["about"].value() == "ours"
    assert confirm_change(root, address, **POOL | {"guarantee": "80", "about": "ours"}).status_code == 302
    row = Pool.objects.get(name="team")
    assert (row.guarantee, row.description) == (80, "ours")
    assert AuditEntry.objects.filter(object="pool/team").latest("id").actor == "root"
    new = {"name": "team", "backend": "sim", "guarantee": "7", "step": "preview"}
    answer = root.post("/pools/-/create", new, follow=True)
    assert "exists already" in answer.context["form"].errors["name"][0], "a creation changes no pool that exists"


def test_archiving_a_pool_and_bringing_it_back(as_person: SignedIn) -> None:
    root, address = as_person("root"), "/pools/other/archive"
    for refused in (root.get(address), root.post(address, {"step": "preview"}, follow=True)):
        text = " ".join(refused.content.decode().split())
        assert refused.status_code == 409
        assert "1 thing is needed first" in text
        assert "other--x has a quota of 10 GPUs and no active work." in text
        assert 'href="/pools/other/subpools/x/delete"' in text
        assert "Preview" not in text
    confirm_change(root, "/pools/other/subpools/x/delete")
    preview = root.post(address, {"description": "merged", "step": "preview"}, follow=True)
    assert preview.request["PATH_INFO"] == f"{address}/-/preview"
    text = preview.content.decode()
    assert "can be brought back" in text
    assert "Its quota of 50 GPUs of cluster sim can be given to other pools." in text
    assert not Pool.objects.get(name="other").archived
    stale = root.post(address, {**preview.context["hidden"], "version": 999, "step": "confirm"})
    assert "changed_meanwhile" in stale["Location"]
    assert not Pool.objects.get(name="other").archived
    assert root.post(address, {**preview.context["hidden"], "step": "confirm"}).status_code == 302
    assert AuditEntry.objects.filter(object="pool/other").latest("id").description == "merged"
    assert Pool.objects.get(name="other").archived
    assert "other is archived already" in root.get(address).content.decode()
    page = root.get("/pools/other").content.decode()
    assert "This pool is archived" in page
    assert "Create a subpool" not in page
    assert confirm_change(root, "/pools/other/configuration", **POOL | {"guarantee": "50"}).status_code == 302
    assert not Pool.objects.get(name="other").archived
    world.make_pool("endless", -1, on=Backend.objects.get(name="sim"))
    text = root.post("/pools/endless/archive", {"step": "preview"}, follow=True).content.decode()
    assert "is deleted for good" in text and "quota of" not in text, "without a limit it leaves no number of GPUs"


def test_a_pool_with_a_drain_and_active_work_names_them_before_its_archival(as_person: SignedIn) -> None:
    root = as_person("root")
    submit_workflow("team--a", name="one")
    submit_workflow("team", name="two")
    world.reconcile()
    confirm_change(root, "/pools/team/subpools/a/delete")
    shown = root.get("/pools/team/archive")
    assert shown.status_code == 409
    steps = {step.action: (step.message, step.address) for step in shown.context["first_steps"]}
    assert list(steps) == ["Work of team--a", "Delete team--b", "Work of team"]
    assert steps["Work of team--a"][0].startswith("team--a is draining and has 1 active workflow.")
    assert steps["Work of team"][0].startswith("The pool remainder of team has 1 active workflow.")
    work = {label: root.get(address).content.decode() for label, (_, address) in steps.items()}
    assert "one-1" in work["Work of team--a"] and "two-1" not in work["Work of team--a"]
    assert "two-1" in work["Work of team"] and "one-1" not in work["Work of team"]


def test_disabling_a_disabled_account_does_not_enable_it(as_person: SignedIn) -> None:
    first, second, address = as_person("root"), as_person("root"), "/users/worker/close"
    shown = [tab.get(address).context["extra"] for tab in (first, second)]
    for tab, sent in zip((first, second), shown, strict=True):
        assert tab.post(address, sent).status_code == 302
        assert not User.objects.get(username="worker").is_active
    assert first.post(address, first.get(address).context["extra"]).status_code == 302
    assert User.objects.get(username="worker").is_active
    own = first.post("/users/root/close")
    assert "cannot close your own account" in own.context["form"].non_field_errors()[0]
    assert User.objects.get(username="root").is_active


def test_the_preview_of_a_new_user_names_the_rights_and_no_password(as_person: SignedIn) -> None:
    root, address = as_person("root"), "/users/-/create"
    typed = {"username": "fresh", "password": SECRET, "roles": ["osmo-viewer"], "description": "new colleague"}
    preview = root.post(address, {**typed, "step": "preview"}, follow=True)
    text = preview.content.decode()
    assert "can log in with the password" in text
    (rights,) = right_changes((), ["osmo-viewer"])
    assert rights.gained and all(right in text for right in rights.gained)
    assert SECRET not in text
    assert SECRET not in preview.request["QUERY_STRING"]
    assert not User.objects.filter(username="fresh").exists()
    assert root.post(address, {**preview.context["hidden"], "step": "confirm"}).status_code == 302
    fresh = User.objects.get(username="fresh")
    assert fresh.check_password(SECRET)
    assert AuditEntry.objects.filter(object="user/fresh").latest("id").description == "new colleague"
    nobody = root.post(address, {"username": "lonely", "password": "", "step": "preview"}, follow=True)
    assert "sees no pool" in nobody.content.decode()
    assert root.post(address, {**nobody.context["hidden"], "step": "confirm"}).status_code == 302
    lonely = User.objects.get(username="lonely")
    assert (lonely.has_usable_password(), lonely.created_by) == (False, "root")


def test_a_password_that_a_refused_page_forgets_is_asked_for_again(as_person: SignedIn) -> None:
    """Without the warning, a second submission would create an account without a password."""
    root, forgotten = as_person("root"), "a secret and was not kept"
    weak = root.post("/users/-/create", {"username": "no blanks", "password": "a#9"}, follow=True)
    assert set(weak.context["form"].errors) == {"username", "password"}
    assert "a#9" not in weak.content.decode()
    refused = root.post("/users/-/create", {"username": "no blanks", "password": SECRET}, follow=True)
    assert set(refused.context["form"].errors) == {"username"}
    assert forgotten in refused.content.decode()
    assert SECRET not in refused.content.decode()
    without = root.post("/users/-/create", {"username": "no blanks"}, follow=True)
    assert forgotten not in without.content.decode()
    assert forgotten not in root.get("/users/-/create").content.decode()


def test_errors_name_the_labels_of_the_page(as_person: SignedIn) -> None:
    root = as_person("root")
    pool = root.post("/pools/team/configuration", {**POOL, "weight": "-5", "step": "preview"}, follow=True)
    assert pool.context["form"].errors["weight"] == ["“Weight” must be a whole number from 0 to 2,147,483,647."]
    pool = root.post("/pools/team/configuration", {**POOL, "maximum": "many", "step": "preview"}, follow=True)
    (maximum,) = pool.context["form"].errors["maximum"]
    pool = root.post("/pools/team/configuration", {**POOL, "guarantee": "many", "step": "preview"}, follow=True)
    assert len(pool.context["form"].errors["guarantee"]) == 1, "only that it cannot be read"
    assert maximum.endswith("from 0 to 2,147,483,647, not a text. An empty box means: no limit.")
    typed = {"namespace": "ns", "victims": "youngest", "nodes": "n0 8\n\nn1", "step": "preview"}
    backend = root.post("/clusters/sim/configuration", typed, follow=True)
    assert backend.context["form"].errors["nodes"] == ["Line 3: gpus is missing."]
    typed = {"name": "fine", "parent": "corp", "nominal": "many", "others": "\ncpu=4:x\nmemory", "step": "preview"}
    cohort = root.post("/cohorts/-/create", typed, follow=True).context["form"].errors
    whole = "must be a whole number from 0 to 9,007,199,254,740,991"
    assert cohort["nominal"] == [f"“Nominal quota in GPUs” {whole}, not a text."]
    assert set(cohort["others"]) == {
        f"Line 2: borrowing limit {whole}, not a text.",
        f"Line 3: quota {whole}, not a text.",
    }


def test_tokens_of_a_user_whose_name_has_a_plus(as_person: SignedIn) -> None:
    world.make_user("ann+ops@example", "osmo-team-user")
    root = as_person("root")
    made = root.post("/tokens/-/create?owner=ann%2Bops%40example", {"name": "ci", "days": "7"})
    assert root.get(made.context["back"]).context["owner"].username == "ann+ops@example"
    listed = root.get(made.context["back"]).content.decode()
    assert "/tokens/ci/revoke?owner=ann%2Bops%40example" in listed


def test_one_s_own_password(as_person: SignedIn) -> None:
    world.apply_change(SetPassword(username="worker", password=SECRET), actor=actor_named("worker"))
    worker = as_person("worker")
    wrong = worker.post("/password_change/", {"old": "nope", "new": "another-secret-99", "again": "different"})
    assert set(wrong.context["form"].errors) == {"old", "again"}
    weak = worker.post("/password_change/", {"old": SECRET, "new": "password", "again": "password"})
    assert weak.context["form"].errors["new"]
    good = worker.post("/password_change/", {"old": SECRET, "new": "another-secret-99", "again": "another-secret-99"})
    assert good.status_code == 302
    assert worker.get("/").status_code == 200
    assert User.objects.get(username="worker").check_password("another-secret-99")
    entry = AuditEntry.objects.filter(action="user.password_changed").latest("id")
    assert (entry.actor, entry.object) == ("worker", "user/worker")


def test_a_token_s_secret_is_shown_once_and_never_kept(as_person: SignedIn) -> None:
    worker = as_person("worker")
    bad = worker.post("/tokens/-/create", {"name": "9 lives", "days": "31"})
    assert bad.context["form"].errors["name"]
    made = worker.post("/tokens/-/create", {"name": "ci", "days": "31", "roles": ["osmo-team-user"]})
    secret = made.context["secret"]
    assert "no-store" in made.headers["Cache-Control"]
    assert AccessToken.objects.get(name="ci").roles == ["osmo-team-user"]
    assert secret not in worker.get("/tokens").content.decode()
    assert not AuditEntry.objects.filter(after__icontains=secret).exists()
    again = worker.post("/tokens/-/create", {"name": "ci", "days": "31"})
    assert again.status_code == 400
    foreign = as_person("chief").post("/tokens/ci/revoke?owner=worker")
    assert foreign.status_code == 403
    assert worker.post("/tokens/ci/revoke").status_code == 302
    assert not AccessToken.objects.exists()
    assert worker.post("/tokens/ci/revoke").status_code == 404
    assert "Token ci was revoked" in worker.get("/tokens/ci/revoke").content.decode(), "after Back"
    assert as_person("root").get("/tokens/ci/revoke?owner=worker").status_code == 404


def test_a_token_form_that_is_sent_twice_makes_one_token_and_shows_its_secret(
    as_person: SignedIn,
) -> None:
    """A double click: the browser shows only the second answer."""
    worker, shown_form = as_person("worker"), {"csrfmiddlewaretoken": "s" * 64}
    typed = {"name": "ci", "days": "31", **shown_form}
    [first, second] = [worker.post("/tokens/-/create", typed) for _ in range(2)]
    assert first.context["secret"] == second.context["secret"]
    assert AccessToken.objects.count() == 1
    other = worker.post("/tokens/-/create", {**typed, "name": "other"})
    assert other.context["secret"] != first.context["secret"], "the form was changed before it was sent again"
    cache.clear()  # as a minute later
    late = worker.post("/tokens/-/create", typed, follow=True).content.decode()
    assert "Token ci was created when this form was sent first, and its secret was shown then." in late
    assert first.context["secret"] not in late
    kept = IdempotencyRecord.objects.values_list("response", flat=True)
    assert not any(first.context["secret"] in str(each) for each in kept), "no secret is stored"


def test_backends_and_their_nodes(as_person: SignedIn) -> None:
    root, address = as_person("root"), "/clusters/sim/configuration"
    form = root.get(address).context["form"]
    lines = form["nodes"].value().splitlines()
    assert lines[0] == "n0 8 cpu=128 memory=1Ti storage=4Ti platform=default"
    assert (form["reserve_after"].value(), form["ageing"].value()) == (3600, 14400)
    typed = {"namespace": "ns", "auto_end": "on", "ageing": "7200", "victims": "least_lost", "step": "preview"}
    soon = root.post(address, {**typed, "nodes": "n0 8", "reserve_after": "soon"}, follow=True)
    assert soon.context["form"].errors["reserve_after"]
    bad = root.post(address, {**typed, "nodes": "n0 eight\nn0 8\nn1 8 colour=red"}, follow=True)
    assert bad.status_code == 400
    assert len(bad.context["form"].errors["nodes"]) >= 3
    assert bad.context["form"]["nodes"].value() == "n0 eight\nn0 8\nn1 8 colour=red"

    assert confirm_change(root, address, **typed | {"nodes": "\n".join(lines[:4])}).status_code == 302
    assert Backend.objects.get(name="sim").nodes.count() == 4
    assert Backend.objects.get(name="sim").reserve_after is None, "empty: never"
    assert Backend.objects.get(name="sim").victims == "least_lost"
    assert "the work that frees enough and loses least" in root.get("/clusters/sim").content.decode()
    new = {"name": "second", "namespace": "x", "nodes": "m 4", "victims": "youngest"}
    taken = root.post("/clusters/-/create", {**new, "name": "sim", "step": "preview"}, follow=True)
    assert "exists already" in taken.context["form"].non_field_errors()[0]
    assert confirm_change(root, "/clusters/-/create", **new).status_code == 302


SENT_AGAIN = (
    ("/pools/team/subpools/create", {"subpool_name": "fresh", "quota": "1"}, "/pools/team"),
    ("/pools/team/subpools/a/resize", {"quota": "20"}, "/pools/team"),
    ("/pools/team/subpools/a/delete", {}, "/pools/team"),
    ("/cohorts/-/create", {"name": "firm"}, "/cohorts/firm"),
    ("/cohorts/firm/delete", {}, "/cohorts"),
)


def test_a_confirmation_that_is_sent_again_says_what_it_did(as_person: SignedIn) -> None:
    root = as_person("root")
    for address, typed, page in SENT_AGAIN:
        preview = root.post(address, {**typed, "step": "preview"}, follow=True)
        confirmed = {**preview.context["hidden"], "step": "confirm"}
        assert root.post(address, confirmed)["Location"] == page
        entries = AuditEntry.objects.count()
        again = root.post(address, confirmed)
        if address == "/cohorts/firm/delete":
            assert (again.status_code, "Cohort firm was deleted." in again.content.decode()) == (404, True)
        else:
            assert (again.status_code, again.headers.get("Location")) == (302, page), address
        assert AuditEntry.objects.count() == entries, address


def test_submitting(as_person: SignedIn) -> None:
    worker, address = as_person("worker"), "/submit"
    choices = [name for name, _ in worker.get(address).context["form"].fields["pool"].choices]
    assert choices == ["team", "team--a", "team--b"]
    typed = {"pool": "team--a", "priority": "NORMAL", "file": WORKFLOW.format(name="job", gpus=2).replace("\n", "\r\n")}
    checked = worker.post(address, {**typed, "step": "check"})
    assert checked.context["receipt"].spec.name == "job"
    assert not Workflow.objects.exists()
    assert worker.post(address, {**typed, "step": "submit"}).status_code == 302
    row = Workflow.objects.get()
    assert (row.name, row.pool.name, row.submitted_by.username) == ("job-1", "team--a", "worker")
    assert "\r" not in row.spec
    empty = worker.post(address, {**typed, "file": " ", "step": "submit"})
    assert empty.context["form"].errors["file"]
    foreign = worker.post(address, {**typed, "pool": "other", "step": "submit"})
    assert foreign.context["form"].errors["pool"]
    large = worker.post(address, {**typed, "file": WORKFLOW.format(name="job", gpus=31), "step": "submit"})
    assert "team--a guarantees NORMAL work 30" in large.content.decode()
    like = worker.get(f"{address}?like=job-1").context["form"]
    assert like["file"].value() == row.spec
    assert like["pool"].value() == "team--a"
    assert worker.get(f"{address}?like=nothing-1").status_code == 200


def test_reporting_an_end_starts_the_next_group(as_person: SignedIn) -> None:
    workflow = submit_workflow("team--a")
    world.reconcile()
    chief, address = as_person("chief"), f"/workflows/{workflow.name}/end"
    assert as_person("worker").post(address, {"status": "COMPLETED"}).status_code == 403
    assert chief.post(address, {"status": "nonsense"}).status_code == 400
    assert chief.post(address, {"status": "COMPLETED"}).status_code == 302
    workflow.refresh_from_db()
    assert workflow.status == "COMPLETED"
    for answer in (chief.get(address), chief.post(address, {"status": "FAILED"})):
        assert answer.status_code == 409
        assert f"{workflow.name} is not running (COMPLETED); only running work can end." in answer.content.decode()
        assert "<select" not in answer.content.decode()


def test_input_is_escaped(as_person: SignedIn) -> None:
    root = as_person("root")
    text = "<script>alert(1)</script>"
    typed = {**POOL, "about": text}
    preview = root.post("/pools/team/configuration", {**typed, "step": "preview"}, follow=True)
    assert text not in preview.content.decode()
    confirm_change(root, "/pools/team/configuration", **typed)
    for address in ("/pools/team", "/activity/audit", f"/pools?q={text}", f"/workflows?user={text}"):
        assert text not in root.get(address).content.decode(), address


def test_the_forms_of_roles_stay_small_with_a_thousand_pools(as_person: SignedIn) -> None:
    Pool.objects.bulk_create(
        Pool(name=f"many{number}", backend=Pool.objects.get(name="team").backend, guarantee=0) for number in range(60)
    )
    root = as_person("root")
    for address in ("/users/-/create", "/users/worker/roles"):
        page = root.get(address)
        assert page.content.decode().count('name="roles"') <= 4
        assert "osmo-many7-admin" not in page.content.decode()
    assert "<span>osmo-team-user</span>" in root.get("/users/worker/roles").content.decode()
    chosen = {"roles": ["osmo-team-user"], "more_roles": "osmo-many7-admin, osmo-many8-user"}
    assert confirm_change(root, "/users/worker/roles", **chosen).status_code == 302
    roles = {"osmo-team-user", "osmo-many7-admin", "osmo-many8-user"}
    assert User.objects.get(username="worker").as_actor().roles == roles
    refused = root.post("/users/-/create", {"username": "fresh", "more_roles": "osmo-ghost-user"}, follow=True)
    assert "There is no such role" in refused.content.decode()
    assert refused.context["form"].errors.keys() == {"more_roles"}, "where the role was typed"
