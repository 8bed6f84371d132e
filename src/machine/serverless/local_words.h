// The words of a job without servers: what a rank says to the carrier about its rounds, and what
// the carrier answers. Values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "src/machine/room/fields.h"
#include "src/machine/room/group_words.h"
#include "src/machine/room/small_parts.h"
#include "src/machine/room/words.h"

namespace byteps::machine {

// The facts of a round that all its ranks say alike, but for the urgency.
struct LocalFacts {
  // `count` pieces, one after the other, have `bytes` bytes each.
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
  friend bool operator==(const LocalFacts&, const LocalFacts&) = default;
};

// To the carrier.
struct Begun {
  RoundKey key;
  LocalFacts facts;
  // In a join: the operations that this rank took part in (wire/join_word.h).
  uint32_t operations = 0;
  SmallPart part;          // what the rank brings, if it is small
  Status no_input;         // not kOk: the rank brings nothing, and the round ends in this error
  bool on_device = false;  // the rank can launch: its memory is on the device that it has said
};
// The rank takes part in nothing else until the next join of all.
struct Joined {};
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
  RankSet ranks = 0;  // the ranks that took part
};

// The vocabulary, for WordChannel. A wire::Message is about names.
struct LocalWords {
  using ToCarrier =
      std::variant<Begun, Joined, Abort, Leaves, GaveUp, HasDevice, Met, Broken, wire::Message>;
  using ToRank = std::variant<Failed, Combined, MayLeave, CarrierLeaves, JobOver, SumsSo,
                              UnitLaunch, GroupOver, wire::Message>;

  // Returns the round and the ranks that the word shows a sign of; none: the carrier must hear the
  // word now.
  static std::optional<std::pair<RoundKey, RankSet>> SignOf(const ToCarrier& word) {
    const auto* begun = std::get_if<Begun>(&word);
    if (begun == nullptr) return std::nullopt;
    return std::pair(begun->key, begun->facts.ranks);
  }
  // Returns whether nobody waits for a rank that has said the word.
  static bool Excuses(const ToCarrier& word) {
    return std::holds_alternative<Joined>(word) || std::holds_alternative<Leaves>(word);
  }
};

void Fields(auto& archive, WordOf<LocalFacts> auto& facts) {
  archive.Ranks(facts.ranks);
  archive.Choice(facts.how, kCombineCount);
  archive.Choice(facts.type, kDataTypeCount);
  archive.Number(facts.root);
  archive.Signed(facts.priority);
  archive.Number(facts.order);
  archive.List(facts.pieces, 2 * sizeof(uint32_t), [&](auto& run) {
    archive.Number(run.count);
    archive.Number(run.bytes);
  });
}
void Fields(auto& archive, WordOf<Begun> auto& word) {
  Fields(archive, word.key);
  Fields(archive, word.facts);
  archive.Number(word.operations);
  archive.Number(word.part.place);
  archive.Number(word.part.offset);
  archive.Number(word.part.bytes);
  archive.How(word.no_input);
  archive.Flag(word.on_device);
  archive.Check([&](const WordLimits& limits) {
    const LocalFacts& facts = word.facts;
    const SmallPart& part = word.part;
    const bool has_root =
        facts.root == kNoRank || (facts.root < limits.ranks && Has(facts.ranks, facts.root));
    const bool has_place =
        part.place == kNoPlace ||
        (part.place < kSmallPlaces && uint64_t{part.offset} + part.bytes <= kSmallBytesMax);
    return AreRuns(word.key, facts, limits) && has_root && has_place;
  });
}
void Fields(auto&, WordOf<Joined> auto&) {}
void Fields(auto& archive, WordOf<GaveUp> auto& word) { archive.Text(word.why); }
void Fields(auto& archive, WordOf<Failed> auto& word) {
  Fields(archive, word.key);
  archive.Error(word.status);
}
void Fields(auto& archive, WordOf<Combined> auto& word) {
  Fields(archive, word.key);
  archive.Ranks(word.ranks);
}

}  // namespace byteps::machine
