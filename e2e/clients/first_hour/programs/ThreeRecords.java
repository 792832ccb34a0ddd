import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringSerializer;

/** Three records with one key. */
public final class ThreeRecords {
    private ThreeRecords() {}

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put(
                "bootstrap.servers", System.getenv().getOrDefault("BOOTSTRAP", "localhost:9092"));
        properties.put("key.serializer", StringSerializer.class.getName());
        properties.put("value.serializer", StringSerializer.class.getName());
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties)) {
            for (int number = 1; number <= 3; number++) {
                RecordMetadata at =
                        producer.send(
                                        new ProducerRecord<>(
                                                "hour-java", "customer-7", "order " + number))
                                .get();
                System.out.printf(
                        "partition=%d offset=%d key=customer-7 value=order %d%n",
                        at.partition(), at.offset(), number);
            }
        }
    }
}
