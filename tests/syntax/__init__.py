"""Suite: change. Pure logic."""
