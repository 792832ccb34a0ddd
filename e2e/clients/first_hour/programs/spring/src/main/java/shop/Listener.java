package shop;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.kafka.annotation.KafkaListener;

/** Prints every order that comes in. */
@SpringBootApplication
public class Listener {
    public static void main(String[] arguments) {
        SpringApplication.run(Listener.class, arguments);
    }

    @KafkaListener(topics = "hour-java")
    void listen(ConsumerRecord<String, String> order) {
        System.out.printf(
                "partition=%d offset=%d key=%s value=%s%n",
                order.partition(), order.offset(), order.key(), order.value());
    }
}
