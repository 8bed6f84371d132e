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
  bool MayEnd(const std::vector<bool>&) const override { return true; }
};

constexpr size_t kMistakeCount = static_cast<size_t>(WorkerMistake::kEndBeforeReleased) + 1;

}  // namespace

const LaneRules& LaneRulesWith(WorkerMistake mistake) {
  static const std::vector<MistakenLaneRules> rules = [] {
    std::vector<MistakenLaneRules> all;
    for (size_t i = 0; i < kMistakeCount; ++i) all.emplace_back(static_cast<WorkerMistake>(i));
    return all;
  }();
  return rules[static_cast<size_t>(mistake)];
}

const FrontRules& FrontRulesWith(WorkerMistake mistake) {
  static const MistakenFrontRules mistaken;
  if (mistake == WorkerMistake::kEndBeforeReleased) return mistaken;
  return kFrontRules;
}

}  // namespace byteps::protocol
