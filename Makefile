# Every build, test, run and install entry. Sources are found by room; adding a file needs no edit here.
#
#   make            the library, the CLI and the test binary    make run         sample checkpoint, route, check
#   make test       the default test suite                      make test-asan   the same host tests under ASan + UBSan
#   make test-tsan  the tests tagged [threads] under TSan       make test-long   the tests tagged [long]
#   make kernels    common models' kernels, compiled into the library: no NVRTC is needed for them
#   make deps       scripts/deps: packages, CUDA headers        make install PREFIX=/usr/local [DESTDIR=]
#   make fuzz       libFuzzer targets in build/fuzz (clang)
#   make format     clang-format over every source              make format-check  fails where format would change
#   make clean      all but what deps brought                   make distclean   that too
#
# V=1 prints the commands. Without a -j of the caller's, as many jobs run as there are cores.

BUILD  ?= build
PREFIX ?= /usr/local
CXX    ?= g++
CC     ?= cc
AR     ?= ar
OPT    ?= -O2

ifeq ($(MAKELEVEL),0)
ifeq ($(filter -j%,$(MAKEFLAGS)),)
MAKEFLAGS += -j$(shell nproc)
endif
endif
MAKEFLAGS += --no-print-directory --no-builtin-rules

.PHONY: all kernels deps run test test-asan test-tsan test-long fuzz install format format-check clean distclean
all:

# CUDA_HOME. The rule below makes this file on a fresh machine, so that plain `make` brings its own dependencies.
NO_DEPS_GOALS := deps clean distclean format format-check
ifneq ($(filter-out $(NO_DEPS_GOALS),$(or $(MAKECMDGOALS),all)),)
include build/cuda.mk
endif
build/cuda.mk: scripts/deps
	@scripts/deps
deps:
	@scripts/deps

WARN     := -Wall -Wextra -Wpedantic -Wshadow -Werror
CPPFLAGS += -iquote . -Ihost/include -Ihost -Iptx -Itests -isystem $(CUDA_HOME)/include -I$(BUILD)/generated
CXXFLAGS += -std=c++20 $(OPT) -g1 -fPIC -ffp-contract=off $(WARN) -Wconversion -Wno-sign-conversion $(SANITIZE)
CFLAGS   += -std=c99 $(OPT) -g $(WARN) $(SANITIZE)
LDFLAGS  += $(SANITIZE)
LDLIBS   += -lfmt -lz -ldl -lpthread -lm

# host/sim/export is the simulator as a shared library of its own, not a part of this one.
LIB_SRC   := $(shell find host -name '*.cpp' ! -path 'host/cli/*' ! -path 'host/sim/export/*')
# The device sources, and the kernels compiled ahead of time, become data of the library.
LIB_SRC   += $(BUILD)/generated/embedded_sources.cpp $(BUILD)/generated/embedded_kernels.cpp
CLI_SRC   := $(shell find host/cli -name '*.cpp')
TEST_SRC  := $(shell find tests -name '*.cpp' ! -path 'tests/fuzz/*')

SIM_SRC   := $(shell find host/sim/export -name '*.cpp') $(BUILD)/generated/driver_refusals.cpp

# A build from nothing compiles a room's files together, twelve at a time, through a generated file that takes them in:
# what they share, templates above all, is then compiled once. So a room's files must not define one name twice, and
# these stay by themselves. With ccache each file is compiled by itself.
APART := host/cli/main.cpp $(filter host/sim/export/% tests/kernel/% tests/arith/%,$(SIM_SRC) $(TEST_SRC))
ifeq ($(findstring ccache,$(CXX)),)
TOGETHER := 1-12 13-24 25-36 37-48 49-60 61-72
folders   = $(sort $(patsubst %/,%,$(dir $(1))))
slice     = $(wordlist $(firstword $(subst -, ,$(2))),$(lastword $(subst -, ,$(2))),$(1))
files_of  = $(filter-out $(APART),$(sort $(wildcard $(1)/*.cpp)))
part      = $(BUILD)/generated/rooms/$(subst /,-,$(1))-$(2).cpp
parts_of  = $(foreach t,$(TOGETHER),$(if $(call slice,$(call files_of,$(1)),$(t)),$(call part,$(1),$(t))))
# $(1): sources, made parts of the rooms that they are in; the generated ones and those APART stay.
in_parts  = $(filter $(BUILD)/% $(APART),$(1)) $(foreach r,$(call folders,$(filter-out $(BUILD)/%,$(1))),$(call parts_of,$(r)))
# A part is written anew only when its list has changed: the folder changes with every file that an editor writes.
define PART_RULE
$(call part,$(1),$(2)): $(1)
	@mkdir -p $$(@D)
	@printf '#include "%s"\n' $(call slice,$(call files_of,$(1)),$(2)) > $$@.new
	@cmp -s $$@.new $$@ && rm $$@.new || mv $$@.new $$@
endef
$(foreach r,$(call folders,$(filter-out $(BUILD)/%,$(LIB_SRC) $(CLI_SRC) $(TEST_SRC))),\
  $(foreach t,$(TOGETHER),$(if $(call slice,$(call files_of,$(r)),$(t)),$(eval $(call PART_RULE,$(r),$(t))))))
LIB_SRC  := $(call in_parts,$(LIB_SRC))
CLI_SRC  := $(call in_parts,$(CLI_SRC))
TEST_SRC := $(call in_parts,$(TEST_SRC))
endif

LIB_OBJ  := $(LIB_SRC:%.cpp=$(BUILD)/obj/%.o)
CLI_OBJ  := $(CLI_SRC:%.cpp=$(BUILD)/obj/%.o)
TEST_OBJ := $(TEST_SRC:%.cpp=$(BUILD)/obj/%.o)
SIM_OBJ  := $(SIM_SRC:%.cpp=$(BUILD)/obj/%.o)

# One short line for each command, or with V=1 the command itself.
Q    := $(if $(V),,@)
note  = $(if $(V),,@echo '$(1)')

all: $(BUILD)/libnvfp4router.a $(BUILD)/nvfp4-router $(BUILD)/tests $(BUILD)/libcuda_sim.so

$(BUILD)/libnvfp4router.a: $(LIB_OBJ)
	$(call note,AR  $@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^
# The subcommands without main: the tests run them in their own process.
$(BUILD)/obj/commands.a: $(filter-out %/main.o,$(CLI_OBJ))
	$(call note,AR  $@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^
$(BUILD)/nvfp4-router: $(BUILD)/obj/host/cli/main.o $(BUILD)/obj/commands.a $(BUILD)/libnvfp4router.a
	$(call note,LD  $@)
	$(Q)$(CXX) $(LDFLAGS) -o $@ $^ $(LDLIBS)
$(BUILD)/tests: $(TEST_OBJ) $(BUILD)/obj/commands.a $(BUILD)/libnvfp4router.a | $(BUILD)/libcuda_sim.so
	$(call note,LD  $@)
	$(Q)$(CXX) $(LDFLAGS) -o $@ $^ -lCatch2WithMain $(LDLIBS)

# The simulator in place of the driver: link with it, preload it, or put $(BUILD)/sim on the loader's path.
$(BUILD)/libcuda_sim.so: $(SIM_OBJ) $(BUILD)/libnvfp4router.a host/sim/export/exports.map
	$(call note,LD  $@)
	$(Q)$(CXX) -shared $(LDFLAGS) -Wl,-soname,libcuda.so.1 -Wl,--version-script=host/sim/export/exports.map -o $@ \
	  $(SIM_OBJ) $(BUILD)/libnvfp4router.a $(LDLIBS)
	@mkdir -p $(BUILD)/sim && ln -sf ../libcuda_sim.so $(BUILD)/sim/libcuda.so.1
$(BUILD)/generated/driver_refusals.cpp: scripts/driver-refusals $(CUDA_HOME)/include/cuda.h
	$(call note,GEN $@)
	@mkdir -p $(@D)
	$(Q)scripts/driver-refusals $(CUDA_HOME)/include/cuda.h > $@

$(BUILD)/obj/%.o: %.cpp
	$(call note,CXX $<)
	@mkdir -p $(@D)
	$(Q)$(CXX) $(CPPFLAGS) $(CXXFLAGS) -MMD -MP -c -o $@ $<

# Folders are prerequisites too: they change when a file comes or goes.
$(BUILD)/generated/embedded_sources.cpp: scripts/embed $(shell find ptx 2>/dev/null)
	$(call note,GEN $@)
	@mkdir -p $(@D)
	$(Q)scripts/embed embedded_sources ptx > $@
$(BUILD)/generated/embedded_kernels.cpp: scripts/embed $(shell find $(BUILD)/generated/kernels 2>/dev/null)
	$(call note,GEN $@)
	@mkdir -p $(@D)
	$(Q)scripts/embed embedded_kernels $(BUILD)/generated/kernels > $@

# Headers that most files take in are parsed once: the standard library's and fmt's, and for the tests Catch2's
# 18,000 lines. ccache cannot look into a precompiled header, so with it there is none.
HOST_HEADERS := algorithm array bit cmath cstdint cstring deque filesystem functional map memory mutex optional \
                set span string string_view unordered_map vector fmt/format.h
TEST_HEADERS := $(HOST_HEADERS) catch2/catch.hpp
# Most of what is left of a test's compile time is Catch2's macros, and they need no more optimisation than this.
$(TEST_OBJ): private CXXFLAGS += -O0
# Rooms that compute little.
LIGHT := api bench cli driver format jit launch plan sim/driver sim/program sim/ptx sim/trace
LIGHT_OBJ := $(foreach r,$(LIGHT),$(filter $(BUILD)/obj/host/$(r)/% $(BUILD)/obj/$(BUILD)/generated/rooms/host-$(subst /,-,$(r))-%,\
               $(LIB_OBJ) $(CLI_OBJ)))
$(LIGHT_OBJ): private CXXFLAGS += -O1
ifeq ($(findstring ccache,$(CXX)),)
HOST_PCH := $(BUILD)/pch/host.hpp
TEST_PCH := $(BUILD)/pch/test.hpp
$(HOST_PCH).gch: private HEADERS := $(HOST_HEADERS)
$(TEST_PCH).gch: private HEADERS := $(TEST_HEADERS)
$(TEST_PCH).gch: private CXXFLAGS += -O0
$(BUILD)/pch/%.gch: | build/cuda.mk
	$(call note,PCH $*)
	@mkdir -p $(@D)
	@printf '#include <%s>\n' $(HEADERS) > $(BUILD)/pch/$*
	$(Q)$(CXX) $(CXXFLAGS) -x c++-header -o $@ $(BUILD)/pch/$*
# To the compiler a room's files are headers of the file that takes them in.
$(BUILD)/obj/$(BUILD)/generated/rooms/%.o: private WARN += -Wno-subobject-linkage
HOST_OBJ := $(LIB_OBJ) $(CLI_OBJ) $(SIM_OBJ)
$(HOST_OBJ): $(HOST_PCH).gch
$(HOST_OBJ): private CPPFLAGS += -Winvalid-pch -include $(HOST_PCH)
$(TEST_OBJ): $(TEST_PCH).gch
$(TEST_OBJ): private CPPFLAGS += -Winvalid-pch -include $(TEST_PCH)
endif

test: all
	@scripts/test $(BUILD)

# The sanitized builds live in their own folders; undefined behaviour ends the run as an address error does.
test-asan:
	@$(MAKE) BUILD=build-asan OPT=-O1 SANITIZE="-fsanitize=address,undefined -fno-sanitize-recover=all" all
	@scripts/test build-asan --host
test-tsan:
	@$(MAKE) BUILD=build-tsan OPT=-O1 SANITIZE="-fsanitize=thread" all
	@scripts/test build-tsan --host '[threads]'
test-long: all
	@scripts/test $(BUILD) --host '[long]'

# One binary for each file of tests/fuzz: build/fuzz/NAME -max_total_time=60. The parsers need no other room.
FUZZ_CXX ?= clang++
PARSERS  := host/core/atomic_file.cpp $(patsubst %,host/format/%.cpp,mapped_file npy number safetensors_header tensor utf8) \
            $(wildcard host/sim/ptx/*.cpp)
fuzz: $(patsubst tests/fuzz/%.cpp,$(BUILD)/fuzz/%,$(wildcard tests/fuzz/*.cpp))
$(BUILD)/fuzz/%: tests/fuzz/%.cpp $(PARSERS)
	$(call note,FUZZ $@)
	@mkdir -p $(@D)
	$(Q)$(FUZZ_CXX) -Ihost/include -Ihost -std=c++20 -O1 -g -fsanitize=fuzzer,address,undefined -o $@ $^ -lfmt -lz

run: $(BUILD)/nvfp4-router
	@scripts/run $(BUILD)

# A make of its own links them in: this one has looked at the folder before there was anything in it.
kernels: $(BUILD)/nvfp4-router
	@scripts/kernels $(BUILD)
	@$(MAKE) BUILD=$(BUILD) all

install: $(BUILD)/libnvfp4router.a $(BUILD)/nvfp4-router
	@scripts/install $(BUILD) "$(DESTDIR)" "$(PREFIX)"

# tests/sim/data holds inputs of the simulator, kept as they were written.
FORMATTED = $(shell git ls-files '*.cpp' '*.hpp' '*.h' '*.c' '*.cu' '*.cuh' ':!tests/sim/data')
format:
	@clang-format-14 -i $(FORMATTED)
format-check:
	@clang-format-14 --dry-run -Werror $(FORMATTED)

clean:
	rm -rf build-asan build-tsan
	[ ! -d $(BUILD) ] || find $(BUILD) -mindepth 1 -maxdepth 1 ! -name 'cuda*' ! -name venv -exec rm -rf {} +
distclean:
	rm -rf $(BUILD) build-asan build-tsan

-include $(LIB_OBJ:.o=.d) $(CLI_OBJ:.o=.d) $(TEST_OBJ:.o=.d) $(SIM_OBJ:.o=.d)
