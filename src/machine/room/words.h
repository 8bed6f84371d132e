// What the ranks of a machine and its carrier say to each other beside the window.
//
// Only processes of one machine and of one version hear it (the meeting compares versions), so it
// has no version of its own. Values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "src/base/status.h"
#include "src/base/types.h"
#include "src/local/window.h"
#include "src/machine/room/small_parts.h"
#include "src/wire/control.h"

namespace byteps::machine {

// What moves bytes as they are, whatever their type, and does not add.
inline bool MovesBytes(Combine how) { return how == Combine::kOverlay || how == Combine::kLast; }

using local::Bit;
using local::FirstRanks;
using local::Has;
using local::RankSet;

// "0, 2, 3": local ranks for people.
std::string RanksText(RankSet ranks);

// One exchange of the bytes, or of the sizes, of one use of a tensor.
struct RoundKey {
  TensorId tensor = 0;
  uint64_t use = 0;
  uint32_t first_piece = 0;  // sizes have number 0; bytes that follow them begin with 1
  friend auto operator<=>(const RoundKey&, const RoundKey&) = default;
};

inline constexpr uint32_t kNoRank = UINT32_MAX;

// What all ranks of a round say of it alike, but for the urgency.
struct RoundFacts {
  // So many pieces, one after the other, have so many bytes.
  struct Run {
    uint32_t count = 0;
    uint32_t bytes = 0;
    friend bool operator==(const Run&, const Run&) = default;
  };
  RankSet ranks = 0;  // of the process set
  Combine how = Combine::kSum;
  DataType type = DataType::kFloat32;
  uint32_t root = kNoRank;  // whose bytes all others get, if there is such a one
  int32_t priority = 0;
  uint32_t order = 0;
  std::vector<Run> pieces;
  friend bool operator==(const RoundFacts&, const RoundFacts&) = default;
};

// What the ranks of a machine say alike of a round in a job with servers: the exchange that the
// carrier makes of it for all of them. Bytes that its ranks bring, or want, of a piece lie behind
// one another.
struct UpwardFacts {
  struct Run {
    uint32_t count = 0;
    uint32_t bytes = 0;  // of the piece
    uint32_t push_offset = 0;
    uint32_t push_bytes = 0;
    uint32_t want_offset = 0;
    uint32_t want_bytes = 0;
    friend bool operator==(const Run&, const Run&) = default;
  };
  std::string name;
  RankSet ranks = 0;  // of the process set that are on this machine
  Combine how = Combine::kSum;
  DataType type = DataType::kFloat32;
  uint8_t codec = 0;
  uint32_t process_set = 0;
  uint32_t root = kNoRank;  // the slot of the member whose bytes all others get
  int32_t priority = 0;
  uint32_t order = 0;
  bool atomic = false;
  bool others_wait = false;
  std::vector<Run> pieces;
  std::vector<ShardId> homes;  // by number; none if the rank has told them before
  friend bool operator==(const UpwardFacts&, const UpwardFacts&) = default;
};

// To the carrier.
struct BegunUpward {
  RoundKey key;
  UpwardFacts facts;
  // Of the first piece: what this rank brings.
  uint32_t push_offset = 0;
  uint32_t push_bytes = 0;
  uint32_t operations = 0;  // of a join, as of Begun
};
struct JoinedUpward {
  uint64_t number = 0;  // protocol::to_lane::Joined has it
};
// By number, of slots and of ranks.
struct SetAdded {
  uint32_t number = 0;
  std::vector<uint32_t> slots;
  std::vector<uint32_t> ranks;
};
struct SetRemoved {
  uint32_t number = 0;
};
struct Retired {
  std::vector<TensorId> tensors;
};
// All ranks of the job have let go of them.
struct Forgotten {
  std::vector<TensorId> tensors;
};
// IsSettled answers it, when nobody depends any more on what the machine holds.
struct AsksSettled {
  uint64_t question = 0;
};

// From the carrier, in a job with servers: the round is over, and the rank has read all it gets.
struct Ended {
  RoundKey key;
  Status status;
  std::vector<uint32_t> receipt;  // slots
  bool mixed = false;
};
struct IsSettled {
  uint64_t question = 0;
};

// To the carrier.
struct Begun {
  RoundKey key;
  RoundFacts facts;
  uint32_t operations = 0;  // of a join: in so many this rank has taken part (wire/join_word.h)
  SmallPart part;           // what the rank brings, if it is small
};
// Until the next join of all, this rank takes part in nothing else.
struct Joined {};
// The round shall end in an error, on every rank or on none.
struct Abort {
  RoundKey key;
  Status why;
};
// The rank begins nothing any more; MayLeave answers it.
struct Leaves {};
// The rank cannot go on, and so the job cannot.
struct GaveUp {
  std::string why;
};

// From the carrier.
struct Failed {
  RoundKey key;
  Status status;
};
// The round is over, and the rank's place (SmallPart) has the result.
struct Combined {
  RoundKey key;
  RankSet ranks = 0;  // who took part
};
// No use of a block that names the rank is admitted from now on.
struct MayLeave {};
// No use of a block is admitted from now on.
struct CarrierLeaves {};
struct JobOver {
  Status status;
};

// Both ways: names.
using Word = std::variant<Begun, Joined, Abort, Leaves, GaveUp, Failed, MayLeave, CarrierLeaves,
                          JobOver, BegunUpward, JoinedUpward, SetAdded, SetRemoved, Retired,
                          AsksSettled, Ended, IsSettled, Combined, Forgotten, wire::Message>;

// What can be true in the memory that the ranks of a machine share.
struct WordLimits {
  uint32_t ranks = 0;
  size_t piece_bytes_max = 0;  // a block has so many
};
// Numbers of slots and of ranks of a job are below it: a set takes a bit for each number.
inline constexpr uint32_t kJobNumbersMax = uint32_t{1} << 20;

std::vector<std::byte> EncodeWord(const Word& word);
// kProtocol for what is none, and for facts that cannot be true: nobody looks at them again. Ranks
// are of the machine, the runs of a round are not empty and have no more pieces than there are
// numbers, and what lies in a piece, or in a place, ends there.
Result<Word> DecodeWord(ConstByteSpan packet, const WordLimits& limits);

}  // namespace byteps::machine
