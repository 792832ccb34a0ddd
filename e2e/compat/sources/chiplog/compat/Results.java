package chiplog.compat;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Map;
import java.util.Timer;
import java.util.TimerTask;
import java.util.concurrent.ConcurrentHashMap;

import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.TestSource;
import org.junit.platform.engine.support.descriptor.ClassSource;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;

/**
 * Writes a line of JSON for each test as soon as its result is known, and one for a class that is
 * finished.
 *
 * <p>A test that takes too long ends the process, after its line: whatever it left running would
 * disturb the next one. The runner starts another process for the tests that are left.
 */
final class Results implements TestExecutionListener, AutoCloseable {
    private static final int OVERDUE = 3;
    private static final int TRACE_LINES = 40;

    private final Writer out;
    private final int limitS;
    private final Timer timer = new Timer("overdue tests", true);
    private final Map<String, Started> running = new ConcurrentHashMap<>();

    private record Started(long atNs, TimerTask overdue) { }

    Results(Path file, int limitS) throws IOException {
        this.out = Files.newBufferedWriter(
            file, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        this.limitS = limitS;
    }

    @Override
    public void executionStarted(TestIdentifier test) {
        if (test.getSource().isEmpty() || !(test.isTest() || isClass(test))) {
            return;
        }
        Thread thread = Thread.currentThread();
        TimerTask overdue = new TimerTask() {
            @Override
            public void run() {
                write(test, "failed", "not within " + limitS + " s", trace(thread));
                Runtime.getRuntime().halt(OVERDUE);
            }
        };
        if (test.isTest()) {
            timer.schedule(overdue, limitS * 1000L);
        }
        running.put(test.getUniqueId(), new Started(System.nanoTime(), overdue));
    }

    @Override
    public void executionSkipped(TestIdentifier test, String reason) {
        write(test, "skipped", reason, "");
        if (isClass(test)) {
            write(test, "finished", "", "");
        }
    }

    @Override
    public void executionFinished(TestIdentifier test, TestExecutionResult result) {
        Started started = running.get(test.getUniqueId());
        if (started != null) {
            started.overdue.cancel();
        }
        Throwable problem = result.getThrowable().orElse(null);
        switch (result.getStatus()) {
            case SUCCESSFUL -> {
                if (test.isTest()) {
                    write(test, "passed", "", "");
                }
            }
            case ABORTED -> write(test, "skipped", message(problem), "");
            case FAILED -> write(test, "failed", message(problem), trace(problem));
        }
        if (isClass(test)) {
            write(test, "finished", "", "");
        }
    }

    private static boolean isClass(TestIdentifier test) {
        return test.getSource().filter(ClassSource.class::isInstance).isPresent();
    }

    private synchronized void write(TestIdentifier test, String outcome, String why, String trace) {
        Started started = running.remove(test.getUniqueId());
        long ms = started == null ? 0 : (System.nanoTime() - started.atNs) / 1_000_000;
        try {
            out.write("{\"test\": " + json(name(test)) + ", \"outcome\": " + json(outcome)
                + ", \"ms\": " + ms + ", \"why\": " + json(why) + ", \"trace\": " + json(trace)
                + "}\n");
            out.flush();
        } catch (IOException problem) {
            throw new UncheckedIOException(problem);
        }
    }

    private static String name(TestIdentifier test) {
        TestSource source = test.getSource().orElse(null);
        if (source instanceof MethodSource method) {
            return TestName.of(method.getClassName(), method.getMethodName(), test.getUniqueId(),
                test.getDisplayName());
        }
        if (source instanceof ClassSource one) {
            return one.getClassName().substring(one.getClassName().lastIndexOf('.') + 1);
        }
        return test.getDisplayName();
    }

    private static String message(Throwable problem) {
        return problem == null ? "" : problem.toString();
    }

    private static String trace(Throwable problem) {
        if (problem == null) {
            return "";
        }
        StringWriter text = new StringWriter();
        problem.printStackTrace(new PrintWriter(text));
        return String.join("\n", text.toString().lines().limit(TRACE_LINES).toList());
    }

    private static String trace(Thread thread) {
        StringBuilder text = new StringBuilder();
        for (StackTraceElement element : thread.getStackTrace()) {
            text.append(element).append('\n');
        }
        return text.toString();
    }

    private static String json(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char one : text.toCharArray()) {
            if (one == '"' || one == '\\') {
                quoted.append('\\').append(one);
            } else if (one < ' ') {
                quoted.append(String.format("\\u%04x", (int) one));
            } else {
                quoted.append(one);
            }
        }
        return quoted.append('"').toString();
    }

    @Override
    public void close() throws IOException {
        timer.cancel();
        out.close();
    }
}
