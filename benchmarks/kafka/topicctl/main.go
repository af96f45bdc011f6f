// Computes new replica lists with topicctl's own packages: one JSON object on standard input, one on standard output.
package main

import (
	"encoding/json"
	"os"
	"time"

	"github.com/segmentio/topicctl/pkg/admin"
	"github.com/segmentio/topicctl/pkg/apply/assigners"
	"github.com/segmentio/topicctl/pkg/apply/pickers"
	"github.com/segmentio/topicctl/pkg/apply/rebalancers"
	"github.com/segmentio/topicctl/pkg/config"
)

type request struct {
	// Work is "rebalance" (also without brokers) or "racks".
	Work   string         `json:"work"`
	Racks  map[int]string `json:"racks"`
	Remove []int          `json:"remove"`
	Lists  [][]int        `json:"lists"`
}

type answer struct {
	Lists   [][]int `json:"lists"`
	Seconds float64 `json:"seconds"`
	Error   string  `json:"error"`
}

func main() {
	var asked request
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		panic(err)
	}
	brokers := []admin.BrokerInfo{}
	for id, rack := range asked.Racks {
		brokers = append(brokers, admin.BrokerInfo{ID: id, Rack: rack})
	}
	present := []admin.PartitionAssignment{}
	for id, replicas := range asked.Lists {
		present = append(present, admin.PartitionAssignment{ID: id, Replicas: replicas})
	}
	start := time.Now()
	wanted, err := compute(asked, brokers, present)
	result := answer{Seconds: time.Since(start).Seconds()}
	if err != nil {
		result.Error = err.Error()
	}
	for _, partition := range wanted {
		result.Lists = append(result.Lists, partition.Replicas)
	}
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		panic(err)
	}
}

func compute(
	asked request, brokers []admin.BrokerInfo, present []admin.PartitionAssignment,
) ([]admin.PartitionAssignment, error) {
	picker := pickers.NewLowestIndexPicker()
	if asked.Work == "racks" {
		return assigners.NewCrossRackAssigner(brokers, picker).Assign("topic", present)
	}
	placement := config.TopicPlacementConfig{Strategy: config.PlacementStrategyAny}
	return rebalancers.NewFrequencyRebalancer(brokers, picker, placement).Rebalance("topic", present, asked.Remove)
}
