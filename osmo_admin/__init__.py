"""OSMO Admin: the composition root. It wires the rooms together and owns no rule."""

__version__ = "0.1.0"
