"""The only doors to what is not deterministic: clock, entropy, files, net, threads.

Each module has the interface and the real implementation. The simulated ones live with the tests
(`tests/sim/seams`), so that a whole cluster can run in one process under one seed.
"""
