"""The AWS edge: botocore's events in, core decisions out. Nothing of the SDK goes further in."""
