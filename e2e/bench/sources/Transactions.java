import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Queue;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The orders of {@link Load} with transactions, which are committed one after the other. */
final class Transactions {
    private Transactions() {}

    /** Time from the begin of the first transaction until the last one is committed. */
    static String produce(
            String bootstrap, String topic, String id, int records, int size, int each, String batchSize,
            String lingerMs) {
        byte[] value = Load.payload(size);
        try (KafkaProducer<byte[], byte[]> producer = producer(bootstrap, id, batchSize, lingerMs)) {
            producer.partitionsFor(topic);
            long started = System.nanoTime();
            for (int sent = 0; sent < records; ) {
                producer.beginTransaction();
                for (int end = Math.min(sent + each, records); sent < end; sent++) {
                    producer.send(new ProducerRecord<>(topic, value));
                }
                // It fails if a record was not stored.
                producer.commitTransaction();
                Load.checkTime(started, sent, records);
            }
            return Load.json("\"records\": %d, \"seconds\": %.6f", records, (System.nanoTime() - started) / 1e9);
        }
    }

    /**
     * Reads records in a group, writes them with another first byte, and commits the group's offsets with them.
     *
     * Time from the records of the first transaction until the last transaction is committed, so that joining does
     * not count.
     */
    static String copy(
            String bootstrap, String from, String to, String id, int records, int each, String batchSize,
            String lingerMs) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(bootstrap, id, each);
                KafkaProducer<byte[], byte[]> producer = producer(bootstrap, id, batchSize, lingerMs)) {
            producer.partitionsFor(to);
            consumer.subscribe(List.of(from));
            Queue<ConsumerRecord<byte[], byte[]>> waiting = new ArrayDeque<>();
            long opened = System.nanoTime();
            long started = 0;
            for (int copied = 0; copied < records; ) {
                int count = Math.min(each, records - copied);
                while (waiting.size() < count) {
                    consumer.poll(Load.POLL).forEach(waiting::add);
                    Load.checkTime(opened, copied, records);
                }
                if (started == 0) {
                    started = System.nanoTime();
                }
                producer.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
                for (int number = 0; number < count; number++) {
                    ConsumerRecord<byte[], byte[]> one = waiting.remove();
                    producer.send(new ProducerRecord<>(to, one.key(), transformed(one.value())));
                    next.put(
                        new TopicPartition(one.topic(), one.partition()),
                        new OffsetAndMetadata(one.offset() + 1, one.leaderEpoch(), ""));
                }
                producer.sendOffsetsToTransaction(next, consumer.groupMetadata());
                producer.commitTransaction();
                copied += count;
            }
            return Load.json("\"records\": %d, \"seconds\": %.6f", records, (System.nanoTime() - started) / 1e9);
        }
    }

    private static byte[] transformed(byte[] value) {
        byte[] other = value.clone();
        other[0]++;
        return other;
    }

    /** It is initialised. */
    private static KafkaProducer<byte[], byte[]> producer(
            String bootstrap, String id, String batchSize, String lingerMs) {
        Properties settings = Load.producing(bootstrap, batchSize, lingerMs);
        settings.put("transactional.id", id);
        KafkaProducer<byte[], byte[]> producer =
            new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        producer.initTransactions();
        return producer;
    }

    /** It gets at most {@code each} records of a poll. */
    private static KafkaConsumer<byte[], byte[]> consumer(String bootstrap, String group, int each) {
        Properties settings = Load.connection(bootstrap);
        settings.put("group.id", group);
        settings.put("max.poll.records", each);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("isolation.level", "read_committed");
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }
}
