#include "sim/worker_node.h"

#include <algorithm>

#include "sim/server_node.h"
#include "sim/sibling.h"
#include "src/protocol/view_parts.h"
#include "src/protocol/worker/worker_options.h"

namespace byteps::sim {
namespace {

constexpr Duration kPauseMin = milliseconds(5);
constexpr Duration kPauseMax = milliseconds(200);
// The time for which a shard may be out of reach before a member has to go.
constexpr Duration kGrace = milliseconds(300);
constexpr Duration kAbortAgain = milliseconds(7);
// Slices are so small that most copies take several ticks.
constexpr size_t kCopySliceBytes = 64;
constexpr Duration kLeaveLimit = seconds(5);

std::string HowItEnded(const protocol::Outcome& outcome) {
  std::string text = outcome.status.ToString();
  if (!outcome.status.ok() || outcome.receipt == nullptr) return text;
  text += ", of";
  for (Slot slot : outcome.receipt->List()) text += " " + std::to_string(slot);
  return outcome.mixed ? text + " and more in some pieces" : text;
}

protocol::WorkerOptions OptionsOf(const ClusterOptions& options) {
  protocol::WorkerOptions made;
  made.credit.fixed_bytes = options.credit_bytes;
  made.lanes = options.lanes;
  made.lane_rules = &protocol::LaneRulesWith(options.mistakes.worker);
  made.front_rules = &protocol::FrontRulesWith(options.mistakes.worker);
  made.overdue_after = options.overdue_after;
  made.copy_slice_bytes = kCopySliceBytes;
  if (options.idle_operations > 0) {
    made.idle = protocol::IdleTensors(options.idle_operations, options.idle_operations);
  }
  made.first_round = options.rounds_begin + 1;
  return made;
}

}  // namespace

WorkerNode::WorkerNode(Cluster& cluster, uint32_t rank, uint64_t incarnation)
    : cluster_(cluster),
      rank_(rank),
      incarnation_(incarnation),
      clock_(cluster.network_),
      front_(protocol::FrontOptionsOf(OptionsOf(cluster.options_)), *cluster.options_.arithmetic,
             *this),
      ticker_(
          cluster.network_, clock_, this, [this] { return NextTick(); },
          [this](Time now) { OnTick(now); }),
      control_(cluster, this, rank, cluster.options_.worker_hosts[rank],
               WorkerJoin(cluster.options_, cluster.processes_, rank, 0, incarnation),
               {[this](const wire::View& view) { OnView(view); },
                [this](const wire::Message& message) { OnMessage(message); },
                [this] { return front_.Known(); }, [this] { OnBack(); }, [this] { GoOn(); },
                [this](const Status& why) { Stop(why); }}),
      random_(incarnation) {
  protocol::WorkerOptions options = OptionsOf(cluster.options_);
  for (uint32_t lane = 0; lane < options.lanes; ++lane) {
    lanes_.push_back(std::make_unique<Lane>(*this, protocol::LaneOptionsOf(options, lane)));
    lanes_.back()->machine.OnRoundTrip(cluster.options_.round_trip);
  }
}

WorkerNode::Lane::Lane(WorkerNode& owner, const protocol::LaneOptions& options)
    : node(owner),
      targets(options.lane, options.lanes),
      machine(options, owner.pool_, *owner.cluster_.options_.arithmetic, *this) {}

std::optional<Time> WorkerNode::NextTick() {
  std::optional<Time> next = front_.NextTick();
  for (const auto& lane : lanes_) {
    std::optional<Time> due = lane->machine.NextTick();
    if (due.has_value()) next = next.has_value() ? std::min(*next, *due) : *due;
  }
  return next;
}

void WorkerNode::OnTick(Time now) {
  for (const auto& lane : lanes_) lane->machine.OnTick(now);
  std::optional<Time> next = front_.NextTick();
  if (next.has_value() && *next <= now) front_.OnTick(now);
}

uint64_t WorkerNode::repeated_answers() const {
  uint64_t count = 0;
  for (const auto& lane : lanes_) count += lane->machine.repeated_answers();
  return count;
}

void WorkerNode::Submit(protocol::Operation operation) {
  if (!alive) return;
  if (!ready_ && !stopped_) {
    early_.push_back(std::move(operation));
    return;
  }
  protocol::OperationId id = operation.id;
  Completion& completion = completions[id];
  sticks_ = false;
  open_names_[id] = operation.name;
  Status accepted = front_.Submit(std::move(operation));
  if (!accepted.ok()) {
    if (completion.completions == 0) completions.erase(id);
    refusals[id] = accepted;
    open_names_.erase(id);
  }
  ticker_.Arm();
}

// Says that the worker is stuck in one of its open operations.
void WorkerNode::Stick() {
  if (!alive || stopped_) return;
  sticks_ = true;
  front_.SetStuck(open_names_.empty() ? "" : open_names_.begin()->second);
  ticker_.Arm();
}

void WorkerNode::Die() {
  alive = false;
  stopped_ = true;
  ticker_.Stop();
  control_.Stop();
  cluster_.network_.Kill(this);
}

void WorkerNode::AbortOpen() {
  std::vector<protocol::OperationId> open;
  for (const auto& [id, completion] : completions) {
    if (completion.completions == 0) open.push_back(id);
  }
  AbortAgain(std::move(open), kAbortAgain);
}

// Aborts again and again, each time later, because a slow link must get through the aborts.
void WorkerNode::AbortAgain(std::vector<protocol::OperationId> open, Duration after) {
  std::erase_if(open, [this](auto id) { return completions.at(id).completions > 0; });
  if (open.empty() || stopped_) return;
  for (protocol::OperationId id : open) {
    front_.Abort(id, {.why = "too late", .others = "", .join_too = false});
  }
  ticker_.Arm();
  cluster_.network_.At(
      cluster_.network_.now() + after, this,
      [this, after, open = std::move(open)]() mutable { AbortAgain(std::move(open), 2 * after); });
}

void WorkerNode::Sync() {
  syncing_ = true;
  if (!stopped_) SendControl(control_.membership().NextSync());
}

void WorkerNode::GoOn() {
  syncing_ = false;
  cluster_.network_.At(cluster_.network_.now(), this, [this, generation = view_.generation] {
    cluster_.on_go_on(rank_, generation);
  });
}

// Repeats messages that a coordinator has not answered.
void WorkerNode::OnBack() {
  front_.AskAgain();
  if (syncing_) SendControl(control_.membership().NextSync());
  if (auto leave = leaving_.SayAgain()) SendControl(*leave);
}

void WorkerNode::Leave() {
  if (!alive || stopped_ || !leaving_.Begin()) return;
  front_.Settle();
  LeaveWhenSettled(cluster_.network_.now() + kLeaveLimit);
}

// Waits until the worker has settled, because others may still lack verdicts that it holds.
void WorkerNode::LeaveWhenSettled(Time give_up) {
  if (stopped_ || !alive) return;
  if (!settled_ && cluster_.network_.now() < give_up) {
    return cluster_.network_.At(cluster_.network_.now() + milliseconds(1), this,
                                [this, give_up] { LeaveWhenSettled(give_up); });
  }
  // A worker that leaves without settling counts as lost.
  if (!settled_) evicted = true;
  if (auto leave = leaving_.Say(front_.open_operations())) SendControl(*leave);
}

// Delivers late mail. The mail from one end to another keeps its order.
template <typename Deliver>
void WorkerNode::Post(Time& last, Deliver deliver) {
  Duration most = cluster_.options_.mail_delay_max;
  Duration late{};
  if (most > Duration::zero()) late = Duration(static_cast<int64_t>(random_() % most.count()));
  last = std::max(last, cluster_.network_.now() + late);
  cluster_.network_.At(last, this, [this, deliver = std::move(deliver)]() mutable {
    if (!alive) return;
    deliver();
    ticker_.Arm();
  });
}

void WorkerNode::ToLane(uint32_t lane, protocol::LaneMail mail) {
  Post(lanes_[lane]->to_lane, [this, lane, mail = std::move(mail)]() mutable {
    const auto* view = std::get_if<protocol::to_lane::View>(&mail);
    if (view != nullptr) return DeliverView(lane, *view);
    lanes_[lane]->machine.OnMail(std::move(mail));
  });
}

void WorkerNode::Lane::ToFront(protocol::FrontMail mail) {
  node.Post(to_front, [front = &node.front_, mail = std::move(mail)]() mutable {
    front->OnMail(std::move(mail));
  });
}

void WorkerNode::Stop(const Status& why) {
  if (std::exchange(stopped_, true)) return;
  for (ShardId shard = 0; shard < links_.size(); ++shard) DropLink(shard);
  control_.Stop();
  front_.Stop(why);
}

std::optional<ConnectionId> WorkerNode::data(ShardId shard) const {
  return shard < links_.size() ? links_[shard].connection : std::nullopt;
}

void WorkerNode::OnView(const wire::View& view) {
  if (stopped_) return;
  if (control_.membership().IsEvicted()) {
    if (said_leave()) return Stop(Status(StatusCode::kShutdown, "left"));
    evicted = true;
    return Stop(Status(StatusCode::kEvicted, "the others went on without this process"));
  }
  bool begins = view.generation != view_.generation;
  bool late = begins && (view_.generation != 0 || rank_ >= cluster_.first_workers());
  if (begins && front_.open_operations() > 0) {
    cluster_.violations_.push_back("a generation begins while worker " + std::to_string(rank_) +
                                   " has operations open");
    return Stop(Status(StatusCode::kInternal, "a generation began too early"));
  }
  view_ = view;
  if (begins) roster_ = wire::WorkersOfGeneration(view);
  uint32_t rank = 0;
  for (const wire::WorkerInfo& worker : view.workers) {
    if (worker.incarnation != incarnation_) continue;
    slot_ = worker.slot;
    rank = worker.rank;
  }
  size_t shards = protocol::OwnershipOf(view).shards().size();
  links_.resize(std::max(links_.size(), shards));
  front_.OnView(view, slot_, rank);
  for (uint32_t i = 0; !ready_ && i < cluster_.options_.process_sets.size(); ++i) {
    Status added = front_.AddProcessSet(i + 1, cluster_.options_.process_sets[i]);
    if (!added.ok()) cluster_.violations_.push_back(added.ToString());
  }
  ready_ = true;
  for (protocol::Operation& operation : std::exchange(early_, {})) Submit(std::move(operation));
  if (late) GoOn();
}

void WorkerNode::DeliverView(uint32_t lane, const protocol::to_lane::View& mail) {
  Lane& to = *lanes_[lane];
  if (stopped_) return to.machine.OnMail(mail);
  for (ShardId shard : to.targets.End(*mail.view)) DropLink(shard);
  to.view = *mail.view;
  to.machine.OnMail(mail);
  for (ShardId shard : to.targets.TakeNew()) ConnectShard(shard);
}

void WorkerNode::DropLink(ShardId shard) {
  Link link = std::exchange(links_[shard], {});
  places_.erase(shard);
  if (link.bound) LaneOf(shard).machine.OnShardDown(shard);
  if (link.connection.has_value()) cluster_.network_.Close(*link.connection);
}

void WorkerNode::ConnectShard(ShardId shard) {
  if (stopped_ || !alive) return;
  Link& link = links_[shard];
  const wire::View& view = LaneOf(shard).view;
  const auto& target = TargetOf(shard);
  if (target.incarnation == 0 || link.connection.has_value()) return;
  ServerNode* node = cluster_.servers_[target.server].get();
  if (node->dead || node->incarnation() != target.incarnation) return TryAgain(shard);
  link.connection =
      cluster_.network_.Connect(cluster_.options_.worker_hosts[rank_], this, shard,
                                cluster_.options_.servers[target.server].host,
                                node->shards[shard - target.first_shard].get(), slot_);
  wire::DataHeader hello;
  hello.home = slot_;
  hello.count = incarnation_;
  hello.epoch = view.epoch;
  hello.generation = view.generation;
  Frame& frame = cluster_.network_.NewFrame();
  MakeGreeting(frame, wire::FrameKind::kHello, hello);
  cluster_.network_.Send(*link.connection, this, frame);
}

void WorkerNode::TryAgain(ShardId shard) {
  Link& link = links_[shard];
  Time now = cluster_.network_.now();
  if (!link.lost_since.has_value()) link.lost_since = now;
  const auto& target = TargetOf(shard);
  wire::Suspicion why =
      now - *link.lost_since > kGrace ? wire::Suspicion::kUnreachable : wire::Suspicion::kClosed;
  SendControl(wire::Suspect{Role::kServer, target.server, target.incarnation, why,
                            "its connection to worker " + std::to_string(rank_) + " was closed",
                            LaneOf(shard).view.generation});
  link.pause = std::clamp(link.pause * 2, kPauseMin, kPauseMax);
  cluster_.network_.At(now + link.pause, this, [this, shard] { ConnectShard(shard); });
}

void WorkerNode::OnLost(ConnectionId connection, uint32_t tag) {
  if (!alive || stopped_) return;
  if (tag == kControlTag) return control_.OnLost(connection);
  Link& link = links_[tag];
  if (link.connection != connection) return;
  link.connection.reset();
  places_.erase(tag);
  if (std::exchange(link.bound, false)) LaneOf(tag).machine.OnShardDown(tag);
  TryAgain(tag);
}

void WorkerNode::OnMessage(const wire::Message& message) {
  if (const auto* declared = std::get_if<wire::Declared>(&message)) front_.OnDeclared(*declared);
  if (const auto* failed = std::get_if<wire::DeclareFailed>(&message)) {
    front_.OnDeclareFailed(*failed);
  }
  if (const auto* forgotten = std::get_if<wire::Forgotten>(&message)) {
    front_.OnForgotten(*forgotten);
  }
  if (const auto* question = std::get_if<wire::Unbegun>(&message)) front_.OnUnbegun(*question);
  if (const auto* over = std::get_if<wire::JobOver>(&message)) {
    bool ok = over->code == StatusCode::kOk;
    evicted = evicted || over->code == StatusCode::kEvicted;  // another process of it was lost
    Stop(Status(ok ? StatusCode::kShutdown : over->code, over->text));
  }
  if (const auto* refused = std::get_if<wire::Refused>(&message)) {
    evicted = evicted || refused->code == StatusCode::kEvicted;
    Stop(Status(refused->code, refused->text));
  }
  if (std::holds_alternative<wire::Leave>(message)) {
    cluster_.CheckMayGo(rank_);
    Stop(Status(StatusCode::kShutdown, "left"));
  }
}

void WorkerNode::Complete(protocol::OperationId id, protocol::Outcome outcome) {
  Completion& completion = completions[id];
  ++completion.completions;
  completion.outcome = std::move(outcome);
  completion.at = cluster_.network_.now();
  if (cluster_.logs()) {
    cluster_.Log("worker " + std::to_string(rank_) + ": operation " + std::to_string(id) +
                 " ends: " + HowItEnded(completion.outcome));
  }
  cluster_.last_completion_ = completion.at;
  cluster_.Note(Moment::kHandedOver, rank_, kNobody);
  open_names_.erase(id);
  if (cluster_.on_complete) {
    // Users submit from their own thread, never from inside a completion.
    cluster_.network_.At(cluster_.network_.now(), this, [this, id] {
      if (sticks_) Stick();
      cluster_.on_complete(rank_, id);
    });
  }
}

void WorkerNode::StepClock(Duration by) {
  clock_.Step(by);
  ticker_.Arm();
}

}  // namespace byteps::sim
