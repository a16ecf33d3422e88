"""The commands of manage.py that are ours or differ from Django's."""
