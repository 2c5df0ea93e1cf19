# Short words for what is done often; each line below is what it says and no more.
# CARGO_TARGET_DIR and CARGO are respected if they are set.

CARGO ?= cargo
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)

# Where 'make install' puts things; DESTDIR comes before all of it. mount(8) looks for its helpers
# in /sbin only.
PREFIX ?= /usr/local
SBINDIR ?= /sbin
SHARE = $(DESTDIR)$(PREFIX)/share
LIB = $(DESTDIR)$(PREFIX)/lib
UNITS = $(LIB)/systemd/system
UNIT_FILES = $(notdir $(wildcard contrib/systemd/*))
# The binary that is installed.
BINARY ?= $(TARGET_DIR)/release/iopace

.PHONY: help setup build install uninstall deb demo check test nightly stress bench tables registry truth rivals etcd field cluster guest fmt lint tidy docs fuzz clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

setup: ## install what the tests talk to (fio, NBD clients)
	@scripts/setup.sh

build: ## the release binary
	$(CARGO) build --release -p iopace
	@echo "$(TARGET_DIR)/release/iopace"

install: ## what 'make build' made: binary, mount helpers, manual, completions, units (PREFIX, DESTDIR)
	install -D -m 0755 $(BINARY) $(DESTDIR)$(PREFIX)/bin/iopace
	install -d $(DESTDIR)$(SBINDIR) $(SHARE)/man/man1 $(SHARE)/bash-completion/completions
	install -d $(SHARE)/zsh/site-functions $(SHARE)/fish/vendor_completions.d $(UNITS)
	for helper in mount umount; do \
	  ln -sf $(PREFIX)/bin/iopace $(DESTDIR)$(SBINDIR)/$$helper.iopace && \
	  ln -sf $(PREFIX)/bin/iopace $(DESTDIR)$(SBINDIR)/$$helper.fuse.iopace || exit 1; \
	done
	$(BINARY) man $(SHARE)/man/man1
	install -D -m 0644 -t $(SHARE)/man/man8 contrib/man/*.8
	$(BINARY) completions bash >$(SHARE)/bash-completion/completions/iopace
	$(BINARY) completions zsh >$(SHARE)/zsh/site-functions/_iopace
	$(BINARY) completions fish >$(SHARE)/fish/vendor_completions.d/iopace.fish
	for unit in $(UNIT_FILES); do \
	  sed 's|/usr/bin/iopace|$(PREFIX)/bin/iopace|' contrib/systemd/$$unit >$(UNITS)/$$unit || exit 1; \
	done
	install -D -m 0644 -t $(LIB)/sysusers.d contrib/sysusers.d/iopace.conf
	install -D -m 0644 -t $(LIB)/tmpfiles.d contrib/tmpfiles.d/iopace.conf

uninstall: ## take away what 'make install' made (PREFIX, DESTDIR); configuration and records stay
	rm -f $(DESTDIR)$(PREFIX)/bin/iopace
	for helper in mount umount; do \
	  rm -f $(DESTDIR)$(SBINDIR)/$$helper.iopace $(DESTDIR)$(SBINDIR)/$$helper.fuse.iopace; \
	done
	rm -f $(SHARE)/man/man1/iopace.1 $(SHARE)/man/man1/iopace-*.1
	rm -f $(patsubst contrib/man/%,$(SHARE)/man/man8/%,$(wildcard contrib/man/*.8))
	rm -f $(SHARE)/bash-completion/completions/iopace $(SHARE)/zsh/site-functions/_iopace
	rm -f $(SHARE)/fish/vendor_completions.d/iopace.fish
	rm -f $(addprefix $(UNITS)/,$(UNIT_FILES))
	rm -f $(LIB)/sysusers.d/iopace.conf $(LIB)/tmpfiles.d/iopace.conf

deb: build ## a Debian package of it, in target/debian (takes 'cargo install cargo-deb')
	@scripts/package.sh build $(TARGET_DIR)/release/iopace

demo: build ## one minute: two clients on one emulated disk, with and without a scheduler
	@$(TARGET_DIR)/release/iopace demo

check: ## two minutes: format, rules, clippy and unit tests of what changed
	@scripts/check.sh

test: ## everything that has to hold
	@scripts/test.sh

nightly: ## the rates of this machine beside their bounds; gates nothing (minutes, as root)
	@scripts/nightly.sh

stress: ## the live tests RUNS=20 times beside four busy processes: nothing may fail (hours, as root)
	@scripts/stress.sh

bench: ## speed beside nbdkit, qemu-nbd, passthrough_hp and bindfs, and the cost of the policy; OLD=BINARY: beside that build
	@scripts/bench.sh $(if $(OLD),--old $(OLD))

tables: ## the outcome tables of the simulator, the long ones too, and the scorecard (minutes)
	@$(CARGO) run --release -q -p iopace -- sim tables all --html $(TARGET_DIR)/tables.html
	@echo; $(CARGO) run --release -q -p iopace -- sim score all
	@echo; echo "report: $(TARGET_DIR)/tables.html"

registry: ## write anew what is made from the registry of schedulers: tables of docs and snapshots (minutes)
	IOPACE_UPDATE_DOCS=1 $(CARGO) test -q -p iopace-core --test policy_pages
	IOPACE_UPDATE_DOCS=1 $(CARGO) test -q -p iopace-sim --test schema
	IOPACE_BLESS=1 $(CARGO) test -q -p iopace-sim --test geom --test score
	@git status --short docs snapshots README.md

truth: ## model against live: the same fio jobs on both (some nine minutes)
	@scripts/model_truth.sh

rivals: ## iopace beside the kernel's schedulers on the same disks; ARGS=short: eight minutes (as root)
	@scripts/rivals.sh --page docs/rivals.md $(ARGS)

etcd: ## etcd on one disk with a dd and a backup, with iopace and without; ARGS='--seconds 3600' (as root)
	@scripts/etcd.sh --page docs/rivals.md $(ARGS)

field: ## dd, cvs, fio, postmark, rsync, git, sqlite through a mount, before and after (minutes, as root)
	@scripts/field.sh

cluster: ## hosts that share an array, in network namespaces with etcd: limits, weights, failures (minutes, as root)
	@scripts/cluster.sh

guest: ## a guest of QEMU: nbd.ko, dm-log-writes, ext4, XFS, a killed machine, cgroup v2, a NAS, TLS (minutes)
	@scripts/guest.sh

fmt: ## format the code
	$(CARGO) fmt --all

lint: ## clippy, warnings are errors
	$(CARGO) clippy --workspace --all-targets -- -D warnings

tidy: ## the project's own rules
	@$(CARGO) xtask tidy

docs: ## the documentation of the crates
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps
	@echo "$(TARGET_DIR)/doc/iopace_core/index.html"

fuzz: ## FUZZ_SECONDS (60) seconds of fuzzing per target
	@scripts/fuzz.sh

clean: ## what was built
	$(CARGO) clean
