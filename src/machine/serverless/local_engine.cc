#include "src/machine/serverless/local_engine.h"

#include <unistd.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "src/protocol/control/views/sum_order.h"
#include "src/protocol/never_complete.h"
#include "src/runtime/loop_thread.h"
#include "src/runtime/seeing/status_pages.h"

namespace byteps::machine {
namespace {

using protocol::ErrorOfLeftRank;

// The interval of accounts. Each account wakes the carrier's rank.
constexpr Duration kAccountEvery = seconds(1);
constexpr size_t kSaidMax = 32;

Duration AccountEvery(const LocalEngineOptions& options) {
  return options.status.address.empty() ? kAccountEvery : options.alive_every;
}

Status WasGivenUp() {
  return {
      StatusCode::kEvicted,
      "this worker was declared lost: it was silent for too long, because it stood still or was "
      "frozen, and the other ranks of this machine have ended without it; start the job again "
      "from a checkpoint"};
}

// Returns a view in which each rank is a contributor of its own, and the window is the only shard.
wire::View ViewOf(const LocalEngineOptions& options, uint32_t piece_bytes) {
  const uint32_t ranks = options.size;
  wire::View view;
  view.epoch = view.founder = 1;
  view.generation = 1;
  view.began = 1;
  view.piece_bytes_max = piece_bytes;
  view.same_bits = options.same_bits;
  view.sum_group = options.sum_group;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    wire::WorkerInfo worker;
    worker.slot = worker.rank = worker.local_rank = rank;
    worker.incarnation = uint64_t{rank} + 1;
    worker.local_size = ranks;
    view.workers.push_back(std::move(worker));
  }
  view.servers.emplace_back();
  view.servers[0].shard_weights = {1};
  return view;
}

uint32_t PieceBytesFor(uint32_t ranks) {
  return static_cast<uint32_t>(SharedRoom::ShapeFor(ranks).block_bytes);
}

protocol::FrontOptions FrontOptionsFor(const LocalEngineOptions& options) {
  protocol::FrontOptions front;
  front.piece_bytes = PieceBytesFor(options.size);
  front.overdue_after = options.overdue_after;
  return front;
}

uint32_t LooksMax(const LocalEngineOptions& options) {
  return static_cast<uint32_t>(options.silence_max / options.alive_every) + 1;
}

// Returns the processes of all ranks; 0: not known.
std::vector<uint32_t> ProcessesOf(const local::Meeting& meeting, uint32_t own, uint32_t size) {
  std::vector<uint32_t> processes(size);
  for (uint32_t rank = 0; rank < size; ++rank) {
    if (rank == own) {
      processes[rank] = static_cast<uint32_t>(getpid());
    } else if (rank < meeting.life_fds.size()) {
      processes[rank] = local::ProcessOf(meeting.life_fds[rank]);
    }
  }
  return processes;
}

}  // namespace

LocalEngine::LocalEngine(const LocalEngineOptions& options, local::Meeting meeting, Log& log)
    : options_(options),
      log_(log),
      meeting_(std::move(meeting)),
      memory_(std::make_shared<const local::SharedMemory>(std::move(meeting_.memory))),
      room_(memory_->bytes(), SharedRoom::ShapeFor(options.size)),
      heaps_(options.rank, meeting_.heap, std::move(meeting_.heaps)),
      window_(room_.window(), SharedRoom::ShapeFor(options.size), options.rank, &heaps_),
      loop_(window_, {[this] { return Step(); }, [this] { return ShortStep(); }}),
      front_loop_(loop_, FrontOptionsFor(options), options.operation_limit, FrontEvents()),
      mover_(window_, memory_),
      group_(window_, options.groups, UnitLimits{}.unit_bytes + PieceBytesFor(options.size),
             [&log](const std::string& text) { log.Warning("{}", text); }),
      lane_(window_, options.size, room_.Small(), LaneEvents(), &mover_, &group_),
      channel_(room_, window_, options.size,
               {[this](uint32_t rank, const LocalWords::ToCarrier& word) {
                  carrier_->OnWord(rank, word, loop_.Now());
                },
                [this](const LocalWords::ToRank& word) {
                  std::visit([this](const auto& one) { On(one); }, word);
                },
                [this] { return carrier_->KeepsErrors(); }}),
      life_signs_(room_.life_signs(), options.rank, options.size, LooksMax(options)),
      ticker_(
          loop_, [this] { return NextTick(); }, [this](Time now) { OnTick(now); }),
      sums_(protocol::DescribeSums(ViewOf(options, PieceBytesFor(options.size)))),
      begun_(loop_.Now()) {
  if (options.rank == kCarrierRank) {
    carrier_ = std::make_unique<LocalCarrier>(
        window_, CarrierOptions(),
        [this](uint32_t to, const LocalWords::ToRank& word) { channel_.SayTo(to, word); });
  }
}

LocalCarrierOptions LocalEngine::CarrierOptions() {
  LocalCarrierOptions carrier;
  carrier.ranks = options_.size;
  carrier.piece_bytes_max = PieceBytesFor(options_.size);
  carrier.judge_after = options_.judge_after;
  carrier.stall_after = options_.stall_after;
  carrier.report = [this](const std::string& text) { Report(text); };
  carrier.small = room_.Small();
  carrier.processes = ProcessesOf(meeting_, options_.rank, options_.size);
  carrier.node = options_.node;
  carrier.sum_group = options_.sum_group;
  carrier.same_bits = options_.same_bits;
  carrier.account_every = AccountEvery(options_);
  carrier.plan = [this](const std::vector<HasDevice>& devices) {
    group_.Plan(devices, loop_, [this](const std::string& limit) {
      if (!over_) carrier_->OnGroupLimit(limit);
    });
  };
  carrier.tell = [this](const std::string& line, bool is_warning) {
    TellOfGroups(log_, line, is_warning);
  };
  return carrier;
}

LocalLane::Events LocalEngine::LaneEvents() {
  LocalLane::Events events;
  events.say = [this](const LocalWords::ToCarrier& word) { channel_.Say(word); };
  events.tell_front = [this](protocol::FrontMail mail) { to_front_.push_back(std::move(mail)); };
  events.ended = [this](const RoundKey& key, bool join_is_over) {
    channel_.Ended(key, join_is_over);
  };
  if (options_.rank != kCarrierRank) return events;
  events.planned = [this](const PlannedSums& plan) { carrier_->OnPlan(plan); };
  events.launch_ended = [this] { carrier_->OnLaunchEnd(); };
  return events;
}

runtime::FrontLoop::Events LocalEngine::FrontEvents() {
  runtime::FrontLoop::Events events;
  events.to_lane = [this](uint32_t, protocol::LaneMail mail) { lane_.OnMail(mail); };
  events.to_control = [this](const wire::Message& message) { SendControl(message); };
  events.after = [this] { ticker_.Arm(); };
  events.may_abort = [this] { return !over_; };
  // The calling thread tells the carrier, so the rank's own thread need not be woken for that.
  events.offer = [this](const std::function<void()>& submit) { loop_.Offer(submit); };
  events.is_lent = [this] { return loop_.IsLent(); };
  return events;
}

runtime::PrepareDevice LocalEngine::PinsWindowOfMachine() const {
  return PinsWindow(memory_, room_.window(),
                    "allow this process and its container more memory, and more locked memory "
                    "(ulimit -l)");
}

LocalEngine::~LocalEngine() {
  if (thread_.joinable()) {
    Leave();
    runtime::PostOrStop(loop_, [this] { BeginToStop(); });
    thread_.join();
  } else {
    Finish(Status::Ok());
  }
}

Status LocalEngine::Start() {
  auto watch = local::LifeWatch::Start(std::move(meeting_.life_fds), [this](uint32_t rank) {
    if (Has(window_.left(), rank)) return window_.MarkGone(rank);
    life_signs_.NoteLoss(rank, LossCause::kEnded);
    window_.MarkLost(rank);
  });
  if (!watch.ok()) return watch.status();
  watch_ = std::move(watch).value();
  log_.Rename("worker " + std::to_string(options_.rank));
  front_loop_.OnView(ViewOf(options_, PieceBytesFor(options_.size)), options_.rank, options_.rank);
  if (Status shown = ShowStatus(); !shown.ok()) return shown;
  if (IsCarrier()) log_.Info("{}", sums_.text);
  beat_ = loop_.Every(options_.alive_every, [this] { Beat(); });
  thread_ = std::thread([this] { Finish(runtime::RunLoop(loop_)); });
  return Status::Ok();
}

// Starts the status port at rank 0, which shows the status until rank 0 leaves.
Status LocalEngine::ShowStatus() {
  if (!IsCarrier()) return Status::Ok();
  auto port = runtime::StatusPort::Start(options_.status,
                                         runtime::StatusPages(loop_, [this] { return Page(); }));
  if (!port.ok()) return port.status();
  status_port_ = std::move(port).value();
  if (status_port_ != nullptr) log_.Info("{}", status_port_->Where());
  return Status::Ok();
}

runtime::StatusPage LocalEngine::Page() {
  runtime::StatusPage page;
  page.job = options_.job;
  page.version = options_.version;
  page.up_s = ToSeconds(loop_.Now() - begun_);
  page.now_ms = runtime::MillisecondsSinceEpoch();
  page.status = carrier_->Describe(loop_.Now());
  page.status.sums = sums_.text;
  page.said = said_;
  return page;
}

void LocalEngine::Report(const std::string& text) {
  log_.Warning("{}", text);
  said_.push_back({runtime::MillisecondsSinceEpoch(), text});
  if (said_.size() > kSaidMax) said_.pop_front();
}

// Runs one round of everything that may have something to do.
bool LocalEngine::Step() {
  front_loop_.TellEnds();
  if (over_) {
    channel_.Flush();
    lane_.LookAtGroupWhenOver();
    if (leaves_) milestones_.SetLeft();
    if (stops_ && !group_.IsLeaving()) loop_.Stop();
    return false;
  }
  if (window_.lost() != 0) {
    TakeWhatIsThere();
    OnLoss();
    return true;
  }
  bool did = Hear();
  did = (!over_ && IsCarrier() && carrier_->Admit()) || did;
  channel_.Flush();
  window_.WakeSleepers();  // others go on meanwhile
  if (!over_) {
    Result<bool> stepped = lane_.Step(loop_.Now());
    if (!stepped.ok()) {
      Fail(stepped.status());
    } else {
      did = stepped.value() || did;
    }
  }
  if (!to_front_.empty()) {
    DeliverToFront();
    did = true;
  }
  channel_.Flush();
  if (did) ticker_.Arm();
  if (!did && leaves_) LeaveIfDone();
  return did || over_;
}

// Runs on the thread of a user: sends what there is to say, and copies nothing.
bool LocalEngine::ShortStep() {
  if (over_ || window_.lost() != 0) return true;
  if (IsCarrier()) {
    // Until no word comes, which may be one that does not wake the carrier, and the carrier says
    // nothing more, which may be for this rank.
    while (!over_ && (Hear() || carrier_->Admit())) {
    }
  }
  channel_.Flush();
  return over_ || !to_front_.empty() || front_loop_.HasEnds();
}

bool LocalEngine::Hear() {
  bool heard = false;
  Status status = channel_.Hear([this] { return !over_; }, heard);
  if (!status.ok()) Fail(status);
  return heard;
}

void LocalEngine::On(const Combined& word) {
  if (Status taken = lane_.OnCombined(word, loop_.Now()); !taken.ok()) Fail(taken);
}

void LocalEngine::On(const UnitLaunch& word) {
  if (Status sound = lane_.OnLaunch(word); !sound.ok()) Fail(sound);
}

// The group of the carrier's rank ends in order, as this one: an abort here would wait for it.
void LocalEngine::On(const CarrierLeaves&) {
  may_leave_ = true;
  if (!leaves_) End(ErrorOfLeftRank(kCarrierRank));
}

void LocalEngine::DeliverToFront() {
  while (!to_front_.empty()) {
    protocol::FrontMail mail = std::move(to_front_.front());
    to_front_.pop_front();
    front().OnMail(std::move(mail));
  }
}

std::optional<Time> LocalEngine::NextTick() {
  if (over_) return std::nullopt;
  std::optional<Time> next = front().NextTick();
  std::optional<Time> other = IsCarrier() ? carrier_->NextTick() : std::nullopt;
  if (!next.has_value()) return other;
  return other.has_value() ? std::min(*next, *other) : next;
}

void LocalEngine::OnTick(Time now) {
  auto is_due = [now](std::optional<Time> at) { return at.has_value() && *at <= now; };
  if (is_due(front().NextTick())) front().OnTick(now);
  if (IsCarrier() && is_due(carrier_->NextTick())) carrier_->OnTick(now);
}

void LocalEngine::Beat() {
  local::RankSet still = life_signs_.Beat(window_.left() | window_.lost());
  for (uint32_t rank = 0; rank < options_.size; ++rank) {
    if (!Has(still, rank)) continue;
    life_signs_.NoteLoss(rank, LossCause::kSilent);
    window_.MarkLost(rank);
  }
  if (over_ || loop_.Now() < next_account_) return;
  next_account_ = loop_.Now() + AccountEvery(options_);
  channel_.Say(wire::Message(front_loop_.Tell()));
}

// Takes what already lies in the window and in the rings, because another rank may end right after
// it has read its sum.
void LocalEngine::TakeWhatIsThere() {
  Hear();
  if (over_) return;
  const auto step_on = [this] {
    Result<bool> stepped = true;
    while (stepped.ok() && stepped.value()) stepped = lane_.Step(loop_.Now());
  };
  step_on();
  lane_.BreakOffGroups();
  step_on();
  DeliverToFront();
}

void LocalEngine::OnLoss() {
  LifeSigns::Loss loss = life_signs_.first_loss();
  switch (loss.cause) {
    case LossCause::kSilent:
      if (loss.rank == options_.rank) return EndAtOnce(WasGivenUp());
      return EndAtOnce(WasLost(loss.rank, "it has been silent for " +
                                              std::to_string(options_.silence_max / seconds(1)) +
                                              " s, so it stands still or is frozen"));
    case LossCause::kFailed:
      return EndAtOnce(WasLost(loss.rank, "it could not go on, and its own error says why"));
    case LossCause::kNone:
    case LossCause::kEnded: break;
  }
  EndAtOnce(WasLost(loss.rank, "its process has ended"));
}

// Reports to the others that this rank cannot go on.
void LocalEngine::Fail(const Status& why) {
  life_signs_.NoteLoss(options_.rank, LossCause::kFailed);
  window_.MarkLost(options_.rank);
  EndAtOnce(why);
}

// The others end, too, so no launch of the group need end in order.
void LocalEngine::EndAtOnce(const Status& why) {
  if (!over_) lane_.AbortGroup(why);
  End(why);
}

// Ends everything. When operations hear of it, nothing touches users' memory any more. The carrier
// may have said results right before: those operations have ended well.
void LocalEngine::End(const Status& why) {
  if (over_) return;
  DeliverToFront();
  over_ = true;
  // The errors of the operations say it to the user.
  if (!leaves_) log_.Info("the job is over: {}", why.message());
  beat_.reset();
  // A rank that has not heard the reason will hear that this process has ended.
  if (channel_.Flush()) window_.Leave();
  front().Stop(leaves_ ? front_loop_.shut_down() : why);
  DeliverToFront();
  heaps_.Close();
}

std::vector<uint32_t> LocalEngine::Members() {
  std::vector<uint32_t> members;
  const local::RankSet left = window_.left();
  for (uint32_t rank = 0; rank < options_.size; ++rank) {
    if (!Has(left, rank)) members.push_back(rank);
  }
  return members;
}

void LocalEngine::GiveUp(const std::string& why) {
  loop_.Post([this, why] {
    if (!over_ && !leaves_) channel_.Say(GaveUp{why});
  });
}

bool LocalEngine::Leave() {
  auto until = [](Duration limit) { return std::chrono::steady_clock::now() + limit; };
  if (front_loop_.Refuse()) {
    status_port_.reset();  // the next session of this process may want the port
    runtime::PostOrStop(loop_, [this] { BeginToLeave(); });
  }
  bool left = milestones_.WaitUntilLeft(until(options_.leave_limit));
  if (!left) {
    runtime::PostOrStop(loop_, [this] { CutShort(); });
    left = milestones_.WaitUntilLeft(until(options_.end_limit));
  }
  loop_.EndHelp();
  return left;
}

// Says that this rank leaves. The carrier answers when it gives this rank no block any more. Until
// then all goes on.
void LocalEngine::BeginToLeave() {
  leaves_ = true;
  front_loop_.Leave();
  front_loop_.Take();
  if (over_) return;
  channel_.Say(Leaves());
}

// Leaves when all exchanges with blocks have ended. They end in order, because others may have a
// part of the result.
void LocalEngine::LeaveIfDone() {
  if (over_ || !may_leave_ || lane_.HasWhole()) return;
  front().Stop(front_loop_.shut_down());
  DeliverToFront();
  if (!lane_.IsDrained()) return;
  if (IsCarrier()) {
    if (!carrier_->IsIdle()) return;
    if (!closed_) carrier_->Close();
    closed_ = true;
    if (!channel_.Flush()) return;
  }
  End(front_loop_.shut_down());
}

// Fails, because the others do not go on, and this rank's blocks would stay as they are for ever.
void LocalEngine::CutShort() {
  if (!over_) Fail(front_loop_.shut_down());
}

// The group waits for the other ranks. Until it has ended, another rank may be lost or abort.
void LocalEngine::BeginToStop() {
  CutShort();  // no effect if this rank has left
  stops_ = true;
  group_.Leave(loop_, [this](const Status& why) { lane_.AbortGroup(why); });
}

void LocalEngine::SendControl(const wire::Message& message) {
  if (const auto* suspect = std::get_if<wire::Suspect>(&message)) {
    channel_.Say(GaveUp{suspect->text});
  } else {
    channel_.Say(message);
  }
}

// The loop does not run any more. After an error the state machines may stand in the middle of a
// step, so nobody asks them.
void LocalEngine::Finish(const Status& how) noexcept {
  if (!how.ok()) {
    lane_.AbortGroup(how);
    life_signs_.NoteLoss(options_.rank, LossCause::kFailed);
    window_.MarkLost(options_.rank);
    try {
      log_.Error("the thread of this worker has failed, and with it its part in the job: {}",
                 how.message());
    } catch (...) {  // no memory; the operations' errors say enough
    }
  }
  front_loop_.EndAll(how.ok() ? front_loop_.shut_down() : how);
  milestones_.SetLeft();
}

}  // namespace byteps::machine
