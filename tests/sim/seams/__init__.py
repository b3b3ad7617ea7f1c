"""The simulated seams: clock, entropy, files, net and threads under one seed.

Nothing here reads real time, real files or real randomness, and nothing iterates over a set of
objects: a seed that is run twice does the same things in the same order.
"""
