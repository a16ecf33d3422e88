"""The web process: its server, middlewares, static files and error pages."""
