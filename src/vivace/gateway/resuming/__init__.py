"""Turns that somebody comes back to: from another connection, or by a request that is sent again."""
