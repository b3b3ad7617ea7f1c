"""Fixed schedules: stories that broke replicated logs before, each with the bug it is about."""
