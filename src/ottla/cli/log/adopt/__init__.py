"""`ottla log adopt`: takes over the topics of a log directory that Kafka wrote."""
