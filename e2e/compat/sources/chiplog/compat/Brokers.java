package chiplog.compat;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.HttpURLConnection;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/**
 * Brokers that the runner (e2e/compat/brokers.py) starts when a test asks for them.
 *
 * <p>The runner listens on loopback, at the address in the system property chiplog.brokers.
 */
public final class Brokers implements AutoCloseable {
    private static final int WITHOUT_RUNNER = 4;

    private final String id;
    public final String bootstrap;
    public final int count;

    private Brokers(String id, String bootstrap, int count) {
        this.id = id;
        this.bootstrap = bootstrap;
        this.count = count;
    }

    /**
     * Start a cluster.
     *
     * @param count the brokers that the test asks for; the cluster may have only one
     * @param properties lines of server.properties under Kafka's names
     * @throws IllegalStateException with the reason, if the brokers do not start
     */
    public static Brokers start(int count, Map<String, String> properties) {
        StringBuilder lines = new StringBuilder();
        properties.forEach((key, value) -> lines.append(key).append('=').append(value).append('\n'));
        String[] answer = post("/start/" + count, lines.toString()).split("\n");
        return new Brokers(answer[0], answer[1], Integer.parseInt(answer[2]));
    }

    /** Stop one broker and keep its data. */
    public void stopOne(int brokerId) {
        post("/stop/" + id + "/" + brokerId, "");
    }

    /** Start a stopped broker again, at its old address; returns when it serves. */
    public void startOne(int brokerId) {
        post("/start-again/" + id + "/" + brokerId, "");
    }

    /** End all brokers and delete their data. */
    @Override
    public void close() {
        post("/end/" + id, "");
    }

    private static String post(String path, String body) {
        try {
            URI address = URI.create("http://" + System.getProperty("chiplog.brokers") + path);
            HttpURLConnection connection = (HttpURLConnection) address.toURL().openConnection();
            connection.setRequestMethod("POST");
            connection.setDoOutput(true);
            try (OutputStream out = connection.getOutputStream()) {
                out.write(body.getBytes(StandardCharsets.UTF_8));
            }
            boolean succeeded = connection.getResponseCode() == HttpURLConnection.HTTP_OK;
            try (InputStream in = succeeded ? connection.getInputStream() : connection.getErrorStream()) {
                String text = new String(in.readAllBytes(), StandardCharsets.UTF_8);
                if (!succeeded) {
                    throw new IllegalStateException(text);
                }
                return text;
            }
        } catch (IOException problem) {
            // The run was stopped: what the tests find from now on is nothing that they should say.
            System.err.println("the runner does not answer: " + problem);
            Runtime.getRuntime().halt(WITHOUT_RUNNER);
            throw new UncheckedIOException(problem);
        }
    }
}
