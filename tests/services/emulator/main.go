// Command emulator is what the tests of services run: brokers in memory that answer as a service does, a front that hides
// requests of real brokers, and a client that shares no code with topiarist.
//
//	emulator serve MODE [RULE]...             brokers on free ports; the first line has their addresses and a login
//	emulator hide BROKERS RULE...             a front before each broker; parseRules has the rules
//	emulator inspect BOOTSTRAP [USER PASSWORD]   a client: one JSON document a line in, one a line out
//	emulator modes                            the names of all modes
//
// Each ends when its standard input does, so none outlives the test that started it. A line that begins with "closed:" is
// about a client that sent what it was not offered.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(words []string) error {
	switch {
	case len(words) >= 2 && words[0] == "serve":
		return serve(words[1], words[2:])
	case len(words) >= 2 && words[0] == "hide":
		return hideRequests(words[1], words[2:])
	case len(words) >= 2 && words[0] == "inspect":
		return inspect(words[1], words[2:])
	case len(words) == 1 && words[0] == "modes":
		return json.NewEncoder(os.Stdout).Encode(modeNames())
	}
	return fmt.Errorf("usage: emulator serve MODE [RULE]... | hide BROKERS RULE... | inspect BOOTSTRAP [USER PASSWORD] | modes")
}

// serve runs the brokers of a mode, each behind a front, with further rules.
func serve(name string, words []string) error {
	mode, known := modes[name]
	if !known {
		return fmt.Errorf("no mode %q, wanted one of %s", name, strings.Join(modeNames(), ", "))
	}
	options := []kfake.Opt{kfake.NumBrokers(brokers), kfake.ClusterID(clusterID)}
	if mode.user != "" {
		options = append(options, kfake.EnableSASL(), kfake.Superuser("PLAIN", mode.user, mode.password))
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		return err
	}
	defer cluster.Close()
	fronts, err := openFronts(cluster.ListenAddrs())
	if err != nil {
		return err
	}
	found := service{move: func(topic string, partition, leader int32) {
		// A leader that cannot be moved shows in the tests: it is not the first replica.
		_ = cluster.MoveTopicPartition(topic, partition, leader)
	}}
	for _, each := range fronts {
		found.ports = append(found.ports, each.port())
	}
	more, err := parseRules(words)
	if err != nil {
		return err
	}
	return serveFronts(fronts, append(mode.rules(found), more...), mode)
}

// hideRequests runs fronts before real brokers.
func hideRequests(addresses string, words []string) error {
	fronts, err := openFronts(strings.Split(addresses, ","))
	if err != nil {
		return err
	}
	rules, err := parseRules(words)
	if err != nil {
		return err
	}
	return serveFronts(fronts, rules, mode{})
}

// serveFronts serves until the input ends; its first line of output has the addresses, and the login of the mode.
func serveFronts(fronts []*front, rules []rule, mode mode) error {
	var addresses []string
	for _, each := range fronts {
		each.rules = append(each.rules, rules...)
		addresses = append(addresses, each.listener.Addr().String())
		go each.serve()
	}
	first := map[string]string{"bootstrap": strings.Join(addresses, ","), "user": mode.user, "password": mode.password}
	if err := json.NewEncoder(os.Stdout).Encode(first); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}
