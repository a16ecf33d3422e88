"""The agreement of streams with servers: an empty chunk is a pause, and the server then asks again later."""

# In the WSGI environment of a server that waits a moment after an empty chunk. Others ask again at once.
PAUSES = "osmo_admin.pauses_after_empty_chunk"
