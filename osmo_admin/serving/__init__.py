"""How the web and webhook servers turn connections into requests of Django: bodies, threads, answers."""
