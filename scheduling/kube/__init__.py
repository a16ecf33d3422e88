"""Kubernetes in our own words: a port, the official client behind it, and a twin of both in memory.

`port` and `errors` are what everybody uses; `client` is the one module of the house that imports the official client,
and `connections` the one place that opens it.
"""
