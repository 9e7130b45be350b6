"""Turns that somebody comes back to: from elsewhere, or by a request that is sent again."""
