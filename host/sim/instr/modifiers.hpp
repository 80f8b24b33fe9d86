// Reading an instruction's modifiers: a family takes those it models, in the order they are written, and done() refuses
// what is left by name.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <string_view>
#include <utility>

#include "sim/program/instr.hpp"

namespace nvfp4r::sim {

class Modifiers {
  public:
    explicit Modifiers(Decoder& decoder) : decoder_(decoder), list_(decoder.statement().modifiers) {}

    bool empty() const { return position_ == list_.size(); }
    /// The next modifier; "" when none is left.
    std::string_view peek() const { return empty() ? std::string_view() : std::string_view(list_[position_]); }
    /// Takes the next modifier if it is `name`.
    bool take(std::string_view name) {
        if (peek() != name || empty()) return false;
        ++position_;
        return true;
    }
    /// Takes the next modifier if it is one of the names, and gives what stands beside it; else `otherwise`.
    template <class T>
    T take_one(std::initializer_list<std::pair<std::string_view, T>> choices, T otherwise) {
        for (const auto& [name, value] : choices) {
            if (take(name)) return value;
        }
        return otherwise;
    }
    /// Takes the next modifier if it is one of the names, and returns it; "" when it is none of them.
    std::string_view take_any(std::initializer_list<std::string_view> names) {
        for (const std::string_view name : names) {
            if (take(name)) return name;
        }
        return {};
    }
    /// The next modifier must be `name`, or one of `names`.
    void need(std::string_view name) { need_any({name}); }
    std::string_view need_any(std::initializer_list<std::string_view> names) {
        const std::string_view taken = take_any(names);
        if (taken.empty()) {
            std::string expected;
            for (const std::string_view name : names) expected.append(expected.empty() ? "." : ", .").append(name);
            decoder_.refuse("modifier ." + std::string(peek()) + " stands where " + expected + " is expected");
        }
        return taken;
    }
    /// Takes and returns the next modifier, which must be there.
    std::string_view next(std::string_view what) {
        if (empty()) decoder_.refuse(fmt::format("{} is missing", what));
        return list_[position_++];
    }
    /// Refuses the first modifier that was not taken.
    void done() {
        if (!empty()) decoder_.refuse("modifier ." + list_[position_] + " is not modelled here");
    }

  private:
    Decoder& decoder_;
    const std::vector<std::string>& list_;
    size_t position_ = 0;
};

}  // namespace nvfp4r::sim
