"""`ottla sql`: queries in Spark SQL over topics as tables."""
