#include "format/safetensors.hpp"

#include <catch2/catch.hpp>
#include <chrono>

#include "format/random.hpp"
#include "scratch.hpp"

using namespace nvfp4r;
using namespace nvfp4r::test;

namespace {

SafetensorsHeader parsed_header(const std::string& bytes) {
    return parse_safetensors(std::span(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()), "f");
}

std::string refused_safetensors(std::string_view header, size_t data_bytes) {
    return refusal([&] { parsed_header(safetensors_bytes(header, data_bytes)); });
}

const char* const kTwo = R"({"__metadata__":{"format":"pt"},"b":{"dtype":"U8","shape":[2],"data_offsets":[8,10]},)"
                         R"("a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}})";

}  // namespace

TEST_CASE("A safetensors header is read: keys in any order, metadata, offsets from the file's start", "[format]") {
    const SafetensorsHeader header = parsed_header(safetensors_bytes(kTwo, 10));
    REQUIRE(header.metadata.at("format") == "pt");
    REQUIRE(header.tensors.size() == 2);
    REQUIRE(header.tensors[0].name == "a");
    REQUIRE(header.tensors[0].shape == std::vector<uint64_t>{2, 1});
    REQUIRE(header.tensors[0].begin == 8 + std::string_view(kTwo).size());
    REQUIRE(header.tensors[1].end == header.tensors[0].begin + 10);
}

TEST_CASE("Scalars, empty tensors, escapes and padding in a safetensors header are legal", "[format]") {
    const SafetensorsHeader header = parsed_header(
        safetensors_bytes(R"({"\u00e9\ud83d\ude00\n":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                          "\n\t\"e\" : {\"data_offsets\" : [4, 4], \"shape\":[0, 64], \"dtype\":\"BF16\"}}    ",
                          4));
    REQUIRE(header.tensors[0].name == "\xc3\xa9\xf0\x9f\x98\x80\n");
    REQUIRE(header.tensors[0].shape.empty());
    REQUIRE(header.tensors[1].shape == std::vector<uint64_t>{0, 64});
}

TEST_CASE("D17 a file cut in the middle of a tensor is refused with the bytes it needs", "[format]") {
    const std::string whole = safetensors_bytes(kTwo, 10);
    const std::string text = refusal([&] { parsed_header(whole.substr(0, whole.size() - 6)); });
    const size_t start = 8 + std::string_view(kTwo).size();
    REQUIRE(has(text, fmt::format("\"a\" needs bytes {}..{}, file has {}", start, start + 8, whole.size() - 6)));
    for (size_t cut = 0; cut < whole.size(); ++cut)
        REQUIRE(refusal([&] { parsed_header(whole.substr(0, cut)); }) != "");
}

TEST_CASE("D19 header lengths: large ones are read, 0, the file's size and 2^60 are refused", "[format]") {
    for (const size_t length : {size_t{100'001}, size_t{3'000'000}}) {
        std::string header = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
        header.append(length - header.size(), ' ');
        REQUIRE(parsed_header(safetensors_bytes(header, 1)).tensors.size() == 1);
    }
    REQUIRE(has(refusal([] { parsed_header(little_endian(0, 8) + "{}"); }), "header length 0"));
    const std::string body = "{}      ";
    REQUIRE(has(refusal([&] { parsed_header(little_endian(8 + body.size(), 8) + body); }),
                "needs bytes 8..24, file has 16"));
    REQUIRE(has(refusal([&] { parsed_header(little_endian(100'000'001, 8) + body); }), "is above 100000000"));
    REQUIRE(has(refusal([&] { parsed_header(little_endian(uint64_t{1} << 60, 8) + body); }), "is above"));
    REQUIRE(has(refusal([&] { parsed_header(little_endian(~uint64_t{0}, 8) + body); }), "is above"));
}

TEST_CASE("D20 overlapping data_offsets, gaps and bytes after the last tensor are refused", "[format]") {
    const auto two = [](const char* first, const char* second) {
        return fmt::format(R"({{"a":{{"dtype":"U8","shape":[4],"data_offsets":{}}},)"
                           R"("b":{{"dtype":"U8","shape":[4],"data_offsets":{}}}}})",
                           first, second);
    };
    REQUIRE(refused_safetensors(two("[0,4]", "[4,8]"), 8) == "");
    REQUIRE(refused_safetensors(two("[4,8]", "[0,4]"), 8) == "");
    REQUIRE(has(refused_safetensors(two("[0,4]", "[0,4]"), 4), "\"a\" and \"b\" overlap"));
    REQUIRE(has(refused_safetensors(two("[0,4]", "[3,7]"), 7), "overlap"));
    REQUIRE(has(refused_safetensors(two("[0,4]", "[5,9]"), 9), "no tensor owns data bytes [4, 5)"));
    REQUIRE(has(refused_safetensors(two("[1,5]", "[5,9]"), 9), "no tensor owns data bytes [0, 1)"));
    REQUIRE(has(refused_safetensors(two("[0,4]", "[4,8]"), 9), "1 bytes after the last tensor"));
}

TEST_CASE("D22 a dtype that is not taken is refused by name when it is asked for, others in the file stay readable",
          "[format]") {
    const Scratch scratch;
    const auto path = scratch.write("f.safetensors",
                                    safetensors_bytes(R"({"w":{"dtype":"F4","shape":[8,64],"data_offsets":[0,256]},)"
                                                      R"("n":{"dtype":"NEW9","shape":[3],"data_offsets":[256,261]},)"
                                                      R"("d":{"dtype":"F64","shape":[1],"data_offsets":[261,269]},)"
                                                      R"("m":{"dtype":"BOOL","shape":[2],"data_offsets":[269,271]}})",
                                                      271));
    const Safetensors file(path);
    REQUIRE(has(refusal([&] { file.tensor("w"); }), "dtype F4"));
    REQUIRE(has(refusal([&] { file.tensor("n"); }), "dtype NEW9"));
    REQUIRE(has(refusal([&] { file.tensor("d"); }), "dtype F64"));
    REQUIRE(file.tensor("m").type == NVFP4R_U8);
    // A known dtype is never read at another size.
    REQUIRE(has(refused_safetensors(R"({"w":{"dtype":"F4","shape":[8,64],"data_offsets":[0,512]}})", 512),
                "needs 256 bytes"));
    REQUIRE(has(refused_safetensors(R"({"w":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})", 1), "F4 [3]"));
    REQUIRE(
        has(refused_safetensors(R"({"w":{"dtype":"F8_E8M0","shape":[3],"data_offsets":[0,6]}})", 6), "needs 3 bytes"));
}

TEST_CASE("D23 numbers that lie are refused: overflow, negative, fractions, backwards", "[format]") {
    const auto with = [](const char* shape, const char* offsets) {
        return refused_safetensors(
            fmt::format(R"({{"a":{{"dtype":"F32","shape":{},"data_offsets":{}}}}})", shape, offsets), 16);
    };
    REQUIRE(with("[4]", "[0,16]") == "");
    REQUIRE(has(with("[4294967296,4294967296]", "[0,16]"), "more than 2^60 elements"));
    REQUIRE(has(with("[1152921504606846976,16]", "[0,16]"), "more than 2^60 elements"));
    REQUIRE(has(with("[4611686018427387905]", "[0,16]"), "above 2^60"));
    REQUIRE(has(with("[99999999999999999999999999]", "[0,16]"), "above 2^60"));
    REQUIRE(has(with("[-4]", "[0,16]"), "negative"));
    REQUIRE(has(with("[4.0]", "[0,16]"), "fraction"));
    REQUIRE(has(with("[4e0]", "[0,16]"), "fraction"));
    REQUIRE(has(with("[4]", "[0,16.5]"), "fraction"));
    REQUIRE(has(with("[4]", "[-1,15]"), "negative"));
    REQUIRE(has(with("[4]", "[16,0]"), "run backwards"));
    REQUIRE(has(with("[4]", "[0]"), "two numbers"));
    REQUIRE(has(with("[4]", "[0,16,16]"), "more than 2"));
    REQUIRE(has(with("[04]", "[0,16]"), "leading zero"));
    REQUIRE(has(with("\"4\"", "[0,16]"), "'[' expected"));
    REQUIRE(has(with("[]", "[0,16]"), "needs 4 bytes"));
    REQUIRE(has(with("[0,64]", "[0,16]"), "needs 0 bytes"));
    REQUIRE(has(with("[4]", "[1152921504606846960,1152921504606846976]"), "no tensor owns"));
    std::string many = "[1";
    for (int i = 0; i < 32; ++i) many += ",1";
    REQUIRE(has(with((many + "]").c_str(), "[0,4]"), "more than 32"));
}

TEST_CASE("D23 structure that lies is refused: duplicates, metadata, nesting, encodings", "[format]") {
    const std::string a = R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
    REQUIRE(has(refused_safetensors("{" + a + "," + a + "}", 1), "\"a\" appears twice"));
    REQUIRE(has(refused_safetensors(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1),
                "appears twice"));
    REQUIRE(has(refused_safetensors(R"({"__metadata__":{"k":"1","k":"2"}})", 0), "metadata key \"k\" appears twice"));
    REQUIRE(has(refused_safetensors(R"({"__metadata__":[]})", 0), "not an object"));
    REQUIRE(has(refused_safetensors(R"({"__metadata__":{"k":1}})", 0), "a string expected"));
    REQUIRE(has(refused_safetensors(R"({"a":{"shape":[1],"data_offsets":[0,1]}})", 1), "no dtype"));
    REQUIRE(has(refused_safetensors(R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", 1), "no shape"));
    REQUIRE(has(refused_safetensors(R"({"a":{"dtype":"U8","shape":[1]}})", 0), "no data_offsets"));
    REQUIRE(has(refused_safetensors(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":{}}})", 1),
                "unknown key \"x\""));
    REQUIRE(
        has(refused_safetensors("{\"\xff\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1), "not UTF-8"));
    REQUIRE(has(refused_safetensors("{\"\xc0\xaf\":{}}", 0), "not UTF-8"));
    REQUIRE(has(refused_safetensors("{\"\xed\xa0\x80\":{}}", 0), "not UTF-8"));
    REQUIRE(has(refused_safetensors(R"({"\ud800":{}})", 0), "surrogate"));
    REQUIRE(has(refused_safetensors(R"({"\q":{}})", 0), "escape"));
    REQUIRE(has(refused_safetensors(R"({"a)", 0), "without an end"));
    REQUIRE(has(refused_safetensors(" {}", 0), "must begin"));
    REQUIRE(has(refused_safetensors("[]", 0), "must begin"));
    REQUIRE(has(refused_safetensors("{}x", 0), "after the closing"));
    REQUIRE(refused_safetensors(std::string("{}\0", 3), 0) != "");
    REQUIRE(refused_safetensors("{" + a + ",}", 1) != "");
    const std::string deep = "{\"a\":{\"shape\":" + std::string(1'000'000, '[');
    REQUIRE(refused_safetensors(deep, 0) != "");
    REQUIRE(refused_safetensors("{}", 0) == "");
}

TEST_CASE("Every type is written and read back, and nothing but the file is left in the folder", "[format]") {
    const Scratch scratch;
    const auto path = scratch / "f.safetensors";
    std::vector<Tensor> tensors;
    const std::vector<uint8_t> bytes(48, 0x5a);
    for (const nvfp4r_dtype type :
         {NVFP4R_F32, NVFP4R_BF16, NVFP4R_F16, NVFP4R_F8_E4M3, NVFP4R_U8, NVFP4R_I16, NVFP4R_I32, NVFP4R_I64}) {
        const uint64_t count = bytes.size() / element_size(type);
        tensors.push_back(Tensor{std::string("t.") + dtype_name(type), type, {count / 2, 2}, bytes, nullptr});
    }
    tensors.push_back(make_tensor<float>("scalar \"quoted\"", NVFP4R_F32, {}, {2.5f}));
    write_safetensors(path, tensors, {{"made by", "test"}});
    REQUIRE(scratch.files() == 1);
    const Safetensors file(path);
    REQUIRE(file.metadata().at("made by") == "test");
    for (const Tensor& tensor : tensors) {
        const Tensor read = file.tensor(tensor.name);
        REQUIRE(read.type == tensor.type);
        REQUIRE(read.shape == tensor.shape);
        REQUIRE(std::equal(read.bytes.begin(), read.bytes.end(), tensor.bytes.begin(), tensor.bytes.end()));
    }
    REQUIRE(to_f32(file.tensor("scalar \"quoted\""), "f")[0] == 2.5f);
    REQUIRE(has(refusal([&] { file.tensor("absent"); }), "it has t.F32"));
}

TEST_CASE("A tensor outlives the file object and the file's removal", "[format]") {
    Tensor kept;
    {
        const Scratch scratch;
        const std::vector<Tensor> tensors = {make_tensor<int32_t>("x", NVFP4R_I32, {3}, {1, 2, 3})};
        write_safetensors(scratch / "f", tensors);
        kept = Safetensors(scratch / "f").tensor("x");
    }
    REQUIRE(to_i64(kept, "f") == std::vector<int64_t>{1, 2, 3});
}

TEST_CASE("A refused write leaves the old file and no temporary one", "[format]") {
    const Scratch scratch;
    const auto path = scratch.write("f", "old");
    Tensor wrong = make_tensor<float>("x", NVFP4R_F32, {3}, {1.0f});
    REQUIRE(has(refusal([&] { write_safetensors(path, std::span(&wrong, 1)); }), "has 4 bytes"));
    const Tensor twice = make_tensor<float>("x", NVFP4R_F32, {1}, {1.0f});
    const std::vector<Tensor> tensors = {twice, twice};
    REQUIRE(has(refusal([&] { write_safetensors(path, tensors); }), "is taken"));
    REQUIRE(read_all(path) == "old");
    REQUIRE(scratch.files() == 1);
    REQUIRE(has(refusal([&] { write_safetensors(scratch / "no/such/f", {}); }), "No such file"));
}

TEST_CASE("Opening reads the header only: a file with a terabyte hole opens at once", "[format]") {
    const Scratch scratch;
    const std::string header = R"({"w":{"dtype":"U8","shape":[1099511627776],"data_offsets":[0,1099511627776]}})";
    const auto path = scratch.write("f", safetensors_bytes(header, 0));
    std::error_code error;
    std::filesystem::resize_file(path, std::filesystem::file_size(path) + (uint64_t{1} << 40), error);
    if (error) return;  // the file system has no holes of that size
    const auto start = std::chrono::steady_clock::now();
    const Safetensors file(path);
    REQUIRE(file.tensor("w").bytes.size() == uint64_t{1} << 40);
    REQUIRE(std::chrono::steady_clock::now() - start < std::chrono::seconds(1));
}

TEST_CASE("D23 mutated safetensors headers are read or refused, never worse", "[format]") {
    const std::string whole = safetensors_bytes(kTwo, 10);
    static constexpr std::string_view kBits = "{}[]\",:0123456789-.e\\u\x80\xff";
    Random random(20260101);
    int accepted = 0;
    for (int trial = 0; trial < 20000; ++trial) {
        std::string bytes = whole;
        for (uint64_t edits = 1 + random.below(4); edits > 0; --edits) {
            const size_t at = random.below(bytes.size());
            switch (random.below(5)) {
                case 0: bytes[at] = kBits[random.below(kBits.size())]; break;
                case 1: bytes.erase(at, 1 + random.below(6)); break;
                case 2: bytes.insert(at, 1, kBits[random.below(kBits.size())]); break;
                case 3: bytes.insert(at, bytes.substr(random.below(bytes.size()), random.below(24))); break;
                case 4: bytes[at] = static_cast<char>(random.next()); break;
            }
            if (bytes.empty()) bytes = whole;
        }
        // Half of them with a length that fits, so that the parser behind it is reached.
        if (trial % 2 == 0 && bytes.size() > 18) bytes.replace(0, 8, little_endian(bytes.size() - 18, 8));
        SafetensorsHeader header;
        if (refusal([&] { header = parsed_header(bytes); }) != "") continue;
        ++accepted;
        for (const TensorEntry& entry : header.tensors) {
            REQUIRE(entry.begin <= entry.end);
            REQUIRE(entry.end <= bytes.size());
        }
    }
    REQUIRE(accepted > 0);  // else the mutations reach nothing
}
