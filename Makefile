# The one runner: a verb does all that it needs, says what it installs, and prints what it runs.
# On a machine that is not Debian: install what `need` names by hand, then the verbs work as they are.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help run build static image image-amd64 image-arm64 install cluster helm test lint bench profile scale fuzz sim setup need-build need-lint need-test need-bench

CARGO ?= cargo
TARGET := $(if $(CARGO_TARGET_DIR),$(CARGO_TARGET_DIR),target)
HOST = $$(rustc -vV | sed -n 's/^host: //p')
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)

# $(call need,PROGRAM=PACKAGE[,PACKAGE] ...): installs the packages of programs that are missing; a PROGRAM that starts with a
# slash is any file. A service that comes with a package is not started: it would take the ports that are tested.
define need
@missing=(); \
for pair in $(1); do \
    what="$${pair%%=*}"; \
    [[ $$what == /* && -e $$what ]] || PATH="$$PATH:/usr/sbin:/sbin" command -v "$$what" >/dev/null 2>&1 || \
        { pair="$${pair#*=}"; missing+=($${pair//,/ }); }; \
done; \
if [ "$${#missing[@]}" -gt 0 ]; then \
    command -v apt-get >/dev/null || { echo "please install: $${missing[*]}" >&2; exit 1; }; \
    echo "installing $${missing[*]}"; \
    if [ ! -e /usr/sbin/policy-rc.d ]; then \
        printf '#!/bin/sh\nexit 101\n' | $(SUDO) tee /usr/sbin/policy-rc.d >/dev/null; \
        $(SUDO) chmod 755 /usr/sbin/policy-rc.d; \
        trap '$(SUDO) rm -f /usr/sbin/policy-rc.d' EXIT; \
    fi; \
    $(SUDO) apt-get update -q; \
    $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$${missing[@]}"; \
fi
endef

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /make \1\t/p' $(MAKEFILE_LIST) | expand -t 14

# What etcd's messages import. Debian's protoc comes without it where recommended packages are left out.
PROTOS := $(dir $(realpath $(or $(shell command -v protoc),/usr/bin/env)))../include/google/protobuf/descriptor.proto
need-build:
	$(call need,cc=build-essential protoc=protobuf-compiler $(PROTOS)=libprotobuf-dev)
	@command -v $(CARGO) >/dev/null || { echo 'please install Rust: https://rustup.rs' >&2; exit 1; }

need-lint: need-build
	$(call need,shellcheck=shellcheck)

need-test: need-build
	$(call need,etcd=etcd-server etcdctl=etcd-client dig=bind9-dnsutils dnsperf=dnsperf valgrind=valgrind \
	    buildah=buildah setcap=libcap2-bin update-ca-certificates=ca-certificates knotd=knot dnsdist=dnsdist unbound=unbound)

need-bench: need-test
	$(call need,nsd=nsd gdnsd=gdnsd dnsmasq=dnsmasq-base taskset=util-linux)

# How often each branch of the packet path is taken, counted under load: the compiler lays out what is often needed together.
# `make profile` renews it; an old one costs speed and nothing else. Flags in RUSTFLAGS cannot hold a path with a space.
PROFILE := packaging/nodens.profdata
PROFILED := $(RUSTFLAGS)$(if $(word 2,$(CURDIR)),, -C profile-use=$(CURDIR)/$(PROFILE) -C llvm-args=-no-pgo-warn-mismatch)
RELEASE := RUSTFLAGS='$(PROFILED)' $(CARGO) build --release

build: need-build ## the release binary
	$(RELEASE) -p nodens

# Another target that rustup has: make static STATIC_TARGET=x86_64-unknown-linux-musl, or aarch64-unknown-linux-gnu. It needs a C
# compiler and a linker for it: CC_TARGET and CARGO_TARGET_..._LINKER name them (docs/install.md).
STATIC_TARGET ?= x86_64-unknown-linux-gnu
STATIC := $(TARGET)/static/nodens
static: need-build ## the release binary without shared libraries, as target/static/nodens
	@rustup target list --installed 2>/dev/null | grep -qx $(STATIC_TARGET) || ! command -v rustup >/dev/null || rustup target add $(STATIC_TARGET)
	RUSTFLAGS='$(PROFILED) -C target-feature=+crt-static' $(CARGO) build --release --target $(STATIC_TARGET) -p nodens
	install -D $(TARGET)/$(STATIC_TARGET)/release/nodens $(STATIC)
	packaging/check-static $(STATIC)

# arm64 too where rustup has its target: rustup target add aarch64-unknown-linux-gnu
ARCHS ?= amd64$(if $(filter aarch64-unknown-linux-gnu,$(shell rustup target list --installed 2>/dev/null)), arm64)
IMAGE ?= localhost/nodens:$(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
image: $(ARCHS:%=image-%) ## IMAGE=name:tag ARCHS="amd64 arm64": target/image/nodens-ARCH.tar, from no other image, with buildah or docker

image-amd64: MACHINE := x86_64
image-arm64: MACHINE := aarch64
COMMA := ,
CROSS_GCC = $(if $(filter-out $(shell uname -m),$(MACHINE)),$(MACHINE)-linux-gnu-gcc)
CROSS = $(if $(CROSS_GCC),CC_$(MACHINE)_unknown_linux_gnu=$(CROSS_GCC) \
    CARGO_TARGET_$(shell echo $(MACHINE) | tr a-z A-Z)_UNKNOWN_LINUX_GNU_LINKER=$(CROSS_GCC))
image-amd64 image-arm64: image-%: need-build
	@$(call need,setcap=libcap2-bin update-ca-certificates=ca-certificates $$(deploy/image/build needs) \
	    $(if $(CROSS_GCC),$(CROSS_GCC)=gcc-$(subst _,-,$(MACHINE))-linux-gnu$(COMMA)libc6-dev-$*-cross))
	$(CROSS) $(MAKE) static STATIC_TARGET=$(MACHINE)-unknown-linux-gnu STATIC=$(TARGET)/static/nodens-$*
	deploy/image/build $(TARGET)/static/nodens-$* $* $(IMAGE) $(TARGET)/image/nodens-$*.tar

PREFIX ?= /usr/local
DESTDIR ?=
BIN ?= $(TARGET)/release/nodens
install: $(BIN) ## PREFIX=/usr/local: binary, man page, completions, unit of systemd; BIN=target/static/nodens for that one
	install -D $(BIN) $(DESTDIR)$(PREFIX)/bin/nodens
	install -d $(addprefix $(DESTDIR)$(PREFIX)/,share/man/man8 share/bash-completion/completions share/zsh/site-functions \
	    share/fish/vendor_completions.d lib/systemd/system)
	$(BIN) man > $(DESTDIR)$(PREFIX)/share/man/man8/nodens.8
	$(BIN) completions bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/nodens
	$(BIN) completions zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_nodens
	$(BIN) completions fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/nodens.fish
	sed 's|/usr/local|$(PREFIX)|' packaging/nodens.service > $(DESTDIR)$(PREFIX)/lib/systemd/system/nodens.service

$(TARGET)/release/nodens:
	$(MAKE) build

$(STATIC):
	$(MAKE) static

run: build ## serves examples/Corefile on 127.0.0.1:1053; ctrl-C ends it
	@echo
	@echo 'Try, in another terminal:'
	@echo '  dig @127.0.0.1 -p 1053 www.cedar.example              # from a zone file'
	@echo '  dig @127.0.0.1 -p 1053 printer.home.example           # from the hosts block'
	@echo '  dig @127.0.0.1 -p 1053 web.oak.example SRV            # from etcd, as soon as there is one (port 2379):'
	@echo "      etcdctl put /skydns/example/oak/web/1 '{\"host\":\"192.0.2.10\",\"port\":80}'"
	@echo
	@cd examples && exec "$$(cd .. && realpath $(TARGET))/release/nodens" -conf Corefile

cluster: need-build ## kube-apiserver and kubectl for the tests, built once into the user's cache
	$(call need,$(shell tests/cluster/build needs))
	tests/cluster/build

# The second Go is the one that `make cluster` brings where there is none, or an old one.
helm: cluster ## helm for the tests of the chart, built once into Go's cache
	@command -v helm >/dev/null || { \
	    echo 'building helm, unless it is built: about 2 minutes on two cores'; \
	    GOTOOLCHAIN=local go -C tests/helm tool helm version || ~/.cache/nodens/go-1.26/go/bin/go -C tests/helm tool helm version; }

# Instructions are counted in code that knows no counts of branches, so that an old profile hides nothing.
test: need-test helm ## everything that must hold
	$(CARGO) build --release -p nodens -p nodens-benches --bins
	NODENS_BIN="$$(realpath $(TARGET))/release/nodens" NODENS_HANDLER="$$(realpath $(TARGET))/release/handler" \
	    $(CARGO) test --workspace
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps

lint: need-lint ## form and lints, warnings denied
	shellcheck .ci/run deploy/install.sh deploy/image/build packaging/check-static
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

ROUNDS ?= 5
SECS ?= 3
BENCH_ARGS ?=
bench: need-bench ## against an echo, a relay and six other servers; ROUNDS=1 SECS=1 for a quick look, BENCH_ARGS=--help for more
	$(RELEASE) -p nodens -p nodens-benches --bins
	"$$(realpath $(TARGET))/release/versus" --rounds $(ROUNDS) --secs $(SECS) $(BENCH_ARGS)

# A second of each load that `make bench` measures, on a binary that counts.
COUNTED := $(abspath $(TARGET))/profile
profile: need-bench ## renews packaging/nodens.profdata, by which release builds are laid out: about 15 minutes on two cores
	rustup component add llvm-tools
	RUSTFLAGS='-C profile-generate=$(COUNTED)/counts' $(CARGO) build --release --target-dir $(COUNTED) -p nodens -p nodens-benches --bins
	rm -rf $(COUNTED)/counts
	$(COUNTED)/release/versus --rounds 1 --secs 1 --no-record --servers nodens-uring,nodens-mmsg,nodens-etcd \
	    --rates 20000,0 --hit-rates 20000,0 --cluster-rates 20000,0
	"$$(rustc --print sysroot)/lib/rustlib/$(HOST)/bin/llvm-profdata" merge --sparse \
	    --function='nodens_engine|nodens_wire' -o $(PROFILE) $(COUNTED)/counts

SCALE_ARGS ?= made-up
scale: need-test cluster ## a cluster of 10,000 Services: memory, changes, lists; SCALE_ARGS=real for one in the API server of the tests
	$(RELEASE) -p nodens -p nodens-benches --bins
	NODENS_BIN="$$(realpath $(TARGET))/release/nodens" "$$(realpath $(TARGET))/release/scale" $(SCALE_ARGS)

FUZZ ?= message name respond reply zonefile corefile expression
# What cargo-fuzz passes, but for the address sanitizer, which alone needs a nightly compiler.
FUZZ_FLAGS := --cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions -Ccodegen-units=1
fuzz: need-build ## FUZZ="message name" SECS=60: each target for so long, from its corpus
	@$(call need,c++=g++)
	mkdir -p fuzz/artifacts $(FUZZ:%=$(TARGET)/fuzz/corpus/%)
	for target in $(FUZZ); do \
	    RUSTFLAGS='$(FUZZ_FLAGS)' $(CARGO) run --release --target "$(HOST)" --target-dir $(TARGET)/fuzz \
	        -p nodens-fuzz --bin "$$target" -- -max_total_time=$(SECS) -artifact_prefix=fuzz/artifacts/ \
	        $(TARGET)/fuzz/corpus/"$$target" fuzz/corpus/"$$target"; \
	done

sim: need-build ## SEED=N: the simulation from that seed, else from many
	$(if $(SEED),SEED=$(SEED)) $(CARGO) test -p nodens-tests --test it sim -- --nocapture

setup: need-test need-bench ## all packages, and a git hook that checks form before each commit
	printf '#!/bin/sh\ncargo fmt --all --check && exec cargo test -q -p nodens-tests --test it tidy\n' > .git/hooks/pre-commit
	chmod 755 .git/hooks/pre-commit
