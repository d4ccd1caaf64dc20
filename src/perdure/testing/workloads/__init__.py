"""Workloads: programs of requests, each with its check at the end. A seed names them by their place: new ones go to the end.

The simulation, chaos and bench run the same ones.
"""

from typing import Final

from perdure.testing.workloads.bounds import Bounds, Timeouts
from perdure.testing.workloads.controls import Controls
from perdure.testing.workloads.conversations import Conversations
from perdure.testing.workloads.deploys import Deploys
from perdure.testing.workloads.duplicates import Duplicates
from perdure.testing.workloads.endings import Endings
from perdure.testing.workloads.fan_out import FanOut
from perdure.testing.workloads.heartbeats import Heartbeats
from perdure.testing.workloads.households import Households
from perdure.testing.workloads.interruptions import Interruptions
from perdure.testing.workloads.juggling import Juggling
from perdure.testing.workloads.orders import Orders
from perdure.testing.workloads.signals import RacingSignals, SteadySender
from perdure.testing.workloads.stopping import Stopping
from perdure.testing.workloads.updates import Updates
from perdure.testing.workloads.workload import Workload

WORKLOADS: Final[tuple[Workload, ...]] = (
    Orders(),
    RacingSignals(),
    SteadySender(),
    FanOut(),
    Timeouts(),
    Heartbeats(),
    Stopping(),
    Deploys(),
    Duplicates(),
    Bounds(),
    Interruptions(),
    Juggling(),
    Endings(),
    Updates(),
    Households(),
    Conversations(),
    Controls(),
)
