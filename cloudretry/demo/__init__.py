"""The demo: one discovery of a simulated AWS, twice; with boto3 as it comes, and under cloudretry."""
