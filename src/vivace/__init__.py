"""Vivace: open coding models on your own hardware, answering at the speed of typing."""

from importlib.metadata import version

__all__ = ["__version__"]

__version__ = version("vivace")
