package main

import (
	"slices"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// hide offers some requests no longer.
func hide(keys ...kmsg.Key) rule {
	return offer(func(each *kmsg.ApiVersionsResponseApiKey) bool {
		return !slices.Contains(keys, kmsg.Key(each.ApiKey))
	})
}

// limit offers a request up to a version.
func limit(key kmsg.Key, newest int16) rule {
	return offer(func(each *kmsg.ApiVersionsResponseApiKey) bool {
		if each.ApiKey == int16(key) {
			each.MaxVersion = min(each.MaxVersion, newest)
		}
		return true
	})
}

// only offers these requests and no others, beside those of a login.
func only(keys ...kmsg.Key) rule {
	keys = append(keys, kmsg.ApiVersions, kmsg.SASLHandshake, kmsg.SASLAuthenticate)
	return offer(func(each *kmsg.ApiVersionsResponseApiKey) bool {
		return slices.Contains(keys, kmsg.Key(each.ApiKey))
	})
}

// offer changes the offered requests, and leaves out those that keep returns false for.
func offer(keep func(*kmsg.ApiVersionsResponseApiKey) bool) rule {
	return changeVersions(func(versions *kmsg.ApiVersionsResponse) {
		var kept []kmsg.ApiVersionsResponseApiKey
		for _, each := range versions.ApiKeys {
			if keep(&each) {
				kept = append(kept, each)
			}
		}
		versions.ApiKeys = kept
	})
}

func changeVersions(change func(*kmsg.ApiVersionsResponse)) rule {
	return rule{key: kmsg.ApiVersions, around: func(request kmsg.Request, next handler) (kmsg.Response, error) {
		answer, err := next(request)
		if err == nil {
			change(answer.(*kmsg.ApiVersionsResponse))
		}
		return answer, err
	}}
}

// answer answers a request in place of the brokers.
func answer[Response kmsg.Response](key kmsg.Key, fill func(Response)) rule {
	return rule{key: key, around: func(request kmsg.Request, _ handler) (kmsg.Response, error) {
		response := request.ResponseKind()
		fill(response.(Response))
		return response, nil
	}}
}

// add offers a request that the brokers do not have.
func add(key kmsg.Key, newest int16) rule {
	return changeVersions(func(versions *kmsg.ApiVersionsResponse) {
		each := kmsg.NewApiVersionsResponseApiKey()
		each.ApiKey, each.MaxVersion = int16(key), newest
		versions.ApiKeys = append(versions.ApiKeys, each)
	})
}

// listReassignments offers ListPartitionReassignments; with a code, it is refused.
func listReassignments(code int16) []rule {
	return []rule{
		add(kmsg.ListPartitionReassignments, 0),
		answer(kmsg.ListPartitionReassignments, func(response *kmsg.ListPartitionReassignmentsResponse) {
			response.ErrorCode = code
		}),
	}
}

// offset is that of the newest record of the metadata log, which the emulated brokers have all.
const offset = 1000

// kraft finalizes the features of brokers in KRaft mode, at an offset of the metadata log.
func kraft() rule {
	return features(map[string]int16{"metadata.version": 25, "kraft.version": 1})
}

// features finalizes features; without any there is no offset of the metadata log either.
func features(levels map[string]int16) rule {
	return changeVersions(func(versions *kmsg.ApiVersionsResponse) {
		versions.FinalizedFeatures, versions.FinalizedFeaturesEpoch = nil, -1
		for name, level := range levels {
			each := kmsg.NewApiVersionsResponseFinalizedFeature()
			each.Name, each.MaxVersionLevel, each.MinVersionLevel = name, level, level
			versions.FinalizedFeatures = append(versions.FinalizedFeatures, each)
			versions.FinalizedFeaturesEpoch = offset
		}
	})
}

// describeQuorum offers DescribeQuorum, which proves that what was read is not old; with a code, it is refused.
func describeQuorum(code int16) []rule {
	return []rule{
		add(kmsg.DescribeQuorum, 1),
		answer(kmsg.DescribeQuorum, func(response *kmsg.DescribeQuorumResponse) {
			partition := kmsg.NewDescribeQuorumResponseTopicPartition()
			partition.LeaderID, partition.LeaderEpoch, partition.HighWatermark = controller, 1, offset+1
			topic := kmsg.NewDescribeQuorumResponseTopic()
			topic.Topic, topic.Partitions = "__cluster_metadata", []kmsg.DescribeQuorumResponseTopicPartition{partition}
			if response.ErrorCode = code; code == 0 {
				response.Topics = []kmsg.DescribeQuorumResponseTopic{topic}
			}
		}),
	}
}

// describeCluster offers DescribeCluster.
func describeCluster(ports []int) []rule {
	return []rule{
		add(kmsg.DescribeCluster, 1),
		answer(kmsg.DescribeCluster, func(response *kmsg.DescribeClusterResponse) {
			response.ClusterID, response.ControllerID, response.EndpointType = clusterID, controller, 1
			for node, port := range ports {
				broker := kmsg.NewDescribeClusterResponseBroker()
				broker.NodeID, broker.Host, broker.Port = int32(node), "127.0.0.1", int32(port)
				response.Brokers = append(response.Brokers, broker)
			}
		}),
	}
}

// A refusal is the error of one topic, with the message of the service; nil if it is not refused.
type refusal struct {
	code    *kerr.Error
	message string
}

// refuseCreation answers the creation of some topics with an error; the others are created.
func refuseCreation(check func(kmsg.CreateTopicsRequestTopic) *refusal) rule {
	return rule{key: kmsg.CreateTopics, around: func(request kmsg.Request, next handler) (kmsg.Response, error) {
		creation := request.(*kmsg.CreateTopicsRequest)
		var refused []kmsg.CreateTopicsResponseTopic
		creation.Topics = slices.DeleteFunc(creation.Topics, func(topic kmsg.CreateTopicsRequestTopic) bool {
			found := check(topic)
			if found != nil {
				each := kmsg.NewCreateTopicsResponseTopic()
				each.Topic, each.ErrorCode, each.ErrorMessage = topic.Topic, found.code.Code, &found.message
				refused = append(refused, each)
			}
			return found != nil
		})
		response, err := next(creation)
		if err == nil {
			answer := response.(*kmsg.CreateTopicsResponse)
			answer.Topics = append(answer.Topics, refused...)
		}
		return response, err
	}}
}

// refuseLists refuses creations with replica lists.
func refuseLists(message string) rule {
	return refuseCreation(func(topic kmsg.CreateTopicsRequestTopic) *refusal {
		if len(topic.ReplicaAssignment) == 0 {
			return nil
		}
		return &refusal{kerr.PolicyViolation, message}
	})
}

// refuseFactor refuses creations with another replication factor than one; -1 stands for that of the service.
func refuseFactor(wanted int, message string) rule {
	return refuseCreation(func(topic kmsg.CreateTopicsRequestTopic) *refusal {
		factor := int(topic.ReplicationFactor)
		if len(topic.ReplicaAssignment) > 0 {
			factor = len(topic.ReplicaAssignment[0].Replicas)
		}
		if factor == wanted || factor == -1 {
			return nil
		}
		return &refusal{kerr.InvalidReplicationFactor, message}
	})
}

// refuseNames refuses topics with other names than those that begin with a letter or a digit.
func refuseNames() rule {
	return refuseCreation(func(topic kmsg.CreateTopicsRequestTopic) *refusal {
		first := topic.Topic[0]
		if first >= '0' && first <= '9' || first|0x20 >= 'a' && first|0x20 <= 'z' {
			return nil
		}
		return &refusal{kerr.InvalidTopicException, "The topic name must begin with a letter or a number"}
	})
}

// refuseGrowthLists refuses new partitions with replica lists.
func refuseGrowthLists(code *kerr.Error, message string) rule {
	return refuseGrowth(func(topic kmsg.CreatePartitionsRequestTopic) *refusal {
		if len(topic.Assignment) == 0 {
			return nil
		}
		return &refusal{code, message}
	})
}

// refuseGrowth answers the growth of some topics with an error; the others grow.
func refuseGrowth(check func(kmsg.CreatePartitionsRequestTopic) *refusal) rule {
	return rule{key: kmsg.CreatePartitions, around: func(request kmsg.Request, next handler) (kmsg.Response, error) {
		growth := request.(*kmsg.CreatePartitionsRequest)
		var refused []kmsg.CreatePartitionsResponseTopic
		growth.Topics = slices.DeleteFunc(growth.Topics, func(topic kmsg.CreatePartitionsRequestTopic) bool {
			found := check(topic)
			if found != nil {
				each := kmsg.NewCreatePartitionsResponseTopic()
				each.Topic, each.ErrorCode, each.ErrorMessage = topic.Topic, found.code.Code, &found.message
				refused = append(refused, each)
			}
			return found != nil
		})
		response, err := next(growth)
		if err == nil {
			answer := response.(*kmsg.CreatePartitionsResponse)
			answer.Topics = append(answer.Topics, refused...)
		}
		return response, err
	}}
}

// ignoreLists lets the brokers place replicas, whatever a request says; factor 0 is the one that was asked for.
func ignoreLists(factor int) []rule {
	return []rule{
		{key: kmsg.CreateTopics, around: func(request kmsg.Request, next handler) (kmsg.Response, error) {
			creation := request.(*kmsg.CreateTopicsRequest)
			for at := range creation.Topics {
				count(&creation.Topics[at])
				if factor > 0 {
					creation.Topics[at].ReplicationFactor = int16(factor)
				}
			}
			return next(creation)
		}},
		{key: kmsg.CreatePartitions, around: func(request kmsg.Request, next handler) (kmsg.Response, error) {
			growth := request.(*kmsg.CreatePartitionsRequest)
			for at := range growth.Topics {
				growth.Topics[at].Assignment = nil
			}
			return next(growth)
		}},
	}
}

// count replaces the replica lists of a creation by their number.
func count(topic *kmsg.CreateTopicsRequestTopic) {
	if lists := topic.ReplicaAssignment; len(lists) > 0 {
		topic.NumPartitions, topic.ReplicationFactor = int32(len(lists)), int16(len(lists[0].Replicas))
		topic.ReplicaAssignment = nil
	}
}

// refuseConfigs refuses configs, at creation and later, that a check refuses; it gets nil for a config that is removed.
func refuseConfigs(code *kerr.Error, check func(name string, value *string, isCreation bool) string) []rule {
	return []rule{
		refuseCreation(func(topic kmsg.CreateTopicsRequestTopic) *refusal {
			for _, each := range topic.Configs {
				if message := check(each.Name, each.Value, true); message != "" {
					return &refusal{code, message}
				}
			}
			return nil
		}),
		{key: kmsg.IncrementalAlterConfigs, around: func(request kmsg.Request, next handler) (kmsg.Response, error) {
			change := request.(*kmsg.IncrementalAlterConfigsRequest)
			var refused []kmsg.IncrementalAlterConfigsResponseResource
			change.Resources = slices.DeleteFunc(change.Resources, func(resource kmsg.IncrementalAlterConfigsRequestResource) bool {
				for _, each := range resource.Configs {
					if message := check(each.Name, each.Value, false); message != "" {
						answer := kmsg.NewIncrementalAlterConfigsResponseResource()
						answer.ResourceType, answer.ResourceName = resource.ResourceType, resource.ResourceName
						answer.ErrorCode, answer.ErrorMessage = code.Code, &message
						refused = append(refused, answer)
						return true
					}
				}
				return false
			})
			response, err := next(change)
			if err == nil {
				answer := response.(*kmsg.IncrementalAlterConfigsResponse)
				answer.Resources = append(answer.Resources, refused...)
			}
			return response, err
		}},
	}
}

// allowConfigs refuses all configs but some; message is about the one that is refused.
func allowConfigs(code *kerr.Error, message string, atCreation, later []string) []rule {
	return refuseConfigs(code, func(name string, _ *string, isCreation bool) string {
		if slices.Contains(later, name) || isCreation && slices.Contains(atCreation, name) {
			return ""
		}
		return strings.ReplaceAll(message, "NAME", name)
	})
}

// readOnlyConfigs refuses some configs.
func readOnlyConfigs(code *kerr.Error, message string, names ...string) []rule {
	return refuseConfigs(code, func(name string, _ *string, _ bool) string {
		if slices.Contains(names, name) {
			return strings.ReplaceAll(message, "NAME", name)
		}
		return ""
	})
}

// refuseCompaction refuses topics that keep the last record of each key.
func refuseCompaction(message string) []rule {
	return refuseConfigs(kerr.InvalidConfig, func(name string, value *string, _ bool) string {
		if name == "cleanup.policy" && value != nil && strings.Contains(*value, "compact") {
			return message
		}
		return ""
	})
}

// refuseTransactions refuses producers with a transactional id.
func refuseTransactions(code *kerr.Error) rule {
	return rule{key: kmsg.InitProducerID, around: func(request kmsg.Request, next handler) (kmsg.Response, error) {
		if request.(*kmsg.InitProducerIDRequest).TransactionalID == nil {
			return next(request)
		}
		response := request.ResponseKind().(*kmsg.InitProducerIDResponse)
		response.ErrorCode = code.Code
		return response, nil
	}}
}

// readdress replaces the ports of brokers by those of the fronts before them.
func readdress(ports map[int32]int32) []rule {
	replace := func(port *int32) {
		if front, known := ports[*port]; known {
			*port = front
		}
	}
	changed := func(key kmsg.Key, change func(kmsg.Response)) rule {
		return rule{key: key, forAll: true, around: func(request kmsg.Request, next handler) (kmsg.Response, error) {
			response, err := next(request)
			if err == nil {
				change(response)
			}
			return response, err
		}}
	}
	return []rule{
		changed(kmsg.Metadata, func(response kmsg.Response) {
			answer := response.(*kmsg.MetadataResponse)
			for at := range answer.Brokers {
				replace(&answer.Brokers[at].Port)
			}
		}),
		changed(kmsg.DescribeCluster, func(response kmsg.Response) {
			answer := response.(*kmsg.DescribeClusterResponse)
			for at := range answer.Brokers {
				replace(&answer.Brokers[at].Port)
			}
		}),
		changed(kmsg.FindCoordinator, func(response kmsg.Response) {
			answer := response.(*kmsg.FindCoordinatorResponse)
			replace(&answer.Port)
			for at := range answer.Coordinators {
				replace(&answer.Coordinators[at].Port)
			}
		}),
	}
}

// A placement has the replica lists of topics by partition.
type placement struct {
	lock  sync.Mutex
	lists map[string]map[int32][]int32
	move  func(topic string, partition, leader int32)
}

// obeyLists carries out replica lists. The brokers behind have one list for each leader and no others, so the front keeps
// the lists, and moves the leaders.
func obeyLists(move func(topic string, partition, leader int32)) []rule {
	kept := &placement{lists: map[string]map[int32][]int32{}, move: move}
	return []rule{
		{key: kmsg.CreateTopics, forAll: true, around: kept.create},
		{key: kmsg.CreatePartitions, forAll: true, around: kept.grow},
		{key: kmsg.Metadata, forAll: true, around: kept.show},
		refuseCreation(func(topic kmsg.CreateTopicsRequestTopic) *refusal {
			for _, each := range topic.ReplicaAssignment {
				if found := checkList(each.Replicas); found != nil {
					return found
				}
			}
			return nil
		}),
		refuseGrowth(func(topic kmsg.CreatePartitionsRequestTopic) *refusal {
			for _, each := range topic.Assignment {
				if found := checkList(each.Replicas); found != nil {
					return found
				}
			}
			return nil
		}),
	}
}

// checkList refuses a replica list that no cluster can carry out, as Apache Kafka does.
func checkList(replicas []int32) *refusal {
	for at, broker := range replicas {
		if broker < 0 || broker >= brokers || slices.Contains(replicas[:at], broker) {
			return &refusal{kerr.InvalidReplicaAssignment, "The manual partition assignment has a broker that is unknown, or twice"}
		}
	}
	return nil
}

func (p *placement) create(request kmsg.Request, next handler) (kmsg.Response, error) {
	creation := request.(*kmsg.CreateTopicsRequest)
	wanted := map[string]map[int32][]int32{}
	for at := range creation.Topics {
		topic := &creation.Topics[at]
		wanted[topic.Topic] = map[int32][]int32{}
		for _, each := range topic.ReplicaAssignment {
			wanted[topic.Topic][each.Partition] = each.Replicas
		}
		count(topic)
	}
	response, err := next(creation)
	if err != nil || creation.ValidateOnly {
		return response, err
	}
	for _, each := range response.(*kmsg.CreateTopicsResponse).Topics {
		if each.ErrorCode == 0 {
			p.keep(each.Topic, wanted[each.Topic], true)
		}
	}
	return response, nil
}

func (p *placement) grow(request kmsg.Request, next handler) (kmsg.Response, error) {
	growth := request.(*kmsg.CreatePartitionsRequest)
	wanted := map[string]map[int32][]int32{}
	for at := range growth.Topics {
		topic := &growth.Topics[at]
		wanted[topic.Topic] = map[int32][]int32{}
		first := topic.Count - int32(len(topic.Assignment))
		for number, each := range topic.Assignment {
			wanted[topic.Topic][first+int32(number)] = each.Replicas
		}
		topic.Assignment = nil
	}
	response, err := next(growth)
	if err != nil || growth.ValidateOnly {
		return response, err
	}
	for _, each := range response.(*kmsg.CreatePartitionsResponse).Topics {
		if each.ErrorCode == 0 {
			p.keep(each.Topic, wanted[each.Topic], false)
		}
	}
	return response, nil
}

func (p *placement) keep(topic string, lists map[int32][]int32, isNew bool) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if isNew || p.lists[topic] == nil {
		p.lists[topic] = map[int32][]int32{}
	}
	for partition, list := range lists {
		p.lists[topic][partition] = list
		p.move(topic, partition, list[0])
	}
}

func (p *placement) show(request kmsg.Request, next handler) (kmsg.Response, error) {
	response, err := next(request)
	if err != nil {
		return nil, err
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	for _, topic := range response.(*kmsg.MetadataResponse).Topics {
		if topic.Topic == nil {
			continue
		}
		for at := range topic.Partitions {
			partition := &topic.Partitions[at]
			if list := p.lists[*topic.Topic][partition.Partition]; list != nil {
				partition.Replicas, partition.ISR = list, list
			}
		}
	}
	return response, nil
}
