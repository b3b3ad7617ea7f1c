"""Administration: topics, configurations, groups and their offsets."""
