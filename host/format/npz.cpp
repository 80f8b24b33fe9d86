// .npz: a zip of .npy files. The directory at the end says what there is (PKWARE APPNOTE 6.3.10, sections 4.3 and 4.5).
#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>

#include "core/atomic_file.hpp"
#include "core/error.hpp"
#include "format/mapped_file.hpp"
#include "format/npy.hpp"
#include "format/npy_bytes.hpp"

namespace nvfp4r {
namespace {

constexpr uint32_t kLocalSignature = 0x04034b50;
constexpr uint32_t kDirectorySignature = 0x02014b50;
constexpr uint32_t kEndSignature = 0x06054b50;
constexpr uint64_t kLocalBytes = 30;
constexpr uint64_t kDirectoryBytes = 46;
constexpr uint64_t kEndBytes = 22;
constexpr uint64_t kLongestComment = 65'535;
constexpr uint16_t kZip64Extra = 1;
constexpr uint16_t kStored = 0;
constexpr uint16_t kDeflated = 8;
constexpr uint16_t kVersionNeeded = 20;
constexpr uint16_t kDosDate1980 = 0x21;  // 1 January 1980: the same arrays give the same file
constexpr uint32_t kIn64 = 0xffffffffu;  // "see the 64-bit extra field"

struct Member {
    std::string name;
    uint16_t method = 0;
    uint16_t flags = 0;
    uint32_t crc = 0;
    uint64_t packed = 0, size = 0, local_at = 0;
};

class Zip {
  public:
    Zip(std::span<const uint8_t> bytes, std::string file) : bytes_(bytes), file_(std::move(file)) {}

    std::vector<Member> directory() const {
        const uint64_t end = find_end();
        const uint64_t count = word<uint16_t>(end + 10);
        uint64_t at = word<uint32_t>(end + 16);
        if (at == kIn64 || count == 0xffff) fail(NVFP4R_BAD_FILE, "{}: a zip with a 64-bit directory", file_);
        std::vector<Member> members;
        for (uint64_t i = 0; i < count; ++i) {
            if (word<uint32_t>(at) != kDirectorySignature) bad("directory entry", at);
            members.push_back(entry(at));
            at += kDirectoryBytes + word<uint16_t>(at + 28) + word<uint16_t>(at + 30) + word<uint16_t>(at + 32);
        }
        return members;
    }

    std::span<const uint8_t> packed_bytes(const Member& member) const {
        if (word<uint32_t>(member.local_at) != kLocalSignature) bad("local header of " + member.name, member.local_at);
        const uint64_t start =
            member.local_at + kLocalBytes + word<uint16_t>(member.local_at + 26) + word<uint16_t>(member.local_at + 28);
        if (start > bytes_.size() || member.packed > bytes_.size() - start) {
            fail(NVFP4R_BAD_FILE, "{}: {} needs bytes {}..{}, file has {}", file_, member.name, start,
                 start + member.packed, bytes_.size());
        }
        return bytes_.subspan(start, member.packed);
    }

  private:
    [[noreturn]] void bad(const std::string& what, uint64_t at) const {
        fail(NVFP4R_BAD_FILE, "{}: no zip {} at byte {}", file_, what, at);
    }

    template <class T>
    T word(uint64_t at) const {
        if (at > bytes_.size() || bytes_.size() - at < sizeof(T)) bad("record", at);
        uint64_t value = 0;
        for (size_t i = 0; i < sizeof(T); ++i) value |= uint64_t{bytes_[at + i]} << (8 * i);
        return static_cast<T>(value);
    }

    uint64_t find_end() const {
        if (bytes_.size() >= kEndBytes) {
            const uint64_t last = bytes_.size() - kEndBytes;
            const uint64_t first = last > kLongestComment ? last - kLongestComment : 0;
            for (uint64_t at = last + 1; at-- > first;) {
                if (word<uint32_t>(at) == kEndSignature) return at;
            }
        }
        fail(NVFP4R_BAD_FILE, "{}: not a .npz file: no zip directory", file_);
    }

    Member entry(uint64_t at) const {
        Member member;
        member.flags = word<uint16_t>(at + 8);
        member.method = word<uint16_t>(at + 10);
        member.crc = word<uint32_t>(at + 16);
        member.packed = word<uint32_t>(at + 20);
        member.size = word<uint32_t>(at + 24);
        member.local_at = word<uint32_t>(at + 42);
        const uint64_t name_bytes = word<uint16_t>(at + 28);
        const uint64_t extra_bytes = word<uint16_t>(at + 30);
        const uint64_t extra_at = at + kDirectoryBytes + name_bytes;
        if (extra_at > bytes_.size() || extra_bytes > bytes_.size() - extra_at) bad("directory entry", at);
        member.name.assign(reinterpret_cast<const char*>(bytes_.data()) + at + kDirectoryBytes, name_bytes);
        read_zip64(member, extra_at, extra_at + extra_bytes);
        return member;
    }

    /// The 64-bit extra holds, in this order, those of size, packed size and offset that read 0xffffffff.
    void read_zip64(Member& member, uint64_t at, uint64_t end) const {
        while (at + 4 <= end) {
            const uint16_t id = word<uint16_t>(at);
            const uint64_t next = at + 4 + word<uint16_t>(at + 2);
            if (id == kZip64Extra) {
                uint64_t value_at = at + 4;
                for (uint64_t* value : {&member.size, &member.packed, &member.local_at}) {
                    if (*value != kIn64) continue;
                    if (value_at + 8 > next) bad("64-bit size of " + member.name, value_at);
                    *value = word<uint64_t>(value_at);
                    value_at += 8;
                }
            }
            at = next;
        }
    }

    std::span<const uint8_t> bytes_;
    std::string file_;
};

/// Inflates in steps, so that memory follows what the data gives and never the size that a header claims.
std::shared_ptr<const std::vector<uint8_t>> inflate_member(std::span<const uint8_t> packed, const Member& member,
                                                           const std::string& file) {
    constexpr size_t kStep = size_t{1} << 20;
    auto out = std::make_shared<std::vector<uint8_t>>();
    z_stream stream{};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) fail(NVFP4R_OUT_OF_MEMORY, "{}: zlib has no memory", file);
    const std::unique_ptr<z_stream, int (*)(z_stream*)> closer(&stream, inflateEnd);
    int result = Z_OK;
    size_t consumed = 0;
    while (result == Z_OK && out->size() <= member.size) {
        const size_t held = out->size();
        out->resize(held + kStep);
        // zlib counts in 32 bits: the input goes in by parts too.
        const size_t part = std::min<size_t>(packed.size() - consumed, std::numeric_limits<uInt>::max());
        stream.next_in = const_cast<uint8_t*>(packed.data() + consumed);
        stream.avail_in = static_cast<uInt>(part);
        stream.next_out = out->data() + held;
        stream.avail_out = static_cast<uInt>(kStep);
        result = inflate(&stream, Z_NO_FLUSH);
        consumed += part - stream.avail_in;
        out->resize(held + kStep - stream.avail_out);
    }
    if (result != Z_STREAM_END || out->size() != member.size) {
        fail(NVFP4R_BAD_FILE, "{}: {} does not inflate to the {} bytes that it claims", file, member.name, member.size);
    }
    return out;
}

uint32_t crc_of(std::span<const uint8_t> bytes, uint32_t crc = 0) {
    // zlib takes a null pointer, which no bytes may have, as the wish to start anew.
    return bytes.empty() ? crc : static_cast<uint32_t>(crc32_z(crc, bytes.data(), bytes.size()));
}

void append_words(std::string& text, std::initializer_list<std::pair<uint64_t, int>> values) {
    for (const auto& [value, bytes] : values) {
        for (int i = 0; i < bytes; ++i) text += static_cast<char>((value >> (8 * i)) & 0xffu);
    }
}

}  // namespace

std::vector<Tensor> read_npz(const std::filesystem::path& path, nvfp4r_dtype raw_type) {
    constexpr uint16_t kEncrypted = 1;
    std::shared_ptr<const MappedFile> file = MappedFile::open(path);
    const Zip zip(file->bytes(), path.string());
    std::vector<Tensor> arrays;
    for (const Member& member : zip.directory()) {
        const std::string what = path.string() + ": " + member.name;
        std::span<const uint8_t> bytes = zip.packed_bytes(member);
        std::shared_ptr<const void> owner = file;
        if ((member.flags & kEncrypted) != 0 || (member.method != kStored && member.method != kDeflated)) {
            fail(NVFP4R_BAD_FILE, "{}: zip method {}; stored (0) and deflated (8), not encrypted, are read", what,
                 member.method);
        }
        if (member.method == kDeflated) {
            const auto inflated = inflate_member(bytes, member, path.string());
            bytes = *inflated;
            owner = inflated;
        }
        if (bytes.size() != member.size || crc_of(bytes) != member.crc) {
            fail(NVFP4R_BAD_FILE, "{}: size or CRC does not match; the file is damaged", what);
        }
        Tensor array = parse_npy(bytes, std::move(owner), what, raw_type);
        array.name = member.name.ends_with(".npy") ? member.name.substr(0, member.name.size() - 4) : member.name;
        arrays.push_back(std::move(array));
    }
    return arrays;
}

void write_npz(const std::filesystem::path& path, std::span<const Tensor> tensors) {
    constexpr uint64_t kMostBytes = 0xfffffffeu;
    constexpr size_t kMostMembers = 65'534;
    std::vector<std::string> headers;
    uint64_t total = kEndBytes;
    for (const Tensor& tensor : tensors) {
        check_bytes(tensor, path.string());
        headers.push_back(npy_header(tensor));
        total += headers.back().size() + tensor.bytes.size() + kLocalBytes + kDirectoryBytes + 2 * tensor.name.size();
    }
    if (total > kMostBytes || tensors.size() > kMostMembers) {
        fail(NVFP4R_INVALID_ARGUMENT, "{}: {} arrays of {} bytes; a .npz holds less than 4 GiB: write .safetensors",
             path.string(), tensors.size(), total);
    }
    AtomicFile file(path);
    std::string directory;
    uint64_t at = 0;
    for (size_t i = 0; i < tensors.size(); ++i) {
        const std::string name = tensors[i].name + ".npy";
        const std::span<const uint8_t> header(reinterpret_cast<const uint8_t*>(headers[i].data()), headers[i].size());
        const uint64_t size = header.size() + tensors[i].bytes.size();
        const uint32_t crc = crc_of(tensors[i].bytes, crc_of(header));
        // Shared by both records: version, flags, method, time, date, crc, sizes, name length, extra length.
        std::string common;
        append_words(common, {{kVersionNeeded, 2},
                              {0, 2},
                              {kStored, 2},
                              {0, 2},
                              {kDosDate1980, 2},
                              {crc, 4},
                              {size, 4},
                              {size, 4},
                              {name.size(), 2},
                              {0, 2}});
        std::string local;
        append_words(local, {{kLocalSignature, 4}});
        file.write(local + common + name);
        file.write(header);
        file.write(tensors[i].bytes);
        append_words(directory, {{kDirectorySignature, 4}, {kVersionNeeded, 2}});
        directory += common;
        // Comment length, disk, internal and external attributes, offset of the local header.
        append_words(directory, {{0, 2}, {0, 2}, {0, 2}, {0, 4}, {at, 4}});
        directory += name;
        at += kLocalBytes + name.size() + size;
    }
    std::string end;
    append_words(end, {{kEndSignature, 4},
                       {0, 2},
                       {0, 2},
                       {tensors.size(), 2},
                       {tensors.size(), 2},
                       {directory.size(), 4},
                       {at, 4},
                       {0, 2}});
    file.write(directory + end);
    file.commit();
}

}  // namespace nvfp4r
