"""Puts a fault into the shipped code of a gateway, named by ``CHAOS_DEFECT``.

It gets there as its ``sitecustomize`` (``chaos.processes``) and stays as long as the process.
"""

import os

from chaos.defects import DEFECTS

__all__: list[str] = []

for place, name, value in DEFECTS[os.environ["CHAOS_DEFECT"]].changes():
    setattr(place, name, value)
