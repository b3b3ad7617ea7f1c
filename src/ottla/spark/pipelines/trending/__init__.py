"""A social network: likes and comments per post, and the trending posts."""
