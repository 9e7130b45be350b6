"""Suite: change. The simulation with few seeds and one kill; long runs are marked release."""
