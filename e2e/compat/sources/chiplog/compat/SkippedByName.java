package chiplog.compat;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Pattern;

import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.ExtensionContext;

/**
 * Skips the tests of the file in the system property chiplog.skipped, and those that are not chosen.
 *
 * <p>Each line of the file is a pattern for names, in which * stands for any text, a tab, and the
 * reason. The file in the system property chiplog.only has the names of the tests that are chosen,
 * or nothing, if all are.
 */
public final class SkippedByName implements ExecutionCondition {
    private static final List<Line> LINES = lines("chiplog.skipped").stream()
        .map(line -> line.split("\t", 2))
        .map(parts -> new Line(pattern(parts[0]), parts[1]))
        .toList();
    private static final List<String> ONLY = lines("chiplog.only");

    private record Line(Pattern pattern, String reason) { }

    @Override
    public ConditionEvaluationResult evaluateExecutionCondition(ExtensionContext context) {
        if (context.getTestMethod().isEmpty()) {
            return ConditionEvaluationResult.enabled("a class");
        }
        String name = TestName.of(context.getRequiredTestClass().getName(),
            context.getRequiredTestMethod().getName(), context.getUniqueId(),
            context.getDisplayName());
        if (!ONLY.isEmpty() && ONLY.stream().noneMatch(one -> overlap(one, name))) {
            return ConditionEvaluationResult.disabled("not chosen");
        }
        return LINES.stream().filter(line -> line.pattern.matcher(name).matches()).findFirst()
            .map(line -> ConditionEvaluationResult.disabled(line.reason))
            .orElse(ConditionEvaluationResult.enabled("is not in the list"));
    }

    /** Whether two names are the same, or one is that of an invocation of the other. */
    private static boolean overlap(String one, String other) {
        return one.equals(other) || one.startsWith(other + "[") || other.startsWith(one + "[");
    }

    private static List<String> lines(String property) {
        try {
            return Files.readAllLines(Path.of(System.getProperty(property)));
        } catch (IOException problem) {
            throw new UncheckedIOException(problem);
        }
    }

    private static Pattern pattern(String glob) {
        return Pattern.compile("\\Q" + glob.replace("*", "\\E.*\\Q") + "\\E");
    }
}
