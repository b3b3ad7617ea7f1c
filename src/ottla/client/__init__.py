"""A client of any Kafka: what is asked, of whom, how often, and what the answers mean."""
