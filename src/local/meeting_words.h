// The words of processes that meet. Only processes of one machine hear them, but these may have
// different versions of this library. So the words have a version number, and numbers have a fixed
// width.
//
//   hello      the guest's version, rank, size, memory bytes, nonce, terms
//   challenge  a nonce
//   proof      the guest knows the secret; with its life descriptor and its heap
//   welcome    the host's proof, when all are there; with the memory, all life
//              descriptors and all heaps
//   have       the guest has them
//   begin      all guests have them
//   refusal    in place of the next word, from either end: a code and a text
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "src/base/proof.h"
#include "src/base/status.h"
#include "src/base/types.h"

namespace byteps::local {

inline constexpr uint32_t kMeetingVersion = 3;
inline constexpr size_t kTermsBytesMax = 1024;
using MeetingNonce = std::array<std::byte, 16>;

enum class MeetingWord : uint8_t {
  kHello = 1,
  kChallenge,
  kProof,
  kWelcome,
  kRefusal,
  kHave,
  kBegin
};

struct MeetingHello {
  uint32_t version = kMeetingVersion;
  uint32_t rank = 0;
  uint32_t size = 0;
  uint64_t memory_bytes = 0;
  MeetingNonce nonce{};
  std::string terms;
};

std::vector<std::byte> EncodeMeetingHello(const MeetingHello& hello);
// Encodes one of the words that have a fixed number of bytes.
std::vector<std::byte> EncodeMeetingWord(MeetingWord word, ConstByteSpan bytes);
std::vector<std::byte> EncodeMeetingRefusal(const Status& why);

std::optional<MeetingHello> DecodeMeetingHello(ConstByteSpan packet);
// Returns the bytes behind the word, if the packet has this word and so many bytes.
std::optional<ConstByteSpan> DecodeMeetingWord(MeetingWord word, ConstByteSpan packet,
                                               size_t bytes);
std::optional<Status> DecodeMeetingRefusal(ConstByteSpan packet);

}  // namespace byteps::local
