import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Transactional producers and the consumers that feed them, as they are asked for, line by line.
 *
 * A line has these fields, separated by tabs: its number, the name of a producer or consumer, what
 * to do, and arguments. The answer is a line, too: the number, then `ok` and values, or `fenced`
 * or `failed` and all exceptions. What is asked of one name is done in order, and of several names
 * at the same time.
 */
public final class Transactions {
    private static final Duration LIMIT = Duration.ofSeconds(30);
    private static final Duration CLOSING = Duration.ofSeconds(2);

    private final Map<String, ExecutorService> threads = new HashMap<>();
    private final Map<String, KafkaProducer<String, String>> producers = new ConcurrentHashMap<>();
    private final Map<String, KafkaConsumer<String, String>> consumers = new ConcurrentHashMap<>();
    private final Map<String, ConsumerGroupMetadata> groups = new ConcurrentHashMap<>();
    private final Map<String, List<Future<RecordMetadata>>> sent = new ConcurrentHashMap<>();

    private Transactions() {
    }

    public static void main(String[] arguments) throws IOException {
        Transactions all = new Transactions();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] fields = line.split("\t");
            all.threads.computeIfAbsent(fields[1], name -> Executors.newSingleThreadExecutor())
                .submit(() -> all.answer(fields));
        }
        System.exit(0);
    }

    private void answer(String[] fields) {
        String answer;
        try {
            answer = "ok\t" + String.join("\t", done(fields[1], fields[2], Arrays.copyOfRange(fields, 3, fields.length)));
        } catch (Exception failed) {
            answer = (isFenced(failed) ? "fenced\t" : "failed\t") + words(failed);
        }
        synchronized (System.out) {
            System.out.println(fields[0] + "\t" + answer);
        }
    }

    private List<String> done(String name, String what, String[] arguments) throws Exception {
        switch (what) {
            case "producer" -> produce(name, arguments);
            case "begin" -> begin(name);
            case "send" -> send(name, arguments);
            case "flush" -> flush(name);
            case "offsets" -> offsets(name, consumers.get(arguments[0]));
            case "offset" -> offset(name, arguments);
            case "commit" -> producers.get(name).commitTransaction();
            case "abort" -> producers.get(name).abortTransaction();
            case "close" -> producers.remove(name).close(CLOSING);
            case "source" -> consume(name, arguments);
            case "poll" -> {
                return poll(name);
            }
            case "rewind" -> rewind(consumers.get(name));
            case "leave" -> consumers.remove(name).close();
            case "read" -> {
                return read(arguments);
            }
            default -> throw new IllegalArgumentException(what);
        }
        return List.of();
    }

    private void produce(String name, String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("transactional.id", arguments[1]);
        settings.put("transaction.timeout.ms", arguments[2]);
        for (String setting : Arrays.copyOfRange(arguments, 3, arguments.length)) {
            String[] parts = setting.split("=", 2);
            settings.put(parts[0], parts[1]);
        }
        StringSerializer text = new StringSerializer();
        KafkaProducer<String, String> producer = new KafkaProducer<>(settings, text, text);
        producers.put(name, producer);
        try {
            producer.initTransactions();
        } catch (RuntimeException failed) {
            // Otherwise it would send its request again in the background, and fence its successor.
            producers.remove(name).close(CLOSING);
            throw failed;
        }
    }

    private void begin(String name) {
        sent.put(name, new ArrayList<>());
        producers.get(name).beginTransaction();
    }

    private void send(String name, String[] arguments) {
        int partition = Integer.parseInt(arguments[1]);
        for (String value : Arrays.copyOfRange(arguments, 2, arguments.length)) {
            sent.get(name).add(producers.get(name).send(new ProducerRecord<>(arguments[0], partition, null, value)));
        }
    }

    private void flush(String name) throws ExecutionException, InterruptedException {
        producers.get(name).flush();
        for (Future<RecordMetadata> one : sent.get(name)) {
            one.get();
        }
    }

    private void offsets(String name, KafkaConsumer<String, String> consumer) {
        Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
        consumer.assignment().forEach(one -> positions.put(one, new OffsetAndMetadata(consumer.position(one))));
        producers.get(name).sendOffsetsToTransaction(positions, consumer.groupMetadata());
    }

    private void offset(String name, String[] arguments) {
        TopicPartition where = new TopicPartition(arguments[2], Integer.parseInt(arguments[3]));
        OffsetAndMetadata position = new OffsetAndMetadata(Long.parseLong(arguments[4]), arguments[5]);
        ConsumerGroupMetadata group = groups.computeIfAbsent(arguments[1], id -> metadata(arguments[0], id));
        producers.get(name).sendOffsetsToTransaction(Map.of(where, position), group);
    }

    /** That of a group without members: only a consumer gives it, also one that never joins. */
    private static ConsumerGroupMetadata metadata(String bootstrap, String group) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", group);
        StringDeserializer text = new StringDeserializer();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings, text, text)) {
            return consumer.groupMetadata();
        }
    }

    private void consume(String name, String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[1]);
        settings.put("max.poll.records", arguments[3]);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("isolation.level", "read_committed");
        StringDeserializer text = new StringDeserializer();
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings, text, text);
        consumers.put(name, consumer);
        consumer.subscribe(List.of(arguments[2]));
    }

    private List<String> poll(String name) {
        List<String> found = new ArrayList<>();
        for (ConsumerRecord<String, String> one : consumers.get(name).poll(Duration.ofMillis(500))) {
            found.add(one.partition() + " " + one.offset() + " " + one.value());
        }
        return found;
    }

    private static void rewind(KafkaConsumer<String, String> consumer) {
        consumer.committed(consumer.assignment()).forEach((one, committed) ->
            consumer.seek(one, committed == null ? 0 : committed.offset()));
    }

    private static List<String> read(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("isolation.level", arguments[4]);
        int count = Integer.parseInt(arguments[3]);
        StringDeserializer text = new StringDeserializer();
        List<String> found = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings, text, text)) {
            List<TopicPartition> where = List.of(new TopicPartition(arguments[1], Integer.parseInt(arguments[2])));
            consumer.assign(where);
            consumer.seekToBeginning(where);
            long until = System.nanoTime() + LIMIT.toNanos();
            while (found.size() < count && System.nanoTime() < until) {
                for (ConsumerRecord<String, String> one : consumer.poll(Duration.ofMillis(500))) {
                    found.add(one.value());
                }
            }
        }
        return found;
    }

    private static boolean isFenced(Throwable failed) {
        return failed != null && (failed instanceof ProducerFencedException || isFenced(failed.getCause()));
    }

    private static String words(Throwable failed) {
        List<String> all = new ArrayList<>();
        for (Throwable one = failed; one != null; one = one.getCause()) {
            all.add(one.toString());
        }
        return String.join(" ", all).replaceAll("\\s+", " ");
    }
}
