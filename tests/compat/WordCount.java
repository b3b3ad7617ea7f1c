// Kafka Streams counts words with exactly_once_v2: SERVERS SOURCE TARGET DIRECTORY [REPLICAS]. Each
// record of SOURCE is a word; TARGET gets each word with each of its counts. Runs until it is killed.
// Its own topics have one replica if no other number is given.

import java.util.Properties;

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

public class WordCount {
    public static void main(String[] args) {
        Properties said = new Properties();
        said.put("bootstrap.servers", args[0]);
        said.put("application.id", "word-count");
        said.put("state.dir", args[3]);
        said.put("processing.guarantee", StreamsConfig.EXACTLY_ONCE_V2);
        said.put("commit.interval.ms", "50");
        said.put("num.stream.threads", "2");
        said.put("replication.factor", args.length > 4 ? args[4] : "1");
        // Every count is sent, not only the last one of a transaction.
        said.put("statestore.cache.max.bytes", "0");
        said.put("consumer.auto.offset.reset", "earliest");
        said.put("consumer.session.timeout.ms", "6000");
        said.put("consumer.heartbeat.interval.ms", "500");
        // Few at once, so that there are many transactions.
        said.put("consumer.max.poll.records", "200");
        said.put("producer.linger.ms", "1");
        // Readers wait that long for the last transaction of a program that was killed.
        said.put("producer.transaction.timeout.ms", "8000");
        said.put("reconnect.backoff.ms", "20");
        said.put("reconnect.backoff.max.ms", "100");

        StreamsBuilder builder = new StreamsBuilder();
        Materialized<String, Long, KeyValueStore<Bytes, byte[]>> counts =
            Materialized.as(Stores.inMemoryKeyValueStore("counts"));
        builder.stream(args[1], Consumed.with(Serdes.String(), Serdes.String()))
            .selectKey((key, word) -> word)
            .groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
            .count(counts.withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(args[2], Produced.with(Serdes.String(), Serdes.String()));

        KafkaStreams streams = new KafkaStreams(builder.build(), said);
        streams.setUncaughtExceptionHandler(failure -> {
            System.err.println(failure);
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.start();
    }
}
