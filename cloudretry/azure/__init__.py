"""The Azure edge: policies for azure-core pipelines, and what translates between them and the core."""
