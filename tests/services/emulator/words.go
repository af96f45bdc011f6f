package main

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// parseRules returns the rules that words describe, each one difference:
//
//	KEY             the request is not offered
//	KEY:MAX         it is offered up to a version
//	KEY=CODE        it is offered, and every answer has this error code; nothing is carried out
//	KEY=CODE~NAME   only what is about the topic of this name has it
//	throttle=MS     every answer says that the client was throttled
//	ids             every other Metadata has other ids of brokers
//	host=NAME       brokers are advertised at this host
func parseRules(words []string) ([]rule, error) {
	var rules []rule
	for _, word := range words {
		found, err := parseRule(word)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", word, err)
		}
		rules = append(rules, found...)
	}
	return rules, nil
}

func parseRule(word string) ([]rule, error) {
	if word == "ids" {
		return []rule{changeIDs()}, nil
	}
	name, value, hasCode := strings.Cut(word, "=")
	switch {
	case hasCode && name == "host":
		return advertise(value), nil
	case hasCode && name == "throttle":
		millis, err := strconv.ParseInt(value, 10, 32)
		return throttle(int32(millis)), err
	case hasCode:
		key, err := parseInt16(name)
		if err != nil {
			return nil, err
		}
		code, topic, _ := strings.Cut(value, "~")
		number, err := parseInt16(code)
		return []rule{fail(kmsg.Key(key), number, topic)}, err
	}
	name, newest, limited := strings.Cut(word, ":")
	key, err := parseInt16(name)
	if err != nil || !limited {
		return []rule{hide(kmsg.Key(key))}, err
	}
	version, err := parseInt16(newest)
	return []rule{limit(kmsg.Key(key), version)}, err
}

func parseInt16(text string) (int16, error) {
	number, err := strconv.ParseInt(text, 10, 16)
	return int16(number), err
}

// fail answers a request with an error; with a topic, only what is about that topic, beside what the brokers answer.
func fail(key kmsg.Key, code int16, topic string) rule {
	return rule{key: key, around: func(request kmsg.Request, next handler) (kmsg.Response, error) {
		if topic != "" {
			response, err := next(request)
			if err == nil {
				setCodes(reflect.ValueOf(response).Elem(), code, topic)
			}
			return response, err
		}
		response := request.ResponseKind()
		fillErrors(reflect.ValueOf(response).Elem(), reflect.ValueOf(request).Elem(), code)
		return response, nil
	}}
}

// setCodes sets the error code of each entry of a topic.
func setCodes(answer reflect.Value, code int16, topic string) {
	for at := range answer.NumField() {
		field := answer.Field(at)
		if field.Kind() != reflect.Slice || field.Type().Elem().Kind() != reflect.Struct {
			continue
		}
		for number := range field.Len() {
			entry := field.Index(number)
			if nameOf(entry) == topic {
				entry.FieldByName("ErrorCode").SetInt(int64(code))
			}
		}
	}
}

func nameOf(entry reflect.Value) string {
	for _, name := range []string{"Topic", "ResourceName"} {
		field := entry.FieldByName(name)
		if field.Kind() == reflect.Pointer && !field.IsNil() {
			field = field.Elem()
		}
		if field.Kind() == reflect.String {
			return field.String()
		}
	}
	return ""
}

// entries has the lists of requests by the names that the lists of their answers have, where these differ.
var entries = map[string][]string{"Resources": {"Results"}, "Responses": {"Resources", "Topics"}, "Results": {"Resources"}, "Coordinators": {"CoordinatorKeys"}}

// single has the field of an entry that a request has as a plain value, by the list of the answer.
var single = map[string]string{"Coordinators": "Key", "Partitions": "Partition", "Groups": "Group"}

// fillErrors fills an answer with an entry for each entry of the request, all with the error code.
func fillErrors(answer, request reflect.Value, code int16) {
	for at := range answer.NumField() {
		field, name := answer.Field(at), answer.Type().Field(at).Name
		if name == "ErrorCode" {
			field.SetInt(int64(code))
			continue
		}
		asked := request.FieldByName(name)
		for _, other := range entries[name] {
			if !asked.IsValid() {
				asked = request.FieldByName(other)
			}
		}
		if !asked.IsValid() {
			continue
		}
		isList := field.Kind() == reflect.Slice && field.Type().Elem().Kind() == reflect.Struct
		switch {
		case isList && asked.Kind() == reflect.Slice && asked.Type().Elem().Kind() == reflect.Struct:
			made := reflect.MakeSlice(field.Type(), asked.Len(), asked.Len())
			for number := range asked.Len() {
				fillErrors(made.Index(number), asked.Index(number), code)
			}
			field.Set(made)
		case isList:
			made := reflect.MakeSlice(field.Type(), asked.Len(), asked.Len())
			for number := range asked.Len() {
				made.Index(number).FieldByName(single[name]).Set(asked.Index(number))
				made.Index(number).FieldByName("ErrorCode").SetInt(int64(code))
			}
			field.Set(made)
		case field.Type() == asked.Type() && !isList:
			field.Set(asked)
		}
	}
}

// throttle says in every answer that the client was throttled; the client has to wait by itself.
func throttle(millis int32) []rule {
	var rules []rule
	for key := int16(0); key <= kmsg.MaxKey; key++ {
		rules = append(rules, rule{key: kmsg.Key(key), around: func(request kmsg.Request, next handler) (kmsg.Response, error) {
			response, err := next(request)
			if err == nil {
				if field := reflect.ValueOf(response).Elem().FieldByName("ThrottleMillis"); field.IsValid() {
					field.SetInt(int64(millis))
				}
			}
			return response, err
		}})
	}
	return rules
}

// changeIDs gives brokers other ids in every other answer.
func changeIDs() rule {
	var asked atomic.Int64
	return rule{key: kmsg.Metadata, around: func(request kmsg.Request, next handler) (kmsg.Response, error) {
		response, err := next(request)
		if err == nil && asked.Add(1)%2 == 0 {
			answer := response.(*kmsg.MetadataResponse)
			answer.ControllerID += 100
			for at := range answer.Brokers {
				answer.Brokers[at].NodeID += 100
			}
		}
		return response, err
	}}
}

// advertise names another host for each broker.
func advertise(host string) []rule {
	return []rule{
		{key: kmsg.Metadata, around: func(request kmsg.Request, next handler) (kmsg.Response, error) {
			response, err := next(request)
			if err == nil {
				answer := response.(*kmsg.MetadataResponse)
				for at := range answer.Brokers {
					answer.Brokers[at].Host = host
				}
			}
			return response, err
		}},
		{key: kmsg.FindCoordinator, around: func(request kmsg.Request, next handler) (kmsg.Response, error) {
			response, err := next(request)
			if err == nil {
				answer := response.(*kmsg.FindCoordinatorResponse)
				answer.Host = host
				for at := range answer.Coordinators {
					answer.Coordinators[at].Host = host
				}
			}
			return response, err
		}},
	}
}
