"""`ottla pipeline …`: runs Spark pipelines on topics."""
