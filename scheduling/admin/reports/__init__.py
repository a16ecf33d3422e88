"""Pages of usage and replays."""
