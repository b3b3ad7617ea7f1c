"""The only access to nondeterminism: clock, entropy, files, network, threads and processes.

Each module holds an interface and its real implementation. The simulated implementations are in
`tests/sim/seams`: with them a whole cluster runs in one process under one seed.
"""
