"""The queues and priority classes of KAI on a cluster."""
