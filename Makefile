# forelay. `make` sets up what is missing and builds; `make demo` shows it; `make check` tests it.
# Thin on purpose: CMake builds (CMakePresets.json), tools/ and tests/ do the rest.
.DEFAULT_GOAL := build
.PHONY: build setup demo check bench serve format clean

BUILD := build/release
ARGS ?=

setup:
	@tools/bootstrap build

build: setup
	@tools/build release forelay

demo: build
	@examples/support-desk/demo

check:
	@tools/bootstrap check
	@tools/check

bench: build
	@tools/bench $(ARGS)

serve: build
	@exec $(BUILD)/forelay serve $(ARGS)

format:
	@git ls-files '*.c' '*.h' '*.cpp' | xargs clang-format -i

clean:
	@rm -rf build/release build/clang build/asan build/tsan build/coverage build/demo build/bench
