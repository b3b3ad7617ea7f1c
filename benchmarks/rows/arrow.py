"""A topic as an Arrow table, compared with a consumer that builds one object per record."""

from benchmarks.comparing import at_least
from benchmarks.loads.json_topic import JsonTopic
from benchmarks.loads.reading import Reading
from benchmarks.row import Figure, Row
from benchmarks.rows.spark import RECORDS, SHORT_STREAM_SHARE


def _row(codec: str, name: str, short_share: float) -> Row:
    return Row(
        group="arrow",
        name=name,
        load=Reading("arrow", JsonTopic(RECORDS, codec)),
        base=Reading("consumer", JsonTopic(RECORDS, codec)),
        base_name="confluent-kafka",
        figures=(
            Figure(
                name="rate",
                unit="records/s",
                hold=at_least(5.0, goal=10.0),
                estimate=10.0,
                because="compiled code builds columns from fetched batches at 2 million records "
                "per second; one object per record, key and value takes 5 us",
            ),
        ),
        short_share=short_share,
    )


ROWS = (
    _row("none", "key and value: read_topic beside consume(10,000)", SHORT_STREAM_SHARE),
    _row("lz4", "key and value: read_topic beside consume(10,000), lz4", 0),
)
