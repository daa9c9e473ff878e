"""Finding and calling user-defined getDelay() strategies, entry points of the group `cloudretry.backoff`."""
