"""The source of the product, read and parsed once for all tests that judge it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import yaml

from tests.support.services import ROOT

PACKAGES = ("osmo_admin", "pools", "scheduling")


@cache
def described_addresses() -> dict[str, Any]:
    """The addresses of docs/openapi.yaml, each with its methods; a megabyte, which no test may change."""
    paths: dict[str, Any] = yaml.load((ROOT / "docs" / "openapi.yaml").read_text(), yaml.CSafeLoader)["paths"]
    return paths


class ModuleFacts(NamedTuple):
    """What stands in a module. An import is the module and the names that are imported from it."""

    constants: tuple[tuple[int, str], ...]
    """Line and value of each text, docstrings included."""
    classes: tuple[tuple[int, str], ...]
    """Line and name of each class."""
    imports: tuple[tuple[str, tuple[str, ...]], ...]
    attributes: frozenset[str]
    """The names that are read of any object."""
    assigned: tuple[tuple[int, str], ...]
    """Line and name of each assignment at the top of the module."""


@cache
def module_texts() -> dict[str, str]:
    """The modules by path, such as `pools/locking.py`; without migrations."""
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if "migrations" not in path.parts
    }


@cache
def module_facts() -> dict[str, ModuleFacts]:
    """The facts of each module by path. A tree of all would fill the memory of the process."""
    return {path: _facts(ast.parse(text)) for path, text in module_texts().items()}


def _facts(tree: ast.Module) -> ModuleFacts:
    constants, classes, imports, attributes = [], [], [], set()
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)):
                constants.append((node.lineno, text))
            case ast.Attribute(attr=name):
                attributes.add(name)
            case ast.ClassDef(name=name):
                classes.append((node.lineno, name))
            case ast.Import(names=names):
                imports += [(each.name, ()) for each in names]
            case ast.ImportFrom(module=str(module), names=names):
                imports.append((module, tuple(each.name for each in names)))
    assigned = tuple(_assigned(tree))
    return ModuleFacts(tuple(constants), tuple(classes), tuple(imports), frozenset(attributes), assigned)


def _assigned(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from ((node.lineno, target.id) for target in targets if isinstance(target, ast.Name))
