"""Suite: change. How programs of ours talk to a server."""
