"""Suite: release. Tests of benchmark tools and their data, which no user runs."""
