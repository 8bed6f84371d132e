#include "src/machine/room/sums_choice.h"

#include <utility>

namespace byteps::machine {

void SumsChoice::OnDevice(uint32_t rank, const HasDevice& word) {
  devices_[rank] = word;
  have_devices_ |= Bit(rank);
  const auto count = static_cast<uint32_t>(devices_.size());
  if (state_ != State::kOpen || have_devices_ != FirstRanks(count)) return;
  state_ = State::kPlanning;
  events_.plan(devices_);
}

void SumsChoice::OnPlan(const PlannedSums& plan) {
  if (state_ != State::kPlanning) return;
  if (plan.groups.empty()) return TakeWindow(plan.text, plan.is_warning);
  plan_ = plan;
  state_ = State::kMeeting;
  for (size_t group = 0; group < plan.groups.size(); ++group) {
    const std::vector<uint32_t>& ranks = plan.groups[group].ranks;
    const device::GroupId& id = plan.ids[group];
    RankSet of_group = 0;
    for (uint32_t rank : ranks) of_group |= Bit(rank);
    were_told_ |= of_group;
    for (uint32_t place = 0; place < ranks.size(); ++place) {
      events_.say_so(
          ranks[place],
          {plan.library, std::string(reinterpret_cast<const char*>(id.data()), id.size()), place,
           of_group});
    }
  }
}

void SumsChoice::OnMet(uint32_t rank, const Met& word) {
  if (state_ != State::kMeeting) return;
  if (!word.how.ok()) {
    const std::string why = "local rank " + std::to_string(rank) +
                            " cannot be in a group of GPUs: " + word.how.message();
    SayOver({word.how.code(), why});
    return TakeWindow("the ranks of this machine sum in the window: " + why, true);
  }
  have_met_ |= Bit(rank);
  if (have_met_ != were_told_) return;
  state_ = State::kGroups;
  events_.tell(plan_.text, false);
  events_.decided(plan_.groups);
}

void SumsChoice::OnLimit(const std::string& limit) {
  if (is_decided()) return;
  const std::string why = "groups of GPUs were not ready after " + limit +
                          ": look at the logs of all ranks of this machine, and at that of NCCL";
  SayOver({StatusCode::kDeadlineExceeded, why});
  TakeWindow("the ranks of this machine sum in the window: " + why, true);
}

Status SumsChoice::OnBroken(uint32_t rank, const Broken& word) {
  Status why(word.why.code(), "the GPUs of the machine of rank " + std::to_string(rank) +
                                  " cannot sum among themselves any more: " + word.why.message());
  if (!End(why)) return Status::Ok();
  events_.tell(why.message() + "; later sums go through the window, and may have other bits", true);
  return why;
}

bool SumsChoice::End(const Status& why) {
  const State before = std::exchange(state_, State::kWindow);
  SayOver(why);
  if (before == State::kPlanning || before == State::kMeeting) {
    const std::string reason = why.ok() ? "one of them has left" : why.message();
    TakeWindow("the ranks of this machine sum in the window: " + reason, !why.ok());
  }
  return before == State::kGroups;
}

void SumsChoice::TakeWindow(const std::string& line, bool is_warning) {
  state_ = State::kWindow;
  events_.tell(line, is_warning);
  events_.decided({});
}

// An error follows an end in order: what is under way must not wait for a group that has failed.
void SumsChoice::SayOver(const Status& why) {
  const bool is_new = !is_over_ || (over_.ok() && !why.ok());
  is_over_ = true;
  if (!is_new) return;
  over_ = why;
  for (uint32_t rank = 0; rank < devices_.size(); ++rank) {
    if (Has(were_told_, rank)) events_.say_over(rank, {why});
  }
}

}  // namespace byteps::machine
