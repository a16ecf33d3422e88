"""Reads of clusters: nodes, their room, and the queues that a cluster should have."""
