package chiplog.compat;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.IntStream;
import java.util.stream.Stream;

import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.AutoStart;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.ClusterConfigProperty;
import org.apache.kafka.common.test.api.ClusterTemplate;
import org.apache.kafka.common.test.api.ClusterTest;
import org.apache.kafka.common.test.api.ClusterTestDefaults;
import org.apache.kafka.common.test.api.ClusterTests;
import org.apache.kafka.common.test.api.Type;
import org.junit.jupiter.api.TestTemplate;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;
import org.junit.jupiter.api.extension.TestTemplateInvocationContextProvider;
import org.junit.platform.commons.support.AnnotationSupport;
import org.junit.platform.commons.support.ReflectionSupport;

/**
 * Runs methods with Kafka's annotations for cluster tests, each with a cluster of ours.
 *
 * <p>It takes the place of org.apache.kafka.common.test.junit.ClusterTestExtensions, which the
 * runner excludes. Kafka runs some tests twice, with combined and with isolated controllers; here
 * they run once.
 */
public final class ClusterTestTemplates implements TestTemplateInvocationContextProvider {
    @Override
    public boolean supportsTestTemplate(ExtensionContext context) {
        return context.getTestMethod().filter(ClusterTestTemplates::isClusterTest).isPresent();
    }

    private static boolean isClusterTest(Method method) {
        return Stream.of(ClusterTemplate.class, ClusterTest.class, ClusterTests.class)
            .anyMatch(method::isAnnotationPresent);
    }

    @Override
    public Stream<TestTemplateInvocationContext> provideTestTemplateInvocationContexts(
            ExtensionContext context) {
        List<ClusterConfig> configs = configs(context);
        return IntStream.range(0, configs.size()).mapToObj(
            index -> invocation(configs.get(index), configs.size() == 1 ? TestName.ONCE : "[" + index + "]"));
    }

    /** The clusters that a method asks for, one for each time that it runs. */
    private static List<ClusterConfig> configs(ExtensionContext context) {
        Method method = context.getRequiredTestMethod();
        List<ClusterConfig> configs = new ArrayList<>();
        ClusterTemplate template = method.getAnnotation(ClusterTemplate.class);
        if (template != null) {
            configs.addAll(fromMethod(context, template.value()));
        }
        List<ClusterTest> tests = new ArrayList<>();
        if (method.isAnnotationPresent(ClusterTest.class)) {
            tests.add(method.getAnnotation(ClusterTest.class));
        }
        if (method.isAnnotationPresent(ClusterTests.class)) {
            tests.addAll(Arrays.asList(method.getAnnotation(ClusterTests.class).value()));
        }
        Class<?> testClass = context.getRequiredTestClass();
        for (ClusterTest test : tests) {
            configs.add(fromAnnotations(test, defaults(testClass)));
        }
        return configs;
    }

    @SuppressWarnings("unchecked")
    private static List<ClusterConfig> fromMethod(ExtensionContext context, String name) {
        Method method = ReflectionSupport.findMethod(context.getRequiredTestClass(), name)
            .orElseThrow();
        return (List<ClusterConfig>) ReflectionSupport.invokeMethod(
            method, context.getTestInstance().orElse(null));
    }

    private static ClusterTestDefaults defaults(Class<?> testClass) {
        ClusterTestDefaults own = testClass.getDeclaredAnnotation(ClusterTestDefaults.class);
        return own != null ? own : WithDefaults.class.getAnnotation(ClusterTestDefaults.class);
    }

    private static ClusterConfig fromAnnotations(ClusterTest test, ClusterTestDefaults defaults) {
        Map<String, String> forAll = new HashMap<>();
        Map<Integer, Map<String, String>> forOne = new HashMap<>();
        Stream.of(defaults.serverProperties(), test.serverProperties()).flatMap(Arrays::stream)
            .forEach(property -> target(property, forAll, forOne)
                .put(property.key(), property.value()));
        boolean starts = test.autoStart() == AutoStart.DEFAULT
            ? defaults.autoStart() : test.autoStart() == AutoStart.YES;
        return ClusterConfig.builder()
            .setTypes(Set.of(Type.KRAFT))
            .setBrokers(test.brokers() == 0 ? defaults.brokers() : test.brokers())
            .setControllers(1)
            .setDisksPerBroker(1)
            .setAutoStart(starts)
            .setBrokerListenerName(ListenerName.normalised(test.brokerListener()))
            .setBrokerSecurityProtocol(test.brokerSecurityProtocol())
            .setControllerListenerName(ListenerName.normalised(test.controllerListener()))
            .setControllerSecurityProtocol(test.controllerSecurityProtocol())
            .setServerProperties(forAll)
            .setPerServerProperties(forOne)
            .setMetadataVersion(test.metadataVersion())
            .build();
    }

    private static Map<String, String> target(ClusterConfigProperty property,
            Map<String, String> forAll, Map<Integer, Map<String, String>> forOne) {
        return property.id() == -1
            ? forAll : forOne.computeIfAbsent(property.id(), id -> new HashMap<>());
    }

    private static TestTemplateInvocationContext invocation(ClusterConfig config, String name) {
        return new TestTemplateInvocationContext() {
            @Override
            public String getDisplayName(int index) {
                return name;
            }

            @Override
            public List<Extension> getAdditionalExtensions() {
                OurCluster cluster = new OurCluster(config);
                BeforeEachCallback before = context -> {
                    if (config.isAutoStart()) {
                        cluster.start();
                    }
                };
                AfterTestExecutionCallback after = context -> cluster.stop();
                return List.of(before, after, new Parameter(cluster));
            }
        };
    }

    /** Gives the cluster to constructors and test methods. */
    private record Parameter(ClusterInstance cluster) implements ParameterResolver {
        @Override
        public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
            return parameter.getParameter().getType().equals(ClusterInstance.class)
                && (context.getTestMethod().isEmpty() || AnnotationSupport.isAnnotated(
                    parameter.getDeclaringExecutable(), TestTemplate.class));
        }

        @Override
        public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
            return cluster;
        }
    }

    @ClusterTestDefaults
    private static final class WithDefaults { }
}
