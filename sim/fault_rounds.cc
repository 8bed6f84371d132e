// Rounds in which not all workers take part, or whose results differ by rank: process sets, joins
// and others.
#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "sim/play.h"
#include "src/operations/sizes.h"

namespace byteps::sim {

// Returns the round after `round`. The round of the join has the same number for all workers; the
// rounds that a worker misses come before it.
uint32_t Play::RoundAfter(uint32_t worker, uint32_t round) const {
  if (!HasJoin() || round >= script_.rounds) return round + 1;
  return round + 1 >= script_.join_after[worker] ? script_.rounds : round + 1;
}

uint32_t Play::AllRounds() const { return script_.rounds + (HasJoin() ? 1 + kRoundsAfterJoin : 0); }

std::vector<uint32_t> Play::RanksOf(const FaultTensor& tensor) const {
  if (tensor.process_set > 0) return script_.cluster.process_sets[tensor.process_set - 1];
  std::vector<uint32_t> ranks(processes().count());
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

bool Play::TakesPart(uint32_t worker, uint32_t round, const FaultTensor& tensor) const {
  bool join_round = HasJoin() && round == script_.rounds;
  if (join_round != (tensor.op == wire::Op::kJoin)) return false;
  std::vector<uint32_t> ranks = RanksOf(tensor);
  uint32_t carrier = processes().CarrierOf(worker);
  return std::find(ranks.begin(), ranks.end(), carrier) != ranks.end();
}

// Process p contributes 2^p and the tag of the round to every element, so a sum names its members
// and its round. A carrier sums the values of its contributor's processes in the set; to other
// operations these bring nothing.
uint64_t Play::ValueOf(const Played& played) const {
  const FaultTensor& tensor = script_.tensors[played.tensor];
  uint32_t carrier = processes().CarrierOf(played.worker);
  uint64_t tag = Tag(played.tensor, played.round) * kTagUnit;
  if (!Reduces(tensor.op)) return (uint64_t{1} << carrier) + tag;
  uint64_t value = 0;
  for (uint32_t rank : RanksOf(tensor)) {
    bool own = rank >= carrier && rank < processes().CarrierOf(played.worker + 1);
    if (own) value += (uint64_t{1} << rank) + tag;
  }
  return value;
}

std::vector<uint32_t> Play::MembersOf(const Played& played, const protocol::Outcome& outcome) {
  std::vector<uint32_t> members;
  if (outcome.ranks == nullptr) return members;
  for (uint32_t rank : outcome.ranks->List()) {
    members.push_back(cluster_->ProcessAt(played.worker, rank));
  }
  if (outcome.members != members.size()) Violation(NameOf(played) + ": it has other members");
  return members;
}

// Returns the number of rows of an allgather or alltoall that worker `worker` brings for worker
// `to`.
uint64_t Play::RowsFrom(uint32_t worker, uint32_t to, uint32_t round, wire::Op op) {
  return op == wire::Op::kAllgather ? 1 + (worker + round) % 3 : (worker + 2 * to + round) % 3;
}

// Returns the first and the end of a worker's elements of a reducescatter.
std::pair<size_t, size_t> Play::ShareOf(const Played& played) const {
  const FaultTensor& tensor = script_.tensors[played.tensor];
  std::vector<uint32_t> ranks = RanksOf(tensor);
  auto found = std::find(ranks.begin(), ranks.end(), processes().CarrierOf(played.worker));
  auto place = static_cast<uint64_t>(found - ranks.begin());
  return {operations::RowsBefore(tensor.elements, place, ranks.size()),
          operations::RowsBefore(tensor.elements, place + 1, ranks.size())};
}

// Sets the fields that a sum of all workers does not need.
void Play::CompleteOperation(Played& played, uint64_t value, protocol::Operation& operation) const {
  const FaultTensor& tensor = script_.tensors[played.tensor];
  operation.spec.process_set = tensor.process_set;
  for (uint32_t to : RanksOf(tensor)) {
    uint64_t rows = RowsFrom(played.worker, processes().WorkerOf(to), played.round, tensor.op);
    if (!processes().IsCarrier(to) && tensor.op == wire::Op::kAlltoall) rows = 0;
    if (tensor.op == wire::Op::kAllgather) operation.rows = rows;
    if (tensor.op != wire::Op::kAlltoall) continue;
    operation.rows += rows;
    operation.splits.push_back(rows);
  }
  bool own_rows = tensor.op == wire::Op::kAllgather || tensor.op == wire::Op::kAlltoall;
  if (own_rows) played.input.assign(tensor.elements * operation.rows, value);
  operation.input = reinterpret_cast<const std::byte*>(played.input.data());
  size_t own = tensor.op == wire::Op::kReducescatter ? ShareOf(played).first : 0;
  operation.output = reinterpret_cast<std::byte*>(tensor.in_place ? played.input.data() + own
                                                                  : played.output.data());
}

void Play::TakeResult(Played& played, const protocol::Outcome& outcome) const {
  const FaultTensor& tensor = script_.tensors[played.tensor];
  if (tensor.op == wire::Op::kJoin) {
    played.result = {outcome.rows};
  } else if (tensor.op == wire::Op::kAllgather || tensor.op == wire::Op::kAlltoall) {
    played.result.resize(outcome.gathered_bytes / 8);
    if (played.result.empty()) return;
    std::memcpy(played.result.data(), outcome.gathered.get(), played.result.size() * 8);
  } else {
    played.result = tensor.in_place ? played.input : played.output;
    if (tensor.op != wire::Op::kReducescatter) return;
    auto [begin, end] = ShareOf(played);
    auto first = played.result.begin();
    if (tensor.in_place) played.result.erase(first, first + static_cast<ptrdiff_t>(begin));
    played.result.resize(end - begin);
  }
}

// An average also counts members that have joined, and the receipt does not tell how many these
// are. So the check tries all possible counts.
void Play::CheckAverage(const Played& played, uint64_t sum) {
  size_t least = played.members.size();
  size_t most = least;
  if (HasJoin() && played.round < script_.rounds) {
    most = RanksOf(script_.tensors[played.tensor]).size();
  }
  for (uint64_t value : played.result) {
    bool right = played.mixed;
    for (size_t count = least; count <= most; ++count) {
      double expected = static_cast<double>(sum) / static_cast<double>(count);
      right = right || std::bit_cast<double>(value) == expected;
    }
    if (!right) return Violation(NameOf(played) + ": not the average of its receipt");
  }
}

}  // namespace byteps::sim
