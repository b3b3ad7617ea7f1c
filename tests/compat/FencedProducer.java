// Two producers with one transactional id: SERVERS TOPIC TRANSACTIONAL_ID. Prints the error with
// which the first one fails.

import java.nio.charset.StandardCharsets;
import java.util.Map;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class FencedProducer {
    public static void main(String[] args) throws Exception {
        KafkaProducer<byte[], byte[]> first = start(args[0], args[2]);
        first.send(record(args[1], "fenced")).get();
        KafkaProducer<byte[], byte[]> second = start(args[0], args[2]);
        second.send(record(args[1], "committed")).get();
        second.commitTransaction();
        try {
            first.commitTransaction();
        } catch (KafkaException failure) {
            System.out.println(failure.getClass().getSimpleName());
        }
        System.exit(0);
    }

    static KafkaProducer<byte[], byte[]> start(String servers, String transactionalId) {
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(
            Map.of("bootstrap.servers", servers, "transactional.id", transactionalId),
            new ByteArraySerializer(),
            new ByteArraySerializer());
        producer.initTransactions();
        producer.beginTransaction();
        return producer;
    }

    static ProducerRecord<byte[], byte[]> record(String topic, String value) {
        return new ProducerRecord<>(topic, 0, null, value.getBytes(StandardCharsets.UTF_8));
    }
}
