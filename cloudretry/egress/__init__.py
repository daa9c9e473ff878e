"""Connections through the members of an egress pool, for urllib3 and aiohttp, with the phase of each recorded."""
