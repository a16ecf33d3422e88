"""The rules of scheduling, complete and plain: what may start, in which order, who gives way, who waits with a
reservation."""
