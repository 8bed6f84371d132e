#include "src/protocol/worker/worker_mistakes_for_test.h"

namespace byteps::protocol {
namespace {

class MistakenLaneRules final : public LaneRules {
 public:
  explicit MistakenLaneRules(WorkerMistake mistake) : mistake_(mistake) {}

  bool Counts(ShardId owner, uint64_t since, ShardId from, uint64_t epoch) const override {
    if (mistake_ == WorkerMistake::kAcceptFromAFormerOwner) return true;
    if (mistake_ == WorkerMistake::kIgnoreSince) return owner == from;
    return LaneRules::Counts(owner, since, from, epoch);
  }
  bool HasMoved(ShardId before, ShardId owner, uint64_t since, uint64_t old_epoch) const override {
    if (mistake_ == WorkerMistake::kIgnoreSince) return owner != before;
    return LaneRules::HasMoved(before, owner, since, old_epoch);
  }
  bool KeepsVerdicts() const override { return mistake_ != WorkerMistake::kHandOverWithoutKeeping; }
  bool TellsVerdict(bool present, bool reconnect) const override {
    if (mistake_ == WorkerMistake::kNoVerdictOfThePresentRound) return !present;
    if (mistake_ == WorkerMistake::kNoVerdictOfThePreviousRound) return present;
    return mistake_ != WorkerMistake::kNoVerdictAfterReconnect || !reconnect;
  }
  bool TellsWhatIsStable(bool reconnect) const override {
    return mistake_ != WorkerMistake::kNoHaveAfterReconnect || !reconnect;
  }
  bool RepeatsPassCredit() const override {
    return mistake_ != WorkerMistake::kRepeatsWaitForCredit;
  }
  bool MayLeave(bool holds_unstable) const override {
    return mistake_ == WorkerMistake::kLeaveWithAnUnstableVerdict || !holds_unstable;
  }
  bool LetsGo() const override { return mistake_ != WorkerMistake::kAnsweredInOldLane; }
  bool WaitsForTakeOver() const override {
    return mistake_ != WorkerMistake::kResyncBeforeTakeOver;
  }

 private:
  const WorkerMistake mistake_;
};

class MistakenFrontRules final : public FrontRules {
 public:
  explicit MistakenFrontRules(WorkerMistake mistake) : mistake_(mistake) {}
  bool MayEnd(const std::vector<bool>& released) const override {
    return mistake_ == WorkerMistake::kEndBeforeReleased || FrontRules::MayEnd(released);
  }
  bool MayLetGo(bool ended_well) const override {
    return mistake_ == WorkerMistake::kLetsGoAfterAnError || ended_well;
  }
  bool AsksAgain(bool has_let_go) const override {
    return mistake_ != WorkerMistake::kUsesWhatItLetGoOf && has_let_go;
  }
  bool CountsAnew() const override { return mistake_ != WorkerMistake::kCountsOn; }
  bool TellsLetGo(bool has_let_go) const override {
    return mistake_ != WorkerMistake::kHidesWhatItLetGoOf && has_let_go;
  }

 private:
  const WorkerMistake mistake_;
};

constexpr size_t kMistakeCount = static_cast<size_t>(WorkerMistake::kHidesWhatItLetGoOf) + 1;

// Returns the rules of each mistake, by its number.
template <typename Rules>
std::vector<Rules> AllRules() {
  std::vector<Rules> all;
  for (size_t i = 0; i < kMistakeCount; ++i) all.emplace_back(static_cast<WorkerMistake>(i));
  return all;
}

}  // namespace

const LaneRules& LaneRulesWith(WorkerMistake mistake) {
  static const std::vector<MistakenLaneRules> rules = AllRules<MistakenLaneRules>();
  return rules[static_cast<size_t>(mistake)];
}

const FrontRules& FrontRulesWith(WorkerMistake mistake) {
  static const std::vector<MistakenFrontRules> rules = AllRules<MistakenFrontRules>();
  return rules[static_cast<size_t>(mistake)];
}

}  // namespace byteps::protocol
