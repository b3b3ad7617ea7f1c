"""Administration: topics, configs, groups and their offsets."""
