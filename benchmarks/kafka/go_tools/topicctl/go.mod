module topiarist.dev/benchmarks/tools

go 1.21

require github.com/segmentio/topicctl v1.10.0
