#include "src/plan/piece_assigner.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "src/plan/placement.h"
#include "src/plan/wide.h"

namespace byteps::plan {
namespace {

constexpr uint32_t kPieceMax = 32768;
constexpr uint64_t kCostMax = kPieceMax + kPieceHeaderBytes;

PieceAssigner Make(const std::vector<uint32_t>& weights, uint32_t piece_bytes_max = kPieceMax) {
  Result<PieceAssigner> made = PieceAssigner::Create(weights, piece_bytes_max);
  EXPECT_TRUE(made.ok());
  return std::move(made).value();
}

std::vector<uint32_t> AnyWeights(uint32_t count_max) {
  const uint32_t count = *rc::gen::inRange(1U, count_max);
  const uint32_t largest = *rc::gen::element(1U, 3U, 10U, 1000U, kWeightParts);
  std::vector<uint32_t> weights =
      *rc::gen::container<std::vector<uint32_t>>(count, rc::gen::inRange(0U, largest + 1));
  weights.push_back(1 + *rc::gen::inRange(0U, largest));
  return weights;
}

struct Tally {
  explicit Tally(std::vector<uint32_t> shard_weights)
      : weights(std::move(shard_weights)), loads(weights.size(), 0) {
    total_weight = std::accumulate(weights.begin(), weights.end(), uint64_t{0});
  }
  void Add(ShardId shard, uint64_t cost) {
    loads[shard] += cost;
    total += cost;
  }
  // Bytes by which the shard is ahead of its share (behind: negative), to a fraction of a byte.
  double Lead(ShardId shard) const {
    return static_cast<double>(loads[shard]) -
           static_cast<double>(total) *
               (static_cast<double>(weights[shard]) / static_cast<double>(total_weight));
  }
  std::vector<uint32_t> weights;
  std::vector<uint64_t> loads;
  uint64_t total = 0;
  uint64_t total_weight = 0;
};

// Follows the rule by a scan over all shards, with loads that never shrink.
class PlainReference {
 public:
  PlainReference(std::vector<uint32_t> weights, uint64_t cost_max)
      : weights_(std::move(weights)), loads_(weights_.size(), 0), cost_max_(cost_max) {
    for (uint32_t weight : weights_) total_weight_ += weight;
    previous_ = weights_.size();
  }

  size_t Next(uint64_t cost) {
    const size_t none = weights_.size();
    const size_t best = Earliest(cost_max_, none, /*ahead=*/false);
    size_t chosen = best;
    if (best == previous_ && MaySkip(best, cost)) {
      const size_t due = Earliest(cost_max_, best, /*ahead=*/false);
      const size_t ahead = Earliest(0, best, /*ahead=*/true);
      if (ahead != none) chosen = ahead;
      if (due != none) chosen = due;
    }
    loads_[chosen] += cost;
    total_ += cost;
    previous_ = chosen;
    return chosen;
  }

 private:
  bool IsAhead(size_t i) const { return loads_[i] * total_weight_ > total_ * weights_[i]; }
  bool MaySkip(size_t i, uint64_t cost) const {
    return total_ * weights_[i] + cost * total_weight_ <= (loads_[i] + cost_max_) * total_weight_;
  }
  size_t Earliest(uint64_t extra, size_t except, bool ahead) const {
    size_t best = weights_.size();
    for (size_t i = 0; i < weights_.size(); ++i) {
      if (weights_[i] == 0 || i == except || IsAhead(i) != ahead) continue;
      if (best == weights_.size() ||
          (loads_[i] + extra) * weights_[best] < (loads_[best] + extra) * weights_[i]) {
        best = i;
      }
    }
    return best;
  }

  std::vector<uint32_t> weights_;
  std::vector<Uint128> loads_;
  Uint128 total_ = 0;
  Uint128 total_weight_ = 0;
  Uint128 cost_max_;
  size_t previous_;
};

std::vector<uint32_t> AnySizes(uint32_t bytes_max) {
  switch (*rc::gen::inRange(0, 3)) {
    case 0: return {bytes_max};
    case 1: return {bytes_max, 4};
    default: return *rc::gen::container<std::vector<uint32_t>>(50, rc::gen::inRange(0U, bytes_max));
  }
}

RC_GTEST_PROP(PieceAssignerTest, NoShardIsEverMoreThanOnePieceFromItsShare, ()) {
  const std::vector<uint32_t> weights = AnyWeights(40);
  const std::vector<uint32_t> sizes = AnySizes(kPieceMax);
  PieceAssigner assigner = Make(weights);
  Tally tally(weights);
  for (uint32_t step = 0; step < 1000; ++step) {
    const uint32_t bytes = sizes[step % sizes.size()];
    const ShardId shard = assigner.Next(bytes);
    RC_ASSERT(shard < weights.size());
    RC_ASSERT(weights[shard] > 0U);
    tally.Add(shard, bytes + kPieceHeaderBytes);
    for (ShardId i = 0; i < weights.size(); ++i) {
      RC_ASSERT(std::abs(tally.Lead(i)) <= kCostMax + 0.01);
    }
  }
}

RC_GTEST_PROP(PieceAssignerTest, DealsAsThePlainRuleDoes, ()) {
  // Pieces have up to 4 GiB, so that the assigner reduces the loads many times.
  const uint32_t bytes_max = *rc::gen::element(kPieceMax, UINT32_MAX);
  const std::vector<uint32_t> weights = AnyWeights(20);
  const std::vector<uint32_t> sizes = AnySizes(bytes_max);
  PieceAssigner assigner = Make(weights, bytes_max);
  PlainReference reference(weights, uint64_t{bytes_max} + kPieceHeaderBytes);
  for (uint32_t step = 0; step < 2000; ++step) {
    const uint32_t bytes = sizes[step % sizes.size()];
    RC_ASSERT(assigner.Next(bytes) == reference.Next(uint64_t{bytes} + kPieceHeaderBytes));
  }
}

RC_GTEST_PROP(PieceAssignerTest, EqualShardsNeverGetTwoPiecesInARow, ()) {
  const std::vector<uint32_t> weights(*rc::gen::inRange(2U, 50U), *rc::gen::inRange(1U, 1000U));
  const uint32_t bytes = *rc::gen::inRange(0U, kPieceMax + 1);
  PieceAssigner assigner = Make(weights);
  ShardId previous = assigner.Next(bytes);
  for (uint32_t step = 0; step < 300; ++step) {
    const ShardId shard = assigner.Next(bytes);
    RC_ASSERT(shard != previous);
    previous = shard;
  }
}

RC_GTEST_PROP(PieceAssignerTest, ARepeatedShardIsOneThatCannotWait, ()) {
  const std::vector<uint32_t> weights = AnyWeights(10);
  const std::vector<uint32_t> sizes = AnySizes(kPieceMax);
  PieceAssigner assigner = Make(weights);
  Tally tally(weights);
  const bool alone = std::count(weights.begin(), weights.end(), 0U) + 1 ==
                     static_cast<std::ptrdiff_t>(weights.size());
  ShardId previous = static_cast<ShardId>(weights.size());
  for (uint32_t step = 0; step < 500; ++step) {
    const uint32_t bytes = sizes[step % sizes.size()];
    const double cost = bytes + kPieceHeaderBytes;
    const ShardId shard = assigner.Next(bytes);
    if (shard == previous && !alone) RC_ASSERT(cost - tally.Lead(shard) > kCostMax - 0.01);
    tally.Add(shard, bytes + kPieceHeaderBytes);
    previous = shard;
  }
}

TEST(PieceAssignerTest, ConsecutivePiecesLieOnDifferentShardsInEveryPublishedMix) {
  for (uint32_t workers = 2; workers <= 24; ++workers) {
    for (uint32_t helpers = 0; helpers <= workers; ++helpers) {
      std::vector<Host> hosts(workers, Host{1000, 1, 1});
      hosts.resize(workers + helpers, Host{1000, 0, 1});
      PieceAssigner assigner = Make(ComputeShares(hosts)->server_weight);
      ShardId previous = assigner.Next(kPieceMax);
      uint32_t repeats = 0;
      for (uint32_t step = 0; step < 500; ++step) {
        const ShardId shard = assigner.Next(kPieceMax);
        repeats += shard == previous ? 1 : 0;
        previous = shard;
      }
      ASSERT_EQ(repeats, 0U) << workers << " workers, " << helpers << " helpers";
    }
  }
}

TEST(PieceAssignerTest, AHeavyShardAlternatesWithTheLightOnes) {
  PieceAssigner assigner = Make({4, 1, 1, 1, 1});
  std::vector<ShardId> shards;
  for (int i = 0; i < 16; ++i) shards.push_back(assigner.Next(kPieceMax));
  EXPECT_EQ(shards, (std::vector<ShardId>{0, 1, 0, 2, 0, 3, 0, 4, 0, 1, 0, 2, 0, 3, 0, 4}));
}

TEST(PieceAssignerTest, AShardWithMostOfTheWeightGetsItsShareAllTheSame) {
  PieceAssigner assigner = Make({9, 1});
  std::vector<int> pieces(2, 0);
  for (int i = 0; i < 1000; ++i) ++pieces[assigner.Next(kPieceMax)];
  EXPECT_EQ(pieces, (std::vector<int>{900, 100}));
}

TEST(PieceAssignerTest, AShardWithoutWeightGetsNothing) {
  PieceAssigner assigner = Make({0, 5, 0, 5, 0});
  for (int i = 0; i < 10; ++i) EXPECT_EQ(assigner.Next(kPieceMax), i % 2 == 0 ? 1U : 3U);
  PieceAssigner alone = Make({0, 1});
  for (int i = 0; i < 10; ++i) EXPECT_EQ(alone.Next(kPieceMax), 1U);
}

TEST(PieceAssignerTest, EmptyAndOversizedPiecesAreDealtToo) {
  PieceAssigner assigner = Make({1, 1, 1});
  std::vector<int> pieces(3, 0);
  for (int i = 0; i < 300; ++i) ++pieces[assigner.Next(0)];
  EXPECT_EQ(pieces, (std::vector<int>{100, 100, 100}));
  for (int i = 0; i < 300; ++i) ++pieces[assigner.Next(UINT32_MAX)];
  EXPECT_EQ(pieces, (std::vector<int>{200, 200, 200}));
}

RC_GTEST_PROP(PieceAssignerTest, ARestoredAssignerDealsTheSamePieces, ()) {
  const std::vector<uint32_t> weights = AnyWeights(20);
  const std::vector<uint32_t> sizes = AnySizes(kPieceMax);
  PieceAssigner first = Make(weights);
  const uint32_t before = *rc::gen::inRange(0U, 200U);
  for (uint32_t step = 0; step < before; ++step) first.Next(sizes[step % sizes.size()]);
  PieceAssigner second = Make(weights);
  second.Next(kPieceMax);
  RC_ASSERT(second.Restore(first.State()).ok());
  for (uint32_t step = 0; step < 300; ++step) {
    const uint32_t bytes = sizes[step % sizes.size()];
    RC_ASSERT(first.Next(bytes) == second.Next(bytes));
  }
  RC_ASSERT(first.State() == second.State());
}

TEST(PieceAssignerTest, RefusesAStateThatIsNotItsOwn) {
  PieceAssigner assigner = Make({1, 0, 1});
  const std::vector<uint64_t> before = assigner.State();
  using State = std::vector<uint64_t>;
  for (const State& state : {State{}, State{0, 0, 0}, State{0, 0, 0, 4}, State{0, 1, 0, 3},
                             State{UINT64_MAX, 0, 1, 3}, State{0, 0, 0, 3, 0}}) {
    EXPECT_EQ(assigner.Restore(state).code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(assigner.State(), before);
  }
  EXPECT_TRUE(assigner.Restore(State{uint64_t{1} << 61, 0, 5, 2}).ok());
  EXPECT_EQ(assigner.Next(kPieceMax), 2U);
}

TEST(PieceAssignerTest, WithoutAnyWeightThereIsNoAssigner) {
  EXPECT_EQ(PieceAssigner::Create({}, kPieceMax).status().code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(PieceAssigner::Create(std::vector<uint32_t>{0, 0}, kPieceMax).ok());
}

TEST(PieceAssignerTest, ATensorIsDealtPieceByPiece) {
  const Partition partition = Partition::Cut(10 * kPieceMax + 1, kPieceMax).value();
  PieceAssigner whole = Make({1, 2, 3});
  PieceAssigner single = whole;
  const std::vector<ShardId> shards = whole.DealTensor(partition);
  ASSERT_EQ(shards.size(), partition.count());
  for (uint32_t i = 0; i < partition.count(); ++i) {
    EXPECT_EQ(shards[i], single.Next(partition.Piece(i).bytes));
  }
}

}  // namespace
}  // namespace byteps::plan
