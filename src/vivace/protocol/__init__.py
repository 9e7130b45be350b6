"""What crosses the wire: items, requests, events, and the codec between them and bytes."""
