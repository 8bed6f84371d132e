// The words that the ranks of a machine and its carrier say about groups of GPUs
// (docs/decisions/0065-groups-in-jobs.md). Values.
//
// A rank says HasDevice before its first round in the memory of a device. When all ranks have said
// so, the carrier decides once how they sum, and says SumsSo if they sum in groups. Each rank meets
// the others of its group and says Met. From then on the carrier says launches, in one order for
// all rounds, and a rank launches all that it hears, until GroupOver.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "src/device/communicator.h"
#include "src/machine/room/fields.h"
#include "src/machine/room/words.h"

namespace byteps::machine {

// To the carrier.
struct HasDevice {
  std::string uuid;  // device::DeviceFacts::uuid
};
struct Met {
  Status how;  // not kOk: there will be no group
};
// The group has failed by itself, at this rank.
struct Broken {
  Status why;
};

// From the carrier.
struct SumsSo {
  std::string library;  // name and version, which must be the same at all ranks
  std::string id;       // a device::GroupId
  uint32_t place = 0;   // of this rank in its group
  RankSet ranks = 0;    // of the group
  uint32_t size() const { return static_cast<uint32_t>(std::popcount(ranks)); }
};
// Says what the ranks of a group do next. `runs` lie in the unit, which is the memory of these
// pieces.
struct UnitLaunch {
  RoundKey key;
  device::Launch::Kind kind = device::Launch::Kind::kReduce;
  uint32_t first_piece = 0;
  uint32_t pieces = 0;
  DataType type = DataType::kFloat32;
  Combine how = Combine::kSum;
  std::vector<device::GroupRun> runs;  // one after the other
  size_t bytes() const { return runs.empty() ? 0 : runs.back().first + runs.back().bytes; }
};
// No launch follows. kOk: the ranks leave their groups in order; else they abort them.
struct GroupOver {
  Status why;
};

void Fields(auto& archive, WordOf<HasDevice> auto& word) { archive.Text(word.uuid); }
void Fields(auto& archive, WordOf<Met> auto& word) { archive.How(word.how); }
void Fields(auto& archive, WordOf<Broken> auto& word) { archive.Error(word.why); }
void Fields(auto& archive, WordOf<SumsSo> auto& word) {
  archive.Text(word.library);
  archive.Text(word.id);
  archive.Number(word.place);
  archive.Ranks(word.ranks);
  archive.Check([&](const WordLimits&) {
    return word.id.size() == sizeof(device::GroupId) && word.place < word.size();
  });
}
void Fields(auto& archive, WordOf<UnitLaunch> auto& word) {
  Fields(archive, word.key);
  archive.Choice(word.kind, 3);
  archive.Number(word.first_piece);
  archive.Number(word.pieces);
  archive.Choice(word.type, kDataTypeCount);
  archive.Choice(word.how, kCombineCount);
  archive.List(word.runs, sizeof(uint32_t) + 2 * sizeof(size_t), [&](auto& run) {
    archive.Number(run.home);
    archive.Number(run.first);
    archive.Number(run.bytes);
  });
  archive.Check([&](const WordLimits& limits) {
    size_t end = 0;
    for (const device::GroupRun& run : word.runs) {
      if (run.first != end || run.home >= limits.ranks) return false;
      end += run.bytes;
    }
    const bool can_reduce = word.kind == device::Launch::Kind::kReduceAll
                                ? device::CanReduceAll(word.type, word.how)
                                : device::CanReduce(word.type, word.how);
    return word.pieces > 0 && end > 0 && end <= word.pieces * limits.piece_bytes_max && can_reduce;
  });
}
void Fields(auto& archive, WordOf<GroupOver> auto& word) { archive.How(word.why); }

}  // namespace byteps::machine
