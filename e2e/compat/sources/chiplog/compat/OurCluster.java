package chiplog.compat;

import java.util.AbstractMap;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;

import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.fault.FaultHandlerException;
import org.apache.kafka.test.TestUtils;
import org.opentest4j.TestAbortedException;

/**
 * A cluster of ours as Kafka's tests see one: everything is done by clients.
 *
 * <p>A test that asks for the objects of Kafka's own broker is skipped.
 */
final class OurCluster implements ClusterInstance {
    private static final int LIMIT_MS = 60_000;

    private final ClusterConfig config;
    private Brokers brokers;
    private boolean stopped;
    private final Set<Integer> down = new HashSet<>();
    private Set<Integer> ids = Set.of();

    OurCluster(ClusterConfig config) {
        this.config = config;
    }

    @Override
    public void start() {
        if (brokers != null) {
            return;
        }
        if (!config.brokerSecurityProtocol().name.equals("PLAINTEXT")) {
            throw new TestAbortedException(
                "asks for a listener with " + config.brokerSecurityProtocol().name);
        }
        Map<String, String> properties = new HashMap<>(config.serverProperties());
        config.perServerOverrideProperties().values().forEach(properties::putAll);
        brokers = Brokers.start(config.numBrokers(), properties);
    }

    @Override
    public boolean started() {
        return brokers != null;
    }

    @Override
    public void stop() {
        if (brokers != null && !stopped) {
            stopped = true;
            brokers.close();
        }
    }

    @Override
    public boolean stopped() {
        return stopped;
    }

    @Override
    public void shutdownBroker(int brokerId) {
        ids = brokerIds();
        down.add(brokerId);
        brokers.stopOne(brokerId);
    }

    @Override
    public void startBroker(int brokerId) {
        down.remove(brokerId);
        brokers.startOne(brokerId);
    }

    @Override
    public Type type() {
        return Type.KRAFT;
    }

    @Override
    public ClusterConfig config() {
        return config;
    }

    @Override
    public String bootstrapServers() {
        return brokers.bootstrap;
    }

    @Override
    public ListenerName clientListener() {
        return config.brokerListenerName();
    }

    @Override
    public Set<GroupProtocol> supportedGroupProtocols() {
        return Set.of(GroupProtocol.CLASSIC);
    }

    @Override
    public String clusterId() {
        try (Admin admin = admin()) {
            return admin.describeCluster().clusterId().get();
        } catch (InterruptedException | ExecutionException problem) {
            throw new IllegalStateException(problem);
        }
    }

    @Override
    public Set<Integer> brokerIds() {
        if (down.isEmpty()) {
            ids = nodes().stream().map(Node::id).collect(Collectors.toSet());
        }
        return ids;
    }

    @Override
    public List<Integer> brokerBoundPorts() {
        return nodes().stream().map(Node::port).toList();
    }

    private Collection<Node> nodes() {
        try (Admin admin = admin()) {
            return admin.describeCluster().nodes().get();
        } catch (InterruptedException | ExecutionException problem) {
            throw new IllegalStateException(problem);
        }
    }

    // Kafka's own implementations of these look into its brokers.

    @Override
    public void createTopic(String name, int partitions, short replicas, Map<String, String> configs)
            throws InterruptedException {
        short possible = (short) Math.min(replicas, brokers.count);
        try (Admin admin = admin()) {
            admin.createTopics(List.of(new NewTopic(name, partitions, possible).configs(configs)));
            waitTopicCreation(name, partitions);
        }
    }

    @Override
    public void createTopicWithAssignment(String name, Map<Integer, List<Integer>> assignment)
            throws InterruptedException {
        if (brokers.count == 1) {
            createTopic(name, assignment.size(), (short) 1, Map.of());
            return;
        }
        try (Admin admin = admin()) {
            admin.createTopics(List.of(new NewTopic(name, assignment)));
            waitTopicCreation(name, assignment.size());
        }
    }

    @Override
    public void waitTopicCreation(String topic, int partitions) throws InterruptedException {
        try (Admin admin = admin()) {
            TestUtils.waitForCondition(() -> partitions(admin, topic) == partitions, LIMIT_MS,
                () -> topic + " is not created");
        }
    }

    private static int partitions(Admin admin, String topic) throws InterruptedException {
        try {
            return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic)
                .partitions().stream().mapToInt(one -> one.leader() == null ? 0 : 1).sum();
        } catch (ExecutionException problem) {
            return 0;
        }
    }

    @Override
    public void deleteTopic(String topic) throws InterruptedException, ExecutionException {
        try (Admin admin = admin()) {
            admin.deleteTopics(List.of(topic)).all().get();
            waitTopicDeletion(topic);
        }
    }

    @Override
    public void waitTopicDeletion(String topic) throws InterruptedException {
        try (Admin admin = admin()) {
            TestUtils.waitForCondition(() -> !admin.listTopics().names().get().contains(topic),
                LIMIT_MS, () -> topic + " is not deleted");
        }
    }

    @Override
    public void waitForReadyBrokers() {
        // They are ready when they are started.
    }

    @Override
    public void ensureConsistentMetadata() {
        // One broker, or brokers that were waited for.
    }

    @Override
    public void waitAcls(AclBindingFilter filter, Collection<AccessControlEntry> entries)
            throws InterruptedException {
        try (Admin admin = admin()) {
            TestUtils.waitForCondition(() -> admin.describeAcls(filter).values().get().stream()
                .map(AclBinding::entry).collect(Collectors.toSet()).equals(new HashSet<>(entries)),
                LIMIT_MS, () -> "the ACLs are not " + entries);
        }
    }

    // There is nothing like these in a cluster of ours.

    /** Brokers that can be counted and named, and not looked into. */
    @Override
    public Map<Integer, KafkaBroker> brokers() {
        Set<Integer> ids = brokerIds();
        return new AbstractMap<>() {
            @Override
            public int size() {
                return ids.size();
            }

            @Override
            public Set<Integer> keySet() {
                return ids;
            }

            @Override
            public Set<Entry<Integer, KafkaBroker>> entrySet() {
                throw new TestAbortedException("looks into Kafka's broker: brokers()");
            }
        };
    }

    @Override
    public Map<Integer, KafkaBroker> aliveBrokers() {
        return down.size() == brokers.count ? Map.of() : brokers();
    }

    @Override
    public Map<Integer, ControllerServer> controllers() {
        throw new TestAbortedException("looks into Kafka's controller: controllers()");
    }

    @Override
    public List<Authorizer> authorizers() {
        throw new TestAbortedException("looks into Kafka's broker: authorizers()");
    }

    @Override
    public Set<Integer> controllerIds() {
        throw new TestAbortedException("asks for a KRaft controller");
    }

    @Override
    public ListenerName controllerListenerName() {
        throw new TestAbortedException("asks for a KRaft controller");
    }

    @Override
    public String bootstrapControllers() {
        throw new TestAbortedException("asks for a KRaft controller");
    }

    @Override
    public Optional<FaultHandlerException> firstFatalException() {
        return Optional.empty();
    }

    @Override
    public Optional<FaultHandlerException> firstNonFatalException() {
        return Optional.empty();
    }
}
