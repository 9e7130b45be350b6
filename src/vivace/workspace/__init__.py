"""The person's files: where edits may go, how they get there whole, and how they are taken back."""
