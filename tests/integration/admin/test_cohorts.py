"""The pages of the quota tree: permissions, and what they hide."""

from __future__ import annotations

import pytest

from pools.domain.changes.cohorts import PutCohort
from pools.domain.changes.pools import PatchPool
from pools.models import Cohort, Pool
from tests.integration.admin.conftest import SignedIn, confirm_change
from tests.support.world import apply_change

TREE = "/cohorts"
CREATE, EDIT, DELETE = f"{TREE}/-/create", f"{TREE}/org/configuration", f"{TREE}/org/delete"


@pytest.fixture
def org(pools_and_users: None) -> None:
    """Pools `team` and `other` in cohort `org`, below `corp`."""
    apply_change(PutCohort(name="org", body={"parent": "corp", "quotas": [{"resource": "gpu", "nominal": 4}]}))
    for name in ("team", "other"):
        apply_change(PatchPool(name=name, patch={"cohort": "org"}))


def test_everybody_sees_the_part_of_the_tree_that_is_theirs(org: None, as_person: SignedIn) -> None:
    mine = as_person("worker").get(TREE).content.decode()
    assert 'data-node="cohort/corp"' in mine
    assert 'data-node="pool/team--a"' in mine
    assert "pool/other" not in mine
    theirs = as_person("worker").get(f"{TREE}/org").content.decode()
    assert "other" not in theirs.replace("others", "").replace("other work", "")
    assert as_person("worker").get("/pools/other/quota").status_code == 404
    assert "No cohorts that you may see" in as_person("nobody").get(TREE).content.decode()
    everything = as_person("viewer").get(TREE).content.decode()
    assert 'data-node="pool/other--x"' in everything
    assert "1 pool is in no cohort" in everything


def test_unknown_addresses_and_invalid_input(org: None, as_person: SignedIn) -> None:
    client = as_person("root")
    for page in ("/nope", "/nope/configuration", "?root=nope"):
        assert client.get(f"{TREE}{page}").status_code == 404, page
    assert client.get(f"{TREE}?resource=nothing/such").status_code == 200
    typed = {"name": "Org", "nominal": "many", "lending_limit": "2", "weight": "x", "others": "cpu\nmemory=-1"}
    answer = client.post(CREATE, {**typed, "step": "preview"}, follow=True)
    assert answer.status_code == 400
    form = answer.context["form"]
    assert set(form.errors) == {"name", "nominal", "lending_limit", "weight", "others"}
    fixed = {**typed, "name": "fine", "nominal": "3", "weight": "0.5", "others": ""}
    answer = client.post(CREATE, {**fixed, "step": "preview"}, follow=True)
    assert set(answer.context["form"].errors) == {"lending_limit"}
    answer = client.post(CREATE, {"name": "org", "nominal": "1", "step": "preview"}, follow=True)
    assert answer.context["form"].errors["name"]


def test_the_whole_confirmation_flow(org: None, as_person: SignedIn) -> None:
    client = as_person("root")
    assert confirm_change(client, CREATE, name="lab", parent="corp", nominal="2", lending_limit="1").status_code == 302
    lab = Cohort.objects.get(name="lab")
    assert lab.quotas["default/gpu"] == {"nominal": 2, "borrowing_limit": None, "lending_limit": 1}
    page = f"{TREE}/lab/configuration"
    shown = client.get(page).context["form"].initial
    assert (shown["parent"], shown["nominal"], shown["lending_limit"], shown["weight"]) == ("corp", 2, 1, "1")
    preview = client.post(page, {**shown, "borrowing_limit": "5", "step": "preview"}, follow=True)
    apply_change(PutCohort(name="lab", body={"parent": "corp"}))
    again = client.post(page, {**preview.context["hidden"], "step": "confirm"}, follow=True)
    assert "changed meanwhile" in again.content.decode()
    assert client.post(page, {**again.context["hidden"], "step": "confirm"}).status_code == 302
    refused = client.post(DELETE, {"step": "preview"}, follow=True)
    assert refused.status_code == 400
    assert "2 pools below it" in refused.content.decode()
    assert confirm_change(client, DELETE, orphan="on").status_code == 302
    assert not Pool.objects.exclude(cohort=None).exists()


def test_a_pool_joins_and_leaves_on_its_own_page(pools_and_users: None, as_person: SignedIn) -> None:
    client, page = as_person("root"), "/pools/team/configuration"
    numbers = {"guarantee": "100", "maximum": "-1", "weight": "1"}
    assert confirm_change(client, page, **numbers, cohort="org", lending_limit="20").status_code == 302
    team = Pool.objects.get(name="team")
    assert (team.cohort.name if team.cohort else "", team.lending_limit) == ("org", 20)
    assert "lends at most 20," in client.get("/pools/team").content.decode()
    refused = client.post(page, {**numbers, "cohort": "", "lending_limit": "20", "step": "preview"}, follow=True)
    assert "needs a cohort" in refused.content.decode()
    assert confirm_change(client, page, **numbers).status_code == 302
    assert not Cohort.objects.exists()


def test_the_tree_filters_by_name_and_keeps_the_path(org: None, as_person: SignedIn) -> None:
    client = as_person("root")
    apply_change(PatchPool(name="other", patch={"cohort": "corp"}))
    page = client.get(TREE)
    assert 'name="q"' in page.content.decode() and "autofocus" not in page.content.decode()
    whole = [row.node.key for row in page.context["tree"].rows]
    found = [row.node.key for row in client.get(TREE, {"q": " OTHER"}).context["tree"].rows]
    assert "pool/other" in found
    assert "cohort/corp" in found, "the path to the pool"
    assert "pool/other--x" in found, "its subpools"
    assert found == [key for key in whole if key in found]
    assert len(found) < len(whole)
    assert "No node of this name" in client.get(TREE, {"q": "nothing-like-this"}).content.decode()
