"""`ottla log adopt`: makes topics of a log directory that Kafka wrote."""
