"""The way from a connection to a request of Django in the web and webhook servers: bodies, threads, answers."""
