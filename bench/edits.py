"""What an edit costs when the old code is its draft: against plain, n-gram, suffix and an oracle.

Replayed edits are real commits: the engine computes every step, the committed text is forced as its
answer, so all ways write the same. Natural edits are the model's own answers. Then requests with
nothing to copy, sixteen edits at once, and whether drafts change what the model says.
Needs vLLM (scripts/install-vllm) and the commits (scripts/commits).
"""

from __future__ import annotations

import contextlib
import gzip
import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from bench import _files, fim
from bench._peers import ENVIRONMENT, running
from bench._report import Report, percentile, ratio_of
from vivace.protocol.items import Message
from vivace.speculation.sources import old_text

Sample = dict[str, Any]
ASK = "Change this file: {}. Answer with the whole new file and nothing else.\n```\n{}```"
LANGUAGES = {"py": "Python", "cpp": "C++", "rs": "Rust", "ts": "TypeScript"}
SHARES = ((0.0, 0.02), (0.02, 0.05), (0.05, 0.15), (0.15, 1.01))
PLAIN_PLACES = (0.0, 0.5, 1.0)
PLAIN_TOKENS = 33
"""The first token is not timed: it takes the prompt's time."""
NEW_CODE = (
    "Write a Python function that parses an ISO 8601 duration.",
    "Write a C function that reverses a linked list.",
    "Write a TypeScript class for a priority queue.",
    "Write a Rust function that counts words in a string.",
    "Explain in one paragraph what a B-tree is.",
    "Write a shell script that finds the ten largest files.",
)
JUNK = "zebra quartz 0x7f lorem ipsum <|im_end|> \\u2603 dolor; " * 40


class Ways:
    """The engines of this run, and what they have answered so far."""

    def __init__(self, samples: Path | None, ngram: str) -> None:
        self.ngram = ngram
        self._running: dict[str, tuple[Any, contextlib.ExitStack]] = {}
        self._path = samples
        self._known: dict[str, list[Sample]] = {}
        if samples is not None and samples.exists():
            for line in samples.read_text().splitlines():
                entry = json.loads(line)
                self._known[entry["key"]] = entry["answers"]

    def ask(self, key: str, way: str, *requests: Sample) -> list[Sample]:
        """Answers to these at once; from the file of samples if they stand there."""
        key = f"{key}/{way}"
        if key not in self._known:
            self._known[key] = self._asked(self._engine(way), requests)
            if self._path is not None:
                with self._path.open("a") as file:
                    file.write(json.dumps({"key": key, "answers": self._known[key]}) + "\n")
        return self._known[key]

    def due(self, key: str, way: str, number: int, every: int) -> bool:
        """Whether it is this edit's turn, or its answer is there already."""
        return f"{key}/{way}" in self._known or bool(every and number % every == 0)

    def one(self, key: str, way: str, **request: Any) -> Sample:
        return self.ask(key, way, request)[0]

    def _asked(self, engine: Any, requests: Sequence[Sample]) -> list[Sample]:
        engine.stdin.write(json.dumps(requests) + "\n")
        engine.stdin.flush()
        while not (line := engine.stdout.readline()).startswith("["):
            if not line:
                raise RuntimeError("an engine died; VIVACE_BENCH_LOGS=1 shows why")
        answers: list[Sample] = json.loads(line)
        return answers

    def _engine(self, way: str) -> Any:
        if way not in self._running:
            print(f"  starting vLLM ({way}) …", file=sys.stderr, flush=True)
            python, model = str(_files.vllm_python()), str(_files.vllm_model())
            command = [python, "-m", "bench._drafting_vllm", model, way, self.ngram]
            stack = contextlib.ExitStack()
            process = stack.enter_context(running(command, None, "ready"))
            self._running[way] = process, stack
            # Some compile their search when they first use it.
            text = "".join(f"value_{number} = {number}\n" for number in range(40))
            self._asked(process, [{"ask": text, "answer": text, "old": text}])
        return self._running[way][0]

    def keep_only(self, *names: str) -> None:
        """Each engine takes five gigabytes."""
        for way in self._running.keys() - set(names):
            self._running.pop(way)[1].close()


# -- the edits ------------------------------------------------------------------------------------


def commits(path: Path) -> Iterator[dict[str, Any]]:
    if not path.exists():
        sys.exit(f"Without {path} there is nothing to replay; collect the edits: scripts/commits")
    with gzip.open(path, "rt") as lines:
        yield from map(json.loads, lines)


def fitting_commits(path: Path) -> Iterator[dict[str, Any]]:
    """Those whose new text has 400 to 1,500 tokens, with the tokens of both texts."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(_files.vllm_model() / "tokenizer.json"))
    for row in commits(path):
        old, new = (tokenizer.encode(row[side]).ids for side in ("before", "after"))
        if 400 <= len(new) <= 1500 and len(old) <= 3000:
            yield {**row, "ids": (old, new), "tokens": len(new)}


def evenly(edits: Sequence[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    step = max(1.0, len(edits) / count)
    return [edits[int(place * step)] for place in range(min(count, len(edits)))]


def load_edits(path: Path, count: int) -> list[dict[str, Any]]:
    """So many of them, with the share that they change."""
    chosen = evenly(list(fitting_commits(path)), count)
    for edit in chosen:
        old, new = edit.pop("ids")
        edit["changed"] = 1 - SequenceMatcher(None, old, new, autojunk=False).ratio()
    return chosen


def request_for(edit: dict[str, str]) -> tuple[Sample, str]:
    """The request that replays an edit, and the text that Vivace drafts it from by itself."""
    ask = ASK.format(edit["message"].splitlines()[0], edit["before"])
    old = old_text([Message(role="user", content=ask)], None)
    return {"ask": ask, "answer": f"```\n{edit['after']}```"}, old


def speed(sample: Sample) -> float:
    return float(sample["decoded"] / sample["decode"])


def best_ngram(edits: Sequence[dict[str, str]]) -> str:
    pairs = [[request["ask"], request["answer"]] for request, _ in map(request_for, edits)]
    ran = subprocess.run(
        [str(_files.vllm_python()), "-m", "bench._ngram_settings", str(_files.vllm_model())],
        input=json.dumps(pairs) + "\n",
        capture_output=True,
        text=True,
        check=True,
        env={**ENVIRONMENT, "PATH": "/usr/bin:/bin"},
    )
    found = json.loads(ran.stdout.splitlines()[-1])
    return str(found["best"])


# -- replay ---------------------------------------------------------------------------------------


def replay(report: Report, ways: Ways, edits: list[dict[str, str]], options: Any) -> None:
    report.say("replay", "committed text forced as the answer; every step is really computed")
    rows: list[Sample] = []
    for number, edit in enumerate(edits):
        request, old = request_for(edit)
        key = f"replay/{edit['commit'][:10]}/{edit['path']}"
        row: Sample = {**edit}
        for way in turns(number, ["plain", "edits", "ngram"]):
            if way == "ngram" and not ways.due(key, way, number, options.ngram_every):
                continue
            if way == "plain":
                timed = [
                    ways.one(f"{key}/{place}", way, **request, start=place, tokens=PLAIN_TOKENS)
                    for place in PLAIN_PLACES
                ]
                row["plain"] = sum(each["decoded"] for each in timed) / sum(
                    each["decode"] for each in timed
                )
                row["first"] = timed[0]["first"]
            else:
                row[way] = ways.one(key, way, **request, old=old if way == "edits" else None)
        if ways.due(f"{key}/oracle", "edits", number, options.oracle_every):
            row["oracle"] = ways.one(f"{key}/oracle", "edits", **request, old=old, oracle=True)
        if ways.due(key, "suffix", number, options.suffix_every):
            row["suffix"] = ways.one(key, "suffix", **request)
        rows.append(row)
        print(f"\r  {number + 1} of {len(edits)} edits", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    tell_replay(report, rows)
    if options.plot:
        from bench._plot import quantiles

        gains = {
            way: [speed(row[way]) / row["plain"] for row in rows if way in row]
            for way in ("oracle", "edits", "ngram", "suffix")
        }
        quantiles(
            options.plot,
            f"{len(rows)} commits replayed as whole-file rewrites, two CPU cores",
            {way: values for way, values in gains.items() if values},
        )


def turns(number: int, names: list[str]) -> list[str]:
    """Everyone is first in turn: a noisy minute must not always hit the same one."""
    place = number % len(names)
    return names[place:] + names[:place]


def tell_replay(report: Report, rows: list[Sample]) -> None:
    ways = ("edits", "ngram", "suffix", "oracle")
    report.spread("plain decoding", [row["plain"] for row in rows], "tokens/s")
    report.spread("time to first token (cold prompt), plain", [row["first"] for row in rows], "s")
    for way in ways:
        samples = [row[way] for row in rows if way in row]
        if samples:
            report.spread(f"{way}", [speed(each) for each in samples], "tokens/s")
            per_step = [each["decoded"] / each["steps"] for each in samples]
            report.tenths(f"{way}: tokens per step", per_step)
            verified = [(each["drafted"] + each["steps"]) / each["decoded"] for each in samples]
            report.tenths(f"{way}: tokens verified per token", verified)
            times = [speed(row[way]) / row["plain"] for row in rows if way in row]
            report.tenths(f"{way}: times plain", times)
    gains = [speed(row["edits"]) / row["plain"] for row in rows]
    for name, group in groups(rows):
        report.tenths(f"times plain, {name}", [speed(row["edits"]) / row["plain"] for row in group])
    middle, low = statistics.median(gains), percentile(gains, 0.1)
    report.goal("at least 15 times plain (median)", met=middle >= 15, measured=f"{middle:.1f}")
    report.goal("at least 5 times plain (p10)", met=low >= 5, measured=f"{low:.1f}")
    theirs = [speed(row["edits"]) / speed(row["ngram"]) for row in rows if "ngram" in row]
    middle, low, number = statistics.median(theirs), percentile(theirs, 0.1), len(theirs)
    report.goal(
        "at least 1.15 of n-gram (median)",
        met=middle >= 1.15,
        measured=f"{middle:.2f} (n={number})",
    )
    report.goal("at least 1.00 of n-gram (p10)", met=low >= 1, measured=f"{low:.2f} (n={number})")
    known = [speed(row["edits"]) / speed(row["oracle"]) for row in rows if "oracle" in row]
    middle = statistics.median(known)
    report.goal(
        "at least 85% of the copy oracle (median)",
        met=middle >= 0.85,
        measured=f"{middle:.0%} (n={len(known)})",
    )
    ours = [row["edits"] for row in rows]
    verified_all = sum(each["drafted"] + each["steps"] for each in ours)
    verified_all /= sum(each["decoded"] for each in ours)
    report.goal(
        "at most 1.3 tokens verified per token",
        met=verified_all <= 1.3,
        measured=f"{verified_all:.2f} over all",
    )


def groups(rows: list[Sample]) -> Iterator[tuple[str, list[Sample]]]:
    for short, name in LANGUAGES.items():
        if chosen := [row for row in rows if row["language"] == short]:
            yield f"{name} ({len(chosen)})", chosen
    for least, most in SHARES:
        if chosen := [row for row in rows if least <= row["changed"] < most]:
            yield f"{least:.0%} to {min(most, 1.0):.0%} changed ({len(chosen)})", chosen


# -- the model's own answers ----------------------------------------------------------------------


def natural(report: Report, ways: Ways, edits: list[dict[str, str]], options: Any) -> None:
    report.say("natural", f"the model's own answers, up to {options.natural_tokens} tokens")
    speeds: dict[str, list[float]] = {}
    pairs = []
    chosen = natural_edits(edits, options)
    names = ["plain", "edits", "ngram", *(["suffix"] if options.suffix_every else [])]
    for number, edit in enumerate(chosen):
        request, old = request_for(edit)
        del request["answer"]
        answers: dict[str, Sample] = {}
        for way in turns(number, names):
            drafted = {"old": old} if way == "edits" else {}
            key = f"natural/{edit['commit'][:10]}/{edit['path']}"
            sample = ways.one(key, way, **request, **drafted, tokens=options.natural_tokens)
            speeds.setdefault(way, []).append(speed(sample))
            answers[way] = sample
        if answers["plain"]["ids"] != answers["edits"]["ids"]:
            # Probabilities cost time, so they are asked for only where they are looked at.
            again = {**request, "tokens": options.natural_tokens, "logprobs": True}
            answers["plain"] = ways.one(f"{key}/again", "plain", **again)
        pairs.append((answers["plain"], answers["edits"]))
    tell_differences(report, f"{len(pairs)} natural edits", pairs)
    for way, each in speeds.items():
        report.tenths(f"natural, {way}: tokens/s", each)
    gains = [ours / theirs for ours, theirs in zip(speeds["edits"], speeds["plain"], strict=True)]
    report.tenths("natural, edits: times plain", gains)


def natural_edits(edits: list[dict[str, str]], options: Any) -> list[dict[str, str]]:
    return edits[:: max(1, len(edits) // options.natural)][: options.natural]


# -- what it costs others -------------------------------------------------------------------------


def nothing_to_copy(report: Report, ways: Ways, options: Any) -> None:
    measured: dict[str, list[float]] = {"plain": [], "edits": []}
    for number in range(options.pairs):
        ask = NEW_CODE[number % len(NEW_CODE)] + " Be brief." * (number // len(NEW_CODE))
        for way in turns(number, ["plain", "edits"]):
            sample = ways.one(f"nothing/{number}", way, ask=ask, tokens=49)
            measured[way].append(speed(sample))
    ratio, low, high = ratio_of(measured["edits"], measured["plain"])
    report.goal(
        "nothing to copy: interval not wholly below 97% of plain",
        met=high >= 0.97,
        measured=f"{ratio:.1%} (95% interval {low:.1%} to {high:.1%}, {options.pairs} pairs)",
    )


def crowd(report: Report, ways: Ways, edits: list[dict[str, str]], options: Any) -> None:
    """Sixteen at once, their prompts read before the clock starts."""
    ratios = []
    for number in range(options.crowds):
        chosen = edits[number::7][:16]
        rates = {}
        for way in turns(number, ["plain", "edits"]):
            requests = []
            for request, old in map(request_for, chosen):
                drafted = {"old": old} if way == "edits" else {}
                requests.append({**request, **drafted, "tokens": 200, "start": 0.3})
            ways.ask(f"crowd-warm/{number}", way, *({**each, "tokens": 1} for each in requests))
            ways.ask(f"crowd-warm2/{number}", way, *({**each, "tokens": 2} for each in requests))
            samples = ways.ask(f"crowd/{number}", way, *requests)
            rates[way] = sum(each["decoded"] for each in samples) / max(
                each["decode"] for each in samples
            )
            report.say(f"sixteen at once, round {number}, {way}", rates[way], "tokens/s")
        ratios.append(rates["edits"] / rates["plain"])
    middle = statistics.median(ratios)
    report.goal("sixteen at once: 1.5 of plain", met=middle >= 1.5, measured=f"{middle:.2f}")
    report.goal(
        "sixteen at once: never below 0.97", met=min(ratios) >= 0.97, measured=f"{min(ratios):.2f}"
    )


# -- whether drafts change the answer -------------------------------------------------------------


def tasks(count: int) -> list[dict[str, Any]]:
    with gzip.open(_files.data("humaneval-single-line"), "rt") as lines:
        every = [json.loads(line) for line in lines]
    return every[:: len(every) // count][:count]


def same_answers(report: Report, ways: Ways, options: Any) -> None:
    """Adaptive drafts against plain greedy: how often another word, and how close the two were."""
    passed = {"plain": 0, "edits": 0}
    pairs = []
    for number, task in enumerate(tasks(options.tasks)):
        raw = f"<|fim_prefix|>{task['prompt']}<|fim_suffix|>{task['suffix']}<|fim_middle|>"
        answers = {}
        for way in turns(number, ["plain", "edits"]):
            drafted = {"old": task["prompt"] + task["suffix"]} if way == "edits" else {}
            asked = {"raw": raw, "stop": ["\n"], "tokens": 48, "logprobs": way == "plain"}
            answers[way] = ways.one(f"fim/{task['task_id']}", way, **asked, **drafted)
            passed[way] += fim.passes(task, answers[way]["text"])
        pairs.append((answers["plain"], answers["edits"]))
    tell_differences(report, f"{len(pairs)} infilling tasks", pairs)
    report.goal(
        "infilling: as many tasks pass as without drafts",
        met=passed["edits"] == passed["plain"],
        measured=f"{passed['edits']} against {passed['plain']} of {len(pairs)}",
    )


def tell_differences(report: Report, what: str, pairs: list[tuple[Sample, Sample]]) -> None:
    gaps = []
    for plain, drafted in pairs:
        if plain["ids"] != drafted["ids"]:
            shared = zip(plain["ids"], drafted["ids"], strict=False)
            place = next((at for at, (a, b) in enumerate(shared) if a != b), None)
            if place is not None and place < len(plain["gaps"]):
                gaps.append(plain["gaps"][place])
    report.say(f"answers that differ from plain greedy, {what}", f"{len(gaps)} of {len(pairs)}")
    if gaps:
        report.tenths("gap of the two best tokens where they part (nats)", gaps)


def rewrites(count: int) -> Iterator[tuple[str, str]]:
    """Prompts, and the code each of them shows."""
    wishes = ("with type hints", "with a docstring", "with clearer names", "without comments")
    for number, task in enumerate(tasks(count)):
        code = f"{task['prompt']}{task['canonical_solution']}\n{task['suffix']}"
        yield f"Rewrite this function {wishes[number % 4]}.\n```python\n{code}```", code


def exact(report: Report, ways: Ways, edits: list[dict[str, str]], options: Any) -> None:
    """One width for every step: good drafts, junk drafts, the same text."""
    long = natural_edits(edits, options)
    asked = [
        ({"ask": request["ask"], "tokens": options.natural_tokens}, old)
        for request, old in map(request_for, long)
    ]
    for ask, code in rewrites(options.prompts - len(long)):
        asked.append(({"ask": ask, "tokens": options.exact_tokens}, f"```python\n{code}```"))
    same, pairs = 0, []
    for number, (request, old) in enumerate(asked):
        key = f"exact/{number}"
        ways.one(f"{key}/cache", "exact", **{**request, "tokens": 1})  # both find the prompt read
        good = ways.one(f"{key}/good", "exact", **request, old=old)
        junk = ways.one(f"{key}/junk", "exact", **request, old=JUNK)
        same += good["ids"] == junk["ids"]
        plain = ways.one(key, "plain", **request, logprobs=True)
        pairs.append((plain, ways.one(key, "edits", **request, old=old)))
        print(f"\r  {number + 1} of {len(asked)} prompts", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    parted = sum(plain["ids"] != drafted["ids"] for plain, drafted in pairs)
    tell_differences(report, f"{len(pairs)} rewrites, adaptive", pairs)
    report.goal(
        "exact mode: good and junk drafts give the same text",
        met=same == len(pairs),
        measured=f"{same} of {len(pairs)}, of which {parted} part from plain at other widths",
    )


def main() -> None:
    report, options = Report.from_arguments(
        "edits",
        "edits drafted from the old code, Qwen2.5-Coder-0.5B on vLLM",
        parts=("replay,natural,nothing,crowd,same,exact", "which of them"),
        data=(str(_files.commits()), "commits to replay, as scripts/commits collects them"),
        edits=(100, "how many commits are replayed"),
        ngram_every=(1, "vLLM's n-gram replays each so many-th edit"),
        oracle_every=(2, "the oracle, likewise"),
        suffix_every=(5, "vLLM's suffix decoding, likewise; 0 leaves it out"),
        natural=(10, "how many edits the model answers itself"),
        natural_tokens=(200, "how long those answers may be"),
        pairs=(12, "pairs of requests with nothing to copy"),
        crowds=(3, "rounds of sixteen at once"),
        tasks=(200, "infilling tasks"),
        prompts=(200, "prompts of the exact mode"),
        exact_tokens=(16, "tokens of each of those answers"),
        ngram=("", "vLLM's n-gram as length,least,most; empty: the best by its own rule"),
        samples=("", "keep every answer in this file, and go on from what stands there"),
        plot=("", "draw the replayed edits into this SVG"),
    )
    ENVIRONMENT["VLLM_CPU_OMP_THREADS_BIND"] = "0-1"
    edits = load_edits(Path(options.data), options.edits)
    ngram = options.ngram or best_ngram(edits[::4])
    report.say("n-gram setting (length, least, most)", ngram)
    ways = Ways(Path(options.samples) if options.samples else None, ngram)
    parts: dict[str, Callable[[], None]] = {
        "replay": lambda: replay(report, ways, edits, options),
        "natural": lambda: natural(report, ways, edits, options),
        "nothing": lambda: nothing_to_copy(report, ways, options),
        "crowd": lambda: crowd(report, ways, edits, options),
        "same": lambda: same_answers(report, ways, options),
        "exact": lambda: exact(report, ways, edits, options),
    }
    try:
        for name in options.parts.split(","):
            if name not in ("replay", "natural"):
                ways.keep_only("plain", "edits")
            parts[name]()
    finally:
        ways.keep_only()
    report.end()


if __name__ == "__main__":
    main()
