"""Only the places that docs/values.md names read YAML with PyYAML itself; all others use the one reader of values."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PRODUCT = ("pools", "scheduling", "osmo_admin", "client")
READERS = {"load", "safe_load", "full_load", "unsafe_load", "parse", "scan", "compose", "Loader", "SafeLoader"}
READERS |= {f"{name}_all" for name in READERS} | {"CSafeLoader", "FullLoader", "UnsafeLoader", "BaseLoader", "CLoader"}
ONE_READER = "scheduling/structured_yaml/"
EXCEPTIONS = {
    "pools/services/configuration/cluster_credentials.py": "a kubeconfig is a format of Kubernetes",
    "osmo_admin/cli/base/login_file.py": "OSMO's own client writes and reads the same file",
    "osmo_admin/cli/workflow_file.py": "finds places in a file that the server reads, and no values",
    "osmo_admin/doctor/redaction.py": "finds secrets in any text, and no values that decide something",
}


def _reads(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in READERS and isinstance(node.value, ast.Name):
            yield from [node.lineno] * (node.value.id == "yaml")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "yaml":
            yield node.lineno


def test_no_other_place_reads_yaml() -> None:
    found = {
        str(path.relative_to(ROOT))
        for folder in PRODUCT
        for path in (ROOT / folder).rglob("*.py")
        if "yaml" in (text := path.read_text()) and list(_reads(ast.parse(text)))
    }
    assert {path for path in found if not path.startswith(ONE_READER)} == set(EXCEPTIONS)
    assert any(path.startswith(ONE_READER) for path in found)


def test_the_page_about_values_names_each_exception() -> None:
    text = " ".join((ROOT / "docs" / "values.md").read_text().split())
    for words in ("kubeconfig", "login file of the client", "`localpath`", "support bundle"):
        assert words in text.partition("Four places read YAML with PyYAML")[2].partition("##")[0], words
