"""Suite: change. One suite over SQLite and a real PostgreSQL."""
