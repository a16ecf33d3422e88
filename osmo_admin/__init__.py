"""The composition root of OSMO Admin, which connects the packages and contains no rules."""

__version__ = "0.1.0"
