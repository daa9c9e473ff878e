"""The demo: one discovery of simulated clouds, each twice; with the SDK as it comes, and under cloudretry."""
