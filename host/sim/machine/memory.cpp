#include "sim/machine/memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>

#include "core/error.hpp"
#include "sim/machine/round_up.hpp"

namespace nvfp4r::sim {
namespace {

#ifdef __SANITIZE_THREAD__
// ThreadSanitizer leaves a program the lowest 512 GiB, and the top where its libraries go.
constexpr uint64_t kArenaBytes = uint64_t{1} << 35, kArenaBase = uint64_t{1} << 36;
constexpr int kArenaTries = 7;
#else
constexpr uint64_t kArenaBytes = uint64_t{1} << 38;   // 256 GiB of addresses, more than any GPU we play
constexpr uint64_t kArenaBase = 0x2000'0000'0000ull;  // far from where Linux puts programs, heaps and libraries
constexpr int kArenaTries = 16;
#endif
constexpr uint64_t kArenaStep = 2 * kArenaBytes;  // for further GPUs in one process
constexpr uint64_t kGuardBytes = 64 * 1024;
constexpr uint64_t kPage = 4096;
constexpr uint64_t kDefaultAlign = 256;  // what cuMemAlloc promises

uint64_t reserve_arena() {
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    for (int i = 0; i < kArenaTries; ++i) {
        void* wanted = reinterpret_cast<void*>(kArenaBase + static_cast<uint64_t>(i) * kArenaStep);
        void* got = mmap(wanted, kArenaBytes, PROT_NONE, kFlags | MAP_FIXED_NOREPLACE, -1, 0);
        if (got == wanted) return reinterpret_cast<uint64_t>(got);
        if (got != MAP_FAILED) munmap(got, kArenaBytes);
    }
    void* got = mmap(nullptr, kArenaBytes, PROT_NONE, kFlags, -1, 0);
    if (got == MAP_FAILED) fail(NVFP4R_OUT_OF_MEMORY, "simulator: no range of {} bytes of addresses", kArenaBytes);
    return reinterpret_cast<uint64_t>(got);
}

}  // namespace

DeviceMemory::DeviceMemory(Checker* checker)
    : checker_(checker), arena_(reserve_arena()), next_(arena_ + kGuardBytes) {}

DeviceMemory::~DeviceMemory() {
    munmap(reinterpret_cast<void*>(arena_), kArenaBytes);
}

uint64_t DeviceMemory::allocate(uint64_t bytes, uint64_t align, std::string_view name) {
    if (bytes == 0 || bytes > kArenaBytes || (align != 0 && !std::has_single_bit(align))) return 0;
    uint64_t base = round_up(next_, std::max({align, kDefaultAlign, kPage}));
    uint64_t mapped = round_up(bytes, kPage);
    if (base + mapped + kGuardBytes > arena_ + kArenaBytes) return 0;
    if (mprotect(reinterpret_cast<void*>(base), mapped, PROT_READ | PROT_WRITE) != 0) return 0;
    next_ = base + mapped + kGuardBytes;
    Allocation allocation{base, bytes, std::string(name), false, false, nullptr};
    if (checker_) allocation.shadow = checker_->new_shadow(allocation.name, bytes, false);
    allocations_.emplace(base, std::move(allocation));
    last_ = nullptr;
    return base;
}

bool DeviceMemory::release(uint64_t address) {
    auto it = allocations_.find(address);
    if (it == allocations_.end() || it->second.freed || it->second.host) return false;
    uint64_t mapped = round_up(it->second.size, kPage);
    madvise(reinterpret_cast<void*>(address), mapped, MADV_DONTNEED);
    mprotect(reinterpret_cast<void*>(address), mapped, PROT_NONE);
    it->second.freed = true;
    it->second.shadow = nullptr;
    last_ = nullptr;
    return true;
}

void DeviceMemory::erase_range(uint64_t base, uint64_t bytes) {
    std::erase_if(allocations_, [&](const auto& entry) {
        const Allocation& old = entry.second;
        return old.base < base + bytes && base < old.base + old.size;
    });
    last_ = nullptr;
}

void DeviceMemory::register_host(void* memory, uint64_t bytes, std::string_view name) {
    uint64_t base = reinterpret_cast<uint64_t>(memory);
    erase_range(base, bytes);
    Allocation allocation{base, bytes, std::string(name), true, false, nullptr};
    if (checker_) allocation.shadow = checker_->new_shadow(allocation.name, bytes, true);
    allocations_.emplace(base, std::move(allocation));
}

bool DeviceMemory::unregister_host(void* memory) {
    auto it = allocations_.find(reinterpret_cast<uint64_t>(memory));
    if (it == allocations_.end() || !it->second.host) return false;
    allocations_.erase(it);
    last_ = nullptr;
    return true;
}

const Allocation* DeviceMemory::at(uint64_t address) const {
    if (last_ && address - last_->base < last_->size) return last_;
    auto it = allocations_.upper_bound(address);
    if (it == allocations_.begin()) return nullptr;
    --it;
    const Allocation& found = it->second;
    if (found.freed || address - found.base >= found.size) return nullptr;
    last_ = &found;
    return last_;
}

const Allocation* DeviceMemory::holding(uint64_t address, uint64_t bytes) const {
    const Allocation* found = at(address);
    if (!found || bytes > found->base + found->size - address) return nullptr;
    return found;
}

std::string DeviceMemory::describe(uint64_t address) const {
    auto text = [](const Allocation& allocation) {
        return fmt::format("{}`{}` ({:#x}, {} bytes)", allocation.freed ? "freed " : "", allocation.name,
                           allocation.base, allocation.size);
    };
    auto after = allocations_.upper_bound(address);
    const Allocation* next = after == allocations_.end() ? nullptr : &after->second;
    const Allocation* before = after == allocations_.begin() ? nullptr : &std::prev(after)->second;
    if (before && address - before->base < before->size)
        return fmt::format("{} bytes into {}", address - before->base, text(*before));
    uint64_t past = before ? address - (before->base + before->size) : ~0ull;
    uint64_t short_of = next ? next->base - address : ~0ull;
    if (before && past <= short_of) return fmt::format("{} bytes past the end of {}", past, text(*before));
    if (next) return fmt::format("{} bytes before {}", short_of, text(*next));
    return "no memory is allocated";
}

}  // namespace nvfp4r::sim
