import java.time.Duration;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.streams.tests.SmokeTestDriver;

/**
 * The driver of Kafka's StreamsSmokeTest for any duration: its own is 90 seconds.
 *
 * Arguments: bootstrap servers, the seconds that the data takes, and the records of each key. The
 * last line is `SUCCESS` or `FAILURE`, as that program prints it.
 */
public final class SmokeDriver {
    private static final int KEYS = 10;

    private SmokeDriver() {
    }

    public static void main(String[] arguments) {
        String bootstrap = arguments[0];
        int records = Integer.parseInt(arguments[2]);
        Duration duration = Duration.ofSeconds(Long.parseLong(arguments[1]));
        Map<String, Set<Integer>> data = SmokeTestDriver.generate(bootstrap, KEYS, records, duration);
        SmokeTestDriver.verify(bootstrap, data, records, true);
    }
}
