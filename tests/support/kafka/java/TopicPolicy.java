import java.util.Map;
import org.apache.kafka.common.errors.PolicyViolationException;
import org.apache.kafka.server.policy.AlterConfigPolicy;
import org.apache.kafka.server.policy.CreateTopicPolicy;

/** A policy of brokers: no topic name begins with "forbidden", and no topic has retention.ms=1. */
public final class TopicPolicy implements CreateTopicPolicy, AlterConfigPolicy {
    @Override
    public void configure(Map<String, ?> configs) {}

    @Override
    public void validate(CreateTopicPolicy.RequestMetadata request) {
        if (request.topic().startsWith("forbidden")) {
            throw new PolicyViolationException("names must not begin with forbidden");
        }
    }

    @Override
    public void validate(AlterConfigPolicy.RequestMetadata request) {
        if ("1".equals(request.configs().get("retention.ms"))) {
            throw new PolicyViolationException("retention.ms 1 is not allowed");
        }
    }

    @Override
    public void close() {}
}
