import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.config.ConfigResource;

/**
 * What somebody writes who has Kafka's Admin client: reads what is there, compares, and asks for all that differs in one
 * request of each kind. {@code java Batch BOOTSTRAP WANTED.json [again]}; for benchmarks. With {@code again} it does so
 * for each line of its input, over one connection and in a virtual machine that is warm, and prints the seconds of each.
 */
public final class Batch {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("request.timeout.ms", 300_000);
        settings.put("default.api.timeout.ms", 300_000);
        try (Admin admin = Admin.create(settings);
            BufferedReader input = new BufferedReader(new InputStreamReader(System.in))) {
            if (arguments.length == 2) {
                System.out.println(ensure(admin, Lines.JSON.readTree(new File(arguments[1]))));
            } else {
                while (input.readLine() != null) {
                    long start = System.nanoTime();
                    ensure(admin, Lines.JSON.readTree(new File(arguments[1])));
                    System.out.println((System.nanoTime() - start) / 1e9);
                }
            }
        }
    }

    private static String ensure(Admin admin, JsonNode wanted) throws Exception {
        Set<String> there = admin.listTopics().names().get();
        List<String> known = new ArrayList<>();
        wanted.fieldNames().forEachRemaining(name -> {
            if (there.contains(name)) {
                known.add(name);
            }
        });
        List<ConfigResource> resources = new ArrayList<>();
        known.forEach(name -> resources.add(new ConfigResource(ConfigResource.Type.TOPIC, name)));
        Map<String, TopicDescription> topics = admin.describeTopics(known).allTopicNames().get();
        Map<ConfigResource, Config> configs = admin.describeConfigs(resources).all().get();
        return create(admin, wanted, there) + " created, " + grow(admin, wanted, topics) + " grown, "
            + alter(admin, wanted, configs) + " configured";
    }

    private static int create(Admin admin, JsonNode wanted, Set<String> there) throws Exception {
        List<NewTopic> missing = new ArrayList<>();
        wanted.fields().forEachRemaining(entry -> {
            if (!there.contains(entry.getKey())) {
                JsonNode topic = entry.getValue();
                Map<String, String> config = new HashMap<>();
                topic.get("config").fields().forEachRemaining(one -> config.put(one.getKey(), one.getValue().asText()));
                Optional<Integer> partitions = Optional.of(topic.get("partitions").asInt());
                Optional<Short> factor = Optional.of((short) topic.get("replicationFactor").asInt());
                missing.add(new NewTopic(entry.getKey(), partitions, factor).configs(config));
            }
        });
        if (!missing.isEmpty()) {
            admin.createTopics(missing).all().get();
        }
        return missing.size();
    }

    private static int grow(Admin admin, JsonNode wanted, Map<String, TopicDescription> topics) throws Exception {
        Map<String, NewPartitions> larger = new HashMap<>();
        topics.forEach((name, found) -> {
            int size = wanted.get(name).get("partitions").asInt();
            if (found.partitions().size() < size) {
                larger.put(name, NewPartitions.increaseTo(size));
            }
        });
        if (!larger.isEmpty()) {
            admin.createPartitions(larger).all().get();
        }
        return larger.size();
    }

    private static int alter(Admin admin, JsonNode wanted, Map<ConfigResource, Config> configs) throws Exception {
        Map<ConfigResource, Collection<AlterConfigOp>> changes = new HashMap<>();
        configs.forEach((resource, found) -> wanted.get(resource.name()).get("config").fields().forEachRemaining(one -> {
            ConfigEntry entry = found.get(one.getKey());
            if (entry == null || !one.getValue().asText().equals(entry.value())) {
                changes.computeIfAbsent(resource, key -> new ArrayList<>()).add(new AlterConfigOp(
                    new ConfigEntry(one.getKey(), one.getValue().asText()), AlterConfigOp.OpType.SET));
            }
        }));
        if (!changes.isEmpty()) {
            admin.incrementalAlterConfigs(changes).all().get();
        }
        return changes.size();
    }
}
