"""Starts a separate cluster on directories with one topic: its start time and memory."""

import time

from benchmarks import measuring
from benchmarks.loads.cluster.own_cluster import OnOwnCluster
from benchmarks.loads.starting import AT_REST_S, START_S_MAX, TOPIC, await_acknowledgement
from benchmarks.peers.peer import Peer
from benchmarks.row import Ran, Scope

ALL_REPLICAS = -1


class ClusterStart(OnOwnCluster):
    """From the start of the first process to the first record with acks=all."""

    def run_on(self, cluster: Peer, _scope: Scope, /) -> Ran:
        cluster.create_topic(TOPIC, 1)
        cluster.await_served(TOPIC, 1)
        cluster.stop()
        began_s = time.monotonic()
        cluster.start()
        await_acknowledgement(cluster, began_s + START_S_MAX, acks=ALL_REPLICAS)
        start_s = time.monotonic() - began_s
        time.sleep(AT_REST_S)
        return Ran(figures={"start_s": start_s, "rest_mb": measuring.memory_mb(*cluster.pids)})
