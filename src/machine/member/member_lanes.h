// The part of a worker behind its front when the ranks of its machine are one member of a job with
// servers: a thread that sleeps on the rank's word in the window, with the rank's part in the
// window, and at the carrier the lanes with the connections to the shards (docs/decisions/0024).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "src/base/log.h"
#include "src/base/thread_annotations.h"
#include "src/local/life_watch.h"
#include "src/local/meeting.h"
#include "src/machine/member/block_transfers.h"
#include "src/machine/member/member_carrier.h"
#include "src/machine/member/member_lane.h"
#include "src/machine/member/member_words.h"
#include "src/machine/room/device_group.h"
#include "src/machine/room/device_mover.h"
#include "src/machine/room/shared_room.h"
#include "src/machine/room/word_channel.h"
#include "src/machine/room/word_loop.h"
#include "src/runtime/inbox.h"
#include "src/runtime/worker/engine.h"
#include "src/runtime/worker/lane_group.h"
#include "src/runtime/worker/worker_lanes.h"

namespace byteps::machine {

// All workers of a job cut tensors alike, so a piece fits into a block of any machine.
inline constexpr uint32_t kMemberPieceBytesMax = uint32_t{256} << 10;
// One piece must hold a number for each pair of ranks.
inline constexpr uint32_t kMemberRanksMax = 181;

struct MachineOptions {
  std::string job;
  std::string secret;
  std::string version;
  std::string machine;  // tells machines of one job apart that may be on one host
  uint32_t local_rank = 0;
  uint32_t local_size = 2;  // at most local::kLocalRanksMax
  GroupTools groups{};      // where groups of devices come from
};

// Like runtime::StartWorkerEngine, for a worker that is one member of the job together with the
// other ranks of its machine. Waits for these ranks first. Sets the values of `options` that say
// so. The engine and the early join (early_join.h) share `transport`.
Result<runtime::StartedEngine> StartMachineWorker(std::shared_ptr<transport::Transport> transport,
                                                  runtime::WorkerEngineOptions options,
                                                  const MachineOptions& machine, Log& log);

class MemberLanes final : public runtime::WorkerLanes {
 public:
  // `memory`: of the meeting.
  MemberLanes(runtime::WorkerLanesParts parts, const MachineOptions& options,
              local::Meeting meeting, std::shared_ptr<const local::SharedMemory> memory);
  ~MemberLanes() override;

  static local::WindowShape ShapeFor(uint32_t ranks);

  uint32_t front_lanes() const override { return 1; }
  void Start() override;
  void Send(uint32_t lane, protocol::LaneMail mail) noexcept override;
  void Deliver() override;
  bool AllUp(uint64_t epoch) const override;
  void OnCoordinatorBack() override;
  void IgnoreAnswers(std::function<void()> done) override;
  void Close(const Status& why) override;
  void End() noexcept override;
  Status failure() override;

 private:
  using FromRank = std::pair<uint32_t, MemberWords::ToCarrier>;
  using News = std::function<void()>;
  using Told = std::variant<protocol::FrontMail, FromRank, News>;

  bool IsCarrier() const { return options_.local_rank == kCarrierRank; }
  std::unique_ptr<runtime::LaneGroup> MakeGroup(runtime::WorkerLanesParts parts);
  // Takes the words and mail that came from the window's thread. Called on the owner's loop.
  void TakeTold(std::vector<Told>& all);
  // Runs `work` on the window's thread.
  void Post(std::function<void()> work) noexcept;

  // The methods below are called on the window's thread.
  bool Step();
  Result<bool> StepLane();
  // Takes a word of the carrier.
  void On(const member::Ended& word) { lane_.OnEnded(word, words_.Now()); }
  void On(const member::IsSettled& word);
  void On(const MayLeave&);
  void On(const CarrierLeaves&);
  void On(const JobOver& word);
  void On(const SumsSo& word) { lane_.Meet(word); }
  void On(const UnitLaunch& word);
  void On(const GroupOver& word) { group_.End(word.why); }
  MemberCarrier::Events CarrierEvents();
  bool SayLaunches();
  void OnLoss();
  void TellLost(const Status& why);
  void Fail(const Status& why);
  void SayLeaves();
  void LeaveIfDone();
  void Run() noexcept;

  const MachineOptions options_;
  Log& log_;
  transport::Loop& loop_;  // the owner's
  const runtime::WorkerLanes::Events events_;
  local::Meeting meeting_;
  const std::shared_ptr<const local::SharedMemory> memory_;  // shared with copies of devices
  const SharedRoom room_;
  local::Heaps heaps_;
  local::Window window_;
  WordLoop words_;
  const std::unique_ptr<BlockTransfers> transfers_;  // null: not the carrier
  const std::unique_ptr<runtime::LaneGroup> lanes_;  // null: not the carrier
  const std::unique_ptr<MemberCarrier> carrier_;     // null: not the carrier
  runtime::Inbox<Told> inbox_;                       // for the owner's loop
  std::atomic<bool> lost_mail_{false};
  bool closed_ = false;            // used on the owner's loop only; so the next
  bool carrier_has_left_ = false;  // in order

  // Owned by the window's thread.
  DeviceMover mover_;
  DeviceGroup group_;
  MemberLane lane_;
  WordChannel<MemberWords> channel_;
  bool over_ = false;
  bool leaves_ = false;
  bool may_leave_ = false;
  std::unique_ptr<transport::Loop::Timer> leave_limit_;
  std::unique_ptr<transport::Loop::Timer> end_limit_;

  std::unique_ptr<local::LifeWatch> watch_;
  std::atomic<bool> ends_{false};
  Mutex mutex_;
  Status failure_ BYTEPS_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace byteps::machine
