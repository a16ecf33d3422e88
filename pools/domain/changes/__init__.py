"""The changes that people and programs can make, each said once: its fields, what it is about, and who may make it.

A change is a frozen dataclass. Its REST operation, the form of its page, the options of the client, and the stored
request for an approval are made from it (docs/developing/add-a-field.md). Only the standard library and the readers of
this package are imported, because the client uses the same definitions without Django.
"""
