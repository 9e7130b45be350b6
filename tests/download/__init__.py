"""Suite: change. Downloads from a server of the test's own."""
