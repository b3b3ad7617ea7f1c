"""Followers: fetchers copy the logs of partitions from the brokers that lead them."""
