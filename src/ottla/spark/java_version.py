"""Which Java Spark needs. Imports nothing of Spark: `ottla doctor` asks before it is there."""

JAVA_MIN = 17
