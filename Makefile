# The two commands a user needs are `make demo` and `make test`; everything they write lies under build/ and .venv.
HOSTS ?= 16
LANES ?=
PYTHON ?= python3
export PYTHON

COUNT ?= 2
FLAVOUR ?= systemd
INSTALLED ?=

.PHONY: help demo lab lab-stop test test-faults test-vcsim study bench guests guests-stop test-guests test-guests-molecule clean

help:
	@echo "make demo [HOSTS=16]   walk the whole road twice on the rehearsal lab, print a summary and the report's path"
	@echo "make lab [HOSTS=16]    keep the rehearsal lab up and print its inventory and how to log in"
	@echo "make lab-stop          stop it from another terminal"
	@echo "make test [LANES=...]  run the test lanes (all, or the named ones: make test LANES=\"lint units-2.19\")"
	@echo "make test-faults        kill the ESXi stage at ten moments and strike it with every fault; ends with N passed, M failed"
	@echo "make test-vcsim         the vSphere client against govmomi's simulator; says why where it cannot run"
	@echo "make study [TABLES=..] judge the paper's claims by the paper's tables (or by TABLES) into build/study"
	@echo "make bench             print what schedule, verdicts and report cost for 16, 64 and 256 hosts"
	@echo "make guests [COUNT=2] [FLAVOUR=systemd]  boot real Linux guests with soft-RoCE in QEMU, print their inventory; FLAVOUR=plain boots faster, INSTALLED=1 has the packages"
	@echo "make guests-stop       stop them from another terminal"
	@echo "make test-guests       the guest and verify stages on two real guests, and the fabric checks on a simulated InfiniBand fabric"
	@echo "make test-guests-molecule  a Molecule scenario per role of the guests, each on two real guests of its own"
	@echo "make clean             remove build/ and .venv"

demo:
	@tests/lanes/prepare lab
	@tests/lanes/in-env python tests/demo/run.py --hosts $(HOSTS)

lab:
	@tests/lanes/prepare lab
	@tests/lanes/in-env python -m lab up --hosts $(HOSTS)

lab-stop:
	@tests/lanes/in-env python -m lab stop

test:
	@tests/lanes/prepare test
	@tests/lanes/in-env python tests/lanes/run.py $(LANES)

test-faults:
	@tests/lanes/prepare test
	@tests/lanes/in-env python tests/faults/run.py

test-vcsim:
	@tests/lanes/prepare test
	@tests/lanes/in-env python tests/lanes/run.py vcsim

study:
	@tests/lanes/prepare lab
	@tests/lanes/in-env ansible-playbook -i localhost, playbooks/study.yml -e "study_directory=$(CURDIR)/build/study" -e "study_tables=$(TABLES)" -e "study_claims=$(CLAIMS)"

bench:
	@tests/lanes/prepare test
	@tests/lanes/in-env python tests/bench/scale.py

guests:
	@tests/lanes/prepare lab
	@tests/lanes/in-env python -m guests up --count $(COUNT) --flavour $(FLAVOUR) $(if $(INSTALLED),--installed)

guests-stop:
	@tests/lanes/in-env python -m guests stop

test-guests:
	@tests/lanes/prepare test
	@tests/lanes/in-env python -m guests test

test-guests-molecule:
	@tests/lanes/prepare test
	@tests/lanes/in-env python -m guests build
	@tests/lanes/in-env python tests/lanes/run.py molecule-guests

clean:
	rm -rf build .venv
