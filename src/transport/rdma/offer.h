// Two ends of a TCP connection tell each other this before they go on over RDMA: the offer of one
// end, and the answer of the other, an acceptance or a refusal. docs/wire-format.md describes the
// bytes.
//
// Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/base/types.h"
#include "src/transport/rdma/slots.h"

namespace byteps::transport {

// The kinds of the frames by which a connection changes to RDMA. The switch is the last frame of
// its sender over TCP; it has no payload.
enum class UpgradeFrame : uint8_t { kOffer = 240, kAccept = 241, kDecline = 242, kSwitch = 243 };

using Gid = std::array<uint8_t, 16>;

enum class LinkLayer : uint8_t { kInfiniBand = 1, kEthernet = 2 };

inline constexpr size_t kOfferBytes = 64;
inline constexpr uint16_t kOfferVersion = 1;

// An offer, or an acceptance, which has the same fields.
struct Offer {
  LinkLayer link = LinkLayer::kEthernet;
  uint32_t queue_pair = 0;     // its number, 24 bits
  uint32_t first_packet = 0;   // its number, 24 bits
  uint16_t slots = kSlotsMin;  // messages that the sender of the offer can receive at a time
  uint8_t mtu = 1;             // as verbs counts: 1 is 256 bytes, 5 is 4096
  uint32_t slot_bytes = 0;
  uint16_t lid = 0;  // the address of an InfiniBand port in its subnet
  Gid gid{};
  uint64_t nonce = 0;  // the peer's first message has it

  bool operator==(const Offer&) const = default;
};

std::array<std::byte, kOfferBytes> EncodeOffer(const Offer& offer);
// kProtocol: no correct peer sends this; the text follows the peer's name. kUnavailable: it speaks
// another version of the offer.
Result<Offer> DecodeOffer(ConstByteSpan bytes);

// Decline: the reason why an end does not go on over RDMA.
struct Decline {
  enum class Code : uint8_t {
    kNoDevice = 1,   // no device serves this connection, or none is wanted
    kNoRoom = 2,     // no memory, no queue pair
    kUnlike = 3,     // the two ends do not fit: link layers, versions
    kNotProven = 4,  // no message came through in time
    kFailed = 5,     // the device refused something
  };
  Code code = Code::kFailed;
  std::string text;  // for people

  bool operator==(const Decline&) const = default;
};

inline constexpr size_t kDeclineTextBytesMax = 500;

// Cuts a longer text.
std::vector<std::byte> EncodeDecline(const Decline& decline);
// An unknown code becomes kFailed. Replaces bytes that are no printable text by "?".
Result<Decline> DecodeDecline(ConstByteSpan bytes);

}  // namespace byteps::transport
