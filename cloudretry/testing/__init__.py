"""For tests of programs and plugins: time that does not pass, contexts as a plugin sees them, a strategy's waits in one line.

Works with pytest and without. Imports the standard library alone.

    delays(MyBackoff(), retries=3, error_code="Throttling")      # [512.4, 1530.9, 2209.0], milliseconds
    with virtual_clock() as clock, throttled("ec2:Describe*", times=3):
        program()
    assert sum(clock.sleeps) < 60
"""

from cloudretry.testing.clock import VirtualClock, virtual_clock
from cloudretry.testing.contexts import RECORDED, backoff_context
from cloudretry.testing.throttled import Throttled, throttled
from cloudretry.testing.trial import delays

__all__ = ["RECORDED", "Throttled", "VirtualClock", "backoff_context", "delays", "throttled", "virtual_clock"]
