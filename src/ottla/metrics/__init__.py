"""A node's counters and gauges (`meters`), and their exposition to Prometheus (`node`,
`collectors`)."""
