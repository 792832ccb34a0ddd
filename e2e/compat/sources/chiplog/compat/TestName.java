package chiplog.compat;

import java.util.regex.Pattern;

/** The name of a test in lists and results: Class#method, with [arguments] where it has any. */
final class TestName {
    /** The display name of an invocation that is the only one. */
    static final String ONCE = "once";

    private static final Pattern UNSTABLE = Pattern.compile("@[0-9a-f]{5,}|\\s+");

    private TestName() { }

    /**
     * The name of a method, or of one of its invocations.
     *
     * @param uniqueId JUnit's id, which says whether this is an invocation
     * @param displayName JUnit's name of it, with the arguments
     */
    static String of(String testClass, String method, String uniqueId, String displayName) {
        String name = testClass.substring(testClass.lastIndexOf('.') + 1) + "#" + method;
        if (!uniqueId.contains("-invocation:") || displayName.equals(ONCE)) {
            return name;
        }
        String arguments = UNSTABLE.matcher(displayName).replaceAll(" ").strip();
        return name + (arguments.startsWith("[") ? arguments : "[" + arguments + "]");
    }
}
