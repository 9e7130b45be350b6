"""Suite: change. The scripts that contributors run, and the generated references."""
