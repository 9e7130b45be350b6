"""Suite: change. Files and git in temporary folders."""
