import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Produces, consumes and connects as it is asked, line by line: so that many cases need one JVM.
 *
 * A line has these fields, separated by tabs: what to do, a properties file, and for `produce` a
 * topic and values, for `consume` a topic and a number of records. The answer is a line, too:
 * `ok` and values, or `failed` and all exceptions.
 */
public final class OverTls {
    private static final Duration LIMIT = Duration.ofSeconds(30);

    private OverTls() {
    }

    public static void main(String[] arguments) throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String answer;
            try {
                answer = "ok\t" + String.join("\t", done(line.split("\t")));
            } catch (Exception failed) {
                answer = "failed\t" + words(failed);
            }
            System.out.println(answer);
        }
    }

    private static List<String> done(String[] fields) throws Exception {
        Properties settings = new Properties();
        try (Reader file = Files.newBufferedReader(Path.of(fields[1]))) {
            settings.load(file);
        }
        return switch (fields[0]) {
            case "produce" -> produce(settings, fields[2], List.of(fields).subList(3, fields.length));
            case "consume" -> consume(settings, fields[2], Integer.parseInt(fields[3]));
            default -> connect(settings);
        };
    }

    private static List<String> produce(Properties settings, String topic, List<String> values) throws Exception {
        StringSerializer text = new StringSerializer();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings, text, text)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            values.forEach(value -> sent.add(producer.send(new ProducerRecord<>(topic, 0, null, value))));
            for (Future<RecordMetadata> one : sent) {
                one.get();
            }
        }
        return List.of();
    }

    private static List<String> consume(Properties settings, String topic, int count) {
        StringDeserializer text = new StringDeserializer();
        List<String> found = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings, text, text)) {
            List<TopicPartition> first = List.of(new TopicPartition(topic, 0));
            consumer.assign(first);
            consumer.seekToBeginning(first);
            long until = System.nanoTime() + LIMIT.toNanos();
            while (found.size() < count && System.nanoTime() < until) {
                for (ConsumerRecord<String, String> one : consumer.poll(Duration.ofMillis(500))) {
                    found.add(one.value());
                }
            }
        }
        return found;
    }

    private static List<String> connect(Properties settings) throws ExecutionException, InterruptedException {
        try (Admin admin = Admin.create(settings)) {
            admin.describeCluster().nodes().get();
        }
        return List.of();
    }

    private static String words(Throwable failed) {
        List<String> all = new ArrayList<>();
        for (Throwable one = failed; one != null; one = one.getCause()) {
            all.add(one.toString());
        }
        return String.join(" ", all).replaceAll("\\s+", " ");
    }
}
