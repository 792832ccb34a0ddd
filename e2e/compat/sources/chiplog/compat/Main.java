package chiplog.compat;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Arrays;

import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/** Runs the tests of classes: RESULTS LIMIT_S CLASS…. Their results are appended to a file. */
public final class Main {
    private Main() { }

    public static void main(String[] arguments) throws IOException {
        Path results = Path.of(arguments[0]);
        LauncherDiscoveryRequest request = LauncherDiscoveryRequestBuilder.request()
            .selectors(Arrays.stream(arguments).skip(2)
                .map(DiscoverySelectors::selectClass).toList())
            .configurationParameter("junit.jupiter.extensions.autodetection.enabled", "true")
            .configurationParameter("junit.jupiter.extensions.autodetection.exclude",
                "org.apache.kafka.common.test.junit.ClusterTestExtensions")
            // Kafka's annotations allow a minute, on machines of Kafka's; `Results` has its own limit.
            .configurationParameter("junit.jupiter.execution.timeout.mode", "disabled")
            .build();
        try (Results listener = new Results(results, Integer.parseInt(arguments[1]))) {
            LauncherFactory.create().execute(request, listener);
        }
        // Threads that a test left behind must not keep the process.
        Runtime.getRuntime().halt(0);
    }
}
