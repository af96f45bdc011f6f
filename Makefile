# How to work on topiarist. `make` alone lists what there is.
#
# Python 3.11, Java 17 and make are all that a machine needs: everything else goes into .venv, pinned and hashed. Two
# variables may be set: PYTHON (the interpreter to use; without it the one of .venv, or python3) and TOPIARIST_CACHE (where
# tools keep what they can make again). Each is for a path with blanks as well.

ifeq ($(origin PYTHON),undefined)
PYTHON := $(shell test -x .venv/bin/python && echo .venv/bin/python || echo python3)
endif
TOPIARIST_CACHE ?= $(CURDIR)/.cache
JAVA := $(if $(JAVA_HOME),$(JAVA_HOME)/bin/java,java)
# The cache in names of targets and in commands: a blank has a backslash in both.
BLANK := $(subst ,, )
CACHE := $(subst $(BLANK),\ ,$(TOPIARIST_CACHE))
BIN := .venv/bin
# Scripts run as modules: -P keeps their own folder, in which "operator" is not Python's module, out of the path.
SCRIPT := PYTHONPATH=.:tests:tools $(BIN)/python -P -m
SOURCES := operator tests tools benchmarks docs/python
WORKERS ?= $(shell getconf _NPROCESSORS_ONLN)
SECONDS ?= 60
WALKS ?= 1000
PAIRS ?= 200
SAMPLE ?= 300
SEED ?= 1
FUZZ := $(CACHE)/fuzz
BROWSER := $(CACHE)/browser
SITE := $(CACHE)/site
RELEASE := $(CACHE)/release
SERVICES := $(CACHE)/services
RESOLVE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --upgrade --no-config \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make constraints"
CACHES := ruff mypy pytest import-linter
RELEASES ?= 3.9.2 2.4.1
KRAFT_RELEASES ?= 4.4.0

# A lane of tests/lanes.toml; PART=core, PART=night, PART=changed and WORKERS=4 change it.
LANE = $(SCRIPT) lanes $@

# Playwright is found by PYTHONPATH; the shell stops where there is no browser and none can be had.
WITH_BROWSER = export PYTHONPATH=$(BROWSER)/packages; TOPIARIST_CHROMIUM=$$(tools/browser.sh $(BIN)/python) || exit; \
	export TOPIARIST_CHROMIUM;

export TOPIARIST_CACHE
# Images of containers set it, and then every start of Python compiles again: twice the time.
unexport PYTHONDONTWRITEBYTECODE
export RUFF_CACHE_DIR := $(TOPIARIST_CACHE)/ruff
# One for each checkout: two that run at the same time mixed their entries, and mypy reported signatures of the other.
export MYPY_CACHE_DIR := $(TOPIARIST_CACHE)/mypy/$(subst /,-,$(CURDIR))
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test test-faults test-kafka test-kubernetes test-services kube soak record-faults record-services check lint vectors bench bench-kafka
.PHONY: campaign pairs record-campaigns soak-day record-soak-day site site-versions
.PHONY: bench-moves bench-operator bench-drift bench-page test-slow test-unit budgets record-budgets test-browser mutants fuzz golden generate constraints clean
.PHONY: release release-files publish-image publish-chart publish-python publish-files lint-workflows wheels
.PHONY: kerberos nightly green-night namespaces pictures interleave record-interleavings need-python need-java

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' Makefile

demo: need-java .venv/demo  ## manifests planned, applied and found unchanged on a real ZooKeeper
	@$(SCRIPT) demo

test: need-java .venv/ready  ## what a developer runs: units, contracts, examples, a real ZooKeeper, a little Spark
	@$(LANE)

test-slow: need-java .venv/ready $(RELEASE)/ready  ## the rest that needs only Java: Spark, explorations, campaigns, walked pages, all examples of properties
	@$(LANE)

test-faults: need-java .venv/ready  ## every fault of docs/internals/reliability.md, brought about on real servers
	@TOPIARIST_FAULTS=$(CACHE)/faults.json $(LANE)

test-kafka: need-java .venv/ready  ## with real Kafka brokers, fetched by Maven; RELEASES="2.8.2" KRAFT_RELEASES="4.0.2" are others
	$(SCRIPT) kafka_jars $(RELEASES) $(KRAFT_RELEASES)
	@test "$$CI" != true || tools/kerberos.sh
	@TOPIARIST_KAFKA="$(RELEASES)" TOPIARIST_KAFKA_KRAFT="$(KRAFT_RELEASES)" $(LANE)

test-kubernetes: .venv/ready  ## with a real API server, built once with Go; without Go skipped, but failed in CI
	@tools/kube/build.sh >/dev/null || test "$$CI" != true
	@test "$$CI" != true || tools/kerberos.sh
	@$(LANE)

test-services: need-java .venv/ready $(SERVICES)/ready  ## every command against emulated services, another broker, and brokers that deny or hide; without Go skipped, but failed in CI
	@$(SCRIPT) kafka_jars $(firstword $(KRAFT_RELEASES))
	@$(SCRIPT) services.servers >/dev/null || test "$$CI" != true
	@$(LANE)

test-browser: $(BROWSER)/ready $(SITE)/ready  ## reports, plans and the site in a headless Chromium, which is installed if there is none
	@$(WITH_BROWSER) PYTHONPATH=$$PYTHONPATH:tools $(BIN)/python -P -m lanes $@

kube:  ## build the API server, etcd and kubectl for these tests: some minutes, once
	@tools/kube/build.sh

kerberos: .venv/ready  ## install a KDC by apt, and compile the package gssapi, for the tests of logins by Kerberos
	@tools/kerberos.sh

# The releases of a night: all of them over a week.
WEEKDAY ?= $(shell date +%u)
SOAK_RELEASES ?= $(word $(WEEKDAY),3.7.2 3.4.1 3.0.2 2.8.2 2.4.1 3.9.2 3.7.2)
SOAK_KRAFT_RELEASES ?= $(word $(WEEKDAY),4.0.2 3.9.2 3.3.2 4.0.2 3.9.2 3.3.2 4.4.0)

soak: need-java .venv/ready  ## faults with more seeds, and the releases of this weekday; SOAK_RELEASES= and SOAK_KRAFT_RELEASES= are others
	@TOPIARIST_SOAK=1 TOPIARIST_FAULTS=$(CACHE)/faults-soak.json $(SCRIPT) lanes test-faults
	@TOPIARIST_SOAK=1 $(MAKE) --no-print-directory test-kafka RELEASES="$(SOAK_RELEASES)" \
		KRAFT_RELEASES="$(SOAK_KRAFT_RELEASES)"

# Each part is a job of .github/workflows/nightly.yml.
NIGHT := test test-slow test-faults test-kafka test-kubernetes test-services test-browser soak interleave campaign soak-day mutants \
	fuzz bench bench-drift bench-moves

nightly: export PART := night
nightly: $(NIGHT)  ## everything: hours

interleave: need-java .venv/ready  ## every order of requests of two runs beside other actors, explored whole; WALKS=1000 on a real ZooKeeper
	@$(SCRIPT) interleavings.run
	TOPIARIST_WALKS=$(WALKS) $(BIN)/python -m pytest -n $(WORKERS) -o cache_dir=$(CACHE)/pytest/$@ \
		tests/interleavings/test_tree.py

record-interleavings: .venv/ready  ## explore, and put the counts into docs/internals/interleavings.md
	@$(SCRIPT) interleavings.run --write
	$(SCRIPT) reference

record-faults: .venv/ready  ## put the figures of the last run of test-faults into docs/internals/reliability.md
	$(SCRIPT) fault_matrix $(CACHE)/faults.json
	$(SCRIPT) reference

record-services: need-java .venv/ready $(SERVICES)/ready  ## run test-services, and put its results into docs/services.md
	@TOPIARIST_SERVICES=write PART=night $(SCRIPT) lanes test-services
	$(SCRIPT) reference

pairs: .venv/ready  ## pairs of applies at the same time on real brokers, quiet and beside busy processes: PAIRS=200
	@$(SCRIPT) support.kafka.paired_runs $(PAIRS)

campaign: .venv/ready  ## perturb the operator at every write and event, and try the states of the schema: four minutes
	$(SCRIPT) campaigns.run $(CACHE)/campaigns.json

record-campaigns: .venv/ready  ## put the figures of the last run of campaign into docs/internals/operator-campaigns.md
	$(SCRIPT) operator_campaigns $(CACHE)/campaigns.json
	$(SCRIPT) reference

soak-day: .venv/ready  ## a day of the operator in virtual time, 1,000 Topics, three writers and outages: take your time
	$(SCRIPT) campaigns.day $(CACHE)/soak-day.json

record-soak-day: .venv/ready  ## put the figures of the last run of soak-day into docs/internals/operator-campaigns.md
	$(SCRIPT) operator_campaigns $(CACHE)/soak-day.json
	$(SCRIPT) reference

check: lint test-unit budgets  ## what a commit must pass: lint, the unit tests, and the budgets of folders of tests

test-unit: need-java .venv/ready  ## the unit tests alone
	@$(LANE)

budgets: .venv/ready  ## compare the last make test and test-unit with tests/budgets.json: a folder that outgrew its budget fails
	@$(SCRIPT) lanes budgets

record-budgets: .venv/ready  ## store the processor time of the last make test as the budgets of all folders
	@$(SCRIPT) lanes budgets --write

lint: .venv/ready  ## style, types, layers, prose, generated files
	$(BIN)/ruff check $(wildcard $(SOURCES))
	$(BIN)/ruff format --check $(wildcard $(SOURCES))
	$(BIN)/mypy operator/topiarist $(wildcard tests tools benchmarks docs/python)
	$(BIN)/lint-imports --cache-dir $(CACHE)/import-linter
	$(SCRIPT) prose
	$(SCRIPT) generate --check
	$(SCRIPT) reference --check

vectors: .venv/ready  ## Kafka's test vectors through our functions: make vectors FILES="a.json b.jsonl"
	@$(BIN)/python tests/vectors/run.py $(FILES)

bench: need-java .venv/ready  ## the figures of docs/internals/performance.md, as JSON
	@$(SCRIPT) kafka_jars 3.9.2 >&2
	@$(SCRIPT) benchmarks.run

bench-kafka: need-java .venv/ready  ## figures from real brokers, as JSON; ROUNDS=3 PARTS="side waiting load moves kraft describe" PACES="1000 0" SIZES=1000
	@$(SCRIPT) kafka_jars 3.9.2 4.4.0 >&2
	@ROUNDS="$(ROUNDS)" PARTS="$(PARTS)" PACES="$(PACES)" SIZES="$(SIZES)" $(SCRIPT) benchmarks.kafka.run

bench-operator: need-java .venv/ready  ## figures of the operator beside a real API server, as JSON; TOPICS=10000
	@tools/kube/build.sh >/dev/null
	@TOPICS="$(TOPICS)" $(SCRIPT) benchmarks.kubernetes.run

bench-drift: need-java .venv/ready  ## figures of drift reports over sample fleets, as JSON; RUNS=1 PARTS="alike own lists random differ large scaling store live"
	@RUNS="$(RUNS)" PARTS="$(PARTS)" $(SCRIPT) benchmarks.drift.run

bench-moves: need-java .venv/ready  ## figures of moves for 100,000 partitions, and of the requests of a run, as JSON
	@$(SCRIPT) benchmarks.moves

bench-page: $(BROWSER)/ready  ## how quick the pages of 20,000 findings and of 20,000 topics are at every key, as JSON
	@$(WITH_BROWSER) PYTHONPATH=.:tests:$$PYTHONPATH $(BIN)/python -P -m benchmarks.drift.html

mutants: need-java .venv/ready  ## take away each guard of the write path in turn: some test turns red (MUTANTS="text..."); or small changes of a package, drawn at random (GROUP=drift SAMPLE=300 SEED=1)
	$(SCRIPT) $(if $(GROUP),mutation.draw $(GROUP) --sample $(SAMPLE) --seed $(SEED),mutation.run $(MUTANTS))

fuzz: .venv/ready $(FUZZ)/ready  ## fuzz what reads bytes from outside, SECONDS for each of TARGETS (SECONDS=60, all)
	@PYTHONPATH=$(FUZZ)/packages:tests $(BIN)/python -P -m fuzz.run --seconds $(SECONDS) $(TARGETS)

site: .venv/ready $(SITE)/ready  ## the documentation as a site in build/site, with all links checked
	@$(SCRIPT) docs_site build/site

site-versions: .venv/ready $(SITE)/ready  ## the published site in build/site: a folder for each minor version that is tagged, and for the checkout
	@$(SCRIPT) docs_site.versions build/site

pictures: need-java $(BROWSER)/ready  ## the pictures in docs/pictures: a recorded session, and pages in a headless Chromium
	@$(WITH_BROWSER) PYTHONPATH=.:tests:tools:$$PYTHONPATH $(BIN)/python -P -m pictures

release: .venv/ready $(RELEASE)/ready  ## commit, tag and files of VERSION=x.y.z, checked; DRY_RUN=1 keeps the files only
	@umask 022; $(SCRIPT) release cut "$(VERSION)" $(if $(DRY_RUN),--dry-run)

release-files: .venv/ready $(RELEASE)/ready  ## the files of the tag that is checked out, checked, in dist
	@umask 022; $(SCRIPT) release files

green-night: need-python  ## fail unless the newest night of the commit was green: workflow only
	@"$(PYTHON)" tools/release/green_night.py

publish-image:  ## the image for each processor, with SBOM, provenance and signature, to the forge's registry: workflow only
	@tools/release/publish.sh image

publish-chart:  ## the chart to the forge's registry: workflow only
	@tools/release/publish.sh chart

publish-python:  ## wheel and source distribution to the package index: workflow only
	@tools/release/publish.sh python

publish-files:  ## signed checksums, and the release with all files at the forge: workflow only
	@tools/release/publish.sh files

namespaces:  ## let an ordinary user make namespaces of the kernel, as some tests do: workflow only
	@sudo -n sysctl -q -w kernel.apparmor_restrict_unprivileged_userns=0

lint-workflows: .venv/ready $(RELEASE)/ready  ## the workflows by actionlint, which Go builds once, and by zizmor
	@tools/release/actionlint.sh
	@PYTHONPATH=$(RELEASE)/packages $(RELEASE)/packages/bin/zizmor --offline --quiet .github/workflows

wheels: .venv/ready  ## ask the registry which wheels the pinned packages have: tests/repo/wheels.json
	@$(SCRIPT) release.wheels

golden: .venv/ready  ## write the expected outputs of the acceptance cases, and of the pages that need no brokers, anew
	TOPIARIST_GOLDEN=write $(BIN)/python -m pytest -q -o cache_dir=$(CACHE)/pytest/$@ tests/acceptance \
		tests/repo/test_readme.py tests/repo/test_drift_page.py tests/unit/api tests/unit/kubernetes/test_topic_status.py \
		tests/unit/drift/test_demo.py

generate: .venv/ready  ## write the files that are made from others anew
	$(SCRIPT) generate
	$(SCRIPT) reference

constraints: .venv/ready  ## resolve the dependencies anew and pin them
	$(RESOLVE) --no-emit-package topiarist --extra dev pyproject.toml --output-file constraints.txt
	$(RESOLVE) --group fuzz --output-file tests/fuzz/constraints.txt
	$(RESOLVE) --group browser --output-file tests/browser/constraints.txt
	$(RESOLVE) --group kerberos --output-file tests/brokers/constraints.txt
	$(RESOLVE) --group site --output-file tools/docs_site/constraints.txt
	$(RESOLVE) --group release --output-file tools/release/constraints.txt
	$(RESOLVE) --group services --output-file tests/services/constraints.txt

clean:  ## remove what can be made again
	rm -rf .venv build dist operator/topiarist.egg-info .hypothesis $(addprefix $(CACHE)/,$(CACHES)) \
		$(FUZZ)/packages $(FUZZ)/ready $(BROWSER) $(SITE) $(RELEASE) $(SERVICES) $(CACHE)/playwright

# The script knows by a key if there is anything to install, and leaves the file alone if there is not.
.venv/demo .venv/ready: need-python
	@"$(PYTHON)" tools/environment.py $(@F)

# Folders beside .venv, for what few commands need. They fit the Python of .venv.
FOLDER = $(BIN)/python tools/environment.py

# Not in .venv: it is not there for every system, and nothing else needs it.
$(FUZZ)/ready: tests/fuzz/constraints.txt .venv/ready
	@$(FOLDER) $(FUZZ) $< || { \
		echo "Fuzzing needs atheris, which could not be installed (see above): it is there for Linux on x86-64 and Python" \
			"3.11 to 3.13, this is $$($(BIN)/python --version); another: make PYTHON=python3.11 fuzz" >&2; \
		exit 1; }

# Not in .venv either: large, and for these tests only. The browser is not pinned: pages are for whatever people have.
$(BROWSER)/ready: tests/browser/constraints.txt .venv/ready
	@$(FOLDER) $(BROWSER) $<

# Not in .venv: it has its own versions of packages that topiarist uses too.
$(SITE)/ready: tools/docs_site/constraints.txt .venv/ready $(SITE)/mermaid.min.js
	@$(FOLDER) $(SITE) $<

$(SITE)/mermaid.min.js: tools/docs_site/mermaid.sh
	@mkdir -p $(SITE)
	@tools/docs_site/mermaid.sh $(SITE)/mermaid.min.js

# Not in .venv: only releases need them.
$(RELEASE)/ready: tools/release/constraints.txt .venv/ready
	@$(FOLDER) $(RELEASE) $<

# Not in .venv: programs of other brokers, for these tests only.
$(SERVICES)/ready: tests/services/constraints.txt .venv/ready
	@$(FOLDER) $(SERVICES) $<

need-python:
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "Python 3.11 or later is needed; '$(PYTHON)' is $$("$(PYTHON)" --version 2>/dev/null || echo not there):" \
			"install one and say which, as in: make PYTHON=python3.11" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "Python's venv module is needed and '$(PYTHON)' has none: apt install python3-venv" >&2; exit 1; }

need-java:
	@version=$$("$(JAVA)" -version 2>&1 | sed -n 's/.* version "\([0-9][0-9]*\).*/\1/p'); \
	test "$${version:-0}" -ge 17 || { \
		echo "Java 17 or later is needed; '$(JAVA)' is $${version:+version }$${version:-not there}: install one (Debian" \
			"and Ubuntu: apt install openjdk-17-jre-headless; macOS: brew install openjdk@17) or set JAVA_HOME" >&2; \
		exit 1; }
