"""Whether work may start, beside the engine."""
