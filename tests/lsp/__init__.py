"""Suite: change. The language server in the test's own process; a few tests start the real one."""
