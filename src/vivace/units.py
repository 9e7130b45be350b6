"""What the values of a configuration count. References tell the unit beside each key."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

__all__ = [
    "Count",
    "Days",
    "Megabytes",
    "Minutes",
    "Name",
    "Port",
    "PositiveFloat",
    "PositiveInt",
    "Seconds",
    "Tokens",
]

Count = Annotated[int, Meta(ge=0)]
PositiveInt = Annotated[int, Meta(ge=1)]
PositiveFloat = Annotated[float, Meta(gt=0)]
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.:/\-]+\Z")]
Port = Annotated[int, Meta(ge=0, le=65535)]

Seconds = Annotated[PositiveFloat, Meta(extra={"unit": "s"})]
Minutes = Annotated[PositiveFloat, Meta(extra={"unit": "min"})]
Days = Annotated[PositiveFloat, Meta(extra={"unit": "days"})]
Megabytes = Annotated[PositiveInt, Meta(extra={"unit": "MB"})]
Tokens = Annotated[PositiveInt, Meta(extra={"unit": "tokens"})]
