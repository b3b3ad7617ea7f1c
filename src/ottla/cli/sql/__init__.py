"""`ottla sql`: topics as tables of Spark, in one line."""
