"""A backoff of your own: a class with getDelay(context), tried here without a cloud and without waiting.

    python samples/custom_backoff.py

To put it to use, make it a package whose pyproject.toml says

    [project.entry-points."cloudretry.backoff"]
    patient-at-s3 = "your_package:PatientAtS3"

install that package where your program runs, and configure

    [aws]
    strategy = "custom"
    plugin = "patient-at-s3"
    plugin_options = { step_ms = 400 }

plugins/cloudretry-decorrelated-jitter is such a package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudretry.testing import RECORDED, delays

if TYPE_CHECKING:
    from cloudretry import BackoffContext


class PatientAtS3:
    """Grows by one step per retry, doubles that for S3, which splits busy partitions meanwhile, and gives up after 20 s."""

    def __init__(self, *, step_ms: float = 400.0, patience_ms: float = 20_000.0) -> None:
        self._step_ms = step_ms
        self._patience_ms = patience_ms

    def getDelay(self, context: BackoffContext) -> float | None:  # noqa: N802 - the name is the contract
        """Milliseconds until the next attempt; None gives up."""
        if context.elapsed_ms > self._patience_ms:
            return None
        longest = self._step_ms * context.retry_number * (2 if context.service == "s3" else 1)
        return context.random.uniform(self._step_ms / 2, longest)


def main() -> None:
    """Print what it would wait, in milliseconds, for throttles as the clouds send them."""
    strategy = PatientAtS3()
    print(f"{'throttle':36}{'waits before retry 1, 2, 3 … in ms'}")
    for name, context in RECORDED.items():
        waits = delays(strategy, context=context, retries=6, seed=7)
        print(f"{name:36}{' '.join('stop' if wait is None else f'{wait:5.0f}' for wait in waits)}")


if __name__ == "__main__":
    main()
