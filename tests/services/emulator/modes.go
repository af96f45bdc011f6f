package main

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	clusterID  = "emulated"
	controller = 2 // the last broker, as kfake has it
	brokers    = 3
)

// A service is what the rules of a mode need to know about its brokers.
type service struct {
	ports []int
	move  func(topic string, partition, leader int32)
}

// A mode is a service, as its documents or its source describe it. No service was asked.
type mode struct {
	rules func(service) []rule
	// login by PLAIN, if there is a user.
	user, password string
}

// like joins the rules of a mode: each rule is around those before it.
func like(parts ...any) []rule {
	var all []rule
	for _, part := range parts {
		switch found := part.(type) {
		case rule:
			all = append(all, found)
		case []rule:
			all = append(all, found...)
		default:
			panic("neither a rule nor rules")
		}
	}
	return all
}

// apache are brokers in KRaft mode of which nothing is missing that kfake has: the base of services that run Apache Kafka.
func apache(found service) []rule {
	return like(obeyLists(found.move), kraft(), describeQuorum(0), describeCluster(found.ports), listReassignments(0))
}

// other are brokers that have Kafka's protocol and not its quorum: the base of services with an implementation of their own.
func other(found service) []rule {
	return like(features(nil), describeCluster(found.ports))
}

// redpanda has the versions of src/v/kafka/server/handlers in the source of Redpanda, whose create_partitions.cc refuses
// replica lists. It has no DescribeQuorum and no ElectLeaders.
func redpanda(found service, metadata int16) []rule {
	return like(
		obeyLists(found.move), features(nil), listReassignments(0),
		hide(kmsg.ElectLeaders), limit(kmsg.Metadata, metadata), limit(kmsg.DeleteTopics, 4), limit(kmsg.CreateTopics, 6),
		limit(kmsg.Produce, 7), limit(kmsg.Fetch, 11), limit(kmsg.ListOffsets, 4), limit(kmsg.FindCoordinator, 4),
		limit(kmsg.InitProducerID, 4), limit(kmsg.AddPartitionsToTxn, 3), limit(kmsg.EndTxn, 3),
		refuseGrowthLists(kerr.InvalidRequest, "Redpanda does not yet support custom partitions assignment"),
	)
}

var modes = map[string]mode{
	// Nothing is denied: what fails here is not the service's doing.
	"apache-kafka": {rules: apache},

	// docs.aws.amazon.com/msk/latest/developerguide/serverless-config.html: seven topic configs, cleanup.policy at
	// creation only; replication factor and min.insync.replicas are the service's.
	"msk-serverless": {rules: func(found service) []rule {
		later := []string{
			"compression.type", "max.message.bytes", "message.timestamp.difference.max.ms", "message.timestamp.type",
			"retention.bytes", "retention.ms",
		}
		return like(apache(found), allowConfigs(kerr.PolicyViolation,
			"Amazon MSK Serverless can't alter topic configuration NAME", append([]string{"cleanup.policy"}, later...), later))
	}},

	// docs.aws.amazon.com/msk/latest/developerguide/msk-configuration-express-read-write.html: three replicas always,
	// min.insync.replicas and other topic configs cannot be set.
	"msk-express": {rules: func(found service) []rule {
		return like(apache(found),
			refuseFactor(3, "Express brokers support a replication factor of 3 only"),
			readOnlyConfigs(kerr.PolicyViolation, "NAME is read-only on Express brokers",
				"min.insync.replicas", "unclean.leader.election.enable", "segment.bytes", "segment.ms", "flush.ms", "flush.messages"))
	}},

	// docs.confluent.io/cloud/current/client-apps/topics/manage.html: which configs can be edited; three replicas.
	// API keys are not authorized for the cluster. Nothing says what happens to replica lists; they are refused here, since
	// the service's own interfaces have no field for them.
	"confluent-cloud": {
		user: "API-KEY", password: "an-api-secret",
		rules: func(found service) []rule {
			denied := kerr.ClusterAuthorizationFailed.Code
			return like(obeyLists(found.move), kraft(), describeQuorum(denied), describeCluster(found.ports), listReassignments(denied),
				refuseLists("Replica assignments are not allowed"),
				refuseGrowthLists(kerr.PolicyViolation, "Replica assignments are not allowed"),
				refuseFactor(3, "Topic replication factor must be 3"),
				readOnlyConfigs(kerr.PolicyViolation, "Config property 'NAME' is not allowed to be set",
					"compression.type", "unclean.leader.election.enable", "flush.ms", "flush.messages", "index.interval.bytes",
					"min.cleanable.dirty.ratio", "preallocate", "segment.index.bytes", "segment.jitter.ms"))
		},
	},

	// Redpanda before 25.2: its Metadata has no ids.
	"redpanda-24": {rules: func(found service) []rule { return redpanda(found, 8) }},
	"redpanda-25": {rules: func(found service) []rule {
		return like(redpanda(found, 12), describeCluster(found.ports))
	}},

	// docs.warpstream.com/warpstream/reference/protocol-and-feature-support: the requests that have no meaning there.
	// Transactions are there since the page on transactions. Partitions have no brokers, so lists cannot be obeyed.
	"warpstream": {rules: func(found service) []rule {
		return like(other(found), ignoreLists(0), hide(kmsg.ElectLeaders, kmsg.IncrementalAlterConfigs, kmsg.DescribeLogDirs, kmsg.DescribeProducers))
	}},

	// www.automq.com/docs: a fork of Apache Kafka that keeps one replica, whatever is asked for.
	"automq": {rules: func(found service) []rule {
		return like(kraft(), describeQuorum(0), describeCluster(found.ports), listReassignments(0), ignoreLists(1))
	}},

	// buf.build/docs/bufstream/kafka-compatibility/conformance: its endpoints.
	"bufstream": {rules: func(found service) []rule {
		return like(other(found), listReassignments(0), ignoreLists(0), hide(kmsg.ElectLeaders))
	}},

	// docs.streamnative.io/docs/kafka-protocol-and-features: the column of the Ursa engine, and its notes.
	"ursa": {rules: func(found service) []rule {
		return like(other(found), ignoreLists(0),
			hide(kmsg.AddPartitionsToTxn, kmsg.AddOffsetsToTxn, kmsg.EndTxn, kmsg.ElectLeaders, kmsg.DescribeProducers,
				kmsg.DescribeTransactions, kmsg.ListTransactions, kmsg.OffsetForLeaderEpoch, kmsg.DescribeLogDirs),
			refuseTransactions(kerr.TransactionalIDAuthorizationFailed),
			refuseCompaction("compaction is not supported"))
	}},

	// learn.microsoft.com/azure/event-hubs/apache-kafka-frequently-asked-questions and the rules of names of event hubs:
	// topics cannot be configured through Kafka's interface.
	"event-hubs": {
		user: "$ConnectionString", password: "Endpoint=sb://example.servicebus.windows.net/;SharedAccessKey=an-access-key",
		rules: func(found service) []rule {
			return like(other(found), ignoreLists(0), refuseNames(),
				hide(kmsg.ElectLeaders, kmsg.IncrementalAlterConfigs, kmsg.AlterConfigs),
				allowConfigs(kerr.InvalidConfig, "NAME cannot be set", nil, nil))
		},
	},

	// cloud.google.com/managed-service-for-apache-kafka/docs/authentication-kafka: Apache Kafka, and PLAIN with a
	// service account key of some 3,000 characters as the password.
	"google": {user: "account@example.iam.gserviceaccount.com", password: longKey(), rules: apache},

	// One difference each: the services above have several.
	"lists-ignored": {rules: func(found service) []rule {
		return like(kraft(), describeQuorum(0), describeCluster(found.ports), listReassignments(0), ignoreLists(0))
	}},
	"lists-ignored-no-id": {rules: func(found service) []rule {
		return like(kraft(), describeQuorum(0), describeCluster(found.ports), listReassignments(0), ignoreLists(0), limit(kmsg.CreateTopics, 6))
	}},
	"lists-refused": {rules: func(found service) []rule {
		return like(apache(found), refuseLists("lists are not allowed"), refuseGrowthLists(kerr.PolicyViolation, "lists are not allowed"))
	}},
	"growth-lists-refused": {rules: func(found service) []rule {
		return like(apache(found), refuseGrowthLists(kerr.InvalidRequest, "lists are not allowed"))
	}},
	"configs-v3": {rules: func(found service) []rule { return like(apache(found), limit(kmsg.DescribeConfigs, 3)) }},
	"configs-v1": {rules: func(found service) []rule { return like(apache(found), limit(kmsg.DescribeConfigs, 1)) }},
	"metadata-v9": {rules: func(found service) []rule {
		return like(apache(found), limit(kmsg.Metadata, 9), limit(kmsg.CreateTopics, 6), limit(kmsg.DeleteTopics, 5))
	}},
	"deletion-by-name": {rules: func(found service) []rule { return like(apache(found), limit(kmsg.DeleteTopics, 5)) }},
	"no-transactions": {rules: func(found service) []rule {
		return like(apache(found), hide(kmsg.AddPartitionsToTxn, kmsg.AddOffsetsToTxn, kmsg.EndTxn, kmsg.TxnOffsetCommit))
	}},
	"no-compaction": {rules: func(found service) []rule {
		return like(apache(found), refuseCompaction("cleanup.policy must be delete"))
	}},
	"no-quorum":   {rules: func(found service) []rule { return like(apache(found), hide(kmsg.DescribeQuorum)) }},
	"no-features": {rules: func(found service) []rule { return like(apache(found), features(nil)) }},
	"quorum-unsupported": {rules: func(found service) []rule {
		return like(obeyLists(found.move), kraft(), describeQuorum(kerr.UnsupportedVersion.Code), describeCluster(found.ports), listReassignments(0))
	}},
	"quorum-invalid": {rules: func(found service) []rule {
		return like(obeyLists(found.move), kraft(), describeQuorum(kerr.InvalidRequest.Code), describeCluster(found.ports), listReassignments(0))
	}},
	"cluster-denied": {rules: func(found service) []rule {
		denied := kerr.ClusterAuthorizationFailed.Code
		return like(obeyLists(found.move), kraft(), describeQuorum(denied), describeCluster(found.ports), listReassignments(denied))
	}},
}

// longKey is a password as long as a key of a service account.
func longKey() string {
	key := make([]byte, 3000)
	for at := range key {
		key[at] = 'a' + byte(at%26)
	}
	return string(key)
}

func modeNames() []string { return slices.Sorted(maps.Keys(modes)) }
