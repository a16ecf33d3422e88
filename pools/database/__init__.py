"""The only place that knows the driver: the transaction of a change, the snapshot of a read, prepared reads, and what a
lost connection or a lock that is not free means."""
