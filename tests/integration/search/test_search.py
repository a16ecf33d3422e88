"""Search by words of names: what it finds, for whom, in which order, and with how many queries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from pools.domain.changes.cohorts import PutCohort
from pools.domain.changes.pools import PutPool
from pools.domain.changes.saved_views import SaveView
from pools.domain.changes.tokens import CreateToken
from pools.domain.people.saved_views import FilteredList
from pools.models import Backend, Node, User
from pools.security.tokens import issue_jwt
from scheduling.domain.search.pages import OTHER_WORDS, SearchAction, SearchPage
from scheduling.domain.statuses import ACTIVE_WORKFLOW_STATUSES
from scheduling.models import Workflow
from scheduling.page_addresses import address_of
from scheduling.selectors.work.search import SearchKind, search
from tests.support.addresses import create_example_installation
from tests.support.world import apply_change, sign_in

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def installation_once(module_data: Callable[[], Any]) -> None:
    with module_data():
        create_example_installation()
        root = User.objects.get(username="root").as_actor()
        apply_change(
            SaveView(page=FilteredList.SCHEDULER_EVENTS, name="Mine, failed", query="event=fail&user=root"), actor=root
        )


@pytest.fixture
def installation(installation_once: None, db: None) -> None:
    """Pool team with subpools, work, users, a GPU quota, and a saved view of root."""


def found(username: str, text: str) -> set[tuple[str, str]]:
    actor = User.objects.get(username=username).as_actor()
    return {(str(hit.kind), hit.name) for hit in search(actor, text, limit=10)}


def test_every_kind_is_found_by_the_beginning_and_by_a_part_of_its_name(installation: None) -> None:
    everything = {kind for letter in "abcdefghijklmnopqrstuvwxyz" for kind, _ in found("root", letter)}
    assert everything == {str(kind) for kind in SearchKind}
    assert ("pool", "team") in found("root", "te")
    assert ("pool", "team") in found("root", "eam")
    assert found("root", " ") == set()


def test_a_subpool_is_found_by_its_own_name_too(installation: None) -> None:
    actor = User.objects.get(username="root").as_actor()
    subpool = next(hit for hit in search(actor, "team--", limit=10) if hit.kind is SearchKind.SUBPOOL)
    assert ("subpool", subpool.name) in found("root", subpool.name.removeprefix("team--"))
    assert subpool.place == "team"


def test_actions_are_found_by_their_words_where_the_person_may_begin_them(installation: None) -> None:
    User.objects.create(username="stranger")
    assert ("action", "Create a pool") in found("root", "create a p")
    assert ("action", "Create a pool") in found("root", "poo")
    assert ("action", "Create a pool") not in found("root", "ool")
    assert {name for kind, name in found("stranger", "create") if kind == "action"} == {"Create an access token"}
    assert {name for kind, name in found("stranger", "users") if kind == "page"} == set(), "a page of the platform"
    root = User.objects.get(username="root").as_actor()
    client = sign_in("root")
    for action in (*SearchAction, *SearchPage):
        (hit,) = [hit for hit in search(root, action, limit=10) if hit.name == action]
        assert client.get(address_of(hit)).status_code == 200, action
        assert hit == search(root, action, limit=10)[0]


def test_a_person_finds_what_they_may_see(installation: None) -> None:
    User.objects.create(username="stranger")
    assert {kind for kind, _ in found("rita", "t")} <= {
        "pool",
        "subpool",
        "workflow",
        "namespace",
        "action",
        "page",
        "user",
    }
    assert {name for kind, name in found("rita", "t") if kind == "user"} == {"rita"}
    assert found("rita", "root") == set()
    assert ("user", "rita") in found("rita", "rita")
    assert {kind for kind, _ in found("stranger", "team")} <= {"page", "action"}


def test_a_cohort_is_found_by_those_who_have_a_pool_below_it(installation: None) -> None:
    """As in the quota tree: also one above the cohort of the pool, and no other."""
    apply_change(PutCohort(name="org", body={"parent": "org-above", "quotas": [], "weight": 1}))
    apply_change(PutCohort(name="org-aside", body={"parent": "org-above", "quotas": [], "weight": 1}))
    User.objects.create(username="stranger")
    names = {
        username: {name for kind, name in found(username, "org") if kind == "cohort"}
        for username in ("root", "rita", "stranger")
    }
    assert names == {"root": {"org", "org-above", "org-aside"}, "rita": {"org", "org-above"}, "stranger": set()}
    root = User.objects.get(username="root").as_actor()
    hit = next(each for each in search(root, "org", limit=9) if each.kind is SearchKind.COHORT)
    assert address_of(hit) == "/cohorts/org"


def test_the_number_of_queries_is_constant(installation: None, django_assert_max_num_queries: Any) -> None:
    actor = User.objects.get(username="root").as_actor()
    with django_assert_max_num_queries(8):
        search(actor, "te", limit=50)
    with django_assert_max_num_queries(16):
        search(actor, "nothing-like-it", limit=50)


def copy_a_workflow(times: int) -> None:
    """Rows of this table alone, with other names."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(
            """INSERT INTO scheduling_workflow SELECT copy.*
            FROM (SELECT * FROM scheduling_workflow LIMIT 1) AS row, generate_series(1, %s) AS number,
              jsonb_populate_record(row::scheduling_workflow,
                jsonb_build_object('uuid', gen_random_uuid(), 'name', 'copy-' || number)) AS copy""",
            [times],
        )
        cursor.execute("SET LOCAL session_replication_role = DEFAULT")


def test_workflows_are_found_by_an_index(installation: None) -> None:
    """Of a handful of names PostgreSQL may read all; two thousand and their statistics decide it."""
    copy_a_workflow(2000)
    actor = User.objects.get(username="root").as_actor()
    with CaptureQueriesContext(connection) as queries:
        search(actor, "hello", limit=10)
    statement = next(each["sql"] for each in queries.captured_queries if "scheduling_workflow" in each["sql"])
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE scheduling_workflow")
        cursor.execute(f"EXPLAIN {statement}")
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "~>=~ 'hello'" in plan


def test_the_answer_of_the_api_leads_to_pages(installation: None) -> None:
    token = issue_jwt(apply_change(CreateToken(owner="root", name="search"))[0])[0]
    answer = Client().get("/api/search?q=team", headers={"Authorization": f"Bearer {token}"}).json()
    browser = sign_in("root")
    assert answer["results"][0]["name"] == "team"
    for hit in answer["results"]:
        assert browser.get(hit["page"].partition("#")[0]).status_code == 200, hit


def test_the_page_works_without_scripts(installation: None) -> None:
    browser = sign_in("root")
    text = browser.get("/search/?q=work").content.decode()
    assert ">Workflows</a>" in text
    assert "No name contains “zz”" in browser.get("/search/?q=zz").content.decode()


def test_a_node_leads_to_its_own_page(installation: None) -> None:
    actor = User.objects.get(username="root").as_actor()
    hit = next(hit for hit in search(actor, "n1", limit=10) if hit.kind is SearchKind.NODE)
    assert address_of(hit) == "/nodes/sim/n1"


def test_a_node_is_found_first_with_its_cluster_beside_it(installation: None) -> None:
    for cluster in ("sim", "other"):
        backend = Backend.objects.get_or_create(name=cluster, defaults={"namespace": cluster})[0]
        Node.objects.bulk_create([Node(backend=backend, name=f"m{n}", gpus=8) for n in range(3, 100)])
    User.objects.bulk_create([User(username=name) for name in ("m3-other", "m3 other x")])
    root = User.objects.get(username="root").as_actor()
    for text in ("m3 other", "other m3", "M3 OTHER"):
        first, *rest = search(root, text, limit=3)
        assert address_of(first) == "/nodes/other/m3", text
        assert {hit.place for hit in rest if hit.kind is SearchKind.NODE} == {"other"}
    mistyped = [address_of(hit) for hit in search(root, "m3 othre", limit=3) if hit.kind is SearchKind.NODE]
    assert mistyped[0] == "/nodes/other/m3"
    assert "node" not in {kind for kind, _ in found("root", "other")}, "a cluster alone is not all its nodes"
    assert "node" not in {kind for kind, _ in found("rita", "m3 other")}, "of readers of the platform only"


def test_a_saved_view_leads_to_its_list_with_its_filters(installation: None) -> None:
    actor = User.objects.get(username="root").as_actor()
    (hit,) = [hit for hit in search(actor, "mine", limit=10) if hit.kind is SearchKind.VIEW]
    assert (hit.name, hit.detail) == ("Mine, failed", "saved view of scheduler events")
    assert address_of(hit) == "/activity?event=fail&user=root"
    assert "view" not in {kind for kind, _ in found("rita", "mine")}, "a view is its owner's"


def test_parts_words_in_any_order_and_mistakes(installation: None) -> None:
    copy_a_workflow(7)
    for text in ("opy-7", "copy-7", "7 copy", "ocpy", "copz"):
        assert ("workflow", "copy-7") in found("root", text), text
    assert ("workflow", "copy-7") not in found("root", "copy zzz")
    assert "workflow" not in {kind for kind, _ in found("root", "cpoz")}, "two mistakes"


def test_the_best_come_first(installation: None) -> None:
    """An equal name, its beginning, the beginning of a part, the inside."""
    root = User.objects.get(username="root").as_actor()
    for name in ("xteam", "a-team", "teams", "tea"):
        User.objects.create(username=name)
    names = [hit.name for hit in search(root, "team", limit=50) if hit.kind in {SearchKind.USER, SearchKind.POOL}]
    assert names == ["team", "teams", "a-team", "xteam"]
    names = [hit.name for hit in search(root, "tea", limit=50) if hit.kind is SearchKind.USER]
    assert names[0] == "tea"


def test_active_work_comes_before_ended_work(installation: None) -> None:
    root = User.objects.get(username="root").as_actor()
    found = [hit.name for hit in search(root, "i 1", limit=50) if hit.kind is SearchKind.WORKFLOW]
    active = [Workflow.objects.get(name=name).status in ACTIVE_WORKFLOW_STATUSES for name in found]
    assert active == sorted(active, reverse=True) and True in active and False in active


def test_pages_and_actions_have_other_words(installation: None) -> None:
    for text, name in {
        "help": "API reference", "logout": "Log out", "log out": "Log out", "resize": "Pools", "temporary": "Pools",
        "borrow": "Quota tree", "quota tree": "Quota tree", "tree quota": "Quota tree",
        "preempted": "Scheduler events", "cancel": "Workflows", "why": "Queue", "api key": "Access tokens",
        "run job": "Submit a workflow", "who changed": "Audit log", "slack": "Notices", "unread": "Inbox",
    }.items():  # fmt: skip
        assert name in {place for _, place in found("root", text)}, text


def test_each_place_has_other_words_and_no_page_is_left_out() -> None:
    assert set(OTHER_WORDS) == {*SearchAction, *SearchPage}


def test_signs_of_patterns_are_plain_letters(installation: None) -> None:
    """They stand in no name here: nothing is found, and nothing fails."""
    browser = sign_in("root")
    for text in ("%", "_", "\\", "%%", "t%m", "t__m", "'", "te\\%", "\x00", "(", "*", "🙂" * 60, "a " * 90):
        of_words = {kind for kind, _ in found("root", "a a")} if text.startswith("a ") else set()
        assert {kind for kind, _ in found("root", text)} <= {"page", "action"} | of_words, text
        assert browser.get("/search/", {"q": text}).status_code == 200, text


def test_a_pool_and_its_work_that_a_person_may_not_see_are_never_found(installation: None) -> None:
    apply_change(PutPool(name="secret-lab", body={"backend": "sim", "resources": {"gpu": {"guarantee": 0}}}))
    browser = sign_in("rita")
    for text in ("secret", "ecre", "secret-lab", "secert", "lab secret", "secret--", "s", "se"):
        assert ("pool", "secret-lab") in found("root", text), text
        assert not [name for _, name in found("rita", text) if "secret" in name], text
        assert ">secret-lab<" not in browser.get("/search/", {"q": text}).content.decode(), text
