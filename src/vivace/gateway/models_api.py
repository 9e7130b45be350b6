"""Which models there are, for clients of OpenAI's API and for Codex."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response as HttpResponse
from starlette.routing import Route

from vivace.engines.base import Card
from vivace.gateway.catalogue import Catalogue
from vivace.gateway.http import json_response, speaks_errors

__all__ = ["ModelsApi"]


class ModelsApi:
    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def routes(self) -> list[Route]:
        return [
            Route("/v1/models", self._models),
            Route("/v1/models/{name:path}", speaks_errors(self._model)),
        ]

    def _describe(self, card: Card) -> dict[str, object]:
        return {
            "id": card.name,
            "object": "model",
            "created": 0,
            "owned_by": card.owned_by,
            "context_window": card.context,
            "fill_in_the_middle": card.fills,
            "service_tier": card.name in self._catalogue.service_tiers,
            "reasoning_efforts": card.efforts,
            "default_reasoning_effort": card.effort,
        }

    async def _models(self, request: Request) -> HttpResponse:
        # An editor that started Codex has it say its own name there, so any name will do.
        if "originator" in request.headers and "client_version" in request.query_params:
            return self._codex_models()
        cards = [self._describe(card) for card in self._catalogue.cards]
        return json_response({"object": "list", "data": cards})

    def _codex_models(self) -> HttpResponse:
        models = self._catalogue.for_codex
        answer = json_response(models.body)
        answer.headers["etag"] = models.etag
        return answer

    async def _model(self, request: Request) -> HttpResponse:
        return json_response(self._describe(self._catalogue.card(request.path_params["name"])))
