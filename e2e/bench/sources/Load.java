import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The load of the bench: reads one order a line and answers it with one line of JSON.
 *
 * It stays one process for the whole run, so that its own code is compiled by the time it counts, and
 * serves both brokers in turns. Each order opens clients of its own and closes them.
 *
 * <pre>
 * produce BOOTSTRAP TOPIC RECORDS SIZE BATCH_SIZE LINGER_MS
 * consume BOOTSTRAP TOPIC PARTITIONS RECORDS
 * latency BOOTSTRAP TOPIC RECORDS_PER_S SECONDS SIZE
 * produce-transactions BOOTSTRAP TOPIC ID RECORDS SIZE RECORDS_EACH BATCH_SIZE LINGER_MS
 * copy-transactions BOOTSTRAP FROM TO ID RECORDS RECORDS_EACH BATCH_SIZE LINGER_MS
 * </pre>
 *
 * ID is a transactional id, and in copy-transactions also the consumer's group.
 *
 * With a BOOTSTRAP of the form SSL://HOST:PORT clients use TLS, and trust the CA in the file that the
 * property load.ca names.
 */
public final class Load {
    static final Duration POLL = Duration.ofMillis(200);
    private static final String TLS = "SSL://";
    private static final long LIMIT_NS = 60_000_000_000L;

    private Load() {}

    public static void main(String[] arguments) throws Exception {
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            String[] word = line.split(" ");
            System.out.println(switch (word[0]) {
                case "produce" -> produce(word[1], word[2], number(word[3]), number(word[4]), word[5], word[6]);
                case "consume" -> consume(word[1], word[2], number(word[3]), number(word[4]));
                case "latency" -> latency(word[1], word[2], number(word[3]), number(word[4]), number(word[5]));
                case "produce-transactions" -> Transactions.produce(
                    word[1], word[2], word[3], number(word[4]), number(word[5]), number(word[6]), word[7], word[8]);
                case "copy-transactions" -> Transactions.copy(
                    word[1], word[2], word[3], word[4], number(word[5]), number(word[6]), word[7], word[8]);
                default -> throw new IllegalArgumentException(line);
            });
        }
    }

    /** Time from the first send until the last record is acknowledged. */
    private static String produce(
            String bootstrap, String topic, int records, int size, String batchSize, String lingerMs)
            throws Exception {
        AtomicReference<Exception> failure = new AtomicReference<>();
        byte[] value = payload(size);
        try (KafkaProducer<byte[], byte[]> producer = producer(bootstrap, batchSize, lingerMs)) {
            producer.partitionsFor(topic);
            long started = System.nanoTime();
            for (int sent = 0; sent < records; sent++) {
                producer.send(new ProducerRecord<>(topic, value), (where, error) -> {
                    if (error != null) {
                        failure.set(error);
                    }
                });
            }
            producer.flush();
            double seconds = (System.nanoTime() - started) / 1e9;
            if (failure.get() != null) {
                throw failure.get();
            }
            return json("\"records\": %d, \"seconds\": %.6f", records, seconds);
        }
    }

    /** Time from the first records that arrived until the last, so that connecting does not count. */
    private static String consume(String bootstrap, String topic, int partitions, int records) {
        List<TopicPartition> all = new ArrayList<>();
        for (int number = 0; number < partitions; number++) {
            all.add(new TopicPartition(topic, number));
        }
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(bootstrap)) {
            consumer.assign(all);
            consumer.seekToBeginning(all);
            long opened = System.nanoTime();
            int first = 0;
            int read = 0;
            long started = 0;
            while (read < records) {
                ConsumerRecords<byte[], byte[]> some = consumer.poll(POLL);
                read += some.count();
                if (first == 0 && read > 0) {
                    first = read;
                    started = System.nanoTime();
                }
                checkTime(opened, read, records);
            }
            return json("\"records\": %d, \"seconds\": %.6f", read - first, (System.nanoTime() - started) / 1e9);
        }
    }

    /** From just before a record is sent until a consumer has it; the first second is dropped. */
    private static String latency(String bootstrap, String topic, int rate, int seconds, int size)
            throws Exception {
        int records = rate * seconds;
        byte[] blank = payload(size);
        long[] waitsNs = new long[records];
        CountDownLatch listening = new CountDownLatch(1);
        AtomicReference<Exception> failure = new AtomicReference<>();
        Thread reader = new Thread(() -> {
            try (KafkaConsumer<byte[], byte[]> consumer = consumer(bootstrap)) {
                listen(consumer, topic, waitsNs, listening);
            } catch (Exception error) {
                failure.set(error);
                listening.countDown();
            }
        });
        reader.start();
        listening.await();
        try (KafkaProducer<byte[], byte[]> producer = producer(bootstrap, "65536", "0")) {
            producer.partitionsFor(topic);
            long started = System.nanoTime();
            for (int sent = 0; sent < records; sent++) {
                long due = started + sent * 1_000_000_000L / rate;
                for (long left = due - System.nanoTime(); left > 0; left = due - System.nanoTime()) {
                    LockSupport.parkNanos(left);
                }
                byte[] value = blank.clone();
                ByteBuffer.wrap(value).putLong(System.nanoTime());
                producer.send(new ProducerRecord<>(topic, 0, null, value));
            }
            producer.flush();
            reader.join();
        }
        if (failure.get() != null) {
            throw failure.get();
        }
        long[] counted = Arrays.copyOfRange(waitsNs, rate, records);
        Arrays.sort(counted);
        return json(
            "\"p50_ms\": %.4f, \"p99_ms\": %.4f",
            counted[counted.length / 2] / 1e6, counted[(int) (counted.length * 0.99)] / 1e6);
    }

    private static void listen(
            KafkaConsumer<byte[], byte[]> consumer, String topic, long[] waitsNs, CountDownLatch listening) {
        List<TopicPartition> one = List.of(new TopicPartition(topic, 0));
        consumer.assign(one);
        consumer.seekToEnd(one);
        consumer.position(one.get(0));
        listening.countDown();
        long opened = System.nanoTime();
        for (int read = 0; read < waitsNs.length; ) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) {
                waitsNs[read++] = System.nanoTime() - ByteBuffer.wrap(record.value()).getLong();
            }
            checkTime(opened, read, waitsNs.length);
        }
    }

    /** Fails an order that has taken too long. */
    static void checkTime(long openedNs, int done, int records) {
        if (System.nanoTime() - openedNs > LIMIT_NS) {
            throw new IllegalStateException(done + " of " + records + " records came in time");
        }
    }

    private static KafkaProducer<byte[], byte[]> producer(String bootstrap, String batchSize, String lingerMs) {
        return new KafkaProducer<>(
            producing(bootstrap, batchSize, lingerMs), new ByteArraySerializer(), new ByteArraySerializer());
    }

    static Properties producing(String bootstrap, String batchSize, String lingerMs) {
        Properties settings = connection(bootstrap);
        settings.put("acks", "all");
        settings.put("batch.size", batchSize);
        settings.put("linger.ms", lingerMs);
        return settings;
    }

    /** It belongs to no group: partitions are assigned to it. */
    private static KafkaConsumer<byte[], byte[]> consumer(String bootstrap) {
        Properties settings = connection(bootstrap);
        settings.put("enable.auto.commit", "false");
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static Properties connection(String bootstrap) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        if (bootstrap.startsWith(TLS)) {
            settings.put("bootstrap.servers", bootstrap.substring(TLS.length()));
            settings.put("security.protocol", "SSL");
            settings.put("ssl.truststore.type", "PEM");
            settings.put("ssl.truststore.location", System.getProperty("load.ca"));
        }
        return settings;
    }

    static byte[] payload(int size) {
        byte[] value = new byte[size];
        new Random(size).nextBytes(value);
        return value;
    }

    static String json(String form, Object... values) {
        return "{" + String.format(Locale.ROOT, form, values) + "}";
    }

    private static int number(String word) {
        return Integer.parseInt(word);
    }
}
