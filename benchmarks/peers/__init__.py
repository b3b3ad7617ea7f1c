"""The brokers that are compared: Apache Kafka and ours."""
