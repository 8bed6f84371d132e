// Decides at the carrier, once, how the ranks of its machine sum what lies in the memory of their
// devices: in the window, or first in groups of devices. The bits of a sum must not depend on when
// a group was ready, so a round in device memory waits until this is decided, and the choice never
// goes back to groups.
//
//   all ranks have said HasDevice -> the plan -> SumsSo -> all have said Met: groups
//   one of them fails, or it takes too long: the window, and one line for people
//
// A value without I/O; one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/machine/room/group_words.h"
#include "src/machine/room/words.h"
#include "src/plan/device_sums.h"

namespace byteps::machine {

// The plan of a carrier for the devices of its ranks.
struct PlannedSums {
  std::vector<plan::DeviceGroup> groups;  // none: the window
  std::vector<device::GroupId> ids;       // of each group
  std::string library;                    // name and version, for all groups
  std::string text;                       // why, for people
  bool is_warning = false;                // groups were wanted, and there are none
};

class SumsChoice {
 public:
  struct Events {
    // Begins to plan. OnPlan follows, or OnLimit.
    std::function<void(const std::vector<HasDevice>&)> plan;
    std::function<void(uint32_t rank, const SumsSo&)> say_so;
    std::function<void(uint32_t rank, const GroupOver&)> say_over;
    // It is decided. `groups`: none: the window.
    std::function<void(const std::vector<plan::DeviceGroup>& groups)> decided;
    // A line for people; a warning if a group could not be made, or has failed.
    std::function<void(const std::string& line, bool is_warning)> tell;
  };
  SumsChoice(uint32_t ranks, Events events) : devices_(ranks), events_(std::move(events)) {}

  void OnDevice(uint32_t rank, const HasDevice& word);
  void OnPlan(const PlannedSums& plan);
  void OnMet(uint32_t rank, const Met& word);
  // The ranks have not met in time.
  void OnLimit(const std::string& limit);
  // The group of a rank has failed by itself; `rank`: of the job. Ends the groups. Returns the
  // error of the rounds under way; kOk: there were no groups.
  Status OnBroken(uint32_t rank, const Broken& word);
  // Ends the groups, which nobody uses any more. kOk: a rank leaves in order. Returns true if there
  // were groups until now.
  bool End(const Status& why);

  bool has_groups() const { return state_ == State::kGroups; }
  bool is_decided() const { return state_ == State::kGroups || state_ == State::kWindow; }

 private:
  enum class State : uint8_t { kOpen, kPlanning, kMeeting, kGroups, kWindow };

  void TakeWindow(const std::string& line, bool is_warning);
  void SayOver(const Status& why);

  std::vector<HasDevice> devices_;  // by rank
  RankSet have_devices_ = 0;
  RankSet have_met_ = 0;
  RankSet were_told_ = 0;  // ranks that have a group, or try to
  State state_ = State::kOpen;
  bool is_over_ = false;  // the ranks have heard GroupOver, with `over_`
  Status over_;
  PlannedSums plan_;
  const Events events_;
};

}  // namespace byteps::machine
