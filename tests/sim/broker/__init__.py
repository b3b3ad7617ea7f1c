"""A whole broker, its real protocol classes included, under crashes and power losses, by seeds."""
