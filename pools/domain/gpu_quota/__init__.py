"""GPU quota of a namespace: the spec, its checks, workers and status, all pure."""
