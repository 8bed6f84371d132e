// The words that the ranks of a machine and its carrier say to each other beside the window.
//
// Only processes of one machine and of one version hear the words (the meeting compares versions),
// so the words have no version of their own. Values.
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

// Returns whether the operation moves bytes as they are, whatever their type, without adding.
inline bool MovesBytes(Combine how) { return how == Combine::kOverlay || how == Combine::kLast; }

using local::Bit;
using local::FirstRanks;
using local::Has;
using local::RankSet;

// Returns the text "0, 2, 3" for people: local ranks.
std::string RanksText(RankSet ranks);

// One exchange of the bytes, or of the sizes, of one use of a tensor.
struct RoundKey {
  TensorId tensor = 0;
  uint64_t use = 0;
  uint32_t first_piece = 0;  // sizes have number 0; the bytes that follow sizes begin with 1
  friend auto operator<=>(const RoundKey&, const RoundKey&) = default;
};

inline constexpr uint32_t kNoRank = UINT32_MAX;

// The facts of a round in a job without servers. All ranks of the round say the same, except for
// the urgency.
struct RoundFacts {
  // `count` pieces, one after the other, of `bytes` bytes each.
  struct Run {
    uint32_t count = 0;
    uint32_t bytes = 0;
    friend bool operator==(const Run&, const Run&) = default;
  };
  RankSet ranks = 0;  // of the process set
  Combine how = Combine::kSum;
  DataType type = DataType::kFloat32;
  uint32_t root = kNoRank;  // the rank whose bytes all others get, if there is one
  int32_t priority = 0;
  uint32_t order = 0;
  std::vector<Run> pieces;
  friend bool operator==(const RoundFacts&, const RoundFacts&) = default;
};

// The facts of a round in a job with servers: the exchange that the carrier makes of it for all
// ranks of the machine. All these ranks say the same. The bytes of a piece that the ranks bring, or
// want, lie one behind the other.
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
  RankSet ranks = 0;  // the ranks of the process set on this machine
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
  std::vector<ShardId> homes;  // by number; empty if the rank has told them before
  friend bool operator==(const UpwardFacts&, const UpwardFacts&) = default;
};

// Words to the carrier, in a job with servers.
struct BegunUpward {
  RoundKey key;
  UpwardFacts facts;
  // The part of the first piece that this rank brings.
  uint32_t push_offset = 0;
  uint32_t push_bytes = 0;
  uint32_t operations = 0;  // of a join, like Begun::operations
};
struct JoinedUpward {
  uint64_t number = 0;  // the number in protocol::to_lane::Joined
};
// Adds a process set by its number, its slots and its ranks.
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
// All ranks of the job have let go of these tensors.
struct Forgotten {
  std::vector<TensorId> tensors;
};
// Asks for IsSettled, which comes when nobody depends any more on what the machine holds.
struct AsksSettled {
  uint64_t question = 0;
};

// The words below come from the carrier, in a job with servers. Ended: the round is over, and the
// rank has read all that it gets.
struct Ended {
  RoundKey key;
  Status status;
  std::vector<uint32_t> receipt;  // slots
  bool mixed = false;
};
struct IsSettled {
  uint64_t question = 0;
};

// The words below go to the carrier.
struct Begun {
  RoundKey key;
  RoundFacts facts;
  // The number of operations that this rank has taken part in; only for a join (wire/join_word.h).
  uint32_t operations = 0;
  SmallPart part;  // the rank's bytes, if they are few
};
// Until the next join of all ranks, this rank takes part in nothing else.
struct Joined {};
// Asks that the round ends in an error, on every rank or on none.
struct Abort {
  RoundKey key;
  Status why;
};
// The rank begins nothing any more; MayLeave answers it.
struct Leaves {};
// The rank cannot go on, so the job cannot go on, either.
struct GaveUp {
  std::string why;
};

// The words below come from the carrier.
struct Failed {
  RoundKey key;
  Status status;
};
// The round is over, and the rank's place (SmallPart) has the result.
struct Combined {
  RoundKey key;
  RankSet ranks = 0;  // the ranks that took part
};
// From now on the carrier admits no use of a block that names the rank.
struct MayLeave {};
// From now on the carrier admits no use of a block.
struct CarrierLeaves {};
struct JobOver {
  Status status;
};

// wire::Message goes both ways, for names.
using Word = std::variant<Begun, Joined, Abort, Leaves, GaveUp, Failed, MayLeave, CarrierLeaves,
                          JobOver, BegunUpward, JoinedUpward, SetAdded, SetRemoved, Retired,
                          AsksSettled, Ended, IsSettled, Combined, Forgotten, wire::Message>;

// The limits of what can be true in the memory that the ranks of a machine share.
struct WordLimits {
  uint32_t ranks = 0;
  size_t piece_bytes_max = 0;  // the bytes of a block
};
// Numbers of slots and of ranks of a job are below this: a set takes a bit for each number.
inline constexpr uint32_t kJobNumbersMax = uint32_t{1} << 20;

std::vector<std::byte> EncodeWord(const Word& word);
// Returns kProtocol for a packet that is no word, and for impossible facts, so that nobody need
// check them again. Ranks are ranks of the machine; the runs of a round are not empty, and have no
// more pieces than there are numbers; every part of a piece, or of a place, ends within it.
Result<Word> DecodeWord(ConstByteSpan packet, const WordLimits& limits);

}  // namespace byteps::machine
