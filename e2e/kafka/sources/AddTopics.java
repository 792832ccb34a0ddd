import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.ProducerIdsRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.metadata.bootstrap.BootstrapDirectory;
import org.apache.kafka.metadata.bootstrap.BootstrapMetadata;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

/**
 * Adds topics with given ids to the records a formatted controller starts from.
 *
 * Arguments: metadata directory, node id, id of the log directory, and a file of lines
 * "topic id, topic, partition, leader epoch" separated by tabs. A controller whose own log
 * is empty takes these records as the beginning of it, so the topics exist before the
 * broker first looks at its log directory, under the ids it finds there.
 */
public final class AddTopics {
    /** Above every id in the directory: a producer given a known one would be taken for it. */
    private static final long FREE_PRODUCER_ID = 1L << 40;

    private AddTopics() {}

    public static void main(String[] arguments) throws Exception {
        BootstrapDirectory directory = new BootstrapDirectory(arguments[0]);
        int node = Integer.parseInt(arguments[1]);
        Uuid logDirectory = Uuid.fromString(arguments[2]);
        BootstrapMetadata before = directory.read();
        MetadataVersion version = before.metadataVersion();
        Map<String, ApiMessageAndVersion> topics = new LinkedHashMap<>();
        List<ApiMessageAndVersion> partitions = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(arguments[3]))) {
            String[] field = line.split("\t");
            Uuid topicId = Uuid.fromString(field[0]);
            TopicRecord topic = new TopicRecord().setName(field[1]).setTopicId(topicId);
            topics.putIfAbsent(field[0], new ApiMessageAndVersion(topic, TopicRecord.HIGHEST_SUPPORTED_VERSION));
            partitions.add(new ApiMessageAndVersion(
                partition(topicId, Integer.parseInt(field[2]), Integer.parseInt(field[3]), node, logDirectory),
                version.partitionRecordVersion()));
        }
        List<ApiMessageAndVersion> records = new ArrayList<>(before.records());
        records.addAll(topics.values());
        records.addAll(partitions);
        records.add(new ApiMessageAndVersion(
            new ProducerIdsRecord().setBrokerId(node).setBrokerEpoch(0).setNextProducerId(FREE_PRODUCER_ID),
            ProducerIdsRecord.HIGHEST_SUPPORTED_VERSION));
        directory.writeBinaryFile(BootstrapMetadata.fromRecords(records, "topics of a log directory"));
    }

    /** One replica, in sync and without a leader: elected when its broker comes up. */
    private static PartitionRecord partition(Uuid topicId, int number, int epoch, int node, Uuid directory) {
        return new PartitionRecord()
            .setTopicId(topicId)
            .setPartitionId(number)
            .setReplicas(List.of(node))
            .setIsr(List.of(node))
            .setDirectories(List.of(directory))
            .setLeader(-1)
            .setLeaderEpoch(epoch)
            .setPartitionEpoch(0);
    }
}
