"""OSMO Admin: the composition root. It connects the packages and contains no rules."""

__version__ = "0.1.0"
