#include "format/npy.hpp"

#include <zlib.h>

#include <catch2/catch.hpp>

#include "format/random.hpp"
#include "scratch.hpp"

using namespace nvfp4r;
using namespace nvfp4r::test;

namespace {

std::string npy(std::string header, const std::string& data, int version = 1) {
    header += '\n';
    return std::string("\x93NUMPY") + static_cast<char>(version) + '\0' +
           little_endian(header.size(), version == 1 ? 2 : 4) + header + data;
}

std::string header(const char* descr, const char* shape, const char* order = "False") {
    return fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}", descr, order, shape);
}

Tensor parsed_npy(const std::string& bytes, nvfp4r_dtype raw = NVFP4R_DTYPE_UNSET) {
    return parse_npy(std::span(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()), nullptr, "f", raw);
}

std::string refused_npy(const std::string& bytes, nvfp4r_dtype raw = NVFP4R_DTYPE_UNSET) {
    return refusal([&] { parsed_npy(bytes, raw); });
}

/// One zip member, deflated, as numpy.savez_compressed writes it.
std::string deflated_npz(const std::string& content, uint64_t claimed_size, uint32_t crc) {
    std::string packed(compressBound(content.size()) + 64, '\0');
    z_stream stream{};
    deflateInit2(&stream, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
    stream.avail_in = static_cast<uInt>(content.size());
    stream.next_out = reinterpret_cast<Bytef*>(packed.data());
    stream.avail_out = static_cast<uInt>(packed.size());
    deflate(&stream, Z_FINISH);
    packed.resize(stream.total_out);
    deflateEnd(&stream);
    const std::string common = little_endian(20, 2) + little_endian(0, 2) + little_endian(8, 2) + little_endian(0, 4) +
                               little_endian(crc, 4) + little_endian(packed.size(), 4) +
                               little_endian(claimed_size, 4) + little_endian(5, 2) + little_endian(0, 2);
    const std::string local = little_endian(0x04034b50, 4) + common + "a.npy" + packed;
    const std::string directory =
        little_endian(0x02014b50, 4) + little_endian(20, 2) + common + std::string(14, '\0') + "a.npy";
    return local + directory + little_endian(0x06054b50, 4) + little_endian(0, 4) + little_endian(1, 2) +
           little_endian(1, 2) + little_endian(directory.size(), 4) + little_endian(local.size(), 4) +
           little_endian(0, 2);
}

uint32_t crc_of(const std::string& text) {
    return static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size()));
}

}  // namespace

TEST_CASE("D25 npy versions 1, 2 and 3 are read, others refused", "[format]") {
    const std::string data(24, '\1');
    for (const int version : {1, 2, 3}) {
        const Tensor tensor = parsed_npy(npy(header("<f4", "(2, 3)"), data, version));
        REQUIRE(tensor.type == NVFP4R_F32);
        REQUIRE(tensor.shape == std::vector<uint64_t>{2, 3});
        REQUIRE(tensor.bytes.size() == 24);
    }
    REQUIRE(has(refused_npy(npy(header("<f4", "(2, 3)"), data, 4)), "npy version 4.0"));
}

TEST_CASE("D26 every dtype is accepted or refused with both dtypes named", "[format]") {
    const std::string data(8, '\0');
    const auto type = [&](const char* descr, const char* shape, nvfp4r_dtype raw = NVFP4R_DTYPE_UNSET) {
        return parsed_npy(npy(header(descr, shape), data), raw).type;
    };
    REQUIRE(type("<f4", "(2,)") == NVFP4R_F32);
    REQUIRE(type("<f2", "(4,)") == NVFP4R_F16);
    REQUIRE(type("|u1", "(8,)") == NVFP4R_U8);
    REQUIRE(type("|b1", "(8,)") == NVFP4R_U8);
    REQUIRE(type("<i2", "(4,)") == NVFP4R_I16);
    REQUIRE(type("<i4", "(2,)") == NVFP4R_I32);
    REQUIRE(type("<i8", "(1,)") == NVFP4R_I64);
    REQUIRE(type("|V2", "(4,)", NVFP4R_BF16) == NVFP4R_BF16);
    REQUIRE(type("|V1", "(8,)", NVFP4R_F8_E4M3) == NVFP4R_F8_E4M3);
    for (const char* descr : {"<f8", ">f4", "|V2", "|V1", "<c8", "|O", "<U4", "<u4", "|i1"}) {
        const std::string text = refused_npy(npy(header(descr, "(1,)"), data));
        REQUIRE(has(text, std::string("dtype ") + descr));
        REQUIRE(has(text, "<f4 F32"));
    }
    REQUIRE(has(refused_npy(npy(header(">f4", "(2,)"), data)), "big-endian: save it as <f4"));
    REQUIRE(has(refused_npy(npy(header("<f8", "(1,)"), data)), "float64"));
    REQUIRE(has(refused_npy(npy(header("|V2", "(4,)"), data)), "only when the caller says BF16"));
    REQUIRE(has(refused_npy(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", data)),
                "structured"));
}

TEST_CASE("Fortran order is refused by name, but one dimension has no order", "[format]") {
    const std::string data(16, '\0');
    REQUIRE(has(refused_npy(npy(header("<f4", "(2, 2)", "True"), data)), "Fortran order"));
    REQUIRE(parsed_npy(npy(header("<f4", "(4,)", "True"), data)).shape == std::vector<uint64_t>{4});
}

TEST_CASE("npy shapes that lie are refused", "[format]") {
    const std::string data(16, '\0');
    REQUIRE(parsed_npy(npy(header("<f4", "()"), data.substr(0, 4))).shape.empty());
    REQUIRE(parsed_npy(npy(header("<f4", "(0, 5)"), "")).bytes.empty());
    REQUIRE(has(refused_npy(npy(header("<f4", "(5,)"), data)), "needs 5 values of 4 bytes, file has 16"));
    REQUIRE(has(refused_npy(npy(header("<f4", "(3,)"), data)), "file has 16"));
    REQUIRE(refused_npy(npy(header("<f4", "(4611686018427387904,)"), data)) != "");
    REQUIRE(has(refused_npy(npy(header("<f4", "(4294967296, 4294967296)"), data)), "2^60"));
    REQUIRE(refused_npy(npy(header("<f4", "(-4,)"), data)) != "");
    REQUIRE(refused_npy(npy(header("<f4", "(4.0,)"), data)) != "");
    REQUIRE(has(refused_npy(npy("{'descr': '<f4', 'shape': (4,), }", data)), "are needed"));
    REQUIRE(has(refused_npy(npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (4,)}", data)),
                "twice"));
    REQUIRE(has(refused_npy(npy("{'x': 1}", data)), "unknown key"));
    std::string cut = npy(header("<f4", "(4,)"), data, 2);
    for (size_t length = 0; length < cut.size(); ++length) REQUIRE(refused_npy(cut.substr(0, length)) != "");
    cut.replace(8, 4, little_endian(0xffffffff, 4));
    REQUIRE(has(refused_npy(cut), "file has"));
}

TEST_CASE("npy files are written and read back for every type", "[format]") {
    const Scratch scratch;
    const std::vector<uint8_t> bytes(48, 0x3c);
    for (const nvfp4r_dtype type :
         {NVFP4R_F32, NVFP4R_BF16, NVFP4R_F16, NVFP4R_F8_E4M3, NVFP4R_U8, NVFP4R_I16, NVFP4R_I32, NVFP4R_I64}) {
        const uint64_t count = bytes.size() / element_size(type);
        for (const std::vector<uint64_t>& shape : {std::vector<uint64_t>{count}, {2, count / 2}, {1, 1, count}}) {
            const Tensor tensor{"", type, shape, bytes, nullptr};
            write_npy(scratch / "x.npy", tensor);
            REQUIRE(read_all(scratch / "x.npy").size() % 64 == bytes.size() % 64);
            const Tensor read = read_npy(scratch / "x.npy", type);
            REQUIRE(read.type == type);
            REQUIRE(read.shape == shape);
            REQUIRE(std::equal(read.bytes.begin(), read.bytes.end(), bytes.begin(), bytes.end()));
        }
    }
    REQUIRE(scratch.files() == 1);
}

TEST_CASE("npz files are written and read back", "[format]") {
    const Scratch scratch;
    const std::vector<Tensor> tensors = {make_tensor<float>("weights", NVFP4R_F32, {2, 2}, {1, 2, 3, 4}),
                                         make_tensor<int32_t>("ids", NVFP4R_I32, {3}, {7, 8, 9}),
                                         make_tensor<float>("none", NVFP4R_F32, {0, 8}, {})};
    write_npz(scratch / "x.npz", tensors);
    const std::vector<Tensor> read = read_npz(scratch / "x.npz");
    REQUIRE(read.size() == 3);
    for (size_t i = 0; i < 3; ++i) {
        REQUIRE(read[i].name == tensors[i].name);
        REQUIRE(read[i].shape == tensors[i].shape);
        REQUIRE(
            std::equal(read[i].bytes.begin(), read[i].bytes.end(), tensors[i].bytes.begin(), tensors[i].bytes.end()));
    }
    std::string bytes = read_all(scratch / "x.npz");
    for (size_t cut = 0; cut < bytes.size(); cut += 7) {
        scratch.write("cut.npz", bytes.substr(0, cut));
        REQUIRE(refusal([&] { read_npz(scratch / "cut.npz"); }) != "");
    }
    const size_t data = bytes.find("\x07\x00\x00\x00\x08", 0, 5);
    REQUIRE(data != std::string::npos);
    bytes[data] = 6;
    scratch.write("damaged.npz", bytes);
    REQUIRE(has(refusal([&] { read_npz(scratch / "damaged.npz"); }), "CRC"));
}

TEST_CASE("Deflated npz members are inflated, those that lie about their size are refused", "[format]") {
    const Scratch scratch;
    const std::string content = npy(header("|u1", "(5000000,)"), std::string(5'000'000, '\0'));
    scratch.write("x.npz", deflated_npz(content, content.size(), crc_of(content)));
    REQUIRE(read_npz(scratch / "x.npz")[0].bytes.size() == 5'000'000);
    for (const uint64_t claimed : {content.size() - 1, content.size() + 1, size_t{10}, size_t{0xfffffffe}}) {
        scratch.write("x.npz", deflated_npz(content, claimed, crc_of(content)));
        REQUIRE(has(refusal([&] { read_npz(scratch / "x.npz"); }), "does not inflate"));
    }
    scratch.write("x.npz", deflated_npz(content, content.size(), 1));
    REQUIRE(has(refusal([&] { read_npz(scratch / "x.npz"); }), "CRC"));
}

TEST_CASE("Mutated npy and npz files are read or refused, never worse", "[format]") {
    const Scratch scratch;
    const std::string plain = npy(header("<f4", "(2, 3)"), std::string(24, '\0'));
    const std::string zipped = deflated_npz(plain, plain.size(), crc_of(plain));
    Random random(4);
    int accepted = 0;
    for (int trial = 0; trial < 8000; ++trial) {
        const bool is_zip = trial % 20 == 0;
        std::string bytes = is_zip ? zipped : plain;
        for (uint64_t edits = 1 + random.below(3); edits > 0; --edits) {
            const size_t at = random.below(bytes.size());
            switch (random.below(3)) {
                case 0: bytes[at] = static_cast<char>(random.next()); break;
                case 1: bytes.erase(at, 1 + random.below(3)); break;
                case 2: bytes.insert(at, 1, "(){}',0129<fVTrue "[random.below(18)]); break;
            }
        }
        std::string text;
        if (is_zip) {
            scratch.write("m.npz", bytes);
            text = refusal([&] { read_npz(scratch / "m.npz", NVFP4R_BF16); });
        } else {
            text = refused_npy(bytes, NVFP4R_BF16);
        }
        accepted += text.empty() ? 1 : 0;
    }
    REQUIRE(accepted > 0);
}
