import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.streams.tests.SmokeTestDriver;

/**
 * The driver of Kafka's StreamsSmokeTest for any duration: its own is 90 seconds.
 *
 * Arguments: bootstrap servers, the seconds that the data takes, and the records of each key. The
 * last line is `SUCCESS` or `FAILURE`, as that program prints it.
 *
 * The results are verified twice. Kafka's driver asks for the end of what is written and then for
 * the end of what is committed, and fails if a transaction ends in between. So it first only waits
 * for all results, and what it says of exactly-once counts when all transactions have ended.
 */
public final class SmokeDriver {
    private static final int KEYS = 10;
    private static final Duration LIMIT = Duration.ofSeconds(120);
    private static final Duration QUIET = Duration.ofSeconds(3);

    private SmokeDriver() {
    }

    public static void main(String[] arguments) throws InterruptedException {
        String bootstrap = arguments[0];
        int records = Integer.parseInt(arguments[2]);
        Duration duration = Duration.ofSeconds(Long.parseLong(arguments[1]));
        Map<String, Set<Integer>> data = SmokeTestDriver.generate(bootstrap, KEYS, records, duration);
        SmokeTestDriver.verify(bootstrap, data, records, false);
        awaitCommits(bootstrap);
        SmokeTestDriver.verify(bootstrap, data, records, true);
    }

    /** Wait until nothing is written or left open any more; after a while in any case. */
    private static void awaitCommits(String bootstrap) throws InterruptedException {
        long deadlineNs = System.nanoTime() + LIMIT.toNanos();
        try (KafkaConsumer<byte[], byte[]> all = consumer(bootstrap, "read_uncommitted");
                KafkaConsumer<byte[], byte[]> committed = consumer(bootstrap, "read_committed")) {
            List<TopicPartition> partitions = new ArrayList<>();
            for (List<PartitionInfo> topic : all.listTopics().values()) {
                topic.forEach(one -> partitions.add(new TopicPartition(one.topic(), one.partition())));
            }
            Map<TopicPartition, Long> before = Map.of();
            while (System.nanoTime() < deadlineNs) {
                Map<TopicPartition, Long> ends = all.endOffsets(partitions);
                if (ends.equals(before) && ends.equals(committed.endOffsets(partitions))) {
                    return;
                }
                before = ends;
                Thread.sleep(QUIET.toMillis());
            }
        }
    }

    private static KafkaConsumer<byte[], byte[]> consumer(String bootstrap, String isolation) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("isolation.level", isolation);
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }
}
