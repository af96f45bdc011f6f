import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.SecurityDisabledException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;

/** What a cluster keeps for its clients, and the removal of all of it; see cleaning.py. */
final class Cleaner {
    private Cleaner() {}

    /** Topics, brokers, dynamic configs, quotas, ACLs and reassignments. */
    static Map<String, Object> state(Admin admin) throws Exception {
        Map<Integer, String> racks = new TreeMap<>();
        for (Node node : admin.describeCluster().nodes().get()) {
            racks.put(node.id(), node.rack());
        }
        Map<String, Object> quotas = new TreeMap<>();
        quotas(admin).forEach((entity, values) -> quotas.put(entity.toString(), values));
        Set<String> acls = new TreeSet<>();
        acls(admin).forEach(acl -> acls.add(acl.toString()));
        Map<String, Object> configs = new TreeMap<>();
        configs(admin, racks.keySet()).forEach((resource, values) -> configs.put(resource.name(), values));
        return Map.of(
            "topics", topics(admin), "racks", racks, "configs", configs, "quotas", quotas, "acls", acls,
            "moving", admin.listPartitionReassignments().reassignments().get().size());
    }

    /** Removes everything but these dynamic configs: what went wrong, by what it is about. */
    static Map<String, String> clean(Admin admin, Collection<String> keptConfigs) throws Exception {
        Map<TopicPartition, Optional<NewPartitionReassignment>> cancelled = new HashMap<>();
        for (TopicPartition partition : admin.listPartitionReassignments().reassignments().get().keySet()) {
            cancelled.put(partition, Optional.empty());
        }
        admin.alterPartitionReassignments(cancelled);  // one may have ended; state shows what is left
        Set<Integer> brokers = new HashSet<>();
        for (Node node : admin.describeCluster().nodes().get()) {
            brokers.add(node.id());
        }
        Map<ConfigResource, Collection<AlterConfigOp>> unset = new HashMap<>();
        configs(admin, brokers).forEach((resource, values) -> {
            List<AlterConfigOp> changes = new ArrayList<>();
            values.keySet().removeAll(keptConfigs);
            values.keySet().forEach(name -> changes.add(
                new AlterConfigOp(new ConfigEntry(name, null), AlterConfigOp.OpType.DELETE)));
            if (!changes.isEmpty()) {
                unset.put(resource, changes);
            }
        });
        Map<String, String> wrong = new TreeMap<>();
        if (!unset.isEmpty()) {
            wrong.putAll(Clients.outcome(admin.incrementalAlterConfigs(unset).values()));
        }
        List<ClientQuotaAlteration> unlimited = new ArrayList<>();
        quotas(admin).forEach((entity, values) -> {
            List<ClientQuotaAlteration.Op> changes = new ArrayList<>();
            values.keySet().forEach(name -> changes.add(new ClientQuotaAlteration.Op(name, null)));
            unlimited.add(new ClientQuotaAlteration(entity, changes));
        });
        if (!unlimited.isEmpty()) {
            wrong.putAll(Clients.outcome(admin.alterClientQuotas(unlimited).values()));
        }
        if (!acls(admin).isEmpty()) {
            admin.deleteAcls(List.of(AclBindingFilter.ANY)).all().get();
        }
        Set<String> topics = topics(admin);
        if (!topics.isEmpty()) {
            wrong.putAll(Clients.outcome(admin.deleteTopics(topics).topicNameValues()));
        }
        return wrong;
    }

    private static Set<String> topics(Admin admin) throws Exception {
        return new TreeSet<>(admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get());
    }

    /** The dynamic configs of all brokers together, and of each broker, where there are any. */
    private static Map<ConfigResource, Map<String, String>> configs(Admin admin, Collection<Integer> brokers)
            throws Exception {
        List<ConfigResource> resources = new ArrayList<>();
        resources.add(new ConfigResource(ConfigResource.Type.BROKER, ""));
        brokers.forEach(id -> resources.add(new ConfigResource(ConfigResource.Type.BROKER, String.valueOf(id))));
        Map<ConfigResource, Map<String, String>> result = new HashMap<>();
        for (Map.Entry<ConfigResource, Config> entry : admin.describeConfigs(resources).all().get().entrySet()) {
            ConfigEntry.ConfigSource wanted = entry.getKey().name().isEmpty()
                ? ConfigEntry.ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
                : ConfigEntry.ConfigSource.DYNAMIC_BROKER_CONFIG;
            for (ConfigEntry config : entry.getValue().entries()) {
                if (config.source() == wanted) {
                    result.computeIfAbsent(entry.getKey(), key -> new TreeMap<>()).put(config.name(), config.value());
                }
            }
        }
        return result;
    }

    /** The quotas of clients; none where brokers cannot be asked, before Kafka 2.6. */
    private static Map<ClientQuotaEntity, Map<String, Double>> quotas(Admin admin) throws Exception {
        try {
            return admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get();
        } catch (ExecutionException error) {
            if (error.getCause() instanceof UnsupportedVersionException) {
                return Map.of();
            }
            throw error;
        }
    }

    /** The ACLs; none without an authorizer. */
    private static Collection<AclBinding> acls(Admin admin) throws Exception {
        try {
            return admin.describeAcls(AclBindingFilter.ANY).values().get();
        } catch (ExecutionException error) {
            if (error.getCause() instanceof SecurityDisabledException) {
                return Set.of();
            }
            throw error;
        }
    }
}
