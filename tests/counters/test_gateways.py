"""Whole gateways that share a Valkey: one limit for both, and what they tell of it."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import RunningGateway, configuration
from tests.support.valkey import Valkey
from tests.support.waiting import eventually
from vivace.config import FleetConfig
from vivace.errors import ConfigError
from vivace.gateway.parts import build_limiter

ASK = {"model": "fast", "input": "Hi", "store": False}


def one_of_several(valkey: Valkey, **limits: int) -> RunningGateway:
    tier = {"name": "fast", "engines": ["scripted"], "limits": limits}
    return RunningGateway(config=configuration(tiers=[tier], fleet={"valkey": valkey.url}))


def asked(gateway: RunningGateway) -> Any:
    with gateway.http as http:
        return http.post("/v1/responses", json=ASK)


def told(gateway: RunningGateway, name: str) -> float:
    with gateway.http as http:
        lines = http.get("/metrics").text.splitlines()
    (value,) = (line.split(" ")[1] for line in lines if line.startswith(f"{name} "))
    return float(value)


def test_a_limit_is_one_for_both(valkey: Valkey) -> None:
    with (
        one_of_several(valkey, requests_per_minute=3) as one,
        one_of_several(valkey, requests_per_minute=3) as other,
    ):
        answers = [asked(each) for each in (one, other, one, other)]
        assert [each.status_code for each in answers] == [200, 200, 200, 429]
        left = [each.headers["x-ratelimit-remaining-requests"] for each in answers]
        assert left == ["2", "1", "0", "0"]
        assert "3 requests a minute; all are used up" in answers[-1].json()["error"]["message"]
        assert told(one, "vivace_limits_shared") == 1


def test_turns_that_have_ended_hold_nothing(valkey: Valkey) -> None:
    with one_of_several(valkey, concurrency=1) as gateway:
        for _ in range(5):
            assert asked(gateway).status_code == 200
        with valkey.client() as client:
            assert client.keys("vivace:limits:{*") == []


def test_without_valkey_requests_are_answered_and_metrics_say_so(valkey: Valkey) -> None:
    with one_of_several(valkey, requests_per_minute=600) as gateway:
        valkey.kill()
        assert [asked(gateway).status_code for _ in range(3)] == [200, 200, 200]
        with gateway.http as http:
            assert http.get("/readyz").status_code == 200
        assert told(gateway, "vivace_limits_shared") == 0
        assert told(gateway, "vivace_limits_losses_total") == 1
        valkey.start()
        eventually(lambda: told(gateway, "vivace_limits_shared") == 1)


def test_a_gateway_starts_without_its_valkey(valkey: Valkey) -> None:
    valkey.kill()
    with one_of_several(valkey, requests_per_minute=600) as gateway:
        assert asked(gateway).status_code == 200


def test_a_socket_of_this_machine_will_do(valkey: Valkey) -> None:
    tier = {"name": "fast", "engines": ["scripted"], "limits": {"requests_per_minute": 9}}
    url = f"unix://{valkey.socket}?db=1"
    with RunningGateway(config=configuration(tiers=[tier], fleet={"valkey": url})) as gateway:
        assert asked(gateway).headers["x-ratelimit-remaining-requests"] == "8"
        assert told(gateway, "vivace_limits_shared") == 1


def test_who_has_not_installed_the_driver_is_told_how(monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[..., Any] = builtins.__import__

    def without_redis(name: str, *rest: Any, **more: Any) -> Any:
        if name.split(".")[0] == "redis":
            raise ModuleNotFoundError(name)
        return real(name, *rest, **more)

    for module in ("line", "valkey"):
        monkeypatch.delitem(sys.modules, f"vivace.counters.{module}", raising=False)
    monkeypatch.setattr(builtins, "__import__", without_redis)
    with pytest.raises(ConfigError, match=r"fleet\.valkey needs redis") as told:
        build_limiter(FleetConfig(valkey="redis://127.0.0.1"), lambda: 1)
    assert "install" in str(told.value)
    assert Path(sys.executable).name in str(told.value)
