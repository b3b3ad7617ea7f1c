"""Example pipelines on Spark, one package per pipeline.

`transform` maps DataFrames to DataFrames and does nothing else. `main` connects it to topics and
folders. `generate` makes realistic records; equal seeds give equal records. `catalogue` lists all
pipelines without importing Spark.
"""
