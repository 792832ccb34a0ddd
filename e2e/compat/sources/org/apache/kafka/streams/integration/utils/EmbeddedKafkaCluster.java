package org.apache.kafka.streams.integration.utils;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ExecutionException;

import chiplog.compat.Brokers;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.server.util.MockTime;
import org.apache.kafka.test.TestUtils;

/**
 * Takes the place of Kafka's class of this name in the tests of Kafka Streams: a cluster of ours.
 *
 * <p>It has the methods that the tests call. As in Kafka's class, the time is only for the tests;
 * brokers have the system's.
 */
public final class EmbeddedKafkaCluster {
    private static final int LIMIT_MS = 60_000;
    private static final Map<String, String> DEFAULTS = Map.of(
        "group.min.session.timeout.ms", "0",
        "group.initial.rebalance.delay.ms", "0",
        "offsets.topic.num.partitions", "5",
        "transaction.state.log.num.partitions", "5",
        "auto.create.topics.enable", "true");

    public final MockTime time;
    private final int count;
    private final Map<String, String> properties = new HashMap<>(DEFAULTS);
    private Brokers brokers;

    public EmbeddedKafkaCluster(int count) {
        this(count, new Properties());
    }

    public EmbeddedKafkaCluster(int count, Properties config) {
        this(count, config, Map.of());
    }

    public EmbeddedKafkaCluster(int count, Properties config, long startMs) {
        this(count, config, Map.of(), startMs, System.nanoTime());
    }

    public EmbeddedKafkaCluster(
            int count, Properties config, Map<Integer, Map<String, String>> ofOneBroker) {
        this(count, config, ofOneBroker, System.currentTimeMillis(), System.nanoTime());
    }

    public EmbeddedKafkaCluster(int count, Properties config,
            Map<Integer, Map<String, String>> ofOneBroker, long startMs, long startNs) {
        this.count = count;
        config.forEach((key, value) -> properties.put(key.toString(), value.toString()));
        ofOneBroker.values().forEach(properties::putAll);
        time = new MockTime(startMs, startNs);
    }

    public void start() {
        brokers = Brokers.start(count, properties);
    }

    public void stop() {
        if (brokers != null) {
            brokers.close();
        }
    }

    public String bootstrapServers() {
        return brokers.bootstrap;
    }

    public boolean sslEnabled() {
        return false;
    }

    public Map<String, String> clientDefaultConfig() {
        return new HashMap<>(Map.of("bootstrap.servers", bootstrapServers()));
    }

    public Admin createAdminClient() {
        return Admin.create(new HashMap<>(clientDefaultConfig()));
    }

    public KafkaConsumer<byte[], byte[]> createConsumer(Map<String, Object> given) {
        Map<String, Object> configs = new HashMap<>(clientDefaultConfig());
        configs.put("group.id", UUID.randomUUID().toString());
        configs.put("enable.auto.commit", "false");
        configs.put("auto.offset.reset", "earliest");
        configs.putAll(given);
        return new KafkaConsumer<>(
            configs, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    public KafkaConsumer<byte[], byte[]> createConsumerAndSubscribeTo(
            Map<String, Object> given, String... topics) {
        KafkaConsumer<byte[], byte[]> consumer = createConsumer(given);
        consumer.subscribe(List.of(topics));
        return consumer;
    }

    public void produce(Map<String, Object> configs, String topic, Integer partition, String key,
            String value) throws ExecutionException, InterruptedException {
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(
                configs, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.send(new ProducerRecord<>(topic, partition, bytes(key), bytes(value))).get();
        }
    }

    private static byte[] bytes(String text) {
        return text == null ? null : text.getBytes();
    }

    public void createTopics(String... topics) {
        for (String topic : topics) {
            createTopic(topic);
        }
    }

    public void createTopic(String topic) {
        createTopic(topic, 1);
    }

    public void createTopic(String topic, int partitions) {
        createTopic(topic, partitions, 1);
    }

    public void createTopic(String topic, int partitions, int replicas) {
        createTopic(topic, partitions, replicas, Map.of());
    }

    /** Create a topic, with at most as many replicas as there are brokers; one that exists stays. */
    public void createTopic(
            String topic, int partitions, int replicas, Map<String, String> configs) {
        short possible = (short) Math.min(replicas, brokers.count);
        NewTopic wanted = new NewTopic(topic, partitions, possible).configs(configs);
        try (Admin admin = createAdminClient()) {
            admin.createTopics(List.of(wanted)).all().get();
            TestUtils.waitForCondition(() -> admin.listTopics().names().get().contains(topic),
                LIMIT_MS, () -> topic + " is not created");
        } catch (ExecutionException problem) {
            unless(TopicExistsException.class, problem);
        } catch (InterruptedException problem) {
            throw new IllegalStateException(problem);
        }
    }

    public void deleteTopics(String... topics) {
        for (String topic : topics) {
            deleteTopic(topic);
        }
    }

    /** Delete a topic, if it exists. */
    public void deleteTopic(String topic) {
        delete(List.of(topic));
    }

    /** Delete all topics but the internal ones. */
    public void deleteAllTopics() {
        try (Admin admin = createAdminClient()) {
            delete(List.copyOf(admin.listTopics().names().get()));
        } catch (ExecutionException | InterruptedException problem) {
            throw new IllegalStateException(problem);
        }
    }

    private void delete(List<String> topics) {
        try (Admin admin = createAdminClient()) {
            admin.deleteTopics(topics).all().get();
        } catch (ExecutionException problem) {
            unless(UnknownTopicOrPartitionException.class, problem);
        } catch (InterruptedException problem) {
            throw new IllegalStateException(problem);
        }
    }

    private static void unless(Class<? extends Exception> allowed, ExecutionException problem) {
        if (!allowed.isInstance(problem.getCause())) {
            throw new IllegalStateException(problem);
        }
    }

    public Set<String> getAllTopicsInCluster() {
        try (Admin admin = createAdminClient()) {
            return admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get();
        } catch (ExecutionException | InterruptedException problem) {
            throw new IllegalStateException(problem);
        }
    }

    public void waitForRemainingTopics(long limitMs, String... topics) throws InterruptedException {
        TestUtils.waitForCondition(() -> getAllTopicsInCluster().equals(Set.of(topics)), limitMs,
            () -> "the topics are " + getAllTopicsInCluster());
    }

    /** The configs that were set for the topic itself. */
    public Properties getLogConfig(String topic) {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        Properties own = new Properties();
        try (Admin admin = createAdminClient()) {
            admin.describeConfigs(List.of(resource)).all().get().get(resource).entries().stream()
                .filter(entry -> entry.source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG)
                .forEach(entry -> own.put(entry.name(), entry.value()));
        } catch (ExecutionException | InterruptedException problem) {
            throw new IllegalStateException(problem);
        }
        return own;
    }

    // Configs for the group protocol of Kafka Streams, which Chiplog does not have. Tests set them
    // with the classic protocol, too, where they mean nothing.

    public void setGroupSessionTimeout(String group, int ms) { }

    public void setGroupHeartbeatTimeout(String group, int ms) { }

    public void setGroupStandbyReplicas(String group, int replicas) { }

    public void setGroupStreamsInitialRebalanceDelay(String group, int ms) { }
}
