"""What can happen to an upstream: it is told as such, and only what it states is charged."""

import time

from outage_leg import Leg
from outage_rig import Rig
from raw_upstream import Peer

STATES_AFTER_S = 0.5


def refuse(rig: Rig) -> None:
    rig.background.run(rig.way.refuse())


def listen(rig: Rig) -> None:
    rig.background.run(rig.way.listen())


def fall_silent(rig: Rig) -> None:
    rig.provider.broken = Peer.wait_until_left


def reset(rig: Rig) -> None:
    rig.provider.broken = Peer.reset


def slow_down(rig: Rig) -> None:
    def answer(peer: Peer) -> None:
        time.sleep(STATES_AFTER_S)
        rig.provider.state(peer)

    rig.provider.broken = answer


def answer_again(rig: Rig) -> None:
    rig.provider.broken = None


LEGS = [
    Leg("upstream refused", refuse, listen, opens=False, of_upstream=True),
    Leg("upstream silent", fall_silent, answer_again, opens=False, of_upstream=True),
    Leg("upstream resets", reset, answer_again, opens=False, of_upstream=True),
    Leg("upstream slow: 500 ms", slow_down, answer_again, opens=False, of_upstream=True),
]
