"""Pages of usage, replays and the differences of another scheduler."""
