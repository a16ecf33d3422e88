"""The port to Kubernetes, the official client behind it, and a fake cluster in memory for tests.

`port` and `errors` are for all callers; `client` is the only module that imports the official client, and `connections`
the only one that opens it.
"""
