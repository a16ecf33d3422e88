"""Our static files as the web server sends them: names with a hash of the contents, and compressed ahead.

`python -m osmo_admin.web.static_build` writes them, and so does every preparation of the database. The folder of a
build is named after its sources, so a server never sends files of another version; without a build (as in most tests)
the sources are served as they are. The files of other packages (the page of the API's documentation) are not built.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

logger = logging.getLogger(__name__)
BUILDS_KEPT = 3  # a server that still runs reads the files of its own build


def source_hash(sources: Path) -> str:
    """A short text that changes with every file below `sources`, and with the kinds of compression."""
    digest = hashlib.sha256(b"brotli" if find_spec("brotli") else b"")
    for path in sorted(path for path in sources.rglob("*") if path.is_file()):
        contents = path.read_bytes()
        digest.update(f"{path.relative_to(sources)}\0{len(contents)}\0".encode() + contents)
    return digest.hexdigest()[:16]


def find_build(places: Sequence[Path], name: str) -> Path | None:
    """The folder of the build `name`, in the first of `places` that has it."""
    return next((place / name for place in places if (place / name).is_dir()), None)


def build_static_files(sources: Path, places: Sequence[Path]) -> Path | None:
    """Build into the first of `places` that can be written, unless the build exists. None if there is no such place."""
    name = source_hash(sources)
    found = find_build(places, name)
    if found is not None:
        return found
    for place in places:
        try:
            place.mkdir(parents=True, exist_ok=True)
            with _one_builder(place):
                if _build_in(place, name, sources):
                    return place / name
        except OSError:
            continue
    logger.warning("static files are sent uncompressed: none of %s can be written", ", ".join(map(str, places)))
    return None


@contextlib.contextmanager
def _one_builder(place: Path) -> Iterator[None]:
    """Two processes of a first start need the build at the same time: the second waits, and finds that of the first."""
    descriptor = os.open(place, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks: both build, and the first is kept
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _build_in(place: Path, name: str, sources: Path) -> bool:
    if (place / name).is_dir():
        return True
    folder = Path(tempfile.mkdtemp(prefix="new-", dir=place))
    try:
        _write_build(sources, folder)
        folder.chmod(0o755)
        folder.rename(place / name)
    except OSError as problem:
        if not (place / name).is_dir():
            logger.warning("static files were not built: %s", problem)
            return False
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    _remove_old_builds(place)
    return True


def _write_build(sources: Path, folder: Path) -> None:
    from osmo_admin.web.static_files import BuiltFiles  # noqa: PLC0415  # settings import this module

    shutil.copytree(sources, folder, dirs_exist_ok=True)
    storage = BuiltFiles(location=folder, base_url="/static/")
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    for _name, _hashed, result in storage.post_process({name: (storage, name) for name in names}):
        if isinstance(result, Exception):
            raise result


def _remove_old_builds(place: Path) -> None:
    builds = sorted((path for path in place.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime)
    for old in builds[:-BUILDS_KEPT]:
        shutil.rmtree(old, ignore_errors=True)


def main() -> int:
    """The command line."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "osmo_admin.settings")
    from django.conf import settings  # noqa: PLC0415  # it reads this module

    return 0 if build_static_files(settings.STATIC_SOURCES, settings.STATIC_BUILDS) else 1


if __name__ == "__main__":
    sys.exit(main())
