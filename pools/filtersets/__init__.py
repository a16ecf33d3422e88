"""The filters of lists, for the REST API and for pages: one FilterSet for each kind of row."""
