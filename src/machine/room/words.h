// The words that the ranks of a machine and its carrier say to each other, as far as both kinds of
// job have them. Each kind has a vocabulary of its own beside these: serverless/local_words.h and
// member/member_words.h.
//
// Only processes of one machine and of one version hear the words (the meeting compares versions),
// so they have no version of their own. Values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "src/base/status.h"
#include "src/base/types.h"
#include "src/local/window.h"

namespace byteps::machine {

// Returns whether bytes are moved as they are, whatever their type, and nothing is added.
inline bool MovesBytes(Combine how) { return how == Combine::kOverlay || how == Combine::kLast; }

using local::Bit;
using local::FirstRanks;
using local::Has;
using local::RankSet;

// Returns local ranks for people: "0, 2, 3".
std::string RanksText(RankSet ranks);

// One exchange of the bytes, or of the sizes, of one use of a tensor.
struct RoundKey {
  TensorId tensor = 0;
  uint64_t use = 0;
  uint32_t first_piece = 0;  // sizes have number 0; bytes that follow them begin with 1
  friend auto operator<=>(const RoundKey&, const RoundKey&) = default;
};

inline constexpr uint32_t kNoRank = UINT32_MAX;

// To the carrier: the round shall end in an error, on every rank or on none.
struct Abort {
  RoundKey key;
  Status why;
};
// To the carrier: the rank begins nothing any more; MayLeave answers it.
struct Leaves {};

// From the carrier: no use of a block that names the rank is admitted from now on.
struct MayLeave {};
// From the carrier: no use of a block is admitted from now on.
struct CarrierLeaves {};
// From the carrier: the job has ended.
struct JobOver {
  Status status;
};

}  // namespace byteps::machine
