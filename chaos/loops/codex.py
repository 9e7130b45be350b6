"""The real Codex CLI in a loop: one ``codex exec``, whose model calls the shell again and again."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from tests.support.codex import Codex, Dialect, Transcript
from tests.support.http import key

from chaos.loops.client import Ended, Gate
from chaos.loops.script import CODEX, STEP, TURNS, came_out, question, wrong

__all__ = ["CodexLoop"]

_GATE = "gate"
_TAKEN = "taken"
# Not for ever: after 30 seconds Codex tells the model that the command still runs.
_PROGRAM = f"""#!/bin/sh
for _ in $(seq 100); do [ -e {_GATE} ] || break; sleep 0.2; done
echo "$1" >>{_TAKEN}
echo "{came_out(CODEX, 0).replace("0", "$1")}"
"""


class CodexLoop:
    """One, from its first prompt to its last answer."""

    def __init__(self, folder: Path, url: str, owner: str, name: str, *, websocket: bool) -> None:
        dialect = Dialect(websocket=websocket)
        self._codex = Codex(folder, f"{url}/v1", dialect, key=key(owner))
        self.gate = Gate(self._codex.workspace / _GATE)
        self._folder = folder
        self._name = name
        program = self._codex.workspace / STEP
        program.write_text(_PROGRAM)
        program.chmod(0o755)

    async def run(self) -> Ended:
        process = await asyncio.create_subprocess_exec(
            *self._codex.command(question(CODEX, self._name)),
            cwd=self._codex.workspace,
            env=self._codex.environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            output, errors = await process.communicate()
        finally:
            if process.returncode is None:
                process.terminate()  # not killed: what we started is a script that passes this on
                await process.wait()
        (self._folder / "told.jsonl").write_bytes(output)
        transcript = Transcript([json.loads(line) for line in output.decode().splitlines()])
        why = self._wrong(transcript)
        if process.returncode:
            why = f"it ended with {process.returncode}: {errors.decode()[-300:]}"
        return Ended(None, why)

    def _wrong(self, transcript: Transcript) -> str:
        answers = transcript.answers
        if len(answers) != TURNS:
            return f"{len(answers)} answers instead of {TURNS}"
        for number, answer in enumerate(answers, 1):
            if (why := wrong(answer, last=number == TURNS)) is not None:
                return f"turn {number}: {why}"
        taken = (self._codex.workspace / _TAKEN).read_text().split()
        if taken != [str(number) for number in range(1, TURNS)]:
            return f"the steps that it took are {' '.join(taken)}"
        return ""
