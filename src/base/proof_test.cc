#include "src/base/proof.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace byteps {
namespace {

std::vector<std::byte> FromHex(std::string_view hex) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    const std::string digits(hex.substr(i, 2));
    bytes.push_back(static_cast<std::byte>(std::stoi(digits, nullptr, 16)));
  }
  return bytes;
}

std::string ToHex(const ProofBytes& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const std::byte byte : bytes) {
    hex += kDigits[std::to_integer<unsigned>(byte) >> 4];
    hex += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return hex;
}

std::vector<std::byte> Repeat(unsigned value, size_t count) {
  return std::vector<std::byte>(count, static_cast<std::byte>(value));
}

ConstByteSpan Text(std::string_view text) { return std::as_bytes(std::span(text)); }

// RFC 4231, section 4.
TEST(HmacSha256Test, Rfc4231Vectors) {
  EXPECT_EQ(ToHex(HmacSha256(Repeat(0x0b, 20), Text("Hi There"))),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(ToHex(HmacSha256(Text("Jefe"), Text("what do ya want for nothing?"))),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(ToHex(HmacSha256(Repeat(0xaa, 20), Repeat(0xdd, 50))),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  EXPECT_EQ(ToHex(HmacSha256(FromHex("0102030405060708090a0b0c0d0e0f10111213141516171819"),
                             Repeat(0xcd, 50))),
            "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
  EXPECT_EQ(ToHex(HmacSha256(Repeat(0xaa, 131),
                             Text("Test Using Larger Than Block-Size Key - Hash Key First"))),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(ToHex(HmacSha256(Repeat(0xaa, 131),
                             Text("This is a test using a larger than block-size key and a larger "
                                  "than block-size data. The key needs to be hashed before being "
                                  "used by the HMAC algorithm."))),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST(HmacSha256Test, AnEmptyKeyAndAnEmptyMessageAreAllowed) {
  EXPECT_EQ(ToHex(HmacSha256({}, {})),
            "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

TEST(ProofTest, FieldsHaveTheirLengthInFront) {
  std::vector<std::byte> message = FromHex("0100000000000000");
  message.push_back(std::byte{'p'});
  for (const std::byte byte : FromHex("0200000000000000aabb0000000000000000")) {
    message.push_back(byte);
  }
  EXPECT_EQ(Proof("secret", "p", FromHex("aabb"), {}), HmacSha256(Text("secret"), message));
}

TEST(ProofTest, EveryFieldCounts) {
  const std::vector<std::byte> a = FromHex("0102");
  const std::vector<std::byte> b = FromHex("03");
  const std::set<std::string> proofs = {ToHex(Proof("s", "p", a, b)),
                                        ToHex(Proof("t", "p", a, b)),
                                        ToHex(Proof("s", "q", a, b)),
                                        ToHex(Proof("s", "p", b, a)),
                                        ToHex(Proof("s", "p", FromHex("01"), FromHex("0203"))),
                                        ToHex(Proof("", "p", a, b)),
                                        ToHex(Proof("s", "", a, b)),
                                        ToHex(Proof("s", "p", a, {})),
                                        ToHex(Proof("s", "p", {}, a))};
  EXPECT_EQ(proofs.size(), 9u);
  EXPECT_EQ(Proof("s", "p", a, b), Proof("s", "p", a, b));
}

TEST(ProofEqualTest, SeesEveryBit) {
  const ProofBytes proof = Proof("s", "p", {}, {});
  EXPECT_TRUE(ProofEqual(proof, proof));
  for (size_t bit = 0; bit < 8 * proof.size(); ++bit) {
    ProofBytes other = proof;
    other[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    EXPECT_FALSE(ProofEqual(proof, other)) << bit;
  }
}

TEST(ProofEqualTest, AProofFromAPeerHasTheRightLength) {
  const ProofBytes proof = Proof("s", "p", {}, {});
  const ConstByteSpan received(proof);
  EXPECT_TRUE(ProofEqual(proof, received));
  EXPECT_FALSE(ProofEqual(proof, received.first(31)));
  EXPECT_FALSE(ProofEqual(proof, ConstByteSpan()));
  std::vector<std::byte> longer(proof.begin(), proof.end());
  longer.push_back(std::byte{0});
  EXPECT_FALSE(ProofEqual(proof, ConstByteSpan(longer)));
}

TEST(RandomBytesTest, FillsAllAndDoesNotRepeat) {
  RandomBytes({});
  std::vector<std::byte> first(1000);
  std::vector<std::byte> second(1000);
  RandomBytes(first);
  RandomBytes(second);
  EXPECT_NE(first, second);
  // A kilobyte without some value in its last 500 bytes would mean that they were not filled.
  const std::set<std::byte> tail(first.begin() + 500, first.end());
  EXPECT_GT(tail.size(), 100u);
}

TEST(RandomIncarnationTest, IsNeverZeroAndDiffers) {
  std::set<uint64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(RandomIncarnation());
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_FALSE(seen.contains(0));
}

}  // namespace
}  // namespace byteps
