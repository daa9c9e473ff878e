"""The decisions: what an attempt came to, and what follows from it. Pure: no clock, no sleep, no I/O, no SDK."""
