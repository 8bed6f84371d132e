#include "src/transport/rdma/offer.h"

#include <algorithm>
#include <cstring>

#include "src/transport/rdma/message.h"
#include "src/wire/bytes.h"

namespace byteps::transport {
namespace {

constexpr uint32_t kBits24 = 0xffffff;
constexpr size_t kGidAt = 24;
constexpr size_t kOfferNonceAt = 40;
constexpr size_t kUsedBytes = 48;  // the rest is reserved
constexpr uint8_t kMtuMax = 5;

Status BadOffer(const std::string& what) {
  return {StatusCode::kProtocol, "it sent an offer of RDMA with " + what};
}

Status Check(const Offer& offer, ConstByteSpan bytes) {
  auto link = wire::GetLittle<uint16_t>(bytes.data() + 2);
  if (link != 1 && link != 2) return BadOffer("an unknown link layer");
  if (offer.queue_pair > kBits24) return BadOffer("a queue pair's number of more than 24 bits");
  if (offer.first_packet > kBits24) return BadOffer("a packet's number of more than 24 bits");
  if (offer.slots < kSlotsMin || offer.slots > kSlotsMax) {
    return BadOffer(std::to_string(offer.slots) + " slots");
  }
  auto mtu = wire::GetLittle<uint16_t>(bytes.data() + 14);
  if (mtu < 1 || mtu > kMtuMax) return BadOffer("an unknown packet size");
  if (offer.slot_bytes < kSlotBytesMin || offer.slot_bytes > kSlotBytesMax) {
    return BadOffer("slots of " + std::to_string(offer.slot_bytes) + " bytes");
  }
  ConstByteSpan rest = bytes.subspan(kUsedBytes);
  bool reserved_is_zero = wire::GetLittle<uint16_t>(bytes.data() + 22) == 0 &&
                          std::ranges::all_of(rest, [](std::byte b) { return b == std::byte{0}; });
  if (!reserved_is_zero) return BadOffer("reserved bytes that are not 0");
  return Status::Ok();
}

}  // namespace

std::array<std::byte, kOfferBytes> EncodeOffer(const Offer& offer) {
  std::array<std::byte, kOfferBytes> bytes{};
  wire::PutLittle(bytes.data(), kOfferVersion);
  wire::PutLittle(bytes.data() + 2, static_cast<uint16_t>(offer.link));
  wire::PutLittle(bytes.data() + 4, offer.queue_pair);
  wire::PutLittle(bytes.data() + 8, offer.first_packet);
  wire::PutLittle(bytes.data() + 12, offer.slots);
  wire::PutLittle(bytes.data() + 14, static_cast<uint16_t>(offer.mtu));
  wire::PutLittle(bytes.data() + 16, offer.slot_bytes);
  wire::PutLittle(bytes.data() + 20, offer.lid);
  std::memcpy(bytes.data() + kGidAt, offer.gid.data(), offer.gid.size());
  wire::PutLittle(bytes.data() + kOfferNonceAt, offer.nonce);
  return bytes;
}

Result<Offer> DecodeOffer(ConstByteSpan bytes) {
  if (bytes.size() < sizeof(kOfferVersion)) return BadOffer("no version");
  auto version = wire::GetLittle<uint16_t>(bytes.data());
  if (version != kOfferVersion) {
    return Status(StatusCode::kUnavailable,
                  "it offers RDMA of version " + std::to_string(version) + ", this process has " +
                      std::to_string(kOfferVersion) + "; install the same version everywhere");
  }
  if (bytes.size() != kOfferBytes) return BadOffer(std::to_string(bytes.size()) + " bytes");
  Offer offer;
  offer.link = static_cast<LinkLayer>(wire::GetLittle<uint16_t>(bytes.data() + 2));
  offer.queue_pair = wire::GetLittle<uint32_t>(bytes.data() + 4);
  offer.first_packet = wire::GetLittle<uint32_t>(bytes.data() + 8);
  offer.slots = wire::GetLittle<uint16_t>(bytes.data() + 12);
  offer.mtu = static_cast<uint8_t>(wire::GetLittle<uint16_t>(bytes.data() + 14));
  offer.slot_bytes = wire::GetLittle<uint32_t>(bytes.data() + 16);
  offer.lid = wire::GetLittle<uint16_t>(bytes.data() + 20);
  std::memcpy(offer.gid.data(), bytes.data() + kGidAt, offer.gid.size());
  offer.nonce = wire::GetLittle<uint64_t>(bytes.data() + kOfferNonceAt);
  Status sound = Check(offer, bytes);
  if (!sound.ok()) return sound;
  return offer;
}

std::vector<std::byte> EncodeDecline(const Decline& decline) {
  size_t text_bytes = std::min(decline.text.size(), kDeclineTextBytesMax);
  std::vector<std::byte> bytes(1 + text_bytes);
  bytes[0] = static_cast<std::byte>(decline.code);
  if (text_bytes > 0) std::memcpy(bytes.data() + 1, decline.text.data(), text_bytes);
  return bytes;
}

Result<Decline> DecodeDecline(ConstByteSpan bytes) {
  if (bytes.empty() || bytes.size() > 1 + kDeclineTextBytesMax) {
    return Status(StatusCode::kProtocol,
                  "it declined RDMA in " + std::to_string(bytes.size()) + " bytes");
  }
  Decline decline;
  auto code = std::to_integer<uint8_t>(bytes[0]);
  bool known = code >= static_cast<uint8_t>(Decline::Code::kNoDevice) &&
               code <= static_cast<uint8_t>(Decline::Code::kFailed);
  decline.code = known ? static_cast<Decline::Code>(code) : Decline::Code::kFailed;
  for (std::byte byte : bytes.subspan(1)) {
    char letter = static_cast<char>(byte);
    decline.text.push_back(letter >= ' ' && letter <= '~' ? letter : '?');
  }
  return decline;
}

}  // namespace byteps::transport
