"""`ottla doctor`: checks this machine and a cluster, and gives advice."""
