"""The commands of `osmo`, one family a file. Each parses, calls the server once or twice, and renders."""
