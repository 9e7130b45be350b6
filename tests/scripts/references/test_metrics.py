"""docs/reference/metrics.md: all that a running server tells Prometheus."""

from __future__ import annotations

import re

import pytest

from scripts.references import metrics
from tests.support.server import RunningGateway

LISTED = metrics.every_metric()


@pytest.mark.parametrize("metric", LISTED, ids=lambda metric: metric.name)
def test_every_metric_has_a_meaning_and_its_labels_too(metric: metrics.Metric) -> None:
    assert metric.meaning.endswith(".")
    assert set(metric.labels) <= set(metrics.LABELS)


def test_no_label_is_explained_that_no_metric_has() -> None:
    assert set(metrics.LABELS) == {label for metric in LISTED for label in metric.labels}


def test_what_a_server_tells_is_what_is_listed() -> None:
    with RunningGateway() as gateway, gateway.http as http:
        http.post("/v1/responses", json={"input": "Say hello."})
        told = http.get("/metrics").text
    listed = {metric.name: metric for metric in LISTED}
    assert set(re.findall(r"(?m)^# TYPE (vivace_\w+) (\w+)$", told)) - _since(told) == {
        (metric.name, metric.type) for metric in LISTED
    }
    for name, labels in re.findall(r"(?m)^(vivace_\w+?)(?:_bucket|_sum|_count)?{(.+?)} ", told):
        if not name.endswith("_created"):
            assert set(re.findall(r'(\w+)="', labels)) - {"le"} == set(listed[name].labels)


def _since(told: str) -> set[tuple[str, str]]:
    """When each was counted first, which the client library adds to all that counts."""
    return set(re.findall(r"(?m)^# TYPE (vivace_\w+_created) (gauge)$", told))
