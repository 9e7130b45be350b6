"""The server: the wire on one side, engines on the other, and the core deciding in between."""
