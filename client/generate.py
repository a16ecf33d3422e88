"""The build hook of the wheel: the client generated from the OpenAPI file, added to the modules of this folder."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from openapi_python_client import generate
from openapi_python_client.config import Config, ConfigFile, MetaType

PACKAGE = "osmo_admin_client"


class GeneratedClient(BuildHookInterface[Any]):
    """Each operation and each object of the API must be generated: an operation that cannot be is an error."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        described = self._find("openapi.yaml", "docs/openapi.yaml")
        self.folder = Path(tempfile.mkdtemp())
        made = self.folder / PACKAGE
        # Literal types, because an enumeration cannot hold both True and true.
        settings = ConfigFile(literal_enums=True, post_hooks=[], package_name_override=PACKAGE)
        config = Config.from_sources(settings, MetaType.NONE, described, "utf-8", overwrite=True, output_path=made)
        if problems := generate(config=config):
            raise RuntimeError("\n".join(f"{each.header}: {each.detail}" for each in problems))
        build_data["force_include"][str(made)] = PACKAGE
        build_data["force_include"][str(self._find("LICENSE", "LICENSE"))] = f"{PACKAGE}/LICENSE"

    def _find(self, packed: str, in_checkout: str) -> Path:
        """A file that a source package has at its top, and a checkout above this folder."""
        root = Path(self.root)
        return next(path for path in (root / packed, root.parent / in_checkout) if path.exists())

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        shutil.rmtree(self.folder)
