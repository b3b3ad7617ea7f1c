"""A transactional producer of librdkafka: several partitions, committed or aborted by its seed."""

from functools import partial

from tests.cluster.chaos.clients.process import Client, run
from tests.cluster.chaos.clients.transactions import (
    TransactionLine,
    open_line,
    reopen,
    run_transaction,
)
from tests.cluster.chaos.history import Partition, Step

RECORDS_MAX = 8
COMMITTED_SHARE = 0.75


def produce(client: Client) -> None:
    options = client.options
    line = open_line(client)
    if line is None:
        return
    while not client.is_stopping:
        count = client.random.randint(1, RECORDS_MAX)
        is_committed = client.random.random() < COMMITTED_SHARE
        outcome = run_transaction(line, partial(fill, client, line, count, is_committed))
        if outcome is Step.UNKNOWN and not reopen(client, line):
            return
        client.wait(count / options.per_second)


def fill(client: Client, line: TransactionLine, count: int, is_committed: bool) -> bool:
    options = client.options
    for _ in range(count):
        topic = client.random.choice(options.topics)
        line.send(Partition(topic, client.random.randrange(options.partitions)), "")
    return is_committed


if __name__ == "__main__":
    run(produce)
