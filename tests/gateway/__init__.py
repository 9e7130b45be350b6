"""Suite: change. Gateways in the test's own process; processes where only they show it."""
