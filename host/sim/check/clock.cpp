#include "sim/check/clock.hpp"

#include <algorithm>

namespace nvfp4r::sim {

namespace {
uint32_t child_index(uint32_t actor, uint32_t level) {
    return (actor >> (Clock::kLeafBits + Clock::kFanBits * (level - 1))) & (Clock::kFan - 1);
}
}  // namespace

void Clock::drop(Node* node, uint32_t level) {
    if (!node || --node->references > 0) return;
    if (level == 0) {
        delete static_cast<Leaf*>(node);
        return;
    }
    auto* inner = static_cast<Inner*>(node);
    for (Node* child : inner->child) drop(child, level - 1);
    delete inner;
}

Clock::Node* Clock::own(Node* node, uint32_t level) {
    if (!node) return level == 0 ? static_cast<Node*>(new Leaf) : static_cast<Node*>(new Inner);
    if (node->references == 1) return node;
    --node->references;
    if (level == 0) {
        auto* copy = new Leaf(*static_cast<Leaf*>(node));
        copy->references = 1;
        return copy;
    }
    auto* copy = new Inner(*static_cast<Inner*>(node));
    copy->references = 1;
    for (Node* child : copy->child) retain(child);
    return copy;
}

uint32_t Clock::get(uint32_t actor) const {
    const Node* node = root_;
    for (uint32_t level = kLevels; level > 0; --level) {
        if (!node) return 0;
        node = static_cast<const Inner*>(node)->child[child_index(actor, level)];
    }
    return node ? static_cast<const Leaf*>(node)->epoch[actor & (kLeaf - 1)] : 0;
}

void Clock::raise(uint32_t actor, uint32_t epoch) {
    if (get(actor) >= epoch) return;  // nothing to copy
    Node** slot = &root_;
    for (uint32_t level = kLevels; level > 0; --level) {
        *slot = own(*slot, level);
        slot = &static_cast<Inner*>(*slot)->child[child_index(actor, level)];
    }
    *slot = own(*slot, 0);
    static_cast<Leaf*>(*slot)->epoch[actor & (kLeaf - 1)] = epoch;
}

/// The join of two subtrees with one more reference for the caller. Returns `a` or `b` itself where one covers the
/// other, so that clocks which met once stay shared.
Clock::Node* Clock::joined(Node* a, Node* b, uint32_t level) {
    if (a == b || !b) {
        retain(a);
        return a;
    }
    if (!a) {
        retain(b);
        return b;
    }
    if (level == 0) {
        const auto& ea = static_cast<Leaf*>(a)->epoch;
        const auto& eb = static_cast<Leaf*>(b)->epoch;
        bool a_covers = true, b_covers = true;
        for (uint32_t i = 0; i < kLeaf; ++i) {
            a_covers &= ea[i] >= eb[i];
            b_covers &= eb[i] >= ea[i];
        }
        if (a_covers || b_covers) {
            Node* covering = b_covers ? b : a;
            retain(covering);
            return covering;
        }
        auto* leaf = new Leaf;
        for (uint32_t i = 0; i < kLeaf; ++i) leaf->epoch[i] = std::max(ea[i], eb[i]);
        return leaf;
    }
    const auto& ca = static_cast<Inner*>(a)->child;
    const auto& cb = static_cast<Inner*>(b)->child;
    auto* inner = new Inner;
    bool is_a = true, is_b = true;
    for (uint32_t i = 0; i < kFan; ++i) {
        inner->child[i] = joined(ca[i], cb[i], level - 1);
        is_a &= inner->child[i] == ca[i];
        is_b &= inner->child[i] == cb[i];
    }
    if (!is_a && !is_b) return inner;
    drop(inner, level);
    Node* covering = is_b ? b : a;
    retain(covering);
    return covering;
}

void Clock::join(const Clock& other) {
    if (root_ == other.root_ || !other.root_) return;
    Node* result = joined(root_, other.root_, kLevels);
    drop(root_, kLevels);
    root_ = result;
}

}  // namespace nvfp4r::sim
