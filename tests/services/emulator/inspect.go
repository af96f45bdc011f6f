package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

// A question is a line of input: "read" all topics, "create" one, or "delete" some.
type question struct {
	Do         string   `json:"do"`
	Topic      string   `json:"topic"`
	Topics     []string `json:"topics"`
	Partitions int32    `json:"partitions"`
	Factor     int16    `json:"factor"`
}

// A topic is what the brokers have: replica lists, partition 0 first, and the configs that the topic sets itself.
type topic struct {
	ID       string             `json:"id"`
	Replicas [][]int32          `json:"replicas"`
	Config   map[string]*string `json:"config"`
}

const patience = 20 * time.Second

// inspect answers one question a line, until the input ends.
func inspect(bootstrap string, login []string) error {
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(int16(kmsg.DescribeConfigs), 3) // Tansu closes the connection at version 4
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.ClientID(inspector), kgo.MaxVersions(versions),
	}
	if len(login) == 2 {
		options = append(options, kgo.SASL(plain.Auth{User: login[0], Pass: login[1]}.AsMechanism()))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	lines, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var asked question
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			return err
		}
		found, err := answerQuestion(client, asked)
		if err != nil {
			found = map[string]string{"error": err.Error()}
		}
		if err := out.Encode(found); err != nil {
			return err
		}
	}
	return lines.Err()
}

func answerQuestion(client *kgo.Client, asked question) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	switch asked.Do {
	case "read":
		return readTopics(ctx, client)
	case "create":
		request := kmsg.NewCreateTopicsRequest()
		wanted := kmsg.NewCreateTopicsRequestTopic()
		wanted.Topic, wanted.NumPartitions, wanted.ReplicationFactor = asked.Topic, asked.Partitions, asked.Factor
		request.Topics = append(request.Topics, wanted)
		response, err := request.RequestWith(ctx, client)
		if err != nil {
			return nil, err
		}
		return struct{}{}, kerr.ErrorForCode(response.Topics[0].ErrorCode)
	case "delete":
		request := kmsg.NewDeleteTopicsRequest()
		for _, name := range asked.Topics {
			each := kmsg.NewDeleteTopicsRequestTopic()
			each.Topic = &name
			request.Topics, request.TopicNames = append(request.Topics, each), append(request.TopicNames, name)
		}
		response, err := request.RequestWith(ctx, client)
		if err != nil {
			return nil, err
		}
		for _, each := range response.Topics {
			if each.ErrorCode != 0 {
				return nil, kerr.ErrorForCode(each.ErrorCode)
			}
		}
		return struct{}{}, nil
	}
	return nil, fmt.Errorf("no question %q", asked.Do)
}

func readTopics(ctx context.Context, client *kgo.Client) (map[string]*topic, error) {
	request := kmsg.NewMetadataRequest()
	metadata, err := request.RequestWith(ctx, client)
	if err != nil {
		return nil, err
	}
	found := map[string]*topic{}
	configs := kmsg.NewDescribeConfigsRequest()
	for _, each := range metadata.Topics {
		if err := kerr.ErrorForCode(each.ErrorCode); err != nil {
			return nil, err
		}
		lists := make([][]int32, len(each.Partitions))
		for _, partition := range each.Partitions {
			lists[partition.Partition] = partition.Replicas
		}
		found[*each.Topic] = &topic{fmt.Sprintf("%x", each.TopicID), lists, map[string]*string{}}
		resource := kmsg.NewDescribeConfigsRequestResource()
		resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, *each.Topic
		configs.Resources = append(configs.Resources, resource)
	}
	if len(found) == 0 {
		return found, nil
	}
	described, err := configs.RequestWith(ctx, client)
	if err != nil {
		return nil, err
	}
	for _, each := range described.Resources {
		if err := kerr.ErrorForCode(each.ErrorCode); err != nil {
			return nil, err
		}
		for _, config := range each.Configs {
			if config.Source == kmsg.ConfigSourceDynamicTopicConfig {
				found[each.ResourceName].Config[config.Name] = config.Value
			}
		}
	}
	return found, nil
}
