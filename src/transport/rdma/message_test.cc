#include "src/transport/rdma/message.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <string>

namespace byteps::transport {
namespace {

using HeadBytes = std::array<std::byte, kMessageHeadBytes>;

HeadBytes Golden() {
  MessageHead head;
  head.stream_bytes = 0x48;
  head.payload_bytes = 0x8000;
  head.returned = 0x01020304;
  head.number = 0;
  head.nonce = 0x1122334455667788;
  HeadBytes bytes{};
  EncodeMessageHead(head, bytes);
  return bytes;
}

TEST(MessageHeadTest, HasTheBytesOfTheSpecification) {
  HeadBytes bytes = Golden();
  HeadBytes expected{};
  const uint8_t front[] = {0x48, 0, 0, 0, 0, 0x80, 0, 0, 4, 3, 2, 1, 0, 0, 0, 0};
  const uint8_t back[] = {0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11};
  for (size_t i = 0; i < sizeof(front); ++i) expected[i] = std::byte{front[i]};
  for (size_t i = 0; i < sizeof(back); ++i) expected[152 + i] = std::byte{back[i]};
  EXPECT_EQ(bytes, expected);
}

TEST(MessageHeadTest, ComesBackAsItWas) {
  rc::check([](uint32_t returned, uint32_t number, uint64_t nonce) {
    MessageHead head;
    head.stream_bytes = *rc::gen::inRange<size_t>(0, kHeadStreamBytesMax + 1);
    head.payload_bytes = *rc::gen::inRange<size_t>(0, kSlotBytesMax + 1);
    head.returned = returned;
    head.number = number;
    head.nonce = number == 0 ? nonce : 0;
    HeadBytes bytes{};
    EncodeMessageHead(head, bytes);
    auto read = DecodeMessageHead(bytes, kMessageHeadBytes + head.payload_bytes);
    RC_ASSERT(read.ok());
    RC_ASSERT(read->stream_bytes == head.stream_bytes);
    RC_ASSERT(read->payload_bytes == head.payload_bytes);
    RC_ASSERT(read->returned == returned);
    RC_ASSERT(read->number == number);
    RC_ASSERT(read->nonce == head.nonce);
    RC_ASSERT(read->empty() == (head.stream_bytes + head.payload_bytes == 0));
  });
}

TEST(MessageHeadTest, LeavesTheBytesOfTheStreamAlone) {
  HeadBytes bytes{};
  for (size_t i = 0; i < kHeadStreamBytesMax; ++i) bytes[kHeadStreamAt + i] = std::byte{0x77};
  EncodeMessageHead({}, bytes);
  for (size_t i = 0; i < kHeadStreamBytesMax; ++i) {
    EXPECT_EQ(bytes[kHeadStreamAt + i], std::byte{0x77});
  }
}

// Changes one byte of a correct head.
Status Changed(size_t at, uint8_t value, size_t message_bytes = kMessageHeadBytes + 0x8000) {
  HeadBytes bytes = Golden();
  bytes[at] = std::byte{value};
  return DecodeMessageHead(bytes, message_bytes).status();
}

TEST(MessageHeadTest, RefusesWhatNoCorrectPeerSends) {
  EXPECT_TRUE(Changed(0, 0x48).ok());
  EXPECT_TRUE(Changed(0, 136).ok());
  EXPECT_EQ(Changed(0, 137).code(), StatusCode::kProtocol) << "more than the head has";
  EXPECT_EQ(Changed(1, 1).code(), StatusCode::kProtocol);
  EXPECT_EQ(Changed(2, 1).code(), StatusCode::kProtocol) << "reserved";
  EXPECT_EQ(Changed(4, 1).code(), StatusCode::kProtocol) << "another length than came";
  EXPECT_EQ(Changed(7, 0xff).code(), StatusCode::kProtocol);
  EXPECT_EQ(Changed(12, 1).code(), StatusCode::kProtocol) << "a nonce in a later message";
  EXPECT_EQ(Changed(0, 0x48, 159).code(), StatusCode::kProtocol) << "less than a head";
}

}  // namespace
}  // namespace byteps::transport
