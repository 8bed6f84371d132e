#include "src/wire/handshake.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "src/wire/hex_for_test.h"

namespace byteps::wire {
namespace {

Hello ExampleHello() {
  Hello hello;
  hello.role = Role::kWorker;
  hello.wanted_role = Role::kServer;
  hello.index = 3;
  hello.wanted_index = 1;
  hello.incarnation = 11;
  hello.wanted_incarnation = 12;
  hello.generation = 2;
  hello.nonce.fill(std::byte{7});
  hello.job = "job-1";
  return hello;
}

TEST(HandshakeTest, HelloSurvivesTheWire) {
  std::vector<std::byte> bytes = EncodeHello(ExampleHello());
  EXPECT_EQ(bytes.size(), 56u + 2u + 5u);
  EXPECT_EQ(static_cast<char>(bytes[0]), 'B');
  EXPECT_EQ(DecodeHello(bytes).value(), ExampleHello());
}

TEST(HandshakeTest, WelcomeSurvivesTheWire) {
  Welcome welcome;
  welcome.code = StatusCode::kRefused;
  welcome.incarnation = 5;
  welcome.proof.fill(std::byte{2});
  welcome.text = "another job lives here";
  EXPECT_EQ(DecodeWelcome(EncodeWelcome(welcome)).value(), welcome);
}

// Other versions of the library must read these bytes: docs/wire-format.md, Handshake.
TEST(HandshakeTest, GoldenBytesOfAHello) {
  EXPECT_EQ(Hex(EncodeHello(ExampleHello())),
            "42505331"
            "0300"
            "00"
            "01"
            "03000000"
            "01000000"
            "0b00000000000000"
            "0c00000000000000"
            "02000000"
            "00000000"
            "07070707070707070707070707070707"
            "0500"
            "6a6f622d31");
}

TEST(HandshakeTest, GoldenBytesOfAWelcome) {
  Welcome welcome;
  welcome.code = StatusCode::kRefused;
  welcome.incarnation = 5;
  welcome.proof.fill(std::byte{2});
  welcome.text = "no";
  EXPECT_EQ(Hex(EncodeWelcome(welcome)),
            "42505331"
            "0300"
            "08"
            "00"
            "0500000000000000"
            "0202020202020202020202020202020202020202020202020202020202020202"
            "0200"
            "6e6f");
}

TEST(HandshakeTest, AnotherVersionIsRecognisedNotParsed) {
  std::vector<std::byte> bytes = EncodeHello(ExampleHello());
  bytes[4] = std::byte{9};
  bytes.resize(8);
  Result<Hello> hello = DecodeHello(bytes);
  ASSERT_TRUE(hello.ok());
  EXPECT_EQ(hello->version, 9);
}

RC_GTEST_PROP(HandshakeTest, DamagedFramesAreErrors, ()) {
  std::vector<std::byte> bytes = EncodeHello(ExampleHello());
  bytes.resize(*rc::gen::inRange<size_t>(0, bytes.size()));
  RC_ASSERT(!DecodeHello(bytes).ok());
  std::vector<std::byte> welcome = EncodeWelcome(Welcome{});
  welcome.resize(*rc::gen::inRange<size_t>(0, welcome.size()));
  RC_ASSERT(!DecodeWelcome(welcome).ok());
}

}  // namespace
}  // namespace byteps::wire
