"""What a developer and CI run; modules of it are imported by each other and by tests."""
