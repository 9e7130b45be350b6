"""Puts a fault into the shipped code of a gateway or a node, named by ``CHAOS_DEFECT``.

It gets there as its ``sitecustomize`` (``chaos.processes``) and stays as long as the process.
"""

import os

from chaos.defects import DEFECTS
from chaos.fleet.defects import FLEET_DEFECTS

__all__: list[str] = []

for place, name, value in (DEFECTS | FLEET_DEFECTS)[os.environ["CHAOS_DEFECT"]].changes():
    setattr(place, name, value)
