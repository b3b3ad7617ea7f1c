"""Pipelines: what a stream of records becomes, one package a case.

`transform` says what becomes of records, from DataFrame to DataFrame, and touches nothing else;
`main` joins it to topics and folders; `generate` makes records like those of real life, the same
ones from the same seed. `catalogue` names them all without importing Spark.
"""
