"""The imports that an edit needs: which are missing, where they come from, where they go."""
