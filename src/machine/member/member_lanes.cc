#include "src/machine/member/member_lanes.h"

#include <algorithm>
#include <bit>
#include <new>
#include <system_error>

#include "src/machine/member/early_join.h"
#include "src/machine/member/transfer_stages.h"
#include "src/machine/room/heap_memory.h"
#include "src/protocol/never_complete.h"
#include "src/runtime/loop_thread.h"

namespace byteps::machine {
namespace {

using protocol::ErrorOfLeftRank;

// The time that a process that ends waits for the others to have what it brings.
constexpr Duration kEndLimit = seconds(2);
// The number of things that a rank does in blocks before it looks for other work and wakes others.
constexpr int kStepsOfTurn = 32;

Status RankWasLost(const std::string& name) {
  return {StatusCode::kPeerLost,
          name +
              " was lost: its process has ended. The ranks of its machine sum together, so they "
              "come and go together: this one is out of the job, too; start the job again from a "
              "checkpoint"};
}

}  // namespace

MemberLanes::MemberLanes(runtime::WorkerLanesParts parts, const MachineOptions& options,
                         local::Meeting meeting, std::shared_ptr<const local::SharedMemory> memory)
    : options_(options),
      log_(parts.log),
      loop_(parts.loop),
      events_(parts.events),
      meeting_(std::move(meeting)),
      memory_(std::move(memory)),
      room_(memory_->bytes(), ShapeFor(options.local_size)),
      heaps_(options.local_rank, meeting_.heap, std::move(meeting_.heaps)),
      window_(room_.window(), ShapeFor(options.local_size), options.local_rank, &heaps_),
      words_(window_, {[this] { return Step(); }, nullptr}),
      transfers_(IsCarrier() ? std::make_unique<BlockTransfers>(window_) : nullptr),
      lanes_(IsCarrier() ? MakeGroup(std::move(parts)) : nullptr),
      carrier_(IsCarrier()
                   ? std::make_unique<MemberCarrier>(options.local_size, lanes_->front_lanes(),
                                                     ShapeFor(options.local_size).block_bytes,
                                                     *transfers_, CarrierEvents())
                   : nullptr),
      inbox_(loop_, [this](std::vector<Told>& all) { TakeTold(all); }),
      mover_(window_, memory_),
      group_(window_, options.groups, UnitLimits{}.unit_bytes + kMemberPieceBytesMax,
             [&log = log_](const std::string& text) { log.Warning("{}", text); }),
      lane_(window_, transfers_.get(),
            {[this](const MemberWords::ToCarrier& word) { channel_.Say(word); },
             [this](protocol::FrontMail mail) { inbox_.Put(std::move(mail)); },
             [this](const PlannedSums& plan) {
               inbox_.Put(News([this, plan] { carrier_->OnPlan(plan); }));
             }},
            &mover_, &group_),
      channel_(room_, window_, options.local_size,
               {[this](uint32_t rank, const MemberWords::ToCarrier& word) {
                  inbox_.Put(FromRank(rank, word));
                },
                [this](const MemberWords::ToRank& word) {
                  std::visit([this](const auto& one) { On(one); }, word);
                }}) {}

MemberLanes::~MemberLanes() { End(); }

MemberCarrier::Events MemberLanes::CarrierEvents() {
  MemberCarrier::Events events;
  events.to_lane = [this](uint32_t lane, protocol::LaneMail mail) {
    lanes_->Send(lane, std::move(mail));
  };
  events.say = [this](uint32_t rank, const MemberWords::ToRank& word) {
    Post([this, rank, word] { channel_.SayTo(rank, word); });
  };
  events.to_front = [this](protocol::FrontMail mail) { events_.to_front(std::move(mail)); };
  events.fail = [this](const Status& why) { Post([this, why] { Fail(why); }); };
  events.plan = [this](const std::vector<HasDevice>& devices) {
    Post([this, devices] {
      group_.Plan(devices, words_, [this](const std::string& limit) {
        inbox_.Put(News([this, limit] { carrier_->OnGroupLimit(limit); }));
      });
    });
  };
  events.tell = [this](const std::string& line, bool is_warning) {
    TellOfGroups(log_, line, is_warning);
  };
  return events;
}

local::WindowShape MemberLanes::ShapeFor(uint32_t ranks) {
  local::WindowShape shape;
  shape.ranks = ranks;
  shape.block_bytes = kMemberPieceBytesMax;
  // Many blocks, so that there is much to do in a turn. Only the bytes that pieces use become real
  // memory.
  shape.blocks = 32;
  return shape;
}

std::unique_ptr<runtime::LaneGroup> MemberLanes::MakeGroup(runtime::WorkerLanesParts parts) {
  protocol::WorkerOptions worker = parts.worker;
  worker.paths = [transfers = transfers_.get()](const protocol::StageTools& tools) {
    return std::make_unique<TransferStages>(*transfers, tools);
  };
  runtime::WorkerLanes::Events events = events_;
  events.to_front = [this](protocol::FrontMail mail) { carrier_->OnMail(std::move(mail)); };
  return std::make_unique<runtime::LaneGroup>(
      runtime::WorkerLanesParts{parts.transport, parts.loop, worker, parts.links, parts.identity,
                                parts.log, std::move(events), std::move(parts.on_lane_thread)});
}

void MemberLanes::Start() {
  auto watch = local::LifeWatch::Start(std::move(meeting_.life_fds), [this](uint32_t rank) {
    if (Has(window_.left(), rank)) return window_.MarkGone(rank);
    window_.MarkLost(rank);
  });
  if (!watch.ok()) throw std::system_error(std::make_error_code(std::errc::too_many_files_open));
  watch_ = std::move(watch).value();
  if (lanes_ != nullptr) lanes_->Start();
  thread_ = std::thread([this] { Run(); });
}

// Runs the loop. If this thread stops early, the engine must stop, because open operations cannot
// end without it.
void MemberLanes::Run() noexcept {
  Status how = runtime::RunLoop(words_);
  if (ends_) return;
  window_.MarkLost(options_.local_rank);
  {
    MutexLock lock(mutex_);
    if (failure_.ok()) failure_ = how;
  }
  loop_.Stop();
}

Status MemberLanes::failure() {
  {
    MutexLock lock(mutex_);
    if (!failure_.ok()) return failure_;
  }
  return lanes_ == nullptr ? Status::Ok() : lanes_->failure();
}

void MemberLanes::Post(std::function<void()> work) noexcept {
  try {
    words_.Post(std::move(work));
  } catch (...) {
    lost_mail_ = true;
  }
}

void MemberLanes::Send(uint32_t, protocol::LaneMail mail) noexcept {
  try {
    const auto* view = std::get_if<protocol::to_lane::View>(&mail);
    if (view != nullptr && carrier_ != nullptr) carrier_->OnView(*view);
    Post([this, mail = std::move(mail)] { lane_.OnMail(mail); });
  } catch (...) {
    lost_mail_ = true;
  }
}

void MemberLanes::Deliver() {
  if (lost_mail_) throw std::bad_alloc();
  if (lanes_ != nullptr) return lanes_->Deliver();  // tells on_event
  events_.on_event();
}

void MemberLanes::TakeTold(std::vector<Told>& all) {
  for (Told& one : all) {
    if (auto* mail = std::get_if<protocol::FrontMail>(&one)) {
      events_.to_front(std::move(*mail));
    } else if (auto* word = std::get_if<FromRank>(&one)) {
      carrier_->OnWord(word->first, word->second);
    } else {
      std::get<News>(one)();
    }
  }
  Deliver();
}

// A rank without lanes has nobody to wait for.
bool MemberLanes::AllUp(uint64_t epoch) const { return lanes_ == nullptr || lanes_->AllUp(epoch); }

void MemberLanes::OnCoordinatorBack() {
  if (lanes_ != nullptr) lanes_->OnCoordinatorBack();
}

// Ignores the answers of this rank only; the carrier goes on for the others.
void MemberLanes::IgnoreAnswers(std::function<void()> done) {
  Post([this, done = std::move(done)] {
    lane_.IgnoreAnswers();
    inbox_.Put(News(done));
  });
}

void MemberLanes::Close(const Status& why) {
  if (std::exchange(closed_, true)) return;
  const bool in_order = why.ok() || why.code() == StatusCode::kShutdown || carrier_has_left_;
  if (!in_order) lane_.AbortGroup(why);
  if (why.code() == StatusCode::kShutdown) Post([this] { SayLeaves(); });
  if (lanes_ != nullptr) {
    carrier_->Close(why);
    lanes_->Close(why);
  }
  // If this rank goes for another reason, the coordinator tells the carrier, and the carrier tells
  // all ranks. If the carrier heard first that this rank has left, the others would hear a wrong
  // reason.
}

// The carrier has no other word for itself than CarrierLeaves. If no answer comes, the group ends
// here, so that the others get no bytes from it.
void MemberLanes::SayLeaves() {
  if (!IsCarrier()) channel_.Say(Leaves());
  if (over_ || may_leave_) return;
  lane_.OnLeaves();
  leave_limit_ = words_.After(kEndLimit, [this] {
    if (may_leave_) return;
    lane_.AbortGroup({StatusCode::kPeerLost,
                      "this rank has left, and the first rank of its machine does not answer"});
    lane_.OnMayLeave();
  });
}

// Ends the thread. A process that has not left in order is lost to the others of its machine.
void MemberLanes::End() noexcept {
  if (ends_.exchange(true)) return;
  if (lanes_ != nullptr) lanes_->End();
  if (!closed_) {
    window_.MarkLost(options_.local_rank);
    group_.End({StatusCode::kPeerLost, "this process has left its job too early"});
  }
  runtime::PostOrStop(words_, [this] {
    leaves_ = true;
    end_limit_ = words_.After(kEndLimit, [this] { words_.Stop(); });
  });
  if (thread_.joinable()) thread_.join();
  window_.MarkLost(options_.local_rank);  // no effect if it has left
  watch_.reset();
}

bool MemberLanes::Step() {
  if (over_) {
    channel_.Flush();
    lane_.LookAtGroupWhenOver();
    if (leaves_ && !group_.IsLeaving()) words_.Stop();
    return false;
  }
  if (window_.lost() != 0) {
    OnLoss();
    return true;
  }
  bool did = false;
  Status heard = channel_.Hear([this] { return !over_; }, did);
  if (transfers_ != nullptr) did = transfers_->Admit() || did;
  if (transfers_ != nullptr) did = SayLaunches() || did;
  Result<bool> stepped = StepLane();
  if (!stepped.ok() || !heard.ok()) {
    Fail(heard.ok() ? stepped.status() : heard);
    return true;
  }
  did = stepped.value() || did;
  bool all_said = channel_.Flush();
  if (!did && leaves_ && all_said) LeaveIfDone();
  if (transfers_ != nullptr) transfers_->Resume();
  return did || over_;
}

// Returns whether there was one: this rank hears it at its next step.
bool MemberLanes::SayLaunches() {
  const auto launches = transfers_->TakeLaunches();
  for (const auto& [ranks, launch] : launches) {
    for (uint32_t rank = 0; rank < options_.local_size; ++rank) {
      if (Has(ranks, rank)) channel_.SayTo(rank, launch);
    }
  }
  return !launches.empty();
}

// Does several things in a row, so that others are woken once for all of them.
Result<bool> MemberLanes::StepLane() {
  bool did = false;
  for (int i = 0; i < kStepsOfTurn; ++i) {
    Result<bool> stepped = lane_.Step(words_.Now());
    if (!stepped.ok()) return stepped;
    if (!stepped.value()) break;
    did = true;
  }
  return did;
}

void MemberLanes::On(const member::IsSettled& word) {
  inbox_.Put(protocol::FrontMail(protocol::to_front::Settled{word.question}));
}

void MemberLanes::On(const UnitLaunch& word) {
  if (Status sound = lane_.OnLaunch(word); !sound.ok()) Fail(sound);
}

void MemberLanes::On(const MayLeave&) {
  may_leave_ = true;
  lane_.OnMayLeave();
}

// The carrier's group ends in order, and all ranks have the same launches. An abort here would wait
// for it.
void MemberLanes::On(const CarrierLeaves&) {
  On(MayLeave());
  if (IsCarrier()) return;
  inbox_.Put(News([this] { carrier_has_left_ = true; }));
  TellLost(ErrorOfLeftRank(lane_.machine_ranks().RankOf(kCarrierRank)));
}

void MemberLanes::On(const JobOver& word) {
  lane_.AbortGroup(word.status);
  On(MayLeave());
  if (!IsCarrier()) TellLost(word.status);
}

void MemberLanes::TellLost(const Status& why) {
  inbox_.Put(News([this, why] { events_.on_lost(why); }));
}

// Stops all work in the window. The front withdraws what is open.
void MemberLanes::OnLoss() {
  over_ = true;
  heaps_.Close();
  lane_.IgnoreAnswers();
  const auto first = static_cast<uint32_t>(std::countr_zero(window_.lost()));
  const Status why = RankWasLost(lane_.machine_ranks().NameOf(first));
  group_.End(why);
  lane_.OnMayLeave();
  TellLost(why);
}

void MemberLanes::Fail(const Status& why) {
  over_ = true;
  heaps_.Close();
  window_.MarkLost(options_.local_rank);
  group_.End(why);
  lane_.OnMayLeave();
  TellLost(why);
}

// Leaves, if no use of a block names this rank any more: the carrier has said so, or has gone. The
// group waits for the other ranks. Until it has ended, another rank may be lost or abort.
void MemberLanes::LeaveIfDone() {
  const bool alone = Has(window_.left() | window_.lost(), kCarrierRank);
  if (!IsCarrier() && !may_leave_ && !alone) return;
  if (!lane_.IsDrained()) return;
  window_.Leave();
  over_ = true;
  end_limit_.reset();
  group_.Leave(words_, [this](const Status& why) { lane_.AbortGroup(why); });
}

Result<runtime::StartedEngine> StartMachineWorker(std::shared_ptr<transport::Transport> transport,
                                                  runtime::WorkerEngineOptions options,
                                                  const MachineOptions& machine, Log& log) {
  local::MeetingOptions meet;
  meet.job = machine.job;
  meet.secret = machine.secret;
  meet.group = "workers of machine " + machine.machine;
  meet.rank = machine.local_rank;
  meet.size = machine.local_size;
  meet.memory_bytes = SharedRoom::BytesFor(MemberLanes::ShapeFor(machine.local_size));
  meet.terms = "BytePS " + machine.version;
  options.join.local_rank = machine.local_rank;
  options.join.local_size = machine.local_size;
  meet.on_refused = [&log](const std::string& whom) { log.Warning("{}", whom); };
  // The coordinator tells which workers are missing. The early join is destroyed after the engine
  // has joined, or has failed to join.
  EarlyJoin early_join(*transport, options.control, options.join, machine.machine, log);
  meet.go_on = [&] {
    return early_join.failure().ok() && (options.go_on == nullptr || options.go_on());
  };
  Result<local::Meeting> met =
      local::Meet(meet, std::chrono::steady_clock::now() + options.start_limit);
  if (Status failed = early_join.failure(); !failed.ok()) return failed;
  if (!met.ok()) return met.status();
  early_join.Retire();
  // A machine that meets again is another member.
  const auto shared = std::make_shared<const local::SharedMemory>(std::move(met->memory));
  const SharedRoom room(shared->bytes(), MemberLanes::ShapeFor(machine.local_size));
  const uint64_t number = room.MeetingNumber(options.join.incarnation);
  options.join.contributor = "machine " + machine.machine + ", meeting " + std::to_string(number);
  options.join.contributor_size = machine.local_size;
  // The function is called once.
  auto meeting = std::make_shared<local::Meeting>(std::move(met).value());
  options.make_lanes = [&machine, meeting, shared](runtime::WorkerLanesParts parts) {
    return std::make_unique<MemberLanes>(std::move(parts), machine, std::move(*meeting), shared);
  };
  auto memory = std::make_shared<HeapMemory>(meeting->heap);
  Result<runtime::StartedEngine> started = runtime::StartWorkerEngine(transport, options, log);
  if (!started.ok()) return started;
  started->memory = std::move(memory);
  started->prepare_device =
      PinsWindow(shared, room.window(),
                 "allow this process and its container more memory, and more locked memory (ulimit "
                 "-l), or let each worker copy by itself (BYTEPS_LOCAL_REDUCE=0)");
  return started;
}

}  // namespace byteps::machine
