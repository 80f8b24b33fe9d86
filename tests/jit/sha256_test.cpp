#include "jit/sha256.hpp"

#include <catch2/catch.hpp>

using nvfp4r::Sha256;

TEST_CASE("SHA-256 gives the digests of FIPS 180-4's examples", "[jit]") {
    CHECK(Sha256().hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    CHECK(Sha256().update("abc").hex() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    CHECK(Sha256().update("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq").hex() ==
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    Sha256 million;
    for (int i = 0; i < 1000; ++i) million.update(std::string(1000, 'a'));
    CHECK(million.hex() == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("SHA-256 does not depend on how the bytes are cut", "[jit]") {
    std::string text;
    for (int i = 0; i < 300; ++i) text.push_back(static_cast<char>(i * 7));
    for (const std::size_t cut : {0, 1, 55, 56, 63, 64, 65, 127, 128, 200, 300}) {
        CHECK(Sha256().update(text.substr(0, cut)).update(text.substr(cut)).hex() == Sha256().update(text).hex());
    }
    CHECK(Sha256().field("ab").field("c").hex() != Sha256().field("a").field("bc").hex());
}
