"""Social media: likes and comments of each post, and which posts trend."""
