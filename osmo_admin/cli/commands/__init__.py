"""The commands of `osmo`, one group for each file; a command parses, calls the server once or twice, and renders."""
