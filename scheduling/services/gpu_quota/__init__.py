"""GPU quota of namespaces on clusters: the controller, its admission checks, and the workers of workflows."""
