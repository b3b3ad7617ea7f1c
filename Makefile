# `make up` and `make test` install all that they need. CC=/bin/false runs everything uncompiled.
PYTHON ?= python3
BIN := .venv/bin
KAFKA_VERSION := 4.3.1
KILLS ?= 200
RUNS ?= 100
FROM ?= 0
KAFKA_JARS := .cache/kafka-$(KAFKA_VERSION)
# Spark's own connector, the base of our comparisons: the newest version for our Spark.
CONNECTOR_VERSION := 4.2.0
SPARK_CONNECTOR_JARS := .cache/spark-kafka-$(CONNECTOR_VERSION)
# The name of the stamp contains the compiler, so that compiled and uncompiled set-ups differ. A
# broker needs less than the tests and does not wait for Spark.
READY := .venv/.ready-dev-$(subst /,_,$(CC))
UP_READY := .venv/.ready-up-$(subst /,_,$(CC))
SPARK_READY := .venv/.ready-spark
MADE_FROM := pyproject.toml constraints.txt setup.py tools/setup.py $(wildcard src/ottla/native/*.py)
export KAFKA_JARS SPARK_CONNECTOR_JARS
export PYTHONHASHSEED := 0
# Without bytecode on disk every process would compile all of its modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup up cluster test chaos check unit slow interpreted bench bench-cluster bench-full soak docs clean format

setup: $(READY)

$(READY): $(MADE_FROM)
	@$(PYTHON) tools/setup.py dev
	@touch $@

$(UP_READY): $(MADE_FROM)
	@$(PYTHON) tools/setup.py up
	@touch $@

# Only Spark needs Java; everything else works without it.
up: $(UP_READY)
	@[ -e $(SPARK_READY) ] || $(PYTHON) tools/setup.py spark-background
	@$(BIN)/ottla up

# A cluster needs Java and the jars of ZooKeeper, which Spark brings: here it waits for both.
cluster: $(UP_READY)
	@[ -e $(SPARK_READY) ] || $(PYTHON) tools/setup.py spark
	@$(BIN)/ottla up --brokers 3 --data ottla-cluster

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/gaps.py --check
	$(BIN)/python tools/settings_page.py --check
	$(BIN)/python tools/cli_page.py --check
	$(BIN)/python tools/spark_options_page.py --check
	$(BIN)/python tools/groups_page.py --check
	$(BIN)/python tools/transactions_page.py --check
	$(BIN)/python tools/module_index.py --check
	$(BIN)/pytest -n 2 tests/unit tests/property

# Faults on real processes: network namespaces, packet filters, mounts, a preloaded clock. As root.
CHAOS_NEEDS := tools/need ip iproute2 && tools/need nft nftables && tools/need nsenter util-linux \
	&& tools/need cc gcc

# Each part prints its minutes at the end, beside its budget. Set-up and downloads do not count.
TIMED := $(PYTHON) tools/timed.py
test: setup $(KAFKA_JARS)/.done $(SPARK_CONNECTOR_JARS)/.done
	@tools/need kcat kcat
	@$(CHAOS_NEEDS)
	@rm -f .cache/test-times.jsonl
	@$(TIMED) run check 4 $(MAKE) --no-print-directory check
	@$(TIMED) run "forged batches" 1 env OTTLA_FORGERIES=350 $(BIN)/pytest -n 2 tests/property/test_forged_batches.py
	@$(TIMED) run model 2 $(BIN)/pytest -s tests/model
	@$(TIMED) run simulation 11 $(BIN)/pytest -n 2 tests/sim
	@$(TIMED) run "clients and tools" 7 $(BIN)/pytest -n 2 tests/compat
	@$(TIMED) run cluster 4 $(BIN)/pytest -n 2 --dist loadfile tests/cluster --ignore tests/cluster/chaos
	@$(TIMED) run chaos 5 $(BIN)/pytest -n 2 --dist loadgroup tests/cluster/chaos
	@$(TIMED) run Spark 15 $(BIN)/pytest -n 2 --dist loadfile tests/spark
	@$(TIMED) run interpreted 3 tools/interpreted tests/unit tests/property
	@$(TIMED) report

$(KAFKA_JARS)/.done: tools/kafka-jars
	@tools/kafka-jars $(KAFKA_VERSION) $(KAFKA_JARS)

$(SPARK_CONNECTOR_JARS)/.done: tools/spark-jars
	@tools/spark-jars $(CONNECTOR_VERSION) $(SPARK_CONNECTOR_JARS)

# Compares with Apache Kafka: a short set of rows in about 16 minutes, or all rows at full length.
bench: setup $(SPARK_CONNECTOR_JARS)/.done
	$(BIN)/python -m benchmarks

# The rows of three brokers only; `--full` adds the long ones.
bench-cluster: setup
	$(BIN)/python -m benchmarks --rows '^cluster'

bench-full: setup $(SPARK_CONNECTOR_JARS)/.done
	$(BIN)/python -m benchmarks --full

# Longer runs: more simulation seeds, also for planted bugs, more fuzz, more kills. FROM=5000 continues with that seed.
soak: setup $(KAFKA_JARS)/.done $(SPARK_CONNECTOR_JARS)/.done
	@$(CHAOS_NEEDS)
	OTTLA_FORGERIES=20000 HYPOTHESIS_PROFILE=soak $(BIN)/pytest -n 2 tests/property/test_forged_batches.py --timeout 7200
	MODEL_DEPTH=8 $(BIN)/pytest -s tests/model --timeout 7200
	OTTLA_SEEDS=20000 OTTLA_SEEDS_FROM=$(FROM) OTTLA_MUTANT_SEEDS=200 HYPOTHESIS_PROFILE=soak $(BIN)/pytest -n 2 tests/property tests/sim --timeout 7200
	KILLS=$(KILLS) $(BIN)/pytest tests/compat/test_broker_kill.py --timeout 7200
	COPIED=100000 $(BIN)/pytest -n 2 tests/compat/test_transaction_clients.py --timeout 7200
	COUNTED=100000 $(BIN)/pytest tests/compat/test_transaction_streams.py --timeout 7200
	KILLS=30 $(BIN)/pytest tests/spark/test_pipeline_kill.py --timeout 7200
	DOUBLE_KILLS=20 $(BIN)/pytest -s tests/cluster/chaos/test_controller_and_leader.py

# Faults on a cluster of real processes, one run for each seed. FROM=30 continues with that seed.
chaos: setup
	@$(CHAOS_NEEDS)
	$(BIN)/python -m tests.cluster.chaos --runs $(RUNS) --from $(FROM)

docs: setup
	$(BIN)/python tools/gaps.py
	$(BIN)/python tools/settings_page.py
	$(BIN)/python tools/cli_page.py
	$(BIN)/python tools/spark_options_page.py
	$(BIN)/python tools/groups_page.py
	$(BIN)/python tools/transactions_page.py
	$(BIN)/python tools/module_index.py

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv .venv-interpreted .cache build dist src/*.egg-info src/ottla/native/*.so
	rm -rf .mypy_cache .ruff_cache .import_linter_cache .hypothesis
