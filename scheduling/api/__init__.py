"""The REST views of work, queues and clusters: parse, call a service or a selector, render."""
