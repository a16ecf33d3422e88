"""The port to Kubernetes, and the official client behind it.

`port` and `errors` are for all callers; `client` is the only module that imports the official client, and `connections`
the only one that opens it.
"""
