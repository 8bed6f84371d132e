#include "src/transport/rdma/offer.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>

#include "src/transport/rdma/message.h"

namespace byteps::transport {
namespace {

Offer SomeOffer() {
  Offer offer;
  offer.link = LinkLayer::kEthernet;
  offer.queue_pair = 0x123456;
  offer.first_packet = 0xabcdef;
  offer.slots = 16;
  offer.mtu = 5;
  offer.slot_bytes = 32768;
  offer.lid = 0x1234;
  for (size_t i = 0; i < offer.gid.size(); ++i) offer.gid[i] = static_cast<uint8_t>(0xa0 + i);
  offer.nonce = 0x1122334455667788;
  return offer;
}

TEST(OfferTest, HasTheBytesOfTheSpecification) {
  const uint8_t expected[kOfferBytes] = {1,    0,    2,    0,    0x56, 0x34, 0x12, 0,    0xef, 0xcd,
                                         0xab, 0,    16,   0,    5,    0,    0,    0x80, 0,    0,
                                         0x34, 0x12, 0,    0,    0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5,
                                         0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf,
                                         0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11};
  auto bytes = EncodeOffer(SomeOffer());
  for (size_t i = 0; i < kOfferBytes; ++i) EXPECT_EQ(bytes[i], std::byte{expected[i]}) << i;
}

TEST(OfferTest, ComesBackAsItWas) {
  rc::check([](Gid gid, uint64_t nonce, uint16_t lid) {
    Offer offer;
    offer.link = *rc::gen::element(LinkLayer::kInfiniBand, LinkLayer::kEthernet);
    offer.queue_pair = *rc::gen::inRange<uint32_t>(0, 1U << 24);
    offer.first_packet = *rc::gen::inRange<uint32_t>(0, 1U << 24);
    offer.slots = *rc::gen::inRange<uint16_t>(kSlotsMin, kSlotsMax + 1);
    offer.mtu = *rc::gen::inRange<uint8_t>(1, 6);
    offer.slot_bytes = *rc::gen::inRange<uint32_t>(kSlotBytesMin, kSlotBytesMax + 1);
    offer.lid = lid;
    offer.gid = gid;
    offer.nonce = nonce;
    auto read = DecodeOffer(EncodeOffer(offer));
    RC_ASSERT(read.ok());
    RC_ASSERT(read.value() == offer);
  });
}

StatusCode ChangedOffer(size_t at, uint8_t value) {
  auto bytes = EncodeOffer(SomeOffer());
  bytes[at] = std::byte{value};
  return DecodeOffer(bytes).status().code();
}

TEST(OfferTest, RefusesWhatNoCorrectPeerSends) {
  EXPECT_EQ(ChangedOffer(0, 1), StatusCode::kOk);
  EXPECT_EQ(ChangedOffer(0, 2), StatusCode::kUnavailable) << "another version";
  EXPECT_EQ(ChangedOffer(2, 3), StatusCode::kProtocol) << "link layer";
  EXPECT_EQ(ChangedOffer(7, 1), StatusCode::kProtocol) << "queue pair";
  EXPECT_EQ(ChangedOffer(11, 1), StatusCode::kProtocol) << "packet";
  EXPECT_EQ(ChangedOffer(12, 3), StatusCode::kProtocol) << "slots";
  EXPECT_EQ(ChangedOffer(13, 5), StatusCode::kProtocol) << "slots";
  EXPECT_EQ(ChangedOffer(14, 0), StatusCode::kProtocol) << "packet size";
  EXPECT_EQ(ChangedOffer(14, 6), StatusCode::kProtocol) << "packet size";
  EXPECT_EQ(ChangedOffer(17, 0), StatusCode::kProtocol) << "slot bytes";
  EXPECT_EQ(ChangedOffer(18, 5), StatusCode::kProtocol) << "slot bytes";
  EXPECT_EQ(ChangedOffer(22, 1), StatusCode::kProtocol) << "reserved";
  EXPECT_EQ(ChangedOffer(63, 1), StatusCode::kProtocol) << "reserved";
  auto bytes = EncodeOffer(SomeOffer());
  EXPECT_EQ(DecodeOffer(ConstByteSpan(bytes).first(63)).status().code(), StatusCode::kProtocol);
  EXPECT_EQ(DecodeOffer({}).status().code(), StatusCode::kProtocol);
}

TEST(DeclineTest, HasTheBytesOfTheSpecificationAndComesBack) {
  Decline decline{Decline::Code::kNoRoom, "no memory"};
  auto bytes = EncodeDecline(decline);
  ASSERT_EQ(bytes.size(), 10u);
  EXPECT_EQ(bytes[0], std::byte{2});
  EXPECT_EQ(bytes[1], std::byte{'n'});
  auto read = DecodeDecline(bytes);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read.value(), decline);
}

TEST(DeclineTest, ALongTextIsCutAndAStrangeOneIsMadeReadable) {
  auto bytes = EncodeDecline({Decline::Code::kFailed, std::string(10000, 'x')});
  EXPECT_EQ(DecodeDecline(bytes)->text.size(), kDeclineTextBytesMax);
  bytes.push_back(std::byte{'x'});
  EXPECT_EQ(DecodeDecline(bytes).status().code(), StatusCode::kProtocol);
  EXPECT_EQ(DecodeDecline({}).status().code(), StatusCode::kProtocol);
  auto strange = DecodeDecline(EncodeDecline({Decline::Code::kFailed, "a\x1b[2J\n\xff"}));
  ASSERT_TRUE(strange.ok());
  EXPECT_EQ(strange->text, "a?[2J??");
  std::byte unknown[] = {std::byte{99}};
  EXPECT_EQ(DecodeDecline(unknown)->code, Decline::Code::kFailed);
}

}  // namespace
}  // namespace byteps::transport
