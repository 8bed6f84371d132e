// The words of a machine whose ranks are one member of a job with servers: what a rank says to the
// carrier, which speaks to the servers for all of them, and what the carrier answers. Values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "src/machine/room/fields.h"
#include "src/machine/room/group_words.h"
#include "src/machine/room/words.h"

namespace byteps::machine {

// The facts of a round that the ranks of a machine say alike: the exchange that the carrier makes
// of it for all of them. Bytes that the ranks bring, or want, of a piece lie behind one another.
struct MemberFacts {
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
  RankSet ranks = 0;  // the ranks of the process set that are on this machine
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
  friend bool operator==(const MemberFacts&, const MemberFacts&) = default;
};

namespace member {

// To the carrier.
struct Begun {
  RoundKey key;
  MemberFacts facts;
  // The part of the first piece that this rank brings.
  uint32_t push_offset = 0;
  uint32_t push_bytes = 0;
  // In a join: the operations that this rank took part in (wire/join_word.h).
  uint32_t operations = 0;
  Status no_input;         // not kOk: the rank brings nothing, and the round ends in this error
  bool on_device = false;  // the rank can launch: its memory is on the device that it has said
};
struct Joined {
  uint64_t number = 0;  // protocol::to_lane::Joined::number
};
// Slots and ranks are numbers of the job.
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
// IsSettled answers it, when nobody depends any more on what the machine holds.
struct AsksSettled {
  uint64_t question = 0;
};

// From the carrier: the round is over, and the rank has read all that it gets.
struct Ended {
  RoundKey key;
  Status status;
  std::vector<uint32_t> receipt;  // slots
  bool mixed = false;
};
struct IsSettled {
  uint64_t question = 0;
};

void Fields(auto& archive, WordOf<Begun> auto& word) {
  Fields(archive, word.key);
  Fields(archive, word.facts);
  archive.Number(word.push_offset);
  archive.Number(word.push_bytes);
  archive.Number(word.operations);
  archive.How(word.no_input);
  archive.Flag(word.on_device);
  archive.Check([&](const WordLimits& limits) {
    const MemberFacts& facts = word.facts;
    bool sane = AreRuns(word.key, facts, limits);
    for (const MemberFacts::Run& run : facts.pieces) {
      sane = sane && uint64_t{run.push_offset} + run.push_bytes <= run.bytes &&
             uint64_t{run.want_offset} + run.want_bytes <= run.bytes;
    }
    const uint32_t first_bytes = facts.pieces.empty() ? 0 : facts.pieces[0].bytes;
    return sane && uint64_t{word.push_offset} + word.push_bytes <= first_bytes;
  });
}
void Fields(auto& archive, WordOf<Joined> auto& word) { archive.Number(word.number); }
void Fields(auto& archive, WordOf<SetAdded> auto& word) {
  archive.Number(word.number);
  archive.JobNumbers(word.slots);
  archive.JobNumbers(word.ranks);
}
void Fields(auto& archive, WordOf<SetRemoved> auto& word) { archive.Number(word.number); }
void Fields(auto& archive, WordOf<Retired> auto& word) { archive.Numbers(word.tensors); }
void Fields(auto& archive, WordOf<Forgotten> auto& word) { archive.Numbers(word.tensors); }
void Fields(auto& archive, WordOf<AsksSettled> auto& word) { archive.Number(word.question); }
void Fields(auto& archive, WordOf<Ended> auto& word) {
  Fields(archive, word.key);
  archive.How(word.status);
  archive.JobNumbers(word.receipt);
  archive.Flag(word.mixed);
}
void Fields(auto& archive, WordOf<IsSettled> auto& word) { archive.Number(word.question); }

}  // namespace member

// The vocabulary, for WordChannel. The carrier hears each word at once.
struct MemberWords {
  using ToCarrier = std::variant<member::Begun, member::Joined, Abort, Leaves, member::SetAdded,
                                 member::SetRemoved, member::Retired, member::Forgotten,
                                 member::AsksSettled, HasDevice, Met, Broken>;
  using ToRank = std::variant<member::Ended, member::IsSettled, MayLeave, CarrierLeaves, JobOver,
                              SumsSo, UnitLaunch, GroupOver>;

  static std::optional<std::pair<RoundKey, RankSet>> SignOf(const ToCarrier&) {
    return std::nullopt;
  }
  static bool Excuses(const ToCarrier&) { return false; }
};

void Fields(auto& archive, WordOf<MemberFacts> auto& facts) {
  archive.Text(facts.name);
  archive.Ranks(facts.ranks);
  archive.Choice(facts.how, kCombineCount);
  archive.Choice(facts.type, kDataTypeCount);
  archive.Number(facts.codec);
  archive.Number(facts.process_set);
  archive.Number(facts.root);
  archive.Signed(facts.priority);
  archive.Number(facts.order);
  archive.Flag(facts.atomic);
  archive.Flag(facts.others_wait);
  archive.List(facts.pieces, 6 * sizeof(uint32_t), [&](auto& run) {
    archive.Number(run.count);
    archive.Number(run.bytes);
    archive.Number(run.push_offset);
    archive.Number(run.push_bytes);
    archive.Number(run.want_offset);
    archive.Number(run.want_bytes);
  });
  archive.Numbers(facts.homes);
}

}  // namespace byteps::machine
