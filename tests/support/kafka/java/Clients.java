import com.fasterxml.jackson.databind.JsonNode;
import java.io.Closeable;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.BrokerIdNotRegisteredException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Kafka's own Admin client, producer and consumer, each request for many topics at once; see clients.py. */
public final class Clients {
    private static final Duration LIMIT = Duration.ofSeconds(60);
    private static final Map<String, Admin> ADMINS = new HashMap<>();
    private static final Map<String, KafkaProducer<byte[], byte[]>> PRODUCERS = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        Lines.serve(Clients::answer);
    }

    private static Object answer(JsonNode request) throws Exception {
        String bootstrap = request.get("bootstrap").asText();
        JsonNode topics = request.get("topics");
        Admin admin = ADMINS.computeIfAbsent(bootstrap, key -> Admin.create(settings(key)));
        switch (request.get("op").asText()) {
            case "cluster": return cluster(admin);
            case "describe": return describe(admin, topics);
            case "configs": return configs(admin, topics, kind(request));
            case "create": return create(admin, topics, request.get("validate").asBoolean());
            case "grow": return grow(admin, topics);
            case "alter": return alter(admin, topics, kind(request));
            case "delete": return outcome(admin.deleteTopics(names(topics)).topicNameValues());
            case "reassign": return reassign(admin, topics);
            case "moving": return moving(admin);
            case "throttle": return throttle(admin, request.get("rate"));
            case "produce": return produce(bootstrap, topics, request.get("value").asText());
            case "consume": return consume(bootstrap, topics);
            case "group": return group(bootstrap, topics, request.get("group").asText());
            case "join": return join(bootstrap, request);
            case "leave": return leave(request.get("group").asText());
            case "state": return Cleaner.state(admin);
            case "clean": return clean(bootstrap, admin, request);
            case "unregister": return unregister(admin, request.get("broker").asInt());
            default: throw new IllegalArgumentException("no such request: " + request);
        }
    }

    /** What requests about configs are about: topics, or brokers by their ids (an empty one: all of them). */
    private static ConfigResource.Type kind(JsonNode request) {
        return ConfigResource.Type.valueOf(request.get("kind").asText());
    }

    private static Map<String, Object> settings(String bootstrap) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("request.timeout.ms", 30_000);
        settings.put("default.api.timeout.ms", (int) LIMIT.toMillis());
        settings.put("reconnect.backoff.max.ms", 200);
        return settings;
    }

    private static Object cluster(Admin admin) throws Exception {
        DescribeClusterResult found = admin.describeCluster();
        Map<Integer, String> racks = new TreeMap<>();
        for (Node node : found.nodes().get()) {
            racks.put(node.id(), node.rack());
        }
        Node controller = found.controller().get();
        return Map.of("racks", racks, "controller", controller == null ? -1 : controller.id());
    }

    /** Partitions as [leader or -1, replicas, isr], in order of their ids; null for a topic that is not there. */
    private static Object describe(Admin admin, JsonNode topics) throws Exception {
        Map<String, Object> result = new TreeMap<>();
        Map<String, KafkaFuture<TopicDescription>> found = admin.describeTopics(names(topics)).topicNameValues();
        for (Map.Entry<String, KafkaFuture<TopicDescription>> entry : found.entrySet()) {
            try {
                result.put(entry.getKey(), described(entry.getValue().get()));
            } catch (Exception error) {
                if (!Lines.words(error).startsWith("UnknownTopicOrPartitionException")) {
                    throw error;
                }
                result.put(entry.getKey(), null);
            }
        }
        return result;
    }

    private static Object described(TopicDescription topic) {
        List<Object> partitions = new ArrayList<>();
        for (TopicPartitionInfo info : topic.partitions()) {
            int leader = info.leader() == null || info.leader().isEmpty() ? -1 : info.leader().id();
            partitions.add(List.of(info.partition(), leader, ids(info.replicas()), ids(info.isr())));
        }
        Map<String, Object> result = new HashMap<>();
        result.put("id", Uuid.ZERO_UUID.equals(topic.topicId()) ? null : topic.topicId().toString());
        result.put("partitions", partitions);
        return result;
    }

    private static List<Integer> ids(Collection<Node> nodes) {
        List<Integer> result = new ArrayList<>();
        for (Node node : nodes) {
            result.add(node.id());
        }
        return result;
    }

    /** Every config of each topic, or broker, as [value, source]. */
    private static Object configs(Admin admin, JsonNode topics, ConfigResource.Type kind) throws Exception {
        List<ConfigResource> resources = new ArrayList<>();
        for (String name : names(topics)) {
            resources.add(new ConfigResource(kind, name));
        }
        Map<String, Object> result = new TreeMap<>();
        for (Map.Entry<ConfigResource, Config> entry : admin.describeConfigs(resources).all().get().entrySet()) {
            Map<String, Object> values = new TreeMap<>();
            for (ConfigEntry config : entry.getValue().entries()) {
                values.put(config.name(), List.of(String.valueOf(config.value()), config.source().name()));
            }
            result.put(entry.getKey().name(), values);
        }
        return result;
    }

    private static Object create(Admin admin, JsonNode topics, boolean validateOnly) {
        List<NewTopic> wanted = new ArrayList<>();
        for (String name : names(topics)) {
            JsonNode topic = topics.get(name);
            NewTopic one;
            if (topic.has("replicas")) {
                Map<Integer, List<Integer>> replicas = new TreeMap<>();
                for (JsonNode list : topic.get("replicas")) {
                    replicas.put(replicas.size(), numbers(list));
                }
                one = new NewTopic(name, replicas);
            } else {
                short factor = (short) topic.get("factor").asInt();
                one = new NewTopic(name, Optional.of(topic.get("partitions").asInt()), Optional.of(factor));
            }
            wanted.add(one.configs(texts(topic.get("config"))));
        }
        return outcome(admin.createTopics(wanted, new CreateTopicsOptions().validateOnly(validateOnly)).values());
    }

    private static Object grow(Admin admin, JsonNode topics) {
        Map<String, NewPartitions> wanted = new HashMap<>();
        for (String name : names(topics)) {
            wanted.put(name, NewPartitions.increaseTo(topics.get(name).asInt()));
        }
        return outcome(admin.createPartitions(wanted).values());
    }

    private static Object alter(Admin admin, JsonNode topics, ConfigResource.Type kind) {
        Map<ConfigResource, Collection<AlterConfigOp>> wanted = new HashMap<>();
        for (String name : names(topics)) {
            List<AlterConfigOp> changes = new ArrayList<>();
            texts(topics.get(name)).forEach((key, value) -> changes.add(new AlterConfigOp(
                new ConfigEntry(key, value),
                value == null ? AlterConfigOp.OpType.DELETE : AlterConfigOp.OpType.SET)));
            wanted.put(new ConfigResource(kind, name), changes);
        }
        return outcome(admin.incrementalAlterConfigs(wanted).values());
    }

    private static Object reassign(Admin admin, JsonNode topics) {
        Map<TopicPartition, Optional<NewPartitionReassignment>> wanted = new HashMap<>();
        for (String name : names(topics)) {
            for (Iterator<String> ids = topics.get(name).fieldNames(); ids.hasNext();) {
                String id = ids.next();
                NewPartitionReassignment target = new NewPartitionReassignment(numbers(topics.get(name).get(id)));
                wanted.put(new TopicPartition(name, Integer.parseInt(id)), Optional.of(target));
            }
        }
        return outcome(admin.alterPartitionReassignments(wanted).values());
    }

    /** What is being reassigned, by topic and partition: [replicas that are added, replicas that are taken away]. */
    private static Object moving(Admin admin) throws Exception {
        Map<String, Map<String, Object>> result = new TreeMap<>();
        admin.listPartitionReassignments().reassignments().get().forEach((partition, move) ->
            result.computeIfAbsent(partition.topic(), key -> new TreeMap<>()).put(
                String.valueOf(partition.partition()), List.of(move.addingReplicas(), move.removingReplicas())));
        return result;
    }

    /** How many bytes a second each broker takes in of throttled replicas that are not in sync; null: no limit. */
    private static Object throttle(Admin admin, JsonNode rate) throws Exception {
        String value = rate.isNull() ? null : rate.asText();
        AlterConfigOp change = new AlterConfigOp(
            new ConfigEntry("follower.replication.throttled.rate", value),
            value == null ? AlterConfigOp.OpType.DELETE : AlterConfigOp.OpType.SET);
        Map<ConfigResource, Collection<AlterConfigOp>> wanted = new HashMap<>();
        for (Node node : admin.describeCluster().nodes().get()) {
            wanted.put(new ConfigResource(ConfigResource.Type.BROKER, node.idString()), List.of(change));
        }
        return outcome(admin.incrementalAlterConfigs(wanted).values());
    }

    /** One message to each of as many partitions as are asked for: their offsets, or what went wrong. */
    private static Object produce(String bootstrap, JsonNode topics, String value) {
        KafkaProducer<byte[], byte[]> producer = PRODUCERS.computeIfAbsent(bootstrap, Clients::producer);
        Map<String, List<Future<RecordMetadata>>> sent = new LinkedHashMap<>();
        for (String name : names(topics)) {
            List<Future<RecordMetadata>> futures = new ArrayList<>();
            for (int partition = 0; partition < topics.get(name).asInt(); partition++) {
                // With a key of its own: what is compacted takes no message without, and keeps the last of each.
                byte[] key = (partition + "/" + value.hashCode()).getBytes();
                futures.add(producer.send(new ProducerRecord<>(name, partition, key, value.getBytes())));
            }
            sent.put(name, futures);
        }
        producer.flush();
        Map<String, List<Object>> result = new TreeMap<>();
        sent.forEach((name, futures) -> {
            List<Object> offsets = new ArrayList<>();
            for (Future<RecordMetadata> future : futures) {
                try {
                    offsets.add(future.get().offset());
                } catch (Exception error) {
                    offsets.add(Lines.words(error));
                }
            }
            result.put(name, offsets);
        });
        return result;
    }

    private static KafkaProducer<byte[], byte[]> producer(String bootstrap) {
        Map<String, Object> settings = settings(bootstrap);
        settings.remove("default.api.timeout.ms");
        settings.put("acks", "all");
        settings.put("enable.idempotence", false);
        settings.put("max.block.ms", LIMIT.toMillis());
        settings.put("delivery.timeout.ms", (int) LIMIT.toMillis());
        settings.put("metadata.max.age.ms", 1000);
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    /** Every message of as many partitions as are asked for, oldest first. */
    private static Object consume(String bootstrap, JsonNode topics) {
        Map<String, Object> settings = settings(bootstrap);
        settings.put("enable.auto.commit", false);
        settings.put("allow.auto.create.topics", false);
        settings.put("fetch.max.wait.ms", 50);
        Map<TopicPartition, List<String>> values = new HashMap<>();
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            for (String name : names(topics)) {
                for (int partition = 0; partition < topics.get(name).asInt(); partition++) {
                    values.put(new TopicPartition(name, partition), new ArrayList<>());
                }
            }
            consumer.assign(values.keySet());
            Map<TopicPartition, Long> ends = consumer.endOffsets(values.keySet());
            consumer.seekToBeginning(values.keySet());
            Set<TopicPartition> left = new HashSet<>(values.keySet());
            long deadline = System.nanoTime() + LIMIT.toNanos();
            while (!left.isEmpty()) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    values.get(new TopicPartition(record.topic(), record.partition())).add(new String(record.value()));
                }
                left.removeIf(partition -> consumer.position(partition) >= ends.get(partition));
                consumer.pause(consumer.assignment());
                consumer.resume(left);
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("not everything was read within " + LIMIT + ", left: " + left);
                }
            }
        }
        Map<String, List<List<String>>> result = new TreeMap<>();
        for (String name : names(topics)) {
            List<List<String>> partitions = new ArrayList<>();
            for (int partition = 0; partition < topics.get(name).asInt(); partition++) {
                partitions.add(values.get(new TopicPartition(name, partition)));
            }
            result.put(name, partitions);
        }
        return result;
    }

    /** Read topics as the member of a group, until there was something, and commit: how many messages there were. */
    private static Object group(String bootstrap, JsonNode topics, String group) {
        Map<String, Object> settings = settings(bootstrap);
        settings.put("group.id", group);
        settings.put("enable.auto.commit", false);
        settings.put("auto.offset.reset", "earliest");
        settings.put("allow.auto.create.topics", false);
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(names(topics));
            long deadline = System.nanoTime() + LIMIT.toNanos();
            int count = 0;
            while (count == 0 && System.nanoTime() < deadline) {
                count = consumer.poll(Duration.ofMillis(200)).count();
            }
            consumer.commitSync();
            return count;
        }
    }

    private static final Map<String, Closeable> MEMBERS = new HashMap<>();

    /** Joins a group as a member that polls until "leave", and returns once a poll has ended. */
    private static Object join(String bootstrap, JsonNode request) throws Exception {
        String group = request.get("group").asText();
        String protocol = request.get("protocol").asText();
        Map<String, Object> settings = settings(bootstrap);
        settings.put("group.id", group);
        if (!protocol.equals("share")) {
            settings.put("group.protocol", protocol);
            settings.put("enable.auto.commit", request.get("commit").asBoolean());
            settings.put("auto.commit.interval.ms", 100);
            settings.put("auto.offset.reset", "earliest");
            settings.put("allow.auto.create.topics", false);
        }
        Closeable member = protocol.equals("share") ? new ShareMember(settings, request) : new Member(settings, request);
        MEMBERS.put(group, member);
        return "joined";
    }

    private static Object leave(String group) throws Exception {
        MEMBERS.remove(group).close();
        return "left";
    }

    /** A thread that polls until it is closed. */
    private abstract static class Poller implements Closeable {
        private final CountDownLatch polled = new CountDownLatch(3);
        private final Thread thread = new Thread(this::work, "member");
        private volatile boolean ended;

        abstract void poll();

        abstract void end();

        final void begin() throws InterruptedException {
            thread.setDaemon(true);
            thread.start();
            polled.await(LIMIT.toMillis(), TimeUnit.MILLISECONDS);
        }

        private void work() {
            try {
                while (!ended) {
                    poll();
                    polled.countDown();
                }
            } finally {
                end();
            }
        }

        @Override
        public final void close() {
            ended = true;
            try {
                thread.join(LIMIT.toMillis());
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private static final class Member extends Poller {
        private final KafkaConsumer<byte[], byte[]> consumer;

        Member(Map<String, Object> settings, JsonNode request) throws Exception {
            consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            String pattern = request.get("pattern").asText();
            if (pattern.isEmpty()) {
                consumer.subscribe(names(request.get("topics")));
            } else if (settings.get("group.protocol").equals("consumer")) {
                // The class is new in Kafka 4.0, and these programs are compiled for 3.9 too.
                Class<?> type = Class.forName("org.apache.kafka.clients.consumer.SubscriptionPattern");
                Object compiled = type.getConstructor(String.class).newInstance(pattern);
                KafkaConsumer.class.getMethod("subscribe", type).invoke(consumer, compiled);
            } else {
                consumer.subscribe(Pattern.compile(pattern));
            }
            begin();
        }

        @Override
        void poll() {
            consumer.poll(Duration.ofMillis(200));
        }

        @Override
        void end() {
            consumer.close();
        }
    }

    private static final class ShareMember extends Poller {
        private final KafkaShareConsumer<byte[], byte[]> consumer;

        ShareMember(Map<String, Object> settings, JsonNode request) throws InterruptedException {
            consumer = new KafkaShareConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            consumer.subscribe(names(request.get("topics")));
            begin();
        }

        @Override
        void poll() {
            consumer.poll(Duration.ofMillis(200));
        }

        @Override
        void end() {
            consumer.close();
        }
    }

    /** Removes what is not kept. The producer goes first: it asks for its topics, which may create them. */
    private static Object clean(String bootstrap, Admin admin, JsonNode request) throws Exception {
        KafkaProducer<byte[], byte[]> producer = PRODUCERS.remove(bootstrap);
        if (producer != null) {
            producer.close(Duration.ZERO);
        }
        return Cleaner.clean(admin, names(request.get("configs")));
    }

    private static Object unregister(Admin admin, int broker) throws Exception {
        try {
            admin.unregisterBroker(broker).all().get();
        } catch (ExecutionException error) {
            if (!(error.getCause() instanceof BrokerIdNotRegisteredException)) {
                throw error;  // otherwise it ended before it was registered
            }
        }
        return "unregistered";
    }

    /** What went wrong, by the name of what it is about; empty if nothing did. */
    static <K> Map<String, String> outcome(Map<K, KafkaFuture<Void>> futures) {
        Map<String, String> wrong = new TreeMap<>();
        futures.forEach((key, future) -> {
            try {
                future.get();
            } catch (Exception error) {
                wrong.put(key instanceof ConfigResource ? ((ConfigResource) key).name() : key.toString(), Lines.words(error));
            }
        });
        return wrong;
    }

    /** The names of a list of topics, or of an object with something about each. */
    private static List<String> names(JsonNode topics) {
        List<String> result = new ArrayList<>();
        if (topics.isObject()) {
            topics.fieldNames().forEachRemaining(result::add);
        } else {
            topics.forEach(topic -> result.add(topic.asText()));
        }
        return result;
    }

    private static List<Integer> numbers(JsonNode list) {
        List<Integer> result = new ArrayList<>();
        list.forEach(number -> result.add(number.asInt()));
        return result;
    }

    private static Map<String, String> texts(JsonNode map) {
        Map<String, String> result = new LinkedHashMap<>();
        if (map != null) {
            map.fieldNames().forEachRemaining(key -> result.put(key, map.get(key).isNull() ? null : map.get(key).asText()));
        }
        return result;
    }
}
