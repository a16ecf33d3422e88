"""Each page says which parameters of its address it does not know; a file is refused with the same sentence."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import parse_qsl, urlencode

import pytest
from django.test import Client

from tests.support.addresses import create_example_installation, readable_addresses
from tests.support.world import ModuleData, sign_in

pytestmark = pytest.mark.django_db

VALUE = "Canary7value"
NOTE = re.compile(r'<div class="oa-note oa-note--warn" role="status">(This page does not know[^<]*)</div>')
WARNING = re.compile(r'<div class="oa-note oa-note--warn" role="status">([^<]*)</div>')
LINK = re.compile(r'<a [^>]*?href="([^"#]*\?[^"#]+)')
NO_PAGES = ("/api", "/webhooks", "/health", "/ready", "/client/version", "/metrics")


@pytest.fixture(scope="module")
def example_once(module_data: ModuleData) -> None:
    with module_data():
        create_example_installation()


@pytest.fixture
def root(example_once: None, db: None) -> Client:
    """The platform admin of the example installation, which is made once."""
    return sign_in("root")


def _notes(answer: object) -> list[str]:
    return [unescape(text) for text in NOTE.findall(answer.content.decode())]  # type: ignore[attr-defined]


def test_each_page_names_the_parameters_that_it_does_not_know(root: Client) -> None:
    silent, wrong, links, tried = [], [], {}, 0
    for address in readable_addresses():
        if address.startswith(NO_PAGES):
            continue
        page = root.get(f"{address}{'&' if '?' in address else '?'}Zzz={VALUE}&other={VALUE}")
        text = page.content.decode()
        if "html" not in page.headers.get("Content-Type", "html"):
            assert (page.status_code, VALUE in text) == (400, False), address
            continue
        if page.status_code != 200:
            continue
        tried += 1
        for link in map(unescape, LINK.findall(text)):
            path, _, query = link.partition("?")
            known = [(name, value) for name, value in parse_qsl(query) if name not in {"Zzz", "other"}]
            full = path or address.partition("?")[0]
            if known and not full.startswith(("/api/", "http")):
                links[full, *sorted(name for name, _ in known)] = f"{full}?{urlencode(known)}"
        if address.startswith("/views/-/save"):
            continue  # which keeps the whole query of another page; that page has the note
        notes = _notes(page)
        if len(notes) != 1 or "filters Zzz, other; it has" not in notes[0] or VALUE in notes[0]:
            silent.append((address, notes))
    assert tried > 80
    assert not silent, "\n".join(map(str, silent))
    assert len(links) > 20
    for address in links.values():
        answer = root.get(address)
        if "html" not in answer.headers.get("Content-Type", "html"):
            assert answer.status_code == 200, (address, answer.content)
        elif csv := re.search(r'href="([^"]+)" download>CSV<', answer.content.decode()):
            file = root.get(f"{address.partition('?')[0]}{unescape(csv[1])}")
            wrong += [(address, file.content)] if file.status_code != 200 else []
        wrong += [(address, note) for note in _notes(answer)]
    assert not wrong, "\n".join(map(str, wrong))


SIZE = ("request_tflops", "request_vram", "limit_tflops", "limit_vram", "count", "incomplete")
FREE = frozenset({
    "q", "name", "pool", "user", "workflow", "actor", "action", "role", "flavor", "backend", "page",
    *SIZE, "nodes", "gpus",
})  # fmt: skip
"""Parameters whose value is a text or the number of a page: a name that does not exist has no rows. The last ones are
boxes of forms, with their faults beside them."""


def _warnings(browser: Client, path: str, name: str, value: str) -> tuple[str, dict[str, list[str]]]:
    """What the page says about this value of a parameter, and the choices that it knows; a page that does not exist
    with it says so, too."""
    page = browser.get(path, {name: value})
    said = "".join(WARNING.findall(page.content.decode())) if page.status_code == 200 else "not found"
    return unescape(said), page.wsgi_request.GET.choices  # type: ignore[attr-defined]


def test_each_page_names_the_values_that_a_choice_knows(root: Client) -> None:
    silent, wrong, tried, accepted = [], [], set(), set()
    for path in dict.fromkeys(address.partition("?")[0] for address in readable_addresses()):
        page = root.get(path, {"Zzz": "1"})
        names = getattr(page.wsgi_request.GET, "names_read", frozenset()) - FREE - {"Zzz"}
        if page.status_code != 200 or "seen" in names or "html" not in page.headers.get("Content-Type", ""):
            continue  # the form of a change takes its values from the address and shows them
        for name in names:
            said, choices = _warnings(root, path, name, VALUE)
            known = choices.get(name, [])
            tried.add((path, name))
            if VALUE in said or not said or (known and f"Known are: {known[0]}" not in said and said != "not found"):
                silent.append((path, name, said))
            new = [value for value in known if (name, value) not in accepted]  # pages share what reads a choice
            wrong += [(path, name, value) for value in new if _warnings(root, path, name, value)[0]]
            accepted |= {(name, value) for value in new}
    assert not silent, "\n".join(map(str, silent))
    assert not wrong, "\n".join(map(str, wrong))
    assert {("/activity/approvals", "state"), ("/nodes", "colour"), ("/workflows", "sort"), ("/usage", "by")} <= tried


def test_a_note_names_the_nearest_filter_and_no_value(root: Client) -> None:
    (note,) = _notes(root.get(f"/workflows?statuss={VALUE}&pool=team"))
    assert note.startswith("This page does not know the filter statuss; it has: ")
    assert note.endswith('Did you mean "status"?')
    assert _notes(root.get("/search/?name=zzz")) == ["This page does not know the filter name; it has: q."]
    assert _notes(root.get("/workflows?pool=zzz")) == []
    sentence = "This page reads the filter pool only once: of those in the address the last one counts."
    assert sentence in root.get(f"/workflows?pool={VALUE}&pool=zzz").content.decode()
    assert "only once" not in root.get("/workflows?pool=zzz").content.decode()


def test_a_file_with_an_unknown_filter_is_refused(root: Client) -> None:
    for address in ("/activity/audit?format=csv", "/activity/audit?format=json"):
        assert root.get(f"{address}&kind=pool").status_code == 200
        refused = root.get(f"{address}&users={VALUE}")
        assert refused.status_code == 400
        text = refused.content.decode()
        assert text.startswith("This file does not know the filter users; it has: ")
        assert VALUE not in text
    refused = root.get("/activity/audit?format=csv&actor=a&actor=b")
    assert (refused.status_code, "filter actor only once" in refused.content.decode()) == (400, True)


def test_the_page_of_the_login_has_the_note_too(client: Client, db: None) -> None:
    assert _notes(client.get("/login/?next=/pools")) == []
    assert _notes(client.get(f"/login/?user={VALUE}"))[0].startswith("This page does not know the filter user;")
