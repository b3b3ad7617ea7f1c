"""Settings: the table of definitions, the sources of values, and the values in force.

settings = load(given={"num.partitions": "3"}, environment=environment, file=None)
settings[NUM_PARTITIONS]                            # 3, an int to mypy as well
TopicConfigs({"retention.ms": "1000"}, settings)[RETENTION_MS]
"""
