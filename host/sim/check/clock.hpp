// Vector clocks that share what they have in common: a radix tree of epochs by actor, copied only where it changes.
// Thousands of threads that meet at one barrier then hold one clock, and joining equal parts costs nothing.
// Single-threaded by design: a machine runs on one thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

namespace nvfp4r::sim {

class Clock {
  public:
    static constexpr uint32_t kLeafBits = 6, kFanBits = 4, kLevels = 4;
    static constexpr uint32_t kLeaf = 1u << kLeafBits, kFan = 1u << kFanBits;
    static constexpr uint32_t kActors = 1u << (kLeafBits + kFanBits * kLevels);  // 4 million a run

    Clock() = default;
    Clock(const Clock& other) : root_(other.root_) { retain(root_); }
    Clock(Clock&& other) noexcept : root_(other.root_) { other.root_ = nullptr; }
    Clock& operator=(Clock other) noexcept {
        std::swap(root_, other.root_);
        return *this;
    }
    ~Clock() { drop(root_, kLevels); }

    /// Highest epoch of the actor that this clock knows; 0: none.
    uint32_t get(uint32_t actor) const;
    /// Raises the actor's entry to at least `epoch`.
    void raise(uint32_t actor, uint32_t epoch);
    void join(const Clock& other);
    bool same(const Clock& other) const { return root_ == other.root_; }

  private:
    // One node type for both: inner nodes use `child`, leaves use `epoch`.
    struct Node {
        uint32_t references = 1;
    };
    struct Inner : Node {
        std::array<Node*, kFan> child{};
    };
    struct Leaf : Node {
        std::array<uint32_t, kLeaf> epoch{};
    };

    static void retain(Node* node) {
        if (node) ++node->references;
    }
    static void drop(Node* node, uint32_t level);
    static Node* own(Node* node, uint32_t level);  // a node that only we hold, copied when shared; empty when null
    static Node* joined(Node* a, Node* b, uint32_t level);

    Node* root_ = nullptr;  // level kLevels; leaves are level 0
};

}  // namespace nvfp4r::sim
