"""The wheel, the lock files, and the import rules."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.support.services import ROOT

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKS = ["requirements.lock", "requirements-dev.lock"]


def committed_files() -> list[Path]:
    """The files that git tracks."""
    answer = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for name in answer.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def read_pins(lock: str) -> dict[str, Version]:
    """Name → version; where markers give a package two versions, the greatest."""
    found: dict[str, Version] = {}
    for line in (ROOT / lock).read_text().splitlines():
        name, pinned, rest = line.partition("==")
        if pinned and not line.startswith(" "):
            version = Version(rest.split(" ")[0])
            found[name] = max(version, found.get(name, version))
    return found


def direct_requirements(*, dev: bool) -> list[Requirement]:
    """The direct requirements of pyproject.toml."""
    project = PYPROJECT["project"]
    texts = [*project["dependencies"], *project["optional-dependencies"]["embedded"]]
    if dev:
        groups = PYPROJECT["dependency-groups"].values()
        texts += [each for group in groups for each in group if isinstance(each, str)]
    return [Requirement(text) for text in texts]


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_pins_everything_with_hashes_and_without_addresses(lock: str) -> None:
    text = (ROOT / lock).read_text()
    assert "://" not in text
    blocks = text.replace("\\\n", "").strip().splitlines()
    assert len(blocks) > 50
    assert [block.split(" ")[0] for block in blocks if "--hash=sha256:" not in block] == []


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_has_the_requirements_of_pyproject(lock: str) -> None:
    pinned = read_pins(lock)
    missing = []
    for requirement in direct_requirements(dev=lock == "requirements-dev.lock"):
        version = pinned.get(requirement.name.lower())
        if version is None or not requirement.specifier.contains(version, prereleases=True):
            missing.append(f"{requirement} (locked: {version})")
    assert missing == [], "run: make lock"


def test_the_tested_versions_are_the_shipped_ones() -> None:
    tested = read_pins("requirements-dev.lock")
    assert {
        name: version for name, version in read_pins("requirements.lock").items() if tested.get(name) != version
    } == {}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    """The package as `pip install .` builds it, without the network."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


def test_the_wheel_holds_code_migrations_templates_and_static_files(wheel: zipfile.ZipFile) -> None:
    inside = set(wheel.namelist())
    expected = {str(path.relative_to(ROOT)) for path in committed_files() if path.suffix == ".py"}
    expected = {name for name in expected if name.startswith(("osmo_admin/", "pools/", "scheduling/"))}
    for folder in ("templates", "static"):
        files = [path for path in committed_files() if path.is_relative_to(ROOT / folder)]
        assert files, f"{folder}/ is empty"
        expected |= {f"osmo_admin/_bundle/{path.relative_to(ROOT)}" for path in files}
    assert expected - inside == set()
    assert any(name.startswith("pools/migrations/0001_") for name in inside)
    assert [name for name in inside if name.startswith(("tests/", "bench/", "deploy/"))] == []


def test_the_wheel_has_both_commands_and_the_licence(wheel: zipfile.ZipFile) -> None:
    (scripts,) = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
    text = wheel.read(scripts).decode()
    assert "osmo = osmo_admin.cli.client:main" in text
    assert "osmo-admin = osmo_admin.cli.server:main" in text
    assert any(name.endswith("licenses/LICENSE") for name in wheel.namelist())


def test_an_installed_package_finds_its_templates_and_static_files(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path)
    script = (
        "import django; django.setup(); from django.conf import settings;"
        "print(settings.TEMPLATES[0]['DIRS'][0]); print(settings.STATICFILES_DIRS[0])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True,
        env={"PYTHONPATH": str(tmp_path), "DJANGO_SETTINGS_MODULE": "osmo_admin.settings", "PATH": ""},
    )  # fmt: skip
    found = answer.stdout.splitlines()
    assert len(found) == 2
    for line in found:
        assert Path(line).is_relative_to(tmp_path / "osmo_admin" / "_bundle")
        assert Path(line).is_dir()


def test_no_registry_host_is_committed() -> None:
    # The names are assembled, so that this file does not contain them.
    hosts = re.compile("|".join(["pypi" + r"\.org", "python" + r"hosted\.", "npm" + r"js\.", "registry" + r"\.yarn"]))
    found = []
    for path in committed_files():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(ROOT)}: {match}" for match in hosts.findall(text)]
    assert found == []


def test_packages_are_imported_in_one_direction() -> None:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.parametrize("package", ["pools", "scheduling"])
def test_domain_packages_import_only_the_standard_library_and_each_other(package: str) -> None:
    found = []
    for path in (ROOT / package / "domain").glob("**/*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                here = path.relative_to(ROOT).parent.parts
                above = here[: len(here) + 1 - node.level] if node.level else ()
                names = [".".join([*above, node.module or ""])]
            for name in names:
                ours = name.startswith(("pools.domain", f"{package}.domain"))
                if not ours and name.split(".")[0] not in sys.stdlib_module_names:
                    found.append(f"{path.relative_to(ROOT)}: {name}")
    assert found == []
