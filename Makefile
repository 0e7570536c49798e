# The two commands a user needs are `make demo` and `make test`; everything they write lies under build/ and .venv.
HOSTS ?= 16
LANES ?=
PYTHON ?= python3
export PYTHON

.PHONY: help demo lab lab-stop test clean

help:
	@echo "make demo [HOSTS=16]   walk the whole road twice on the rehearsal lab, print a summary and the report's path"
	@echo "make lab [HOSTS=16]    keep the rehearsal lab up and print its inventory and how to log in"
	@echo "make lab-stop          stop it from another terminal"
	@echo "make test [LANES=...]  run the test lanes (all, or the named ones: make test LANES=\"lint units-2.19\")"
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

clean:
	rm -rf build .venv
