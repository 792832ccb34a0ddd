import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;

/**
 * The calls that pages of Kafka UIs make by Java's Admin, one after another.
 *
 * Prints a line for each: page, call, and what came of it, separated by tabs. The arguments are the
 * bootstrap address, the broker's id and the name of a topic with two partitions that exists.
 */
public final class AdminPages {
    private final Admin admin;
    private final int broker;
    private final String topic;
    private final String group;

    private AdminPages(Admin admin, int broker, String topic) {
        this.admin = admin;
        this.broker = broker;
        this.topic = topic;
        this.group = "group-of-" + topic;
    }

    public static void main(String[] arguments) {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", arguments[0], "default.api.timeout.ms", 20_000, "request.timeout.ms", 10_000);
        try (Admin admin = Admin.create(settings)) {
            AdminPages pages = new AdminPages(admin, Integer.parseInt(arguments[1]), arguments[2]);
            pages.cluster();
            pages.topics();
            pages.groups();
            pages.others();
        }
    }

    private static void show(String page, String call, Callable<Object> of) {
        String outcome;
        try {
            outcome = String.valueOf(of.call());
        } catch (ExecutionException failed) {
            outcome = failed.getCause().getClass().getSimpleName() + ": " + failed.getCause().getMessage();
        } catch (Exception failed) {
            outcome = failed.getClass().getSimpleName() + ": " + failed.getMessage();
        }
        System.out.println(page + "\t" + call + "\t" + outcome.replaceAll("\\s+", " "));
    }

    private void cluster() {
        DescribeClusterOptions operations = new DescribeClusterOptions().includeAuthorizedOperations(true);
        show("brokers", "describeCluster", () -> admin.describeCluster(operations).nodes().get().size());
        show("brokers", "describeCluster.controller", () -> admin.describeCluster().controller().get().id());
        ConfigResource own = new ConfigResource(ConfigResource.Type.BROKER, Integer.toString(broker));
        show("brokers", "describeConfigs", () -> admin.describeConfigs(List.of(own)).all().get().get(own)
            .get("inter.broker.protocol.version").value());
        show("brokers", "describeFeatures", () -> admin.describeFeatures().featureMetadata().get().finalizedFeatures());
        show("brokers", "describeLogDirs", () ->
            admin.describeLogDirs(List.of(broker)).allDescriptions().get().get(broker).size());
        show("brokers", "describeMetadataQuorum", () -> admin.describeMetadataQuorum().quorumInfo().get());
        AlterConfigOp set = new AlterConfigOp(new ConfigEntry("log.retention.ms", "1"), AlterConfigOp.OpType.SET);
        show("brokers", "incrementalAlterConfigs", () ->
            admin.incrementalAlterConfigs(Map.of(own, List.of(set))).all().get());
        show("brokers", "alterReplicaLogDirs", () -> admin.alterReplicaLogDirs(
            Map.of(new TopicPartitionReplica(topic, 0, broker), "/elsewhere")).all().get());
    }

    private void topics() {
        List<TopicPartition> both = List.of(new TopicPartition(topic, 0), new TopicPartition(topic, 1));
        ConfigResource own = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        show("topics", "listTopics", () ->
            admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get().contains(topic));
        show("topics", "describeTopics", () ->
            admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size());
        show("topics", "describeTopics.byId", () -> {
            Uuid id = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).topicId();
            return admin.describeTopics(TopicCollection.ofTopicIds(List.of(id))).allTopicIds().get().get(id).name();
        });
        show("topics", "describeTopics.byUnknownId", () -> admin.describeTopics(
            TopicCollection.ofTopicIds(List.of(new Uuid(1, 2)))).allTopicIds().get());
        DescribeConfigsOptions all = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
        show("topics", "describeConfigs", () ->
            admin.describeConfigs(List.of(own), all).all().get().get(own).get("retention.ms").value());
        for (OffsetSpec spec : List.of(OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.maxTimestamp(),
                OffsetSpec.earliestLocal(), OffsetSpec.latestTiered(), OffsetSpec.earliestPendingUpload())) {
            show("topics", "listOffsets." + spec.getClass().getSimpleName(), () ->
                admin.listOffsets(Map.of(both.get(0), spec)).all().get().get(both.get(0)).offset());
        }
        show("topics", "describeProducers", () -> admin.describeProducers(both).all().get().size());
        NewTopic planned = new NewTopic(topic + "-planned", Optional.empty(), Optional.empty());
        show("topics", "createTopics.validateOnly", () -> {
            CreateTopicsResult result = admin.createTopics(
                List.of(planned), new CreateTopicsOptions().validateOnly(true));
            return result.numPartitions(planned.name()).get() + " " + result.replicationFactor(planned.name()).get()
                + " " + result.config(planned.name()).get().get("cleanup.policy").value();
        });
        NewTopic made = new NewTopic(topic + "-made", Optional.of(1), Optional.empty())
            .configs(Map.of("retention.ms", "5000", "cleanup.policy", "compact"));
        show("topics", "createTopics", () -> admin.createTopics(List.of(made)).all().get());
        ConfigResource other = new ConfigResource(ConfigResource.Type.TOPIC, made.name());
        // Kafbat's UI deletes what the form leaves out and sets the rest, in one request.
        List<AlterConfigOp> changes = List.of(
            new AlterConfigOp(new ConfigEntry("cleanup.policy", ""), AlterConfigOp.OpType.DELETE),
            new AlterConfigOp(new ConfigEntry("segment.ms", "7000"), AlterConfigOp.OpType.SET));
        show("topics", "incrementalAlterConfigs", () ->
            admin.incrementalAlterConfigs(Map.of(other, changes)).all().get());
        show("topics", "incrementalAlterConfigs.after", () -> {
            Map<String, String> left = new LinkedHashMap<>();
            for (ConfigEntry one : admin.describeConfigs(List.of(other)).all().get().get(other).entries()) {
                if (one.source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG) {
                    left.put(one.name(), one.value());
                }
            }
            return left;
        });
        show("topics", "createPartitions", () ->
            admin.createPartitions(Map.of(made.name(), NewPartitions.increaseTo(3))).all().get());
        show("topics", "deleteRecords", () ->
            admin.deleteRecords(Map.of(both.get(0), RecordsToDelete.beforeOffset(-1))).all().get());
        show("topics", "listPartitionReassignments", () ->
            admin.listPartitionReassignments().reassignments().get().size());
        show("topics", "alterPartitionReassignments", () -> admin.alterPartitionReassignments(Map.of(
            both.get(0), Optional.of(new NewPartitionReassignment(List.of(broker))))).all().get());
        show("topics", "deleteTopics", () -> admin.deleteTopics(List.of(made.name())).all().get());
    }

    private void groups() {
        TopicPartition first = new TopicPartition(topic, 0);
        show("groups", "alterConsumerGroupOffsets", () ->
            admin.alterConsumerGroupOffsets(group, Map.of(first, new OffsetAndMetadata(0))).all().get());
        show("groups", "listConsumerGroups", () -> {
            Collection<String> ids = new ArrayList<>();
            admin.listGroups().all().get().forEach(one -> ids.add(one.groupId()));
            return ids.contains(group);
        });
        show("groups", "describeConsumerGroups", () ->
            admin.describeConsumerGroups(List.of(group)).all().get().get(group).groupState());
        show("groups", "listConsumerGroupOffsets", () -> admin.listConsumerGroupOffsets(
            Map.of(group, new ListConsumerGroupOffsetsSpec())).all().get().get(group).get(first).offset());
        show("groups", "deleteConsumerGroupOffsets", () ->
            admin.deleteConsumerGroupOffsets(group, java.util.Set.of(first)).all().get());
        show("groups", "deleteConsumerGroups", () -> admin.deleteConsumerGroups(List.of(group)).all().get());
    }

    private void others() {
        show("acls", "describeAcls", () -> admin.describeAcls(AclBindingFilter.ANY).values().get());
        show("quotas", "describeClientQuotas", () ->
            admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get());
        ClientQuotaEntity entity = new ClientQuotaEntity(Map.of("user", "ada"));
        ClientQuotaAlteration quota = new ClientQuotaAlteration(
            entity, List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 1.0)));
        ClientQuotaAlteration noQuota = new ClientQuotaAlteration(
            entity, List.of(new ClientQuotaAlteration.Op("producer_byte_rate", null)));
        show("quotas", "alterClientQuotas", () -> admin.alterClientQuotas(List.of(quota)).all().get());
        show("quotas", "describeClientQuotas.after", () ->
            admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get());
        show("quotas", "alterClientQuotas.removal", () ->
            admin.alterClientQuotas(List.of(noQuota)).all().get());
        show("users", "describeUserScramCredentials", () -> admin.describeUserScramCredentials().all().get());
        show("transactions", "listTransactions", () -> admin.listTransactions().all().get());
        KafkaFuture<?> described = admin.describeTransactions(List.of("some")).all();
        show("transactions", "describeTransactions", described::get);
        show("delegation tokens", "describeDelegationToken", () ->
            admin.describeDelegationToken().delegationTokens().get());
    }
}
