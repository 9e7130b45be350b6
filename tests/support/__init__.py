"""Suite: change. What tests share: a running gateway, a witness of what it says, and clients."""
