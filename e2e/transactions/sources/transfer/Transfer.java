package transfer;

import java.util.HashSet;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.core.KafkaTemplate;

/**
 * Writes each record of a topic to the same partition of another one. Spring begins a transaction
 * before each call of the listener, and ends it afterwards.
 *
 * The listener fails at the first attempt for offsets 1, 1 + `fails-every`, and so on, and the
 * program ends with status 3 at the offset `crash-at` of partition 0: both when what they have
 * written is already acknowledged.
 */
@SpringBootApplication(proxyBeanMethods = false)
public class Transfer {
    private static final int CRASHED = 3;

    private final KafkaTemplate<String, String> template;
    private final String output;
    private final long failsEvery;
    private final long crashAt;
    private final Set<String> failed = new HashSet<>();

    Transfer(
            KafkaTemplate<String, String> template,
            @Value("${output}") String output,
            @Value("${fails-every}") long failsEvery,
            @Value("${crash-at}") long crashAt) {
        this.template = template;
        this.output = output;
        this.failsEvery = failsEvery;
        this.crashAt = crashAt;
    }

    public static void main(String[] arguments) {
        SpringApplication.run(Transfer.class, arguments);
    }

    @KafkaListener(topics = "${input}")
    void transfer(ConsumerRecord<String, String> record) throws Exception {
        template.send(new ProducerRecord<>(output, record.partition(), null, record.value())).get();
        if (record.partition() == 0 && record.offset() == crashAt) {
            Runtime.getRuntime().halt(CRASHED);
        }
        String where = record.partition() + ":" + record.offset();
        if (record.offset() % failsEvery == 1 && failed.add(where)) {
            throw new IllegalStateException("the first attempt at " + where);
        }
    }
}
