#include "src/device/host/host_groups.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "src/kernels/kernels.h"

namespace byteps::device::host {

// One launch, as each rank has begun it.
struct HostRound {
  std::vector<std::optional<Launch>> launches;
  bool is_done = false;
};

struct HostGroup {
  explicit HostGroup(uint32_t of_size) : size(of_size) {}
  const uint32_t size;
  Mutex mutex;
  std::condition_variable changed;
  uint32_t joined BYTEPS_GUARDED_BY(mutex) = 0;
  uint32_t left BYTEPS_GUARDED_BY(mutex) = 0;
  uint32_t aborted BYTEPS_GUARDED_BY(mutex) = 0;
  // Shared with the ranks that wait for the round.
  std::map<uint64_t, std::shared_ptr<HostRound>> rounds BYTEPS_GUARDED_BY(mutex);
};

namespace {

bool AreAlike(const Launch& a, const Launch& b) {
  return a.kind == b.kind && a.runs == b.runs && a.bytes == b.bytes && a.type == b.type &&
         a.how == b.how;
}

// Returns the sum over the ranks of some bytes.
std::vector<std::byte> SumOf(const HostRound& round, size_t first, size_t bytes) {
  const Launch& launch = *round.launches[0];
  std::vector<const std::byte*> inputs;
  for (const std::optional<Launch>& of_rank : round.launches) {
    inputs.push_back(of_rank->from + first);
  }
  std::vector<uint32_t> places(inputs.size());
  std::iota(places.begin(), places.end(), 0);
  std::vector<std::byte> sum(bytes);
  const kernels::SumTree tree(places);
  const size_t count = bytes / SizeOf(launch.type);
  if (launch.how == Combine::kAverage) {
    const auto divisor = static_cast<uint32_t>(inputs.size());
    kernels::Average(launch.type, sum.data(), inputs, tree, count, divisor);
  } else {
    kernels::Combine(launch.how, launch.type, sum.data(), inputs, tree, count);
  }
  return sum;
}

void DoRound(const HostRound& round) {
  const Launch& launch = *round.launches[0];
  if (launch.kind == Launch::Kind::kReduceAll) {
    const std::vector<std::byte> sum = SumOf(round, 0, launch.bytes);
    for (const auto& of_rank : round.launches) {
      std::ranges::copy(sum, of_rank->to);
    }
  }
  for (const GroupRun& run : launch.runs) {
    if (run.bytes == 0) continue;
    std::byte* const at_home = round.launches[run.home]->to + run.first;
    if (launch.kind == Launch::Kind::kReduce) {
      const std::vector<std::byte> sum = SumOf(round, run.first, run.bytes);
      std::ranges::copy(sum, at_home);
      continue;
    }
    for (const auto& of_rank : round.launches) {
      std::memmove(of_rank->to + run.first, at_home, run.bytes);
    }
  }
}

class HostCommunicator final : public Communicator {
 public:
  HostCommunicator(HostGroups& groups, std::shared_ptr<HostGroup> group, uint32_t rank)
      : groups_(groups), group_(std::move(group)), rank_(rank) {
    groups_.CountMember(1);
  }

  Result<bool> Ask() override {
    if (groups_.TakeBreak()) {
      return Status(StatusCode::kUnavailable, "the test wants an error of the group");
    }
    if (!std::exchange(was_asked_, true)) return false;
    MutexLock lock(group_->mutex);
    if (!leaves_) return group_->joined == group_->size;
    if (group_->left < group_->size) return false;
    End();
    return true;
  }

  Status Begin(const Launch& launch, CopyStream& stream) override {
    was_asked_ = false;
    groups_.CountLaunch();
    MutexLock lock(group_->mutex);
    std::shared_ptr<HostRound>& round = group_->rounds[next_++];
    if (round == nullptr) round = std::make_shared<HostRound>();
    round->launches.resize(group_->size);
    round->launches[rank_] = launch;
    static_cast<HostWork*>(stream.handle())->Give([this, round = round] { Await(*round); });
    bool is_whole = group_->aborted == 0;
    for (const std::optional<Launch>& other : round->launches) {
      is_whole = is_whole && other.has_value() && AreAlike(*other, launch);
    }
    if (!is_whole) return Status::Ok();
    DoRound(*round);
    round->is_done = true;
    group_->rounds.erase(next_ - 1);
    group_->changed.notify_all();
    return Status::Ok();
  }

  Status Leave() override {
    was_asked_ = false;
    leaves_ = true;
    MutexLock lock(group_->mutex);
    ++group_->left;
    return Status::Ok();
  }

  void Abort() override {
    groups_.aborts_wait().Drain();
    MutexLock lock(group_->mutex);
    is_aborted_ = true;
    ++group_->aborted;
    group_->changed.notify_all();
    End();
  }

 private:
  // Blocks until the round is done. Its launches differ, or a rank does not come: then until the
  // rank aborts.
  void Await(const HostRound& round) {
    MutexLock lock(group_->mutex);
    while (!round.is_done && !is_aborted_) lock.Wait(group_->changed);
  }
  void End() {
    if (!std::exchange(is_over_, true)) groups_.CountMember(-1);
  }

  HostGroups& groups_;
  const std::shared_ptr<HostGroup> group_;  // of all members
  const uint32_t rank_;
  uint64_t next_ = 0;
  bool was_asked_ = false;  // the first answer is always "under way"
  bool leaves_ = false;
  bool is_over_ = false;
  bool is_aborted_ = false;  // guarded by the group's mutex
};

}  // namespace

HostGroups::HostGroups() = default;
HostGroups::~HostGroups() = default;

Result<GroupId> HostGroups::NewId() {
  MutexLock lock(mutex_);
  GroupId id{};
  ++made_;
  std::memcpy(id.data(), &made_, sizeof(made_));
  return id;
}

Result<std::unique_ptr<Communicator>> HostGroups::Join(const GroupId& id, uint32_t rank,
                                                       uint32_t size) {
  MutexLock lock(mutex_);
  std::shared_ptr<HostGroup>& group = groups_[id];
  if (group == nullptr) group = std::make_shared<HostGroup>(size);
  {
    MutexLock of_group(group->mutex);
    ++group->joined;
  }
  return std::unique_ptr<Communicator>(std::make_unique<HostCommunicator>(*this, group, rank));
}

}  // namespace byteps::device::host
