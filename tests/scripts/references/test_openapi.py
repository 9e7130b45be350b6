"""docs/openapi.json: it is of all endpoints there are."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
from starlette.applications import Starlette
from starlette.routing import Route

from scripts.references import openapi
from tests.support.server import configuration
from vivace.gateway.app import Gateway


def test_every_route_is_documented_and_nothing_else(tmp_path: Path) -> None:
    app = Gateway(configuration(), tmp_path).app._app  # type: ignore[attr-defined]
    assert isinstance(app, Starlette)
    served = {
        (method.lower(), re.sub(r":path}", "}", route.path))
        for route in app.routes
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    }
    paths = openapi.document()["paths"]
    assert {(method, path) for path, methods in paths.items() for method in methods} == served


def test_what_is_referred_to_is_there() -> None:
    document = openapi.document()
    text = msgspec.json.encode(document).decode()
    for kind, name in re.findall(r'"#/components/(\w+)/([^"]+)"', text):
        assert name in document["components"][kind]
