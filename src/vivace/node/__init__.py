"""``vivace engine``: engines for gateways in other processes, on this machine or on others."""
