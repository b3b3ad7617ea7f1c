"""One broker: who connects, what is asked, which part answers; and how it tells of itself."""
