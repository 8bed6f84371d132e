#include "src/protocol/shard/shard_mistakes_for_test.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "src/protocol/shard/state/attendance.h"
#include "src/protocol/shard/state/told_verdict.h"

namespace byteps::protocol {
namespace {

// ---- Mistakes of the sums: the arithmetic is wrong.

class MistakenArithmetic : public Arithmetic {
 public:
  explicit MistakenArithmetic(Arithmetic& right) : right_(right) {}
  void Combine(byteps::Combine how, DataType type, std::byte* out,
               std::span<const std::byte* const> inputs, const kernels::SumTree& tree,
               size_t bytes) override {
    right_.Combine(how, type, out, inputs, tree, bytes);
  }
  void Average(DataType type, std::byte* out, std::span<const std::byte* const> inputs,
               const kernels::SumTree& tree, size_t bytes, uint32_t divisor) override {
    right_.Average(type, out, inputs, tree, bytes, divisor);
  }
  void Copy(std::byte* to, const std::byte* from, size_t bytes) override {
    right_.Copy(to, from, bytes);
  }

 protected:
  Arithmetic& right_;
};

// Combines in another order than the order of the places: the first one comes last.
class OrderOfArrivalMistake final : public MistakenArithmetic {
 public:
  using MistakenArithmetic::MistakenArithmetic;
  void Combine(byteps::Combine how, DataType type, std::byte* out,
               std::span<const std::byte* const> inputs, const kernels::SumTree& tree,
               size_t bytes) override {
    right_.Combine(how, type, out, Shuffled(inputs), tree, bytes);
  }
  void Average(DataType type, std::byte* out, std::span<const std::byte* const> inputs,
               const kernels::SumTree& tree, size_t bytes, uint32_t divisor) override {
    right_.Average(type, out, Shuffled(inputs), tree, bytes, divisor);
  }

 private:
  static std::vector<const std::byte*> Shuffled(std::span<const std::byte* const> inputs) {
    std::vector<const std::byte*> shuffled(inputs.begin(), inputs.end());
    std::rotate(shuffled.begin(), shuffled.begin() + 1, shuffled.end());
    return shuffled;
  }
};

class LeftToRightMistake final : public MistakenArithmetic {
 public:
  using MistakenArithmetic::MistakenArithmetic;
  void Combine(byteps::Combine how, DataType type, std::byte* out,
               std::span<const std::byte* const> inputs, const kernels::SumTree& tree,
               size_t bytes) override {
    right_.Combine(how, type, out, inputs, kernels::SumTree(PlacesOf(tree)), bytes);
  }
  void Average(DataType type, std::byte* out, std::span<const std::byte* const> inputs,
               const kernels::SumTree& tree, size_t bytes, uint32_t divisor) override {
    right_.Average(type, out, inputs, kernels::SumTree(PlacesOf(tree)), bytes, divisor);
  }

 private:
  // Inputs at one place are taken one after the other.
  static std::vector<uint32_t> PlacesOf(const kernels::SumTree& tree) {
    return std::vector<uint32_t>(tree.inputs());
  }
};

class LeaveOneOutMistake final : public MistakenArithmetic {
 public:
  using MistakenArithmetic::MistakenArithmetic;
  void Combine(byteps::Combine how, DataType type, std::byte* out,
               std::span<const std::byte* const> inputs, const kernels::SumTree&,
               size_t bytes) override {
    const std::vector<uint32_t> places = Without(inputs);
    right_.Combine(how, type, out, inputs.first(places.size()), kernels::SumTree(places), bytes);
  }
  void Average(DataType type, std::byte* out, std::span<const std::byte* const> inputs,
               const kernels::SumTree&, size_t bytes, uint32_t divisor) override {
    const std::vector<uint32_t> places = Without(inputs);
    right_.Average(type, out, inputs.first(places.size()), kernels::SumTree(places), bytes,
                   divisor);
  }

 private:
  // Returns places for all inputs but the last one.
  static std::vector<uint32_t> Without(std::span<const std::byte* const> inputs) {
    std::vector<uint32_t> places(std::max<size_t>(inputs.size(), 2) - 1);
    std::iota(places.begin(), places.end(), 0U);
    return places;
  }
};

class DivisorMistake final : public MistakenArithmetic {
 public:
  using MistakenArithmetic::MistakenArithmetic;
  void Average(DataType type, std::byte* out, std::span<const std::byte* const> inputs,
               const kernels::SumTree& tree, size_t bytes, uint32_t) override {
    right_.Average(type, out, inputs, tree, bytes, static_cast<uint32_t>(inputs.size()));
  }
};

// ---- Mistakes of the answers: what leaves is wrong.

class MistakenDriver : public ShardDriver {
 public:
  explicit MistakenDriver(ShardDriver& right) : right_(right) {}
  void SendData(Slot to, wire::DataFrame frame) override { right_.SendData(to, std::move(frame)); }
  void Send(Slot to, const wire::Frame& frame) override { right_.Send(to, frame); }

 protected:
  ShardDriver& right_;
};

class AnswerTwiceMistake final : public MistakenDriver {
 public:
  using MistakenDriver::MistakenDriver;
  void SendData(Slot to, wire::DataFrame frame) override {
    right_.SendData(to, frame);
    right_.SendData(to, std::move(frame));
  }
};

// Leaves out the first answer of every third round.
class ForgetOneMistake final : public MistakenDriver {
 public:
  using MistakenDriver::MistakenDriver;
  void SendData(Slot to, wire::DataFrame frame) override {
    const wire::PieceRef& ref = frame.header.ref;
    bool first = std::exchange(last_, ref) != ref;
    if (first && ref.round % 3 == 0) return;
    right_.SendData(to, std::move(frame));
  }

 private:
  std::optional<wire::PieceRef> last_;
};

class NeverAskMistake final : public MistakenDriver {
 public:
  using MistakenDriver::MistakenDriver;
  void Send(Slot to, const wire::Frame& frame) override {
    if (!std::holds_alternative<wire::Want>(frame)) right_.Send(to, frame);
  }
};

// ---- Mistakes of the rules.

class AnswerEarlyMistake final : public ShardRules {
  bool IsComplete(const Attendance& attendance, const Piece& piece) const override {
    return ShardRules::IsComplete(attendance, piece) || piece.round->missing() == 1;
  }
};

class IgnoreSinceMistake final : public ShardRules {
  bool Counts(const plan::Owner& owner, ShardId self, uint64_t) const override {
    return owner.shard == self;
  }
  bool Stays(const plan::Owner&, ShardId, uint64_t) const override { return true; }
};

// Does not wait for a member that has not said what it holds since the last view.
class DecideEarlyMistake final : public ShardRules {
  bool IsComplete(const Attendance& attendance, const Piece& piece) const override {
    if (ShardRules::IsComplete(attendance, piece)) return true;
    const ShardView& view = attendance.view();
    for (Slot slot = 0; slot < attendance.members().size(); ++slot) {
      bool heard =
          piece.round->HasArrived(slot) || attendance.members().resynced(slot) < view.epoch();
      if (attendance.TakesPart(piece.round->set(), slot) && !heard) return false;
    }
    return view.epoch() > view.began();
  }
};

class NoFenceMistake final : public ShardRules {
  bool IsCutOff(bool) const override { return false; }
};

class OldViewMistake final : public ShardRules {
  bool MustWait(uint64_t, uint64_t) const override { return false; }
};

class NoRepeatMistake final : public ShardRules {
  bool AnswersRepeats() const override { return false; }
};

class VerdictIsContributionMistake final : public ShardRules {
  bool Adopts(Piece& piece, Slot from, const ToldVerdict& told) const override {
    Round* round = piece.round.get();
    bool mistaken = round != nullptr && round->ref() == told.header.ref &&
                    !round->HasArrived(from) && told.content().size() == round->piece_bytes();
    if (!mistaken) return ShardRules::Adopts(piece, from, told);
    wire::DataHeader push = told.header;
    push.offset = 0;
    BufferRef keep;
    ByteSpan place = round->PlaceOf(from, push, told.content().size(), pool_, keep);
    std::copy(told.content().begin(), told.content().end(), place.begin());
    round->Arrive(from, push, told.content().size(), true);
    return false;
  }
  mutable BufferPool pool_;
};

class DropNextRoundMistake final : public ShardRules {
  bool KeepsContributions(uint64_t, uint64_t) const override { return false; }
};

class ErrorWithoutResyncMistake final : public ShardRules {
  bool NobodyHoldsASum(const Attendance&, uint64_t) const override { return true; }
};

class ErrorBeforeStableMistake final : public ShardRules {
  bool ErrorMayFollow(const Verdict&) const override { return true; }
};

// ---- Mistakes of the places.

class SlotsMistake final : public ShardRules {
  uint32_t RankInSum(const ProcessSet&, const Members&, Slot slot) const override { return slot; }
};

class PositionsMistake final : public ShardRules {
  uint32_t RankInSum(const ProcessSet& set, const Members&, Slot slot) const override {
    uint32_t position = 0;
    for (uint32_t rank = 0; rank < set.FirstOf(slot); ++rank) position += set.IncludesRank(rank);
    return position;
  }
};

class LowestRanksMistake final : public ShardRules {
  uint32_t RankInSum(const ProcessSet&, const Members& members, Slot slot) const override {
    return members.RanksOf(slot).front();
  }
};

std::unique_ptr<ShardRules> RulesOf(ShardMistake mistake) {
  switch (mistake) {
    case ShardMistake::kAnswerBeforeTheLast: return std::make_unique<AnswerEarlyMistake>();
    case ShardMistake::kIgnoreSince: return std::make_unique<IgnoreSinceMistake>();
    case ShardMistake::kDecideBeforeAllPushed: return std::make_unique<DecideEarlyMistake>();
    case ShardMistake::kNoFence: return std::make_unique<NoFenceMistake>();
    case ShardMistake::kJudgeByTheOldView: return std::make_unique<OldViewMistake>();
    case ShardMistake::kNoAnswerToARepeat: return std::make_unique<NoRepeatMistake>();
    case ShardMistake::kVerdictIsAContribution:
      return std::make_unique<VerdictIsContributionMistake>();
    case ShardMistake::kVerdictDropsNextRound: return std::make_unique<DropNextRoundMistake>();
    case ShardMistake::kErrorWithoutResync: return std::make_unique<ErrorWithoutResyncMistake>();
    case ShardMistake::kErrorBeforeStable: return std::make_unique<ErrorBeforeStableMistake>();
    case ShardMistake::kPlacesAreSlots: return std::make_unique<SlotsMistake>();
    case ShardMistake::kPlacesArePositionsInTheSet: return std::make_unique<PositionsMistake>();
    case ShardMistake::kPlacesAreOfLowestRanks: return std::make_unique<LowestRanksMistake>();
    default: return nullptr;
  }
}

std::unique_ptr<Arithmetic> ArithmeticOf(ShardMistake mistake, Arithmetic& right) {
  switch (mistake) {
    case ShardMistake::kCombineInOrderOfArrival:
      return std::make_unique<OrderOfArrivalMistake>(right);
    case ShardMistake::kCombineFromLeftToRight: return std::make_unique<LeftToRightMistake>(right);
    case ShardMistake::kLeaveOneOut: return std::make_unique<LeaveOneOutMistake>(right);
    case ShardMistake::kDivisorCountsContributors: return std::make_unique<DivisorMistake>(right);
    default: return nullptr;
  }
}

std::unique_ptr<ShardDriver> DriverOf(ShardMistake mistake, ShardDriver& right) {
  switch (mistake) {
    case ShardMistake::kAnswerTwice: return std::make_unique<AnswerTwiceMistake>(right);
    case ShardMistake::kForgetToAnswerOne: return std::make_unique<ForgetOneMistake>(right);
    case ShardMistake::kNeverAsk: return std::make_unique<NeverAskMistake>(right);
    default: return nullptr;
  }
}

}  // namespace

MistakenShard::MistakenShard(ShardMistake mistake, Arithmetic& arithmetic, ShardDriver& driver)
    : arithmetic_(arithmetic),
      driver_(driver),
      rules_(RulesOf(mistake)),
      own_arithmetic_(ArithmeticOf(mistake, arithmetic)),
      own_driver_(DriverOf(mistake, driver)) {}

MistakenShard::~MistakenShard() = default;

}  // namespace byteps::protocol
