"""Suite: change. Every command, in the test's own process where that shows as much."""
