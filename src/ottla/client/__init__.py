"""A client of any Kafka cluster: requests, routing, retries, and decoded responses."""
