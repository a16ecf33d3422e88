"""Static files as they are sent: hashed names, compressed ahead, never those of another version."""

from __future__ import annotations

import gzip
import hashlib
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import brotli
import pytest
from django.http import HttpResponseNotFound
from django.test import RequestFactory

from osmo_admin import settings
from osmo_admin.web import static_build
from osmo_admin.web.static_build import BUILDS_KEPT, _write_build, build_static_files, find_build, source_hash
from osmo_admin.web.static_files import StaticFilesMiddleware
from tests.support.services import ROOT

VENDOR = ROOT / "static" / "osmo" / "vendor"
RELEASES = {  # sha256
    "idiomorph-0.8.0.min.js": "4cbd535caf7663a51eda9bce6595371c384fc430d54b8d414e29a61167f19f96",
}


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """Two files, of which one names the other."""
    folder = tmp_path / "static"
    folder.mkdir()
    (folder / "a.css").write_text("p { background: url('b.svg'); color: red }\n" * 20)
    (folder / "b.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'></svg>" * 20)
    return folder


def test_a_build_has_hashed_names_and_both_compressions(sources: Path, tmp_path: Path) -> None:
    build = build_static_files(sources, [tmp_path / "builds"])
    assert build is not None
    (style,) = build.glob("a.*.css")
    (picture,) = build.glob("b.*.svg")
    text = style.read_bytes()
    assert f'url("{picture.name}")'.encode() in text or f"url('{picture.name}')".encode() in text
    assert gzip.decompress(Path(f"{style}.gz").read_bytes()) == text
    assert brotli.decompress(Path(f"{style}.br").read_bytes()) == text
    assert not (build / "a.css").exists()


def test_a_change_of_a_file_makes_another_build(sources: Path, tmp_path: Path) -> None:
    places = [tmp_path / "builds"]
    first = build_static_files(sources, places)
    assert build_static_files(sources, places) == first == find_build(places, source_hash(sources))
    for number in range(BUILDS_KEPT + 1):
        (sources / "b.svg").write_text(f"<svg>{number}</svg>")
        assert find_build(places, source_hash(sources)) is None
        assert build_static_files(sources, places) is not None
    assert len(list(places[0].iterdir())) == BUILDS_KEPT


def test_two_processes_at_once_build_once(sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, written = threading.Event(), []

    def write(*arguments: Path) -> None:
        begun.set()
        time.sleep(0.1)  # the other is here meanwhile
        written.append(arguments)
        _write_build(*arguments)

    monkeypatch.setattr(static_build, "_write_build", write)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(build_static_files, sources, [tmp_path])
        assert begun.wait(60)
        second = pool.submit(build_static_files, sources, [tmp_path])
        assert first.result() == second.result() == find_build([tmp_path], source_hash(sources))
    assert len(written) == 1


def test_a_folder_that_cannot_be_written_leaves_the_next_place(sources: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert build_static_files(sources, [blocked / "builds"]) is None
    found = build_static_files(sources, [blocked / "builds", tmp_path / "data"])
    assert found is not None
    assert found.parent == tmp_path / "data"


@pytest.mark.django_db  # a closed answer looks at the connection, which another test may have left open
def test_an_edited_source_is_sent_whole(sources: Path, settings: Any) -> None:
    """Without a build the sources are sent, and a running server has read their sizes before."""
    settings.STATIC_ROOT, settings.STATICFILES_DIRS = None, [sources]
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}
    serve = StaticFilesMiddleware(lambda request: HttpResponseNotFound())
    for style in ("p { color: red }", "p { color: blue; margin: 0 }"):
        (sources / "a.css").write_text(style)
        answer = serve(RequestFactory().get("/static/a.css"))
        assert (int(answer["Content-Length"]), b"".join(answer).decode()) == (len(style), style)
        answer.close()
    (sources / "a.css").unlink()
    assert serve(RequestFactory().get("/static/a.css")).status_code == 404


def test_every_file_that_a_style_names_exists(tmp_path: Path) -> None:
    build = build_static_files(settings.STATIC_SOURCES, [tmp_path])  # the hashing fails on a missing file
    assert build is not None
    assert len(list((build / "osmo").glob("osmo.*.css"))) == 1


def test_files_of_others_are_those_of_their_releases() -> None:
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in VENDOR.glob("*.js")}
    assert found == RELEASES


def test_icons_are_those_that_the_pages_name() -> None:
    templates = "".join(path.read_text() for path in (ROOT / "templates").rglob("*.html"))
    menu = (ROOT / "osmo_admin/navigation.py").read_text()
    named = {*re.findall(r'{% icon "(\w+)"', templates), *re.findall(r'"([a-z_]+)",\s*(?:\[|work\b)', menu)}
    assert set(re.findall(r'<symbol id="(\w+)"', (ROOT / "static/osmo/icons.svg").read_text())) == named
