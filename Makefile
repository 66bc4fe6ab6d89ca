# make serve                      start the server with SmolLM2, a small model that is fetched once
# make serve MODEL=path PORT=8080 … with another model, on another port; MODEL=storyteller is bundled
# make install GPU=cuda           … with llama.cpp built for cuda, vulkan, rocm or metal; none: for the CPU again
# make wheels                     all that is installed as wheels in dist/, for machines like this one
# make wheels PROCESSORS=all      … for all processors, old and new: four times the compiling
# make dist                       make a release's sdist and wheel of the newest commit, in dist/
# make try-llama VERSION=0.3.37   try the patches in native/ on another version of llama-cpp-python
# make test                       prove the product: all quick tests, and the main ways of servers and pages
# make test-all                   … and everything else that is not for the night
# make test-more                  … of that what a change touches, and others in turn (UNTIL: a time, in seconds)
# make test-night                 everything, with long cases and twenty times the random examples
# make test-peers                 suites that others wrote: LangChain's, llama-server's, the documents of OpenAI, Ollama, KoboldCpp
# make check-offline              for packagers: make test with PYTHON's packages, without network, npm and models
# make lint | bench               check and measure
# make test-cluster               install Ray, and run the tests that need it, except for the long ones
# make test-cluster-long          … the long ones alone
# make test-page-long             write a story of 40 rounds at the page, with screenshots in build/evening; the server
#                                 is started again after each fifth, and the seconds to the first words are printed
# make bench MODEL=smollm2        … with a model by its name (smollm2, gemma3, storyteller), also of the others
# make bench-tables               print the tables of docs/using/speed.md, of SmolLM2 and Gemma 3
# make bench-tree                 measure the prefix tree alone
# make bench-long                 measure long branches, long prompts and many prompts at once
# make bench-stutter              measure the gaps of a stream beside a long prompt, with step_ms and without
# make bench-busy                 measure beside a busy program, with adapted and fixed threads
# make bench-cluster              measure what a cluster costs, on this machine (Ray is installed)
# make bench-cluster-table        measure a cluster of slow fake engines by the choice of replicas, SRB's and its peers' (10 minutes)
# make bench-page                 measure the page in a browser
# make page-vendor                make the page's libraries again, from the packages in tools/page/package.json
# make real-models                fetch the models of tests/real: SmolLM2 and Gemma 3 270M, 350 MB
# make constraints                note the versions in .venv, with Ray, as those that .ci/run installs
# make model                      train the bundled model again, from nothing
# make clean                      remove .venv and what tools left behind

PYTHON ?= python3
MODEL ?=
PORT ?=

BIN := .venv/bin
# Only what is loaded: native/llama.cmake leaves out the rest. Options from the environment come last, so that they win:
# -DLLAVA_BUILD=OFF leaves out the library of pictures and sounds, a quarter of the compiling. RPC is two files.
LLAMA := -DLLAVA_BUILD=ON -DGGML_RPC=ON -DCMAKE_PROJECT_llama_cpp_INCLUDE='$(CURDIR)/native/llama.cmake'

# A plugin for each kind of processor, of which the engine loads the one that fits. They lie beside the libraries, which they
# find by $ORIGIN.
ifeq ($(PROCESSORS),all)
ifeq ($(shell uname -m),aarch64)
ifneq ($(shell $(CXX) -march=armv9.2-a+sme -E -x c++ /dev/null >/dev/null 2>&1 && echo yes),yes)
$(error PROCESSORS=all needs on ARM a compiler that knows SME, such as GCC 14 (Debian 13); for all ARM processors from \
	2018 on: make wheels CMAKE_ARGS='-DGGML_NATIVE=OFF -DGGML_CPU_ARM_ARCH=armv8.2-a+dotprod')
endif
endif
override CMAKE_ARGS := -DGGML_NATIVE=OFF -DGGML_BACKEND_DL=ON -DGGML_CPU_ALL_VARIANTS=ON \
	-DCMAKE_INSTALL_BINDIR=llama_cpp/lib '-DCMAKE_INSTALL_RPATH=$$ORIGIN' $(CMAKE_ARGS)
else ifneq ($(PROCESSORS),)
$(error PROCESSORS=$(PROCESSORS) is not known; say all, or leave it out)
endif

# The stamp has the GPU and the CMAKE_ARGS for which llama.cpp was built. Others build it anew; without both, the build that is
# there stays. GPU=none builds it for the CPU again.
STAMP := .venv/.installed
BUILT_GPU := $(shell sed -n 1p $(STAMP) 2>/dev/null)
BUILT_ARGS := $(shell sed -n 2p $(STAMP) 2>/dev/null)
ifeq ($(GPU)$(CMAKE_ARGS),)
override GPU := $(BUILT_GPU)
override CMAKE_ARGS := $(BUILT_ARGS)
else ifneq ($(GPU:none=) $(strip $(CMAKE_ARGS)),$(BUILT_GPU) $(BUILT_ARGS))
.PHONY: $(STAMP)
endif

ifeq ($(GPU),cuda)
LLAMA += -DGGML_CUDA=on
else ifeq ($(GPU),vulkan)
LLAMA += -DGGML_VULKAN=on
else ifeq ($(GPU),rocm)
LLAMA += -DGGML_HIP=on
else ifeq ($(GPU),metal)
LLAMA += -DGGML_METAL=on
else ifneq ($(GPU:none=),)
$(error GPU=$(GPU) is not known; say cuda, vulkan, rocm, metal or none)
endif
GIVEN_ARGS := $(strip $(CMAKE_ARGS))
override CMAKE_ARGS := $(LLAMA) $(GIVEN_ARGS)
export CMAKE_ARGS GIVEN_ARGS

.PHONY: help install wheels dist check-offline dev constraints node agents page page-vendor real-models serve test test-all test-more test-night test-peers test-cluster test-cluster-long test-page-long ray lint lint-page format-page bench bench-steering bench-page bench-busy bench-stutter bench-cluster bench-cluster-table bench-tables bench-tree bench-long model cmake-args try-llama clean

help:
	@sed -n 's/^# //p;/^$$/q' Makefile

install: $(STAMP)
dev: .venv/.installed-dev build/chat-templates/.fetched build/json-schema-suite/.fetched

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("SRB needs Python 3.11 or newer, and $(PYTHON) is %d.%d: make install PYTHON=python3.12" % sys.version_info[:2])'
	@$(PYTHON) -m venv .venv

# A change of the dependencies, or of what llama.cpp is built by, makes pip look again.
$(STAMP): setup.cfg pyproject.toml $(wildcard native/*.* native/patches/*) | $(BIN)/python
	@echo 'Installing into .venv. llama.cpp is compiled, which takes some minutes, unless pip has kept it from an earlier time.'
	@$(BIN)/python -m tools.install llama-cpp-python --verbose --no-deps $(shell grep -o 'llama-cpp-python==.*' setup.cfg)
	@$(BIN)/python -m tools.install SRB -e .
	@printf '%s\n' '$(GPU:none=)' "$$GIVEN_ARGS" >$@

# For machines without a compiler: llama-srb-native with the llama.cpp of .venv, SRB, and all that they need.
wheels: .venv/.installed-wheels
	@$(BIN)/python -m tools.native_wheel
	@rm -f dist/llama_srb-*.whl
	@$(BIN)/pip wheel --quiet --find-links dist --wheel-dir dist '.$(if $(EXTRAS),[$(EXTRAS)])'
	@echo 'pip install --no-index --find-links dist llama-srb installs them.'

.venv/.installed-wheels: $(STAMP)
	@$(BIN)/python -m tools.install 'SRB for making wheels' -e '.[wheels]'
	@touch $@

dist: dev  # the sdist and the wheel of the newest commit, the same bytes whoever makes them
	@$(BIN)/python -m tools.dist

.venv/.installed-dev: $(STAMP)
	@$(BIN)/python -m tools.install 'SRB for development' -e '.[dev]'
	@touch $@

# The templates of real models, of which the tests know that they are read back; without a network those are skipped.
build/chat-templates/.fetched: setup.cfg tools/chat_templates.py | .venv/.installed-dev
	@$(BIN)/python -m tools.chat_templates && touch $@ || test -z "$$CI"

# What schemas mean, of which the tests know that grammars hold it; without a network those tests are skipped.
build/json-schema-suite/.fetched: tools/json_schema_suite.py | .venv/.installed-dev
	@$(BIN)/python -m tools.json_schema_suite && touch $@ || test -z "$$CI"

constraints: dev ray
	@sed -n 1p constraints.txt >build/constraints.txt
	@$(BIN)/pip freeze --exclude-editable >>build/constraints.txt
	@mv build/constraints.txt constraints.txt

# Real models, of which the tests know that SRB writes what llama.cpp writes; without a network those are skipped.
real-models: build/real-models/.fetched
build/real-models/.fetched: tools/real_models.py srb/config/named_models.py | .venv/.installed-dev
	@$(BIN)/python -m tools.real_models && touch $@ || test -z "$$CI"

serve: install
	@exec $(BIN)/srb serve $(if $(MODEL),--model '$(MODEL)') $(if $(PORT),--port '$(PORT)')

# tests/README.md says which of these shows what, and how long each takes.
RUNNER = $(BIN)/python -m tests.runner
test: dev node page real-models
	$(RUNNER) main $(if $(UNTIL),--until $(UNTIL))

# Nothing is installed or fetched. Pytest ends with the tests that were skipped, and what they need.
check-offline:
	@env -u CI $(PYTHON) -m tests.runner main $(if $(UNTIL),--until $(UNTIL))

test-all: dev node page agents real-models
	$(RUNNER) all

test-more: ray node page agents real-models
	$(RUNNER) more $(if $(UNTIL),--until $(UNTIL))

test-night: dev node page agents real-models
	$(RUNNER) night

test-peers: dev real-models  # SUITE=langchain runs one; DESCRIPTIONS=FOLDER has clones with the documents
	PEER_DESCRIPTIONS='$(abspath $(DESCRIPTIONS))' $(BIN)/python -m tests.peers $(SUITE)

test-cluster: ray
	$(BIN)/pytest tests/cluster -m 'not long'

test-cluster-long: ray
	$(BIN)/pytest tests/cluster -m long

test-page-long: dev real-models
	@mkdir -p build/evening
	EVENING_SHOTS=build/evening EVENING_REOPEN_EVERY=5 $(BIN)/pytest tests/real/test_evening.py -m long
	@echo "seconds to the first words after each start of the server: $$(cat build/evening/first-words.txt)"

ray: .venv/.installed-ray
.venv/.installed-ray: .venv/.installed-dev
	@$(BIN)/python -m tools.install 'SRB with Ray' -e '.[cluster]'
	@touch $@

# OpenAI's package for Node, for the tests that use it; where npm is not installed they are skipped.
node: build/node/.installed
build/node/.installed: tests/e2e/node/package.json
	@mkdir -p build/node && cp $< build/node/
	@if command -v npm >/dev/null; then npm install --prefix build/node --silent --no-audit --no-fund --no-package-lock && touch $@; fi

# Claude Code and Codex (660 MB), for the tests that run them, which are skipped without.
agents: build/agents/.installed
build/agents/.installed: tests/real/agents.json
	@mkdir -p build/agents && cp $< build/agents/package.json
	@if command -v npm >/dev/null; then \
	    if npm install --prefix build/agents --silent --no-audit --no-fund --no-package-lock; then touch $@; \
	    else echo 'Claude Code and Codex could not be installed; their tests are skipped.'; fi; fi

# Compilers and checkers of the page, for who changes it; where npm is not installed they are left out.
page: build/page/.installed
build/page/.installed: tools/page/package.json tools/page/package-lock.json
	@mkdir -p build/page && cp $^ build/page/
	@if command -v npm >/dev/null; then npm install --prefix build/page --silent --no-audit --no-fund --ignore-scripts && touch $@; fi

page-vendor: page  # make srb/page/vendor again, byte for byte
	node tools/page/build.mjs build/page srb/page/vendor

lint: dev lint-page
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest tests/lint -q -p no:xdist

JAVASCRIPT := bench/page srb/page srb/web/static tests/page/unit tools/page
BIOME := build/page/node_modules/.bin/biome check --config-path=tools/page/lint.json

lint-page: page
	@if test -e build/page/.installed; then \
	    $(BIOME) $(JAVASCRIPT) && build/page/node_modules/.bin/tsc -p tools/page; \
	else \
	    echo 'npm is not installed: the page is not checked'; test -z "$$CI"; \
	fi

format-page: page  # put the page's modules and styles into the form that make lint asks for
	$(BIOME) --write $(JAVASCRIPT)

bench: dev  # PEER=http://… measures a llama-server beside it
	$(BIN)/python -m bench $(if $(MODEL),--model $(MODEL)) $(if $(PEER),--peer $(PEER))

bench-steering: dev  # costs of the fields that steer branches; PEER=http://… times explore beside a llama-server
	$(BIN)/python -m bench.steering $(if $(PEER),--peer $(PEER)) $(if $(MODEL),--model $(MODEL))

bench-busy: dev  # adapted and fixed threads, beside a program that keeps a core busy; PEER=http://… a llama-server too
	$(BIN)/python -m bench.busy $(if $(PEER),--peer $(PEER)) $(if $(MODEL),--model $(MODEL))

bench-stutter: dev  # gaps of a writer's stream beside a long prompt; PEER=http://… for a llama-server
	$(BIN)/python -m bench.stutter $(if $(MODEL),--model $(MODEL)) $(if $(PEER),--peer $(PEER))

bench-cluster: ray  # first token, step and rate of replicas beside an engine of its own, tokens through a bridge
	$(BIN)/python -m bench.cluster $(if $(MODEL),--model $(MODEL)) $(if $(ONLY),--only $(ONLY))

bench-cluster-table: dev  # tokens a second and first tokens by SRB's rule and its peers', over eight fake engines
	$(BIN)/python -m bench.cluster_table

bench-page: dev  # costs of the page in a browser: sizes, 64 branches that grow, typing, the way to the first word
	$(BIN)/python -m bench.page

bench-tables: dev real-models  # TABLES='speed where'; LLAMA_SERVER=… and IK=… (its llama-batched-bench) for the ratios beside them
	$(BIN)/python -m bench.tables $(TABLES) $(if $(LLAMA_SERVER),--llama-server $(LLAMA_SERVER)) $(if $(IK),--ik $(IK))

bench-tree: dev  # costs of the prefix tree beside 100,000 nodes, after 10,000 turns, with 500,000 tokens
	$(BIN)/python -m bench.tree

bench-long: dev  # long siblings, known prompts of 100,000 tokens, a prompt beside branches; PEER=http://… for a llama-server
	$(BIN)/python -m bench.long $(if $(MODEL),--model $(MODEL)) $(if $(PEER),--peer $(PEER))

model: install
	$(BIN)/python -m tools.storyteller

cmake-args:  # what llama.cpp is built with
	@printf '%s\n' "$$CMAKE_ARGS"

try-llama:  # TRY='--build --tests' goes further
	@$(PYTHON) -m tools.try_llama $(VERSION) $(TRY)

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
