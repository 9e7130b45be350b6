"""What ``vivace demo`` shows: one change of one file, made in two ways."""
