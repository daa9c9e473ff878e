"""The only room with a clock: waiting, and one sync and one async driver over the same machine."""
