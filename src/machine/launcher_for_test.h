// Groups of devices in tests, for the ranks of one machine in one thread: a launch runs when the
// test says so, and no earlier than all ranks of its group have come to it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/local/window.h"
#include "src/machine/member/block_transfers.h"
#include "src/machine/room/launcher.h"
#include "src/machine/schedule_for_test.h"
#include "src/machine/schedule_ops_for_test.h"

namespace byteps::machine {

// The devices of these tests are host memory, and their elements are float32.
class GroupForTest {
 public:
  // Somewhere in memory that a reduce does not give a rank.
  static constexpr float kAnyBytes = 7e7F;

  // `breaks`: asked now and then, whether the group fails by itself. `is_late`: asked whether the
  // last rank sees an end later than others.
  GroupForTest(std::vector<local::Window*> windows, std::function<bool()> breaks,
               std::function<bool()> is_late)
      : windows_(std::move(windows)),
        breaks_(std::move(breaks)),
        is_late_(std::move(is_late)),
        members_(windows_.size()) {}

  void Meet(size_t place) { members_[place].has_met = true; }
  void Launch(size_t place, device::Launch launch) {
    Member& member = members_[place];
    if (member.is_over && !member.leaves) return Add(member, std::move(launch), Aborted());
    EXPECT_FALSE(member.leaves) << "a launch behind the end";
    Add(member, std::move(launch), std::nullopt);
  }
  std::optional<Status> TakeEnd(size_t place) {
    Member& member = members_[place];
    if (member.items.empty() || !member.items.front().how.has_value()) return std::nullopt;
    const Status how = *member.items.front().how;
    member.items.pop_front();
    ++member.taken;
    return how;
  }
  void End(size_t place, const Status& why) {
    Member& member = members_[place];
    if (member.is_over && (why.ok() || !member.leaves)) return;
    member.is_over = true;
    member.leaves = why.ok();
    if (why.ok()) return;
    for (Item& item : member.items) {
      if (!item.how.has_value()) item.how = Aborted();
    }
    Notify(place);
  }
  // Returns once whether the group has failed at this rank.
  bool TakeBroken(size_t place) { return std::exchange(members_[place].tells_broken, false); }
  bool is_broken() const { return is_broken_; }

  // Adds what can happen in the group now.
  void AddChoices(std::vector<std::function<void()>>& choices) {
    if (run_ > 0 && !is_broken_ && breaks_()) choices.emplace_back([this] { Break(); });
    if (CanRun()) choices.emplace_back([this] { Run(); });
    for (size_t place = 0; place < members_.size(); ++place) {
      Member& member = members_[place];
      const bool has_run = member.taken + Ended(member) < run_;
      if (has_run && !(member.is_over && !member.leaves)) {
        choices.emplace_back([this, place] {
          if (place + 1 < members_.size() || !is_late_()) EndNext(place);
        });
      }
    }
  }
  // Returns whether no launch waits for a rank. A rank that has left has not taken all ends.
  bool IsAtRest() const {
    return std::ranges::all_of(members_, [this](const Member& member) {
      return member.taken + member.items.size() == run_;
    });
  }
  // Expects that no rank aborts the group in vain: an abort waits until all others have aborted,
  // and so does a rank that leaves beside one that was lost. `left`: these ranks may have gone
  // before.
  void CheckAborts(RankSet lost, RankSet left) const {
    bool is_aborted = false;
    for (size_t place = 0; place < members_.size(); ++place) {
      const uint32_t rank = windows_[place]->rank();
      if (local::Has(left, rank)) continue;
      is_aborted = is_aborted || HasAborted(place) || local::Has(lost, rank);
    }
    for (size_t place = 0; place < members_.size() && is_aborted; ++place) {
      const uint32_t rank = windows_[place]->rank();
      if (!members_[place].has_met || local::Has(lost | left, rank)) continue;
      EXPECT_TRUE(HasAborted(place)) << "rank " << rank << " holds up aborts of others";
    }
  }
  uint64_t run() const { return run_; }
  // Returns the ranks whose next launch waits for this one's.
  RankSet WaitingFor(uint32_t rank) const {
    RankSet waiting = 0;
    bool is_missed = false;
    for (size_t place = 0; place < members_.size(); ++place) {
      const Member& member = members_[place];
      const bool has_come = member.taken + member.items.size() > run_;
      const uint32_t own = windows_[place]->rank();
      if (has_come) waiting |= local::Bit(own);
      is_missed = is_missed || (own == rank && !has_come);
    }
    return is_missed ? waiting : 0;
  }

 private:
  struct Item {
    device::Launch launch;
    std::optional<Status> how;
    std::vector<std::pair<size_t, float>> writes;  // which the rank sees at the end
  };
  struct Member {
    std::deque<Item> items;  // whose ends the rank has not taken
    uint64_t taken = 0;
    bool has_met = false;
    bool is_over = false;
    bool leaves = false;  // in order
    bool tells_broken = false;
  };

  // The rank at which the group has failed aborts by itself.
  bool HasAborted(size_t place) const {
    const bool has_failed = is_broken_ && place + 1 == members_.size();
    return has_failed || (members_[place].is_over && !members_[place].leaves);
  }
  static Status Aborted() { return {StatusCode::kUnavailable, "the group was aborted"}; }
  static void Add(Member& member, device::Launch launch, std::optional<Status> how) {
    member.items.push_back({std::move(launch), std::move(how), {}});
  }
  static uint64_t Ended(const Member& member) {
    uint64_t ended = 0;
    while (ended < member.items.size() && member.items[ended].how.has_value()) ++ended;
    return ended;
  }
  void Notify(size_t place) { windows_[place]->Notify(local::Bit(windows_[place]->rank())); }
  // The ranks hear of it one after the other, or from the carrier.
  void Break() {
    is_broken_ = true;
    members_.back().tells_broken = true;
    Notify(members_.size() - 1);
  }
  bool CanRun() const {
    if (is_broken_) return false;
    for (const Member& member : members_) {
      if (member.taken + member.items.size() <= run_ || (member.is_over && !member.leaves)) {
        return false;
      }
    }
    return true;
  }
  Item& NextOf(size_t place) {
    Member& member = members_[place];
    return member.items[run_ - member.taken];
  }
  device::Launch& ItemOf(size_t place) { return NextOf(place).launch; }
  void Run() {
    const device::Launch& first = ItemOf(0);
    for (size_t place = 1; place < members_.size(); ++place) {
      const device::Launch& other = ItemOf(place);
      EXPECT_TRUE(other.kind == first.kind && other.runs == first.runs && other.how == first.how);
    }
    for (const device::GroupRun& run : first.runs) {
      for (size_t at = run.first; at < run.first + run.bytes; at += sizeof(float)) {
        if (first.kind == device::Launch::Kind::kGather) {
          Gather(run.home, at);
        } else {
          Reduce(run.home, at, first.kind == device::Launch::Kind::kReduceAll);
        }
      }
    }
    ++run_;
  }
  // A rank with a scratch unit brings zeros.
  static float At(const std::byte* memory, size_t byte) {
    float value = 0;
    if (memory != nullptr) std::memcpy(&value, memory + byte, sizeof(value));
    return value;
  }
  static void Put(std::byte* memory, size_t byte, float value) {
    if (memory != nullptr) std::memcpy(memory + byte, &value, sizeof(value));
  }
  void Reduce(uint32_t home, size_t at, bool for_all) {
    const bool is_min = ItemOf(0).how == Combine::kMin;
    float value = At(ItemOf(0).from, at);
    for (size_t place = 1; place < members_.size(); ++place) {
      const float other = At(ItemOf(place).from, at);
      value = is_min ? std::min(value, other) : value + other;
    }
    for (size_t place = 0; place < members_.size(); ++place) {
      NextOf(place).writes.emplace_back(at, place == home || for_all ? value : kAnyBytes);
    }
  }
  void Gather(uint32_t home, size_t at) {
    const float value = At(ItemOf(home).to, at);
    for (size_t place = 0; place < members_.size(); ++place) {
      NextOf(place).writes.emplace_back(at, value);
    }
  }
  void EndNext(size_t place) {
    Member& member = members_[place];
    Item& item = member.items[Ended(member)];
    for (const auto& [at, value] : item.writes) Put(item.launch.to, at, value);
    item.how = Status::Ok();
    Notify(place);
  }

  const std::vector<local::Window*> windows_;
  const std::function<bool()> breaks_;
  const std::function<bool()> is_late_;
  std::vector<Member> members_;
  bool is_broken_ = false;
  uint64_t run_ = 0;  // launches
};

// Launches that end when the test says so.
class LaunchesForTest final : public Launcher {
 public:
  bool Takes(const protocol::DeviceMemory&, std::optional<HasDevice>&) override { return true; }
  std::optional<PlannedSums> TakePlan() override { return std::nullopt; }
  void Meet(const SumsSo&) override {}
  std::optional<Met> TakeMet() override { return std::nullopt; }
  std::optional<Broken> TakeBroken() override { return std::exchange(broken, std::nullopt); }
  void Launch(device::Launch launch, const protocol::DeviceMemory*) override {
    launches.push_back(std::move(launch));
  }
  std::optional<Status> TakeEnd() override {
    if (ends.empty()) return std::nullopt;
    const Status how = ends.front();
    ends.pop_front();
    return how;
  }
  void End(const Status& why) override { over.push_back(why); }

  std::vector<device::Launch> launches;
  std::deque<Status> ends;
  std::optional<Broken> broken;
  std::vector<Status> over;
};

// The plan of the ranks of a machine, and the end of their meeting.
struct GroupsForTest {
  PlannedSums plan;
  std::vector<std::unique_ptr<GroupForTest>> groups;
  Status met;  // of the last rank

  // Makes one group of the ranks of these windows, or two. In some groups a rank is the home of
  // nothing. In a quarter of the schedules there are no groups, and in some of the others a rank
  // does not meet the rest. `at_once`: if there is one group, no rank is a home. `below`: rolls
  // numbers.
  void Roll(uint64_t seed, const std::vector<std::unique_ptr<local::Window>>& windows,
            const std::function<uint64_t(uint64_t)>& below, bool at_once) {
    const auto count = static_cast<uint32_t>(windows.size());
    const uint64_t kind = seed / 4 % 4;
    if (kind == 0) return;
    const uint32_t size = kind == 1 && count % 2 == 0 ? count / 2 : count;
    for (uint32_t first = 0; first < count; first += size) {
      plan::DeviceGroup& group = plan.groups.emplace_back();
      std::vector<local::Window*> of_group;
      for (uint32_t rank = first; rank < first + size; ++rank) {
        group.ranks.push_back(rank);
        if (!at_once || size < count) {
          group.weights.push_back(kind == 2 && rank == first ? 0 : 1.0 / size);
        }
        of_group.push_back(windows[rank].get());
      }
      plan.ids.emplace_back();
      groups.push_back(std::make_unique<GroupForTest>(
          std::move(of_group), [below, may = seed % 3 == 0] { return may && below(60) == 0; },
          [below, may = seed % 4 < 2] { return may && below(12) != 0; }));
    }
    if (seed / 16 % 4 == 0) met = {StatusCode::kUnavailable, "another version"};
  }

  // Returns the blocks that wait for ranks whose next launch waits for this rank's.
  std::set<uint32_t> BlocksBehind(
      uint32_t rank, const std::vector<std::unique_ptr<local::Window>>& windows) const {
    RankSet homes = 0;
    for (const auto& group : groups) homes |= group->WaitingFor(rank);
    std::set<uint32_t> blocks;
    for (RankSet left = homes; left != 0; left &= left - 1) {
      const auto home = static_cast<uint32_t>(std::countr_zero(left));
      local::Window& window = *windows[home];
      uint64_t number = 0;
      while (std::optional<local::AdmittedUse> at = window.NextAfter(number).value()) {
        number = at->number;
        const bool collects = IsByGroup(at->use) && !Spreads(at->use);
        if (collects && Has(window.Awaited(*at), home)) blocks.insert(at->block);
      }
    }
    return blocks;
  }

  // If one group fails, the ranks abort all of them, and as well if a rank is lost.
  void Check(const Schedule& ranks, Played& played) const {
    const bool are_aborted = ranks.has_broken() || ranks.has_lost_one();
    for (const auto& group : groups) {
      EXPECT_TRUE(group->IsAtRest() || are_aborted);
      group->CheckAborts(ranks.killed(), ranks.left());
      if (group->is_broken()) ++played.broken;
      played.launches += group->run();
    }
  }
};

class LauncherForTest final : public Launcher {
 public:
  LauncherForTest(GroupsForTest& all, local::Window& window) : all_(all), window_(window) {}

  bool Takes(const protocol::DeviceMemory&, std::optional<HasDevice>& first) override {
    if (!std::exchange(has_said_, true)) first = HasDevice{"gpu"};
    return true;
  }
  void Plan(const std::vector<HasDevice>&) {
    plan_ = all_.plan;
    Notify();
  }
  std::optional<PlannedSums> TakePlan() override { return std::exchange(plan_, std::nullopt); }
  void Meet(const SumsSo& word) override {
    place_ = word.place;
    const auto is_here = [this](uint32_t rank) { return rank == window_.rank(); };
    for (size_t i = 0; i < all_.groups.size(); ++i) {
      if (std::ranges::any_of(all_.plan.groups[i].ranks, is_here)) group_ = all_.groups[i].get();
    }
    group_->Meet(place_);
    met_ = Met{is_last_ ? all_.met : Status::Ok()};
    Notify();
  }
  std::optional<Met> TakeMet() override { return std::exchange(met_, std::nullopt); }
  std::optional<Broken> TakeBroken() override {
    if (group_ == nullptr || !group_->TakeBroken(place_)) return std::nullopt;
    return Broken{{StatusCode::kUnavailable, "the group has failed"}};
  }
  void Launch(device::Launch launch, const protocol::DeviceMemory*) override {
    group_->Launch(place_, std::move(launch));
  }
  std::optional<Status> TakeEnd() override {
    return group_ == nullptr ? std::nullopt : group_->TakeEnd(place_);
  }
  void End(const Status& why) override {
    if (group_ != nullptr) group_->End(place_, why);
  }
  void SetLast() { is_last_ = true; }

 private:
  void Notify() { window_.Notify(local::Bit(window_.rank())); }

  GroupsForTest& all_;
  local::Window& window_;
  bool has_said_ = false;
  bool is_last_ = false;
  std::optional<PlannedSums> plan_;
  std::optional<Met> met_;
  GroupForTest* group_ = nullptr;
  size_t place_ = 0;
};

}  // namespace byteps::machine
