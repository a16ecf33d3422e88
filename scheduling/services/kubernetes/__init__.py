"""The Kubernetes backend: agents, dispatch, observation, nodes and queue sync."""
