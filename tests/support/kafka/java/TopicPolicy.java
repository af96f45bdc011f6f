import java.io.File;
import java.util.Map;
import org.apache.kafka.common.errors.PolicyViolationException;
import org.apache.kafka.server.policy.AlterConfigPolicy;
import org.apache.kafka.server.policy.CreateTopicPolicy;

/**
 * A policy of brokers: no topic name begins with "forbidden", no topic has retention.ms=1, and topics with names that
 * begin with "unplaced" come without replica lists. With the property topic.policy.switch it applies while the file of
 * that name exists.
 */
public final class TopicPolicy implements CreateTopicPolicy, AlterConfigPolicy {
    private File policySwitch;

    @Override
    public void configure(Map<String, ?> configs) {
        Object name = configs.get("topic.policy.switch");
        policySwitch = name == null ? null : new File(name.toString());
    }

    private boolean applies() {
        return policySwitch == null || policySwitch.exists();
    }

    @Override
    public void validate(CreateTopicPolicy.RequestMetadata request) {
        if (applies() && request.topic().startsWith("forbidden")) {
            throw new PolicyViolationException("names must not begin with forbidden");
        }
        if (applies() && request.topic().startsWith("unplaced") && request.replicasAssignments() != null) {
            throw new PolicyViolationException("replica lists are not allowed");
        }
    }

    @Override
    public void validate(AlterConfigPolicy.RequestMetadata request) {
        if (applies() && "1".equals(request.configs().get("retention.ms"))) {
            throw new PolicyViolationException("retention.ms 1 is not allowed");
        }
    }

    @Override
    public void close() {}
}
