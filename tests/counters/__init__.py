"""Suite: change. Limits on a real Valkey, one server for the whole run."""
