"""Objects as YAML text: always the same text for the same objects."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import yaml

from pools.domain.configuration.ownership import OwnedKind
from scheduling.configuration.bodies import SECTION_BY_KIND
from scheduling.structured_yaml.value_reader import is_read_as_text

Objects = Mapping[tuple[OwnedKind, str], Mapping[str, Any]]
"""The forms of objects by kind and name."""


class _Dumper(yaml.SafeDumper):
    """Quotes also the texts that our reader would take for numbers and PyYAML would not, such as `1e5`."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = None if is_read_as_text(text) else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _represent_ordered(dumper: _Dumper, data: OrderedDict[str, Any]) -> yaml.MappingNode:
    return dumper.represent_mapping("tag:yaml.org,2002:map", data)


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(OrderedDict, _represent_ordered)


def file_texts(objects: Objects) -> dict[str, str]:
    """The text of each file by its path: one file for each object, `pools/vision.yaml`."""
    return {file_path(kind, name): object_text(kind, name, objects[kind, name]) for kind, name in sorted(objects)}


def file_path(kind: OwnedKind, name: str) -> str:
    """The path of the file of an object."""
    section = SECTION_BY_KIND[kind]
    return f"{section.key}.yaml" if section.is_single else f"{section.key}/{name}.yaml"


def object_text(kind: OwnedKind, name: str, body: Mapping[str, Any]) -> str:
    """The text of a file with this object alone."""
    return one_file_text({(kind, name): body})


def one_file_text(objects: Objects) -> str:
    """The text of one file with all these objects."""
    value: dict[str, Any] = {}
    for (kind, name), body in sorted(objects.items(), key=lambda each: each[0]):
        section = SECTION_BY_KIND[kind]
        if section.is_single:
            value[section.key] = dict(body)
        else:
            value.setdefault(section.key, {})[name] = dict(body)
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=2**20)
