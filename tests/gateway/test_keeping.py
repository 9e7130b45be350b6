"""An outlet of a kept turn: engines go on while the store is slow, and no word is missed.

Time is virtual throughout.
"""

from __future__ import annotations

import asyncio
import random

from tests.conversation.test_keeping import ACCEPTED, COMPLETED, CREATED, word
from tests.support import virtual_time
from tests.support.virtual_time import elapse
from vivace.conversation.keeping import END, TURN, Keeping, steer
from vivace.gateway.keeping.outlet import KeptOutlet
from vivace.protocol.events import Event


class Client:
    """Takes one event after the other, each in its time; leaves what it did not take."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.heard: list[Event] = []
        self.gone = False
        self._seconds = seconds

    async def send(self, events: list[Event]) -> None:
        while events and not self.gone:
            await asyncio.sleep(self._seconds)
            self.heard.append(events.pop(0))


def test_a_slow_store_holds_back_words_and_not_whoever_says_them() -> None:
    async def main() -> None:
        client = Client()
        outlet = KeptOutlet(client, Keeping())
        async with asyncio.timeout(1):
            await outlet.send([CREATED])
            await outlet.send([word(1)])
        assert client.heard == []
        await outlet.recorded(TURN)
        assert client.heard == [CREATED, word(1)]

    virtual_time.run(main())


def test_whoever_waits_for_the_end_to_be_out_waits_for_the_record() -> None:
    async def main() -> None:
        client = Client()
        outlet = KeptOutlet(client, Keeping())
        await outlet.recorded(TURN)
        await outlet.send([CREATED, COMPLETED])
        out = asyncio.create_task(outlet.drained())
        await elapse(0.01)
        assert not out.done()
        await outlet.recorded(END)
        await out
        assert client.heard == [CREATED, COMPLETED]

    virtual_time.run(main())


def test_a_store_that_is_away_for_long_holds_up_the_engine_in_the_end() -> None:
    async def main() -> None:
        outlet = KeptOutlet(Client(), Keeping())

        async def say() -> None:
            for number in range(10_000):
                await outlet.send([word(number)])

        saying = asyncio.create_task(say())
        await elapse(0.2)
        assert not saying.done()
        await outlet.recorded(TURN)
        await asyncio.wait_for(saying, 20)

    virtual_time.run(main())


def test_a_client_that_has_left_holds_up_nobody() -> None:
    async def main() -> None:
        client = Client()
        outlet = KeptOutlet(client, Keeping())
        await outlet.recorded(TURN)
        client.gone = True
        async with asyncio.timeout(1):
            await outlet.send([CREATED])
            await outlet.drained()

    virtual_time.run(main())


def test_a_sending_that_is_broken_off_anywhere_loses_nothing_and_says_nothing_twice() -> None:
    async def main(seed: int) -> None:
        chance = random.Random(seed)
        client = Client(0.001)
        outlet = KeptOutlet(client, Keeping())
        said: list[Event] = [CREATED, *(word(number) for number in range(1, 12)), COMPLETED]
        recording = asyncio.create_task(_later(outlet, chance))
        rest = [*said]
        while rest:
            events = [rest.pop(0) for _ in range(min(len(rest), chance.randint(1, 3)))]
            sending = asyncio.create_task(outlet.send(events))
            await asyncio.sleep(chance.random() * 0.004)
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            rest = [*events, *rest]
        await recording
        await outlet.send([])
        await outlet.drained()
        assert client.heard == said

    for seed in range(25):
        virtual_time.run(main(seed))


def test_what_comes_while_a_word_is_on_its_way_goes_after_it() -> None:
    async def main() -> None:
        client = Client(0.01)
        outlet = KeptOutlet(client, Keeping())
        await outlet.recorded(TURN)
        async with asyncio.timeout(1), asyncio.TaskGroup() as group:
            group.create_task(outlet.send([word(1), word(2)]))
            await asyncio.sleep(0)
            group.create_task(outlet.send([ACCEPTED]))
            group.create_task(outlet.send([word(3)]))
            group.create_task(outlet.recorded(steer("steer_1")))
            await asyncio.sleep(0)
            assert client.heard == []
            await outlet.drained()
        assert client.heard == [word(1), word(2), ACCEPTED, word(3)]

    virtual_time.run(main())


async def _later(outlet: KeptOutlet, chance: random.Random) -> None:
    for what in (TURN, END):
        await asyncio.sleep(chance.random() * 0.02)
        await outlet.recorded(what)
