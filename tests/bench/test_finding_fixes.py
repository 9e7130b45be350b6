"""A finding is fixed by its rule or by a model, and only what passes its checks counts."""

from __future__ import annotations

import pytest
from bench._finding_fixes import fixed_in
from bench.finding_sets import Pair

from tests.support.server import MODEL, RunningGateway
from vivace.engines.scripted import Reply, Say

BY_RULE = "import yaml\n\n\ndef load(text):\n    return yaml.load(text, Loader=yaml.Loader)\n"
BY_MODEL = (
    "import subprocess\n\n\ndef show(name):\n    subprocess.run(f'ls {name}', shell=True)\n\n\n"
    "def other():\n    return 1\n"
)
MENDED = "def show(name):\n    subprocess.run(['ls', name])\n"
STILL_THERE = "def show(name):\n    subprocess.run(f'ls -l {name}', shell=True)\n"


def pair(text: str) -> Pair:
    return Pair(id="a", language="python", cwe=78, line=1, vulnerable=text, fixed="")


def test_what_its_rule_can_fix_needs_no_model() -> None:
    [fixed] = fixed_in([pair(BY_RULE)])
    assert (fixed.by_rule, fixed.bad) == (True, None)


def test_without_a_model_the_rest_has_no_fix() -> None:
    [fixed] = fixed_in([pair(BY_MODEL)])
    assert (fixed.by_rule, fixed.by_model) == (False, False)


@pytest.mark.parametrize(("answer", "is_fixed"), [(MENDED, True), (STILL_THERE, False)])
def test_a_model_has_fixed_what_is_not_found_any_more(answer: str, is_fixed: bool) -> None:
    said = Reply(then=(Say(f"```python\n{answer}```"),))
    with RunningGateway([said]) as gateway:
        [fixed] = fixed_in([pair(BY_MODEL)], gateway.url, MODEL)
    assert (fixed.by_model, fixed.bad) == (is_fixed, None)
    assert fixed.seconds > 0
