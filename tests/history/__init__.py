"""A history of an installation under faults, and a checker of it (docs/reliability.md)."""
