"""A topic as an Arrow table, beside a consumer that makes an object of each record."""

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
                because="columns are cut out of what was fetched by compiled code at 2 million a "
                "second; an object for each record, its key and its value takes 5 us",
            ),
        ),
        short_share=short_share,
    )


ROWS = (
    _row("none", "key and value: read_topic beside consume(10,000)", SHORT_STREAM_SHARE),
    _row("lz4", "key and value: read_topic beside consume(10,000), lz4", 0),
)
