// Tests that sums depend on the ranks and their inputs alone, and on no layout: on one machine or
// several, of any sizes, with servers or without. The ranks of each machine have a block of places
// (src/base/sum_place.h) in all these layouts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/sum_place.h"
#include "tests/cluster/cluster.h"
#include "tests/cluster/tensors.h"

namespace byteps::cluster {
namespace {

using wire::Op;
using Ranks = std::vector<uint32_t>;

constexpr uint32_t kLayoutRanks = 8;
const Ranks kLayoutSets[] = {
    {0, 1, 2, 3, 4, 5, 6, 7}, {1, 2, 3, 4, 6}, {0, 2, 4, 6}, {2, 3, 7}, {1, 4, 5, 6}};

// ---- A sum as the specification has it.

using Values = std::vector<double>;

// Rounds to the type. From float64 to float32 and on to float16 or bfloat16 this is one operation
// in float32.
Values Rounded(DataType type, const Values& values) { return Decode(type, Encode(type, values)); }

// The contributions to a sum, by place.
struct Summands {
  std::map<uint32_t, Values> at;
  DataType nodes = DataType::kFloat32;  // the type of the nodes
};

// Returns the node of this height that begins at place `first`; nothing if no place is below it.
std::optional<Values> NodeOf(Op op, const Summands& all, uint32_t first, uint32_t height) {
  if (height == 0) {
    const auto found = all.at.find(first);
    return found == all.at.end() ? std::nullopt : std::optional(found->second);
  }
  std::optional<Values> left = NodeOf(op, all, first, height - 1);
  const std::optional<Values> right = NodeOf(op, all, first + (1U << (height - 1)), height - 1);
  if (!left.has_value()) return right;
  if (!right.has_value()) return left;
  for (size_t i = 0; i < left->size(); ++i) {
    double& to = (*left)[i];
    to = op == Op::kProduct ? to * (*right)[i] : to + (*right)[i];
  }
  return Rounded(all.nodes, *left);
}

Values RootOf(Op op, const Summands& all) { return *NodeOf(op, all, 0, 5); }

// ---- The operations.

struct SumCase {
  DataType type = DataType::kFloat32;
  Op op = Op::kSum;
  size_t count = 0;
  uint32_t set = 0;  // an index of kLayoutSets

  std::string Name() const {
    return std::string(NameOf(type)) + ", " + std::to_string(count) + " elements, operation " +
           std::to_string(static_cast<int>(op)) + " in set " + std::to_string(set);
  }
};

bool IsHalf(DataType type) { return SizeOf(type) == 2; }

// Returns numbers whose sums and products round at every node.
Bytes InputOf(const SumCase& one, uint32_t rank) {
  const uint64_t seed = 1000 * rank + 10 * one.count + static_cast<uint64_t>(one.op);
  std::vector<double> values = Decode(DataType::kFloat32, RandomFloats(one.count, seed));
  for (double& value : values) {
    if (one.op == Op::kProduct) value = 1 + value / (1U << 30);
    if (one.type == DataType::kFloat64) value /= 3;
    if (one.type == DataType::kFloat16 && one.op != Op::kProduct) value /= 1 << 20;
  }
  // The sum of minus zeros is one, unless somebody adds a zero to them.
  if (one.op != Op::kProduct && one.count > 1) values.back() = -0.0;
  return Encode(one.type, values);
}

// Returns the result if these ranks take part. Averages divide by the ranks of the set.
Bytes ResultOf(const SumCase& one, const Ranks& ranks, uint32_t sum_group = 1,
               bool same_bits = false) {
  Summands all;
  all.nodes = IsHalf(one.type) && !same_bits ? DataType::kFloat32 : one.type;
  for (uint32_t rank : ranks) {
    all.at[PlaceOf(rank, sum_group)] = Decode(one.type, InputOf(one, rank));
  }
  Values root = RootOf(one.op, all);
  const auto divisor = static_cast<double>(kLayoutSets[one.set].size());
  for (double& value : root) value /= one.op == Op::kAverage ? divisor : 1;
  return Encode(one.type, root);
}

std::vector<SumCase> SumCasesOf(const std::vector<DataType>& types) {
  std::vector<SumCase> cases = {{types[0], Op::kSum, 150001, 0}};  // shares of blocks
  for (DataType type : types) {
    for (Op op : {Op::kSum, Op::kAverage, Op::kProduct}) {
      for (uint32_t set = 0; set < std::size(kLayoutSets); ++set) {
        // On one machine without servers the first two need no block.
        for (size_t count : {1, 37, 12011}) cases.push_back({type, op, count, set});
      }
    }
  }
  return cases;
}

std::vector<SumCase> AllSumCases() { return SumCasesOf({DataType::kFloat32, DataType::kFloat64}); }

size_t DifferingIn(const SumCase& one, const Bytes& a, const Bytes& b) {
  size_t differing = 0;
  for (size_t at = 0; at < a.size(); at += SizeOf(one.type)) {
    differing += std::memcmp(a.data() + at, b.data() + at, SizeOf(one.type)) != 0;
  }
  return differing;
}

// Returns the sum in which the machines' sums stand at their lowest ranks in the set.
Bytes SumOfSums(const SumCase& one, const MachineLayout& machines) {
  Summands all;
  for (uint64_t machine = 0; machine < machines.machines(); ++machine) {
    Ranks own;
    for (uint32_t rank : kLayoutSets[one.set]) {
      const bool is_own =
          rank >= machines.FirstRank(machine) && rank < machines.FirstRank(machine + 1);
      if (is_own) own.push_back(rank);
    }
    if (own.empty()) continue;
    all.at[own.front()] = Decode(one.type, ResultOf(one, own));
  }
  return Encode(one.type, RootOf(one.op, all));
}

// ---- The layouts.

struct Layout {
  std::vector<uint32_t> sizes;
  uint32_t servers = 0;
  uint32_t sum_group = 1;
  bool same_bits = false;
};

std::string TextOf(const Layout& layout) {
  std::string text = "machines of";
  for (uint32_t size : layout.sizes) text += " " + std::to_string(size);
  text += ", " + std::to_string(layout.servers) + " servers";
  return text + (layout.same_bits ? ", same bits" : "");
}

std::vector<Layout> AllLayouts() {
  std::vector<Layout> layouts = {{{8}, 0}};
  for (uint32_t servers : {1, 2, 3}) {
    layouts.push_back({{1, 1, 1, 1, 1, 1, 1, 1}, servers});
    for (const std::vector<uint32_t>& sizes : std::vector<std::vector<uint32_t>>{
             {8}, {4, 4}, {2, 2, 2, 2}, {4, 2, 1, 1}, {1, 1, 2, 4}}) {
      layouts.push_back({sizes, servers});
    }
  }
  return layouts;
}

class Layouts : public ::testing::Test {
 protected:
  void Start(const Layout& layout, uint32_t min_workers = 0) {
    ClusterOptions options;
    options.medium = layout.servers == 0 ? Medium::kWindow : Medium::kMachines;
    options.workers = static_cast<uint32_t>(MachineLayout(layout.sizes).workers());
    options.sum_group = layout.sum_group;
    options.same_bits = layout.same_bits;
    options.machine_sizes = layout.sizes;
    options.servers = layout.servers;
    options.shards = 2;
    options.lanes = {1, 2};
    options.min_workers = min_workers;
    cluster.emplace(options);
    const Status started = cluster->Start();
    ASSERT_TRUE(started.ok()) << started.ToString();
    if (options.workers != kLayoutRanks) return;
    for (uint32_t set = 1; set < std::size(kLayoutSets); ++set) {
      for (uint32_t rank = 0; rank < kLayoutRanks; ++rank) {
        ASSERT_TRUE(cluster->engine(rank).AddProcessSet(set, kLayoutSets[set]).ok());
      }
    }
  }

  struct Call {
    Bytes data;
    TicketRef ticket;
  };
  Call& CallOf(const SumCase& one, uint32_t rank) { return calls[{one.Name(), rank}]; }
  void Begin(const SumCase& one, uint32_t rank) {
    Call& call = CallOf(one, rank);
    call.data = InputOf(one, rank);
    protocol::Operation operation = OperationOn(
        one.Name(), one.op, one.type, {static_cast<int64_t>(one.count)}, call.data, call.data);
    operation.spec.process_set = one.set;
    call.ticket = cluster->Submit(rank, std::move(operation));
  }
  // Waits for the operation, and compares its result.
  void Check(const SumCase& one, uint32_t rank, const Bytes& expected) {
    Call& call = CallOf(one, rank);
    const Status ended = call.ticket->WaitStatus();
    ASSERT_TRUE(ended.ok()) << one.Name() << ": " << ended.ToString();
    ASSERT_EQ(DifferingIn(one, call.data, expected), 0u) << one.Name() << " on rank " << rank;
  }

  // Plays all cases at once, each on the ranks of its set, and ends the job.
  void SumAll(const std::vector<SumCase>& cases, const std::vector<Bytes>& expected) {
    for (const SumCase& one : cases) {
      for (uint32_t rank : kLayoutSets[one.set]) Begin(one, rank);
    }
    for (size_t i = 0; i < cases.size(); ++i) {
      for (uint32_t rank : kLayoutSets[cases[i].set]) {
        ASSERT_NO_FATAL_FAILURE(Check(cases[i], rank, expected[i]));
      }
    }
    cluster->LeaveInOrder();
  }

  // The cluster writes into the calls, also when a test gives up.
  std::map<std::pair<std::string, uint32_t>, Call> calls;
  std::optional<Cluster> cluster;
};

TEST_F(Layouts, SumsDependOnRanksAlone) {
  const std::vector<SumCase> cases = AllSumCases();
  std::vector<Bytes> expected;
  for (const SumCase& one : cases) expected.push_back(ResultOf(one, kLayoutSets[one.set]));
  for (const Layout& layout : AllLayouts()) {
    SCOPED_TRACE(TextOf(layout));
    ASSERT_NO_FATAL_FAILURE(Start(layout));
    ASSERT_NO_FATAL_FAILURE(SumAll(cases, expected));
  }
}

// With same_bits, what a machine rounds is a node. Without it, sums of single ranks and of one
// machine without servers are rounded once, at the root.
TEST_F(Layouts, HalvesHaveTheSameBitsIfTheJobWantsThem) {
  const std::vector<SumCase> cases = SumCasesOf({DataType::kFloat16, DataType::kBfloat16});
  size_t differing = 0;
  for (bool same_bits : {false, true}) {
    std::vector<Bytes> expected;
    for (const SumCase& one : cases) {
      const Ranks& ranks = kLayoutSets[one.set];
      expected.push_back(ResultOf(one, ranks, 1, same_bits));
      differing += DifferingIn(one, expected.back(), ResultOf(one, ranks, 1, !same_bits));
    }
    for (Layout layout : AllLayouts()) {
      layout.same_bits = same_bits;
      const bool is_rounded_once = layout.servers == 0 || layout.sizes.size() == kLayoutRanks;
      if (!same_bits && !is_rounded_once) continue;
      SCOPED_TRACE(TextOf(layout));
      ASSERT_NO_FATAL_FAILURE(Start(layout));
      ASSERT_NO_FATAL_FAILURE(SumAll(cases, expected));
    }
  }
  EXPECT_GT(differing, 0u) << "or this test would prove nothing";
}

// Machines of three ranks are no blocks, so the sum is not that of other layouts. It still has one
// order: that of the places of ranks, and not of local ranks, slots or positions in the set.
TEST_F(Layouts, MachinesOfNoBlocksHaveOneOrder) {
  const Layout layout = {{3, 3, 2}, 2};
  std::vector<SumCase> cases;
  for (uint32_t set = 0; set < std::size(kLayoutSets); ++set) {
    cases.push_back({DataType::kFloat32, Op::kSum, 5003, set});
    cases.push_back({DataType::kFloat32, Op::kProduct, 5003, set});
  }
  ASSERT_NO_FATAL_FAILURE(Start(layout));
  for (const SumCase& one : cases) {
    for (uint32_t rank : kLayoutSets[one.set]) Begin(one, rank);
  }
  bool differs = false;
  for (const SumCase& one : cases) {
    const Bytes expected = SumOfSums(one, MachineLayout(layout.sizes));
    differs = differs || expected != ResultOf(one, kLayoutSets[one.set]);
    for (uint32_t rank : kLayoutSets[one.set]) ASSERT_NO_FATAL_FAILURE(Check(one, rank, expected));
  }
  EXPECT_TRUE(differs) << "or this test would prove nothing";
  cluster->LeaveInOrder();
}

// Machines of three and of six ranks are blocks of places if ranks have groups of three.
TEST_F(Layouts, MachinesOfThreeAndSixAreBlocksWithGroupsOfThree) {
  Ranks ranks(12);
  std::iota(ranks.begin(), ranks.end(), 0U);
  std::vector<SumCase> cases;
  for (size_t count : {37, 5003}) {
    cases.push_back({DataType::kFloat32, Op::kSum, count, 0});
    cases.push_back({DataType::kFloat64, Op::kProduct, count, 0});
  }
  for (const Layout& layout : {Layout{{12}, 0, 3}, Layout{{6, 6}, 1, 3}, Layout{{6, 6}, 3, 3},
                               Layout{{3, 3, 3, 3}, 2, 3}, Layout{{6, 3, 1, 1, 1}, 2, 3}}) {
    SCOPED_TRACE(TextOf(layout));
    ASSERT_NO_FATAL_FAILURE(Start(layout));
    for (const SumCase& one : cases) {
      for (uint32_t rank : ranks) Begin(one, rank);
    }
    for (const SumCase& one : cases) {
      const Bytes expected = ResultOf(one, ranks, 3);
      EXPECT_NE(expected, ResultOf(one, ranks, 1)) << "or this test would prove nothing";
      for (uint32_t rank : ranks) ASSERT_NO_FATAL_FAILURE(Check(one, rank, expected));
    }
    cluster->LeaveInOrder();
  }
}

// A rank that has joined leaves a hole inside of its machine's block.
TEST_F(Layouts, JoinedRanksMoveNoOthers) {
  const Ranks here = {0, 2, 3, 4, 5, 7};
  std::vector<SumCase> cases;
  for (const SumCase& one : AllSumCases()) {
    if (one.set == 0) cases.push_back(one);
  }
  std::vector<Bytes> expected;
  for (const SumCase& one : cases) expected.push_back(ResultOf(one, here));
  for (const Layout& layout : AllLayouts()) {
    if (layout.servers == 1 || layout.servers == 3) continue;
    SCOPED_TRACE(TextOf(layout));
    ASSERT_NO_FATAL_FAILURE(Start(layout));
    protocol::Operation join;
    join.name = "join";
    join.spec.op = Op::kJoin;
    join.spec.dtype = DataType::kInt64;
    std::vector<TicketRef> joins;
    for (uint32_t rank : {1, 6}) joins.push_back(cluster->Submit(rank, join));
    for (const SumCase& one : cases) {
      for (uint32_t rank : here) Begin(one, rank);
    }
    for (size_t i = 0; i < cases.size(); ++i) {
      for (uint32_t rank : here) ASSERT_NO_FATAL_FAILURE(Check(cases[i], rank, expected[i]));
    }
    for (uint32_t rank : here) joins.push_back(cluster->Submit(rank, join));
    for (const TicketRef& one : joins) ASSERT_TRUE(one->WaitStatus().ok());
    cluster->LeaveInOrder();
  }
}

// Some rounds end with the lost machine and some without it. The receipt of each says which.
TEST_F(Layouts, WhoIsLostInTheMiddleMovesNoOthers) {
  for (const std::vector<uint32_t>& sizes : std::vector<std::vector<uint32_t>>{
           {1, 1, 1, 1, 1, 1, 1, 1}, {2, 2, 2, 2}, {4, 2, 1, 1}, {1, 1, 2, 4}}) {
    const Layout layout = {sizes, 2};
    SCOPED_TRACE(TextOf(layout));
    const MachineLayout machines(sizes);
    const auto first = static_cast<uint32_t>(machines.FirstRank(1));
    const uint32_t end = first + machines.SizeOf(1);
    ASSERT_NO_FATAL_FAILURE(Start(layout, 1));
    std::vector<SumCase> cases;
    for (size_t count = 4000; count < 4040; ++count) {  // one piece each
      cases.push_back({DataType::kFloat32, count % 2 == 0 ? Op::kSum : Op::kProduct, count, 0});
    }
    for (size_t i = 0; i < cases.size(); ++i) {
      for (uint32_t rank = 0; rank < kLayoutRanks; ++rank) {
        const bool is_lost = rank >= first && rank < end;
        if (i < cases.size() / 2 || !is_lost) Begin(cases[i], rank);
      }
    }
    EXPECT_TRUE(CallOf(cases[0], 0).ticket->WaitStatus().ok());
    for (uint32_t rank = first; rank < end; ++rank) cluster->KillWorker(rank);
    std::map<size_t, int> by_members;
    for (const SumCase& one : cases) {
      for (uint32_t rank = 0; rank < kLayoutRanks; ++rank) {
        if (rank >= first && rank < end) continue;
        const protocol::Outcome* outcome = CallOf(one, rank).ticket->Wait();
        ASSERT_NE(outcome, nullptr);
        ASSERT_TRUE(outcome->status.ok()) << outcome->status.ToString();
        const Ranks ranks = outcome->ranks->List();
        ++by_members[ranks.size()];
        ASSERT_NO_FATAL_FAILURE(Check(one, rank, ResultOf(one, ranks)));
      }
    }
    EXPECT_EQ(by_members.size(), 2u);
    cluster->LeaveInOrder();
    calls.clear();
  }
}

TEST_F(Layouts, AServerThatIsKilledChangesNoSum) {
  const std::vector<SumCase> cases = AllSumCases();
  for (const Layout& layout : {Layout{{1, 1, 1, 1, 1, 1, 1, 1}, 3}, Layout{{4, 2, 1, 1}, 3}}) {
    SCOPED_TRACE(TextOf(layout));
    ASSERT_NO_FATAL_FAILURE(Start(layout));
    for (const SumCase& one : cases) {
      for (uint32_t rank : kLayoutSets[one.set]) Begin(one, rank);
    }
    EXPECT_TRUE(CallOf(cases[1], 0).ticket->WaitStatus().ok());
    cluster->KillServer(1);
    for (const SumCase& one : cases) {
      const Bytes expected = ResultOf(one, kLayoutSets[one.set]);
      for (uint32_t rank : kLayoutSets[one.set])
        ASSERT_NO_FATAL_FAILURE(Check(one, rank, expected));
    }
    cluster->LeaveInOrder();
  }
}

}  // namespace
}  // namespace byteps::cluster
