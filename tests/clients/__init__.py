"""Suite: change. One conversation each of the real SDKs and agents; the rest is marked release."""
