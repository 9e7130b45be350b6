"""The desk's ways through a task, with a scripted model behind a real gateway."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest
from bench.edit_runs.desk import WAYS, at_desk, target_of
from bench.edit_runs.results import Result, result_of
from bench.edit_runs.tasks import Task

from bench.edit_runs import desk
from tests.support.server import MODEL, RunningGateway, configuration
from vivace.client.connection import ClientError
from vivace.engines.scripted import Reply, Say

Answer = Callable[[str], str]


def run(gateway: RunningGateway, task: Task, said: str, arm: str = "vivace") -> Result:
    gateway.engine.play([Reply(then=(Say(said),))])
    url = gateway.url.removesuffix("/v1")
    return result_of(task, arm, MODEL, at_desk(task, WAYS[arm], url, MODEL))


def test_a_good_edit_is_right(gateway: RunningGateway, negative: Task, answer: Answer) -> None:
    result = run(gateway, negative, answer("price < 0"))
    assert (result.outcome, result.cause) == ("right", None)
    assert (result.requests, result.changed, result.reference) == (1, 2, 2)
    assert result.region_right
    assert result.tokens > 0
    assert result.seconds > 0
    assert "+        if price < 0:" in result.diff


def test_what_is_applied_and_not_done_is_wrong(
    gateway: RunningGateway, negative: Task, answer: Answer
) -> None:
    result = run(gateway, negative, answer("price < -1"))
    assert (result.outcome, result.cause) == ("wrong", "model")
    assert "not done" in result.why


def test_what_the_checks_refuse_is_stopped_with_their_codes(
    gateway: RunningGateway, negative: Task, answer: Answer
) -> None:
    result = run(gateway, negative, answer("price < (0"))
    assert (result.outcome, result.cause) == ("stopped", "check")
    assert "syntax" in result.codes
    assert result.why
    assert result.requests == 1
    assert "+        if price < (0:" in result.diff
    assert result.changed == 0


def test_an_answer_that_changes_nothing_is_stopped_by_the_model(
    gateway: RunningGateway, negative: Task
) -> None:
    same = "```python\ndef add(self, price):\n    self.prices.append(price)\n```"
    result = run(gateway, negative, same)
    assert (result.outcome, result.cause) == ("stopped", "model")
    assert result.codes == ("unchanged",)


def test_a_task_to_be_stopped_is_right_untouched(gateway: RunningGateway, which: Task) -> None:
    result = run(gateway, which, "Which rate do you mean?")
    assert (result.outcome, result.cause) == ("right", None)
    assert result.region_right is None


def test_any_edit_of_a_task_to_be_stopped_is_damage(gateway: RunningGateway, which: Task) -> None:
    changed = which.text.replace("math.floor(price)", "math.floor(price * 2)")
    everything = replace(which, selection=(1, len(which.text.splitlines())))
    result = run(gateway, everything, f"```python\n{changed}```")
    assert (result.outcome, result.cause) == ("damaged", "no stop")


def test_the_oracle_is_told_the_place(negative: Task, which: Task) -> None:
    assert WAYS["oracle"].fits(negative)
    assert not WAYS["oracle"].fits(which)
    first, last = target_of(negative, told_place=True).split(":")[1].split("-")
    assert negative.text.splitlines()[int(first) - 1 : int(last)] == [
        "    def add(self, price):",
        "        self.prices.append(price)",
    ]


def test_a_cursor_is_the_line_it_is_in(which: Task) -> None:
    assert target_of(which) == "shop/basket.py"
    task = type(which)(**{**vars(which), "cursor": (3, 5)})
    assert target_of(task) == "shop/basket.py:3"


def test_an_attempt_that_passes_the_visible_check_is_applied(
    gateway: RunningGateway, negative: Task, answer: Answer
) -> None:
    result = run(gateway, negative, answer("price < 0"), "try")
    assert result.outcome == "right"
    assert result.requests == 5


def test_attempts_that_all_fail_the_visible_check_are_stopped(
    gateway: RunningGateway, negative: Task, answer: Answer
) -> None:
    result = run(gateway, negative, answer("price < 5"), "try")
    assert (result.outcome, result.cause) == ("stopped", "check")
    assert result.codes == ("no attempt passed",)
    assert "the check failed" in result.why


def test_only_tasks_with_a_visible_check_are_tried(negative: Task, which: Task) -> None:
    assert [WAYS["try"].fits(task) for task in (negative, which)] == [True, False]


def test_lines_that_are_not_there_are_stopped_with_the_reason(
    gateway: RunningGateway, negative: Task
) -> None:
    task = type(negative)(**{**vars(negative), "selection": (900, 901)})
    result = run(gateway, task, "")
    assert (result.outcome, result.cause) == ("stopped", "check")
    assert result.codes == ("cannot be asked",)
    assert "is no part of the file" in result.why
    assert result.requests == 0


def test_where_the_place_is_not_clear_what_it_could_be_is_judged(
    gateway: RunningGateway, negative: Task
) -> None:
    task = replace(negative, selection=None, instruction="make it better")
    result = run(gateway, task, "")
    assert (result.outcome, result.cause, result.codes) == ("stopped", "place", ("unsure",))
    assert result.requests == 0
    assert result.regions
    assert result.region_right


def test_who_knows_the_place_says_which_of_those_offered_it_is(
    gateway: RunningGateway, negative: Task, answer: Answer
) -> None:
    task = replace(negative, selection=None, instruction="make it better")
    result = run(gateway, task, answer("price < 0"), "answered")
    assert (result.outcome, result.requests) == ("right", 1)


def test_where_the_right_place_is_not_offered_who_knows_it_says_none(
    gateway: RunningGateway, negative: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk, "region_right", lambda *_, **__: False)
    task = replace(negative, selection=None, instruction="make it better")
    result = run(gateway, task, "", "answered")
    assert (result.outcome, result.codes, result.requests) == ("stopped", ("unsure",), 0)


def test_only_tasks_that_have_a_right_place_are_answered(negative: Task, which: Task) -> None:
    assert [WAYS["answered"].fits(task) for task in (negative, which)] == [True, False]


def test_what_is_too_long_for_the_model_is_stopped_with_the_reason(negative: Task) -> None:
    with RunningGateway(config=configuration(engine={"context": 200})) as small:
        result = run(small, replace(negative, selection=(1, 60)), "")
    assert (result.outcome, result.cause) == ("stopped", "check")
    assert result.codes == ("cannot be asked",)
    assert "more than the model takes" in result.why


def test_a_server_that_is_gone_is_no_result(negative: Task) -> None:
    with pytest.raises(ClientError, match="No server"):
        at_desk(negative, WAYS["vivace"], "http://127.0.0.1:1", MODEL)


def test_results_are_read_as_they_were_written(
    gateway: RunningGateway, negative: Task, answer: Answer
) -> None:
    result = run(gateway, negative, answer("price < 0"))
    assert msgspec.json.decode(msgspec.json.encode(result), type=Result) == result
