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

# At most some decades, for which clocks, dates and databases have room; ``inf`` they have none for.
Seconds = Annotated[PositiveFloat, Meta(le=1e9, extra={"unit": "s"})]
Minutes = Annotated[PositiveFloat, Meta(le=1e7, extra={"unit": "min"})]
Days = Annotated[PositiveFloat, Meta(le=36_500, extra={"unit": "days"})]
Megabytes = Annotated[PositiveInt, Meta(extra={"unit": "MB"})]
Tokens = Annotated[PositiveInt, Meta(extra={"unit": "tokens"})]
