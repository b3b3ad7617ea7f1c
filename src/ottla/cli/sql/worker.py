"""The process in which Spark runs for `ottla sql`: an order on its standard input, rows out.

A process of its own, so that whatever Java and Spark print goes to a log, and so that all of it can
be ended at any moment.
"""

import json
import os
import signal
import sys
from typing import TextIO

from ottla.cli.sql.worker_protocol import (
    Column,
    Columns,
    Done,
    Failed,
    Message,
    Order,
    Started,
    encode_message,
)
from ottla.seams.workers import end_with_parent


def main() -> None:
    end_with_parent(signal.SIGTERM)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    # From here on, whatever is printed goes to the log.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    order = Order.decode(sys.stdin.buffer.read())
    try:
        done = carry_out(order, answers)
    except BrokenPipeError:
        return
    except Exception as error:  # noqa: BLE001 - whatever it is, the user is told
        import traceback

        traceback.print_exc()
        _tell(answers, _failed(error))
    else:
        _tell(answers, done)


def carry_out(order: Order, answers: TextIO) -> Done:
    """Writes the rows of the query. Raises what Spark does, or NoJava."""
    from ottla.cli.sql.json_values import plain
    from ottla.spark.queries import (
        columns_with_kinds,
        conf_for,
        make_view,
        records_read,
        rows_of,
    )
    from ottla.spark.sessions import session

    spark = session("ottla sql", conf={**conf_for(order.offsets), **order.conf})
    _tell(answers, Started())
    for topic, options in order.topics.items():
        make_view(
            spark,
            topic,
            names=order.names,
            is_text=order.is_text,
            bootstrap_servers=order.bootstrap_servers,
            options=options,
        )
    frame = spark.sql(order.query)
    if order.rows_max is not None:
        frame = frame.limit(order.rows_max)
    _tell(answers, Columns([Column(*each) for each in columns_with_kinds(frame)]))
    for row in rows_of(frame):
        answers.write(f"{json.dumps([plain(value) for value in row])}\n")
    return Done(records_read(spark))


def _failed(error: Exception) -> Failed:
    # Without Spark there is none of its errors.
    from ottla.spark.queries import error_text, is_query_error

    return Failed(error_text(error), is_query_error(error))


def _tell(answers: TextIO, message: Message) -> None:
    answers.write(f"{encode_message(message)}\n")
    answers.flush()


if __name__ == "__main__":
    main()
