"""The process in which Spark runs for `ottla sql`: a job on its standard input, rows on its output.

It is a separate process so that the output of Java and Spark goes to a log, and so that it can be
ended at any time.
"""

import json
import os
import signal
import sys
from typing import TextIO

from ottla.cli.sql.worker_protocol import (
    Column,
    Done,
    Failed,
    Message,
    QueryJob,
    ResultColumns,
    Started,
    encode_message,
)
from ottla.seams.workers import end_with_parent


def main() -> None:
    end_with_parent(signal.SIGTERM)
    messages = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    # From here on, printed output goes to the log.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    job = QueryJob.decode(sys.stdin.buffer.read())
    try:
        done = run_job(job, messages)
    except BrokenPipeError:
        return
    except Exception as error:  # noqa: BLE001 - reported to the user
        import traceback

        traceback.print_exc()
        _send(messages, _failed(error))
    else:
        _send(messages, done)


def run_job(job: QueryJob, messages: TextIO) -> Done:
    """Writes the rows of the query. Raises Spark's errors, or NoJava."""
    from ottla.cli.sql.json_values import json_value
    from ottla.spark.queries import (
        columns_with_kinds,
        conf_for,
        make_view,
        records_read,
        rows_of,
    )
    from ottla.spark.sessions import session

    spark = session("ottla sql", conf={**conf_for(job.offsets), **job.conf})
    _send(messages, Started())
    for topic, options in job.topics.items():
        make_view(
            spark,
            topic,
            names=job.names,
            is_text=job.is_text,
            bootstrap_servers=job.bootstrap_servers,
            options=options,
        )
    frame = spark.sql(job.query)
    if job.rows_max is not None:
        frame = frame.limit(job.rows_max)
    _send(messages, ResultColumns([Column(*each) for each in columns_with_kinds(frame)]))
    for row in rows_of(frame):
        messages.write(f"{json.dumps([json_value(value) for value in row])}\n")
    return Done(records_read(spark))


def _failed(error: Exception) -> Failed:
    # Imported here: only an error needs it.
    from ottla.spark.queries import error_text, is_query_error

    return Failed(error_text(error), is_query_error(error))


def _send(messages: TextIO, message: Message) -> None:
    messages.write(f"{encode_message(message)}\n")
    messages.flush()


if __name__ == "__main__":
    main()
