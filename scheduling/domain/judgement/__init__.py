"""Whether work may start, outside of the engine."""
