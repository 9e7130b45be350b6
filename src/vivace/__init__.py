"""Vivace: open coding models on your own hardware, answering at the speed of typing."""

__all__ = ["__version__"]

__version__ = "0.1.0"
