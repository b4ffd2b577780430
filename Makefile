# Every target first installs what it needs (packages with apt, crates with cargo) and skips what is installed. It requires only git and
# Rust from rustup.

SHELL   := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
export PATH := $(PATH):$(HOME)/.cargo/bin

target := $(or $(CARGO_TARGET_DIR),target)
corun  := $(target)/release/corun
PREFIX ?= /usr/local

# For compiling and linking: the BPF programs need clang, and libbpf needs the others.
build_packages := gcc libc6-dev make pkg-config clang libelf-dev zlib1g-dev
demo_packages  := $(build_packages) x264 pigz redis-server redis-tools
test_packages  := $(build_packages) shellcheck
bench_packages := $(build_packages) linux-perf
study_packages := x264 pigz squashfs-tools zstd stockfish make gcc libgomp1
control_packages := $(study_packages) gromacs gromacs-data hpcc lammps openmpi-bin python3-venv redis-server redis-tools

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## install what build, demo, test and bench need
	@scripts/need $(sort $(build_packages) $(demo_packages) $(test_packages) $(bench_packages))
	@scripts/need-rust rustfmt clippy
	@scripts/need-deny

.PHONY: build
build: ## compile corun
	@scripts/need $(build_packages)
	@scripts/build $(corun)

.PHONY: demo
demo: build ## run real programs next to an interferer: who slows them down, by how much and why
	@scripts/need $(demo_packages)
	@demo/run.sh

.PHONY: test
test: ## run every check and test, before a change goes in
	@scripts/need $(test_packages)
	@scripts/need-rust rustfmt clippy
	@scripts/test

.PHONY: check
check: ## formatting, shell scripts, clippy, rustdoc and the rules of the tree: two minutes, before every commit
	@scripts/need $(test_packages)
	@scripts/need-rust rustfmt clippy
	@scripts/lint
	@cargo test --workspace --locked --quiet --test tidy

.PHONY: test-guest
test-guest: ## the tests that need a kernel with sched_ext, on two of Debian's in a virtual machine
	@scripts/need $(build_packages)
	@scripts/need-rust
	@scripts/test-guest

.PHONY: test-races
test-races: ## look for data races: every order of a few steps (loom), whole runs under ThreadSanitizer
	@scripts/need $(build_packages)
	@scripts/need-rust
	@scripts/test-races

.PHONY: fuzz
fuzz: ## mutated files for every parser, by seed (INPUTS=100000000, SEED=2)
	@scripts/need $(build_packages)
	@scripts/need-rust
	@FUZZ_INPUTS=$(or $(INPUTS),1000000) FUZZ_SEED=$(or $(SEED),1) \
		cargo test --release --locked -p corun --test fuzz -- --nocapture no_input

.PHONY: soak
soak: ## the sched_ext scheduler while tenants come and go, in a virtual machine (LENGTH=7200: two hours of its clock)
	@scripts/need $(build_packages)
	@scripts/need-rust
	@scripts/soak $(LENGTH)

.PHONY: chaos
chaos: ## quotas, stops, freezers, cgroups and daemons by chance while corun watches and controls, as root (SECONDS=600 SEED=31)
	@scripts/need $(build_packages)
	@scripts/need-rust
	@CHAOS_SECONDS=$(or $(SECONDS),600) CHAOS_SEED=$(or $(SEED),31) \
		cargo test --locked --package corun --test control_kills chaos -- --nocapture

.PHONY: bench
bench: build ## measure what watching costs, next to other tools, as root
	@scripts/need $(bench_packages)
	@! command -v cargo >/dev/null || cargo build --quiet --release -p corun-bpf --example floor
	@bench/run.sh

.PHONY: bench-agents
bench-agents: build ## measure what the agent costs, next to perf sched record and Rezolus's (REZOLUS, REZOLUS_CONFIG), as root
	@scripts/need $(bench_packages) python3
	@mkdir -p out && CORUN=$(corun) bench/agents.py run --out out/agents.jsonl

.PHONY: bench-verify
bench-verify: build ## measure how often `corun verify` is right, as root; pieces add up (KIND=runs, gate, labels or overhead, SECONDS=90)
	@scripts/need gcc hyperfine python3
	@mkdir -p out && CORUN=$(corun) bench/verify.py $(or $(KIND),gate) --for $(or $(SECONDS),90) --out out/verify.jsonl

.PHONY: validate
validate: build ## compare the modelled machine with this one (some 25 minutes; QUICK=1: two)
	$(corun) validate $(if $(QUICK),--quick) --out out/validate

.PHONY: study-predict
study-predict: build ## measure how good predictions in the first third of a run are (some 50 minutes)
	@scripts/need $(build_packages) $(study_packages)
	$(corun) study predict --out out/study-predict

.PHONY: study-vms
study-vms: build ## run real virtual machines next to each other, as root (some ten minutes; pieces add up: KIND=moves, pairs or lock)
	@scripts/need gcc libc6-dev python3 qemu-system-x86
	@mkdir -p out
	@for kind in $(or $(KIND),pairs lock moves pairs lock); do CORUN=$(corun) bench/vms.py $$kind --out out/vms.jsonl || exit 1; done
	@CORUN=$(corun) bench/vms.py record out/vms.jsonl --out out/study-vms

.PHONY: study-control
study-control: build ## measure what `corun control` gains on this machine, as root (some 90 minutes; QUICK=1: three)
	@scripts/need $(build_packages) $(control_packages)
	$(corun) study control $(if $(QUICK),--quick) --out out/study-control

.PHONY: study-control-guest
study-control-guest: build ## measure what it gains with sched_ext, in the test guest (some 25 minutes of a quiet machine; QUICK=1: four)
	@scripts/study-control-guest $(corun) out/study-control-guest $(if $(QUICK),1)

.PHONY: man
man: build ## write the man pages into out/man
	$(corun) generate man out/man

.PHONY: completions
completions: build ## write completions for bash, zsh and fish into out/completions
	$(corun) generate completions out/completions

.PHONY: package
package: build ## make packages for Debian and RPM, into out/package (DEBEMAIL says who makes them)
	@scripts/need dpkg-dev binutils rpm
	@scripts/package deb $(corun) out/package
	@scripts/package rpm $(corun) out/package

.PHONY: wheel
wheel: build ## make a wheel of the Python package, with libcorun inside, into out/wheel
	@scripts/need python3-pip
	@scripts/wheel $(dir $(corun))libcorun.so out/wheel

.PHONY: install
install: ## install what `make build` made, with man pages and completions, below PREFIX (/usr/local: as root)
	@DESTDIR=$(DESTDIR) scripts/install $(corun) $(DESTDIR)$(PREFIX)

.PHONY: uninstall
uninstall: ## remove what `make install` installed
	@scripts/install --remove $(DESTDIR)$(PREFIX)

.PHONY: clean
clean: ## remove what was built and measured here
	cargo clean
	rm -rf out
