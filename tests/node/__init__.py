"""Suite: change. Engine nodes, as processes where signals matter."""
