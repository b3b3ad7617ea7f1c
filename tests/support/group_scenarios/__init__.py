"""Scenarios of group errors, run against any broker; the responses are compared with Kafka's."""
