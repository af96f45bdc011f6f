module topiarist.dev/benchmarks/tools

go 1.23.8

require github.com/peter-evans/kdef v0.6.0
