// Copies a topic in transactions with Java's clients, as tests/support/clients/copying.py does with
// others: SERVERS SOURCE TARGET TRANSACTIONAL_ID PARTITIONS RECORDS, with so many records in each
// partition. Prints a line after each committed transaction.

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class TransactionCopy {
    static final int PER_TRANSACTION = 750;
    static final int ABORTED_EVERY = 4;
    static final String WAIT_MS = "120000";

    static String source;
    static String target;
    static KafkaConsumer<byte[], byte[]> consumer;
    static KafkaProducer<byte[], byte[]> producer;

    public static void main(String[] args) {
        source = args[1];
        target = args[2];
        open(args[0], args[3]);
        copy(Integer.parseInt(args[4]), Long.parseLong(args[5]));
        System.exit(0);
    }

    static void open(String servers, String transactionalId) {
        consumer = new KafkaConsumer<>(
            Map.of(
                "bootstrap.servers", servers,
                "group.id", transactionalId,
                // A copier that was killed is missed that long.
                "session.timeout.ms", "6000",
                "heartbeat.interval.ms", "600",
                "enable.auto.commit", "false",
                "auto.offset.reset", "earliest",
                "isolation.level", "read_committed",
                "reconnect.backoff.ms", "20",
                "reconnect.backoff.max.ms", "100"),
            new ByteArrayDeserializer(),
            new ByteArrayDeserializer());
        producer = new KafkaProducer<>(
            Map.of(
                "bootstrap.servers", servers,
                "transactional.id", transactionalId,
                "transaction.timeout.ms", "600000",
                "max.block.ms", WAIT_MS,
                "delivery.timeout.ms", WAIT_MS,
                "linger.ms", "1",
                "retry.backoff.ms", "20",
                "reconnect.backoff.ms", "20",
                "reconnect.backoff.max.ms", "100"),
            new ByteArraySerializer(),
            new ByteArraySerializer());
        producer.initTransactions();
    }

    static void copy(int partitions, long records) {
        List<ConsumerRecord<byte[], byte[]>> batch = new ArrayList<>();
        // Whatever was read before partitions were given is read again.
        consumer.subscribe(List.of(source), new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> taken) {
                batch.clear();
            }

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> given) {
                batch.clear();
            }
        });
        Set<TopicPartition> all = new HashSet<>();
        for (int partition = 0; partition < partitions; partition++) {
            all.add(new TopicPartition(source, partition));
        }
        long copied = 0;
        for (OffsetAndMetadata each : consumer.committed(all).values()) {
            copied += each == null ? 0 : each.offset();
        }
        for (int number = 1; copied < records * partitions; number++) {
            long wanted = Math.min(PER_TRANSACTION, records * partitions - copied);
            while (batch.size() < wanted) {
                consumer.poll(Duration.ofMillis(50)).forEach(batch::add);
            }
            if (number % ABORTED_EVERY == 0) {
                producer.beginTransaction();
                fill(batch, "aborted ");
                // An abort forgets what was not sent.
                producer.flush();
                producer.abortTransaction();
            }
            while (!committed(batch)) {
                producer.abortTransaction();
                System.out.println("aborted");
            }
            copied += batch.size();
            batch.clear();
            System.out.println("copied " + copied);
        }
    }

    static boolean committed(List<ConsumerRecord<byte[], byte[]>> batch) {
        producer.beginTransaction();
        try {
            fill(batch, "copied ");
            producer.commitTransaction();
            return true;
        } catch (ProducerFencedException | OutOfOrderSequenceException | AuthorizationException
                 | UnsupportedVersionException fatal) {
            throw fatal;
        } catch (KafkaException abortable) {
            System.err.println(abortable);
            return false;
        }
    }

    static void fill(List<ConsumerRecord<byte[], byte[]>> batch, String prefix) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (ConsumerRecord<byte[], byte[]> each : batch) {
            String value = prefix + new String(each.value(), StandardCharsets.UTF_8);
            byte[] encoded = value.getBytes(StandardCharsets.UTF_8);
            producer.send(new ProducerRecord<>(target, each.partition(), null, encoded));
            offsets.put(
                new TopicPartition(source, each.partition()),
                new OffsetAndMetadata(each.offset() + 1));
        }
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
    }
}
