"""Both ends of links together, whatever breaks: nothing lost, nothing twice, nothing left over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.link.world import PATIENCE, Gateway, Reader, World
from tests.support.examples import examples
from vivace.conversation.deltas import Finished
from vivace.conversation.log import Said

STEPS = 120


class Story:
    """Things that happen, by chance."""

    def __init__(self, seed: int, window: int, window_bytes: int) -> None:
        self.random = Random(seed)
        self.world = World(window, window_bytes)
        self.happened: Counter[str] = Counter()
        for gateway in self.world.gateways:
            self.world.connect(gateway)
        self.may: dict[Callable[[], None], int] = {
            self.ask: 6,
            self.ask_again: 2,
            self.attach: 4,
            self.take: 15,
            self.tell: 4,
            self.stop: 1,
            self.speak: 20,
            self.end: 2,
            self.deliver: 12,
            self.hear: 10,
            self.flush: 10,
            self.carry: 4,
            self.cut: 2,
            self.node_notices: 3,
            self.connect: 5,
            self.give_up: 1,
            self.pass_time: 3,
        }

    def tell_it(self) -> None:
        restart_at = self.random.randrange(3 * STEPS)
        for step in range(STEPS):
            [deed] = self.random.choices(list(self.may), list(self.may.values()))
            self.happened[deed.__name__] += 1
            deed()
            if step == restart_at:
                self.world.restart()
            self.world.check()

    @property
    def side(self) -> Gateway:
        return self.random.choice(self.world.gateways)

    @property
    def reader(self) -> Reader | None:
        """One of those that were last asked for, most of the time."""
        return self.random.choice(self.world.readers[-6:]) if self.world.readers else None

    @property
    def run(self) -> str | None:
        names = [name for name, made in self.world.made.items() if made.at_work]
        return self.random.choice(names) if names else None

    # -- who asks ---------------------------------------------------------------------------------

    def ask(self) -> None:
        turn = f"t{len(self.world.epochs)}"
        self.world.epochs[turn] = (1, 1)
        self.world.ask(self.side, turn, 1, 1, follows=self.random.random() < 0.5)

    def ask_again(self) -> None:
        """Another attempt: by one who holds the turn, or by one who does no more."""
        reader = self.reader
        if reader is None:
            return
        turn = reader.stream.run.turn
        epoch, attempt = self.world.epochs[turn]
        ghost = self.random.random() < 0.3
        self.world.epochs[turn] = epoch + (not ghost), attempt + 1
        epoch, attempt = self.world.epochs[turn]
        self.world.ask(self.side, turn, epoch - ghost, attempt, follows=False)

    def attach(self) -> None:
        reader = self.reader
        if reader is None:
            return
        run = reader.stream.run
        epoch, attempt = self.world.epochs[run.turn]
        how = self.random.choice(("reads", "reads", "holds", "ghost"))
        if how == "holds":
            epoch += 1
            self.world.epochs[run.turn] = epoch, attempt
        elif how == "ghost":
            epoch -= 1
        self.world.attach(self.side, run, epoch, holds=how != "reads")

    def take(self) -> None:
        reader = self.reader
        for _ in range(self.random.randint(1, 5)):
            if reader is not None:
                self.world.take(reader)

    def tell(self) -> None:
        self.side.tell()

    def stop(self) -> None:
        reader = self.reader
        if reader is not None:
            self.world.stop(reader)

    # -- engines ----------------------------------------------------------------------------------

    def speak(self) -> None:
        run = self.run
        for _ in range(self.random.randint(1, 5)):
            if run is not None:
                self.world.speak(run)

    def end(self) -> None:
        run = self.run
        if run is not None:
            self.random.choice((self.world.finish, self.world.fail))(run)

    # -- links ------------------------------------------------------------------------------------

    def deliver(self) -> None:
        side = self.side
        for _ in range(self.random.randint(1, 4)):
            self.world.deliver(side, large=self.random.random() < 0.4)

    def hear(self) -> None:
        side = self.side
        for _ in range(self.random.randint(1, 4)):
            self.world.hear(side)

    def flush(self) -> None:
        self.world.flush()

    def carry(self) -> None:
        self.world.carry()

    def cut(self) -> None:
        self.world.cut(self.side, node_knows=self.random.random() < 0.5)

    def node_notices(self) -> None:
        self.world.node_notices()

    def connect(self) -> None:
        self.world.connect(self.side)

    def give_up(self) -> None:
        side = self.side
        if side.link is None:
            side.end.lost()

    def pass_time(self) -> None:
        self.world.pass_time(self.random.choice((0.1, 0.5, 1.0, PATIENCE)))


@given(
    seed=st.integers(0, 2**64),
    window=st.integers(1, 4),
    window_bytes=st.sampled_from((1, 100, 300, 1_000_000)),
)
@settings(max_examples=examples(300))
def test_what_is_read_is_what_was_said_and_nothing_is_left_over(
    seed: int, window: int, window_bytes: int
) -> None:
    story = Story(seed, window, window_bytes)
    story.tell_it()
    world = story.world
    world.quiet()
    for reader in world.readers:
        ended_once(world, reader)
        world.stop(reader)
    world.settle()
    nothing_left(world)


def ended_once(world: World, reader: Reader) -> None:
    if reader.stopped:
        return
    stream, log = reader.stream, world.made[reader.run].log
    ends = [e for e in reader.took if isinstance(e, Said) and isinstance(e.delta, Finished)]
    if stream.finished:
        assert len(ends) == 1
        assert reader.took == log
        assert stream.gone is None
        return
    assert not ends
    assert stream.gone is not None, "its reader waits forever"
    why = stream.gone.why.message if stream.gone.why is not None else ""
    if why == "it fails":
        assert reader.took == log
    assert not (reader.asked and "no log" in why), "a run that did not arrive was not sent again"


def nothing_left(world: World) -> None:
    world.pass_time(61.0)
    world.flush()
    node = world.node
    assert not node._logs
    assert not node._of_turn
    assert node._bytes == 0
    assert node._open_bytes == 0
    assert len(node._peers) == 2
    for peer in node._peers.values():
        assert not peer.reading
        assert not peer.says
        assert not peer.behind
    for gateway in world.gateways:
        assert not gateway.end.streams
        gateway.end.heard()
        assert not gateway.end._reached
