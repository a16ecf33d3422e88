"""Work is sent to a cluster and observed there."""
