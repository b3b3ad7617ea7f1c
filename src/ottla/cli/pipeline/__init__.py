"""`ottla pipeline …`: what streams of records become, by Spark."""
