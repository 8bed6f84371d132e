// Joining, views, liveness and the end. declarations.cc has what concerns tensors.
#include "src/protocol/coordinator.h"

#include <algorithm>
#include <set>
#include <utility>

#include "src/plan/placement.h"

namespace byteps::protocol {
namespace {

const char* WordFor(Role role) {
  switch (role) {
    case Role::kWorker: return "worker";
    case Role::kServer: return "server";
    case Role::kCoordinator: return "coordinator";
  }
  return "member";
}

// More than any job has; a number beyond these is nonsense.
constexpr uint32_t kWorkersMax = 1 << 16;
constexpr uint32_t kShardsMax = 1 << 10;  // of one server

std::string Seconds(Duration duration) {
  return std::to_string(std::chrono::duration_cast<seconds>(duration).count()) + " s";
}

std::string List(const std::vector<uint32_t>& numbers) {
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t i = 0; i < std::min(numbers.size(), kShown); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(numbers[i]);
  }
  if (numbers.size() > kShown) {
    text += " and " + std::to_string(numbers.size() - kShown) + " more";
  }
  return text;
}

}  // namespace

Coordinator::Coordinator(const CoordinatorOptions& options, CoordinatorDriver& driver, Time now)
    : options_(options),
      driver_(driver),
      gathering_since_(now),
      next_report_(now + options.report_every) {}

std::string Coordinator::NameOf(const Member& member) {
  std::string text = WordFor(member.join.role);
  if (member.index != kNoSlot) text += " " + std::to_string(member.index);
  text += " (process " + std::to_string(member.join.process);
  if (!member.join.node.empty()) text += " on " + member.join.node;
  return text + ")";
}

void Coordinator::OnMessage(ConnectionId from, const wire::Message& message, Time now) {
  if (phase_ == Phase::kOver) return;
  if (const auto* join = std::get_if<wire::Join>(&message)) return OnJoin(from, *join, now);
  auto found = members_.find(from);
  if (found == members_.end()) return driver_.Disconnect(from);
  Member& member = found->second;
  member.heard = now;
  member.doubted.reset();
  if (const auto* declare = std::get_if<wire::Declare>(&message)) {
    if (member.in_view && !member.left) OnDeclare(from, member, *declare);
  } else if (const auto* leave = std::get_if<wire::Leave>(&message)) {
    OnLeave(from, member, *leave, now);
  } else if (const auto* suspect = std::get_if<wire::Suspect>(&message)) {
    if (member.in_view && !member.left) OnSuspect(*suspect);
  }
}

uint32_t Coordinator::Count(Role role, bool in_view_only) const {
  return static_cast<uint32_t>(std::count_if(members_.begin(), members_.end(), [&](auto& entry) {
    const Member& member = entry.second;
    return member.join.role == role && !member.left && (!in_view_only || member.in_view);
  }));
}

std::optional<std::string> Coordinator::ReasonToRefuse(const wire::Join& join) const {
  if (join.role == Role::kCoordinator) return "it has a coordinator";
  if (join.version != options_.version) {
    return "this job runs version " + options_.version + ", you run " + join.version +
           "; install the same version everywhere";
  }
  if (join.server_count != options_.server_count) {
    return "you were told of " + std::to_string(join.server_count) +
           " servers, the coordinator of " + std::to_string(options_.server_count) +
           "; DMLC_NUM_SERVER must be the same everywhere";
  }
  if (join.piece_bytes_max != options_.piece_bytes_max) {
    return "your partition is " + std::to_string(join.piece_bytes_max) +
           " bytes, the coordinator's " + std::to_string(options_.piece_bytes_max) +
           "; BYTEPS_PARTITION_BYTES must be the same everywhere";
  }
  bool worker = join.role == Role::kWorker;
  if (!worker && (join.shards == 0 || join.shards > kShardsMax)) {
    return "it has " + std::to_string(join.shards) + " shards; a server has 1 to " +
           std::to_string(kShardsMax);
  }
  if (worker && join.worker_count > kWorkersMax) {
    return "you were told of " + std::to_string(join.worker_count) + " workers; a job has up to " +
           std::to_string(kWorkersMax);
  }
  uint32_t expected = worker ? worker_count_.value_or(join.worker_count) : options_.server_count;
  if (worker && (join.worker_count == 0 || join.worker_count % options_.worker_machines != 0)) {
    return "you were told of " + std::to_string(join.worker_count) +
           " workers, the coordinator of " + std::to_string(options_.worker_machines) +
           " worker machines; DMLC_NUM_WORKER must be the same everywhere";
  }
  if (worker && join.worker_count != expected) {
    return "you were told of " + std::to_string(join.worker_count) + " workers, the others of " +
           std::to_string(expected) +
           "; DMLC_NUM_WORKER and BYTEPS_LOCAL_SIZE must be the same everywhere";
  }
  if (join.rank >= static_cast<int64_t>(expected)) {
    return std::string(WordFor(join.role)) + " " + std::to_string(join.rank) +
           " does not exist: there are " + std::to_string(expected);
  }
  for (const auto& [id, member] : members_) {
    if (member.join.role != join.role || member.left || join.rank < 0) continue;
    if (member.join.rank == join.rank) return "it is taken by " + NameOf(member);
  }
  if (Count(join.role, false) >= expected) return "all its places are taken";
  return std::nullopt;
}

void Coordinator::Refuse(ConnectionId id, const std::string& text) {
  driver_.Send(id, wire::Refused{StatusCode::kRefused, "the job refused this process: " + text});
  driver_.Disconnect(id);
}

void Coordinator::OnJoin(ConnectionId from, const wire::Join& join, Time now) {
  if (members_.contains(from)) return Refuse(from, "it has joined already");
  if (std::optional<std::string> reason = ReasonToRefuse(join)) {
    std::string who = WordFor(join.role);
    if (join.rank >= 0) who += " " + std::to_string(join.rank);
    driver_.Report("refused " + who + " (process " + std::to_string(join.process) + " on " +
                   join.node + "): " + *reason);
    return Refuse(from, *reason);
  }
  if (join.role == Role::kWorker) {
    bool first = phase_ == Phase::kGathering && view_.epoch > 0 && !Waits();
    if (first) {  // the next generation begins to gather
      gathering_since_ = now;
      next_report_ = now + options_.report_every;
    }
    worker_count_ = join.worker_count;
  }
  Member& member = members_[from];
  member.join = join;
  member.heard = now;
  if (join.rank >= 0) member.index = static_cast<uint32_t>(join.rank);
  StartIfComplete();
}

bool Coordinator::AllHere() const {
  return worker_count_.has_value() && Count(Role::kWorker, false) == *worker_count_ &&
         Count(Role::kServer, false) == options_.server_count;
}

// Members that did not ask for a number get the lowest free ones, in order of arrival.
void Coordinator::GiveIndices() {
  for (Role role : {Role::kWorker, Role::kServer}) {
    std::set<uint32_t> taken;
    for (auto& [id, member] : members_) {
      if (member.join.role == role && !member.left) taken.insert(member.index);
    }
    uint32_t next = 0;
    for (auto& [id, member] : members_) {
      if (member.join.role != role || member.left || member.index != kNoSlot) continue;
      while (taken.contains(next)) ++next;
      member.index = next++;
    }
  }
}

void Coordinator::StartIfComplete() {
  if (phase_ != Phase::kGathering || !AllHere()) return;
  // A worker of the last generation may still be leaving.
  for (auto& [id, member] : members_) {
    bool lingering = member.join.role == Role::kWorker && member.in_view && !member.left;
    if (lingering) return;
  }
  GiveIndices();
  BuildView();
  Weigh();
  if (phase_ == Phase::kOver) return;
  phase_ = Phase::kRunning;
  names_.clear();
  for (auto& [id, member] : members_) {
    if (member.left) continue;
    member.in_view = true;
    wire::View view = view_;
    if (member.join.role == Role::kWorker) view.slot = member.index;
    driver_.Send(id, view);
  }
}

void Coordinator::BuildView() {
  ++view_.epoch;
  ++view_.generation;
  view_.piece_bytes_max = options_.piece_bytes_max;
  view_.workers.clear();
  view_.servers.clear();
  for (const auto& [id, member] : members_) {
    if (member.left) continue;
    const wire::Join& join = member.join;
    if (join.role == Role::kWorker) {
      view_.workers.push_back({member.index, member.index, join.incarnation, join.host,
                               join.process, join.local_rank, join.local_size});
    } else {
      view_.servers.push_back({member.index, join.incarnation, join.host, join.address,
                               join.process, 0, std::vector<uint32_t>(join.shards), view_.epoch});
    }
  }
  std::sort(view_.workers.begin(), view_.workers.end(),
            [](const auto& a, const auto& b) { return a.slot < b.slot; });
  std::sort(view_.servers.begin(), view_.servers.end(),
            [](const auto& a, const auto& b) { return a.index < b.index; });
}

// Shares by host: members with one host identity share a link.
void Coordinator::Weigh() {
  std::map<std::string, uint32_t> host_of;
  std::vector<plan::Host> hosts;
  auto host_index = [&](const std::string& name) {
    auto [found, fresh] = host_of.try_emplace(name, static_cast<uint32_t>(hosts.size()));
    if (fresh) hosts.emplace_back();
    return found->second;
  };
  for (const wire::WorkerInfo& worker : view_.workers) ++hosts[host_index(worker.host)].workers;
  std::vector<plan::ServerSite> sites;
  ShardId next_shard = 0;
  for (wire::ServerInfo& server : view_.servers) {
    uint32_t host = host_index(server.host);
    ++hosts[host].servers;
    auto shards = static_cast<uint32_t>(server.shard_weights.size());
    sites.push_back({host, shards});
    server.first_shard = next_shard;
    next_shard += shards;
  }
  for (const auto& [id, member] : members_) {
    if (member.left || member.join.link_mbit == 0) continue;
    hosts[host_index(member.join.host)].link = member.join.link_mbit;
  }
  Result<plan::Shares> shares = plan::ComputeShares(hosts);
  if (!shares.ok()) return End(shares.status());
  Result<std::vector<uint32_t>> weights = plan::ShardWeights(shares.value(), sites);
  if (!weights.ok()) return End(weights.status());
  for (wire::ServerInfo& server : view_.servers) {
    for (size_t i = 0; i < server.shard_weights.size(); ++i) {
      server.shard_weights[i] = weights.value()[server.first_shard + i];
    }
  }
  Result<plan::PieceAssigner> dealer =
      plan::PieceAssigner::Create(weights.value(), options_.piece_bytes_max);
  if (!dealer.ok()) return End(dealer.status());
  dealer_ = std::move(dealer).value();
}

void Coordinator::TellAll(const wire::Message& message) {
  for (const auto& [id, member] : members_) driver_.Send(id, message);
}

void Coordinator::OnLeave(ConnectionId from, Member& member, const wire::Leave& leave, Time now) {
  if (member.left || member.join.role != Role::kWorker) return;
  member.left = true;
  if (!member.in_view) {  // it did not wait for the start
    if (Count(Role::kWorker, false) == 0 && phase_ == Phase::kGathering) worker_count_.reset();
    driver_.Send(from, wire::Leave{});
    return;
  }
  std::string text = NameOf(member) + " has left the job" +
                     (leave.clean ? "" : " with operations in flight") +
                     "; operations it does not take part in cannot complete";
  for (const auto& [id, other] : members_) {
    if (other.join.role == Role::kServer && other.in_view) {
      driver_.Send(id, wire::Left{member.index, text});
    }
  }
  driver_.Send(from, wire::Leave{});  // the worker may close now
  GatherAgainIfAllLeft(now);
}

void Coordinator::GatherAgainIfAllLeft(Time now) {
  if (phase_ != Phase::kRunning || Count(Role::kWorker, true) > 0) return;
  phase_ = Phase::kGathering;
  gathering_since_ = now;
  next_report_ = now + options_.report_every;
  worker_count_.reset();
  for (const auto& [id, member] : members_) {
    if (member.join.role == Role::kWorker && !member.left) {
      worker_count_ = member.join.worker_count;
    }
  }
  EndIfNobodyComesBack();
  if (phase_ != Phase::kGathering) return;
  StartIfComplete();
}

// Workers that left keep their connection while their process lives: they may join again.
void Coordinator::EndIfNobodyComesBack() {
  if (phase_ != Phase::kGathering || view_.epoch == 0) return;
  for (const auto& [id, member] : members_) {
    if (member.join.role == Role::kWorker) return;
  }
  TellAll(wire::JobOver{StatusCode::kOk, "all workers have left"});
  phase_ = Phase::kOver;
  driver_.Finish(Status::Ok());
}

void Coordinator::OnLost(ConnectionId id, const std::string& why) {
  auto found = members_.find(id);
  if (found == members_.end() || phase_ == Phase::kOver) return;
  Member member = found->second;
  members_.erase(found);
  if (member.left) return EndIfNobodyComesBack();
  bool needed = member.in_view || (member.join.role == Role::kServer && view_.epoch > 0);
  if (needed) {
    return End({StatusCode::kPeerLost, NameOf(member) + " was lost: " + why});
  }
  // It had not started yet; another one may take its place.
  driver_.Report(NameOf(member) + " went away before the job started: " + why);
  if (member.join.role == Role::kWorker && Count(Role::kWorker, false) == 0) {
    worker_count_.reset();
  }
  EndIfNobodyComesBack();
}

void Coordinator::OnSuspect(const wire::Suspect& suspect) {
  for (const auto& [id, member] : members_) {
    bool meant = member.join.role == suspect.role && member.index == suspect.index &&
                 member.in_view && !member.left;
    if (meant) {
      return End({StatusCode::kPeerLost, NameOf(member) + " was lost: " + suspect.text});
    }
  }
}

void Coordinator::End(const Status& why) {
  if (phase_ == Phase::kOver) return;
  phase_ = Phase::kOver;
  TellAll(wire::JobOver{why.code(), why.message()});
  driver_.Finish(why);
}

std::string Coordinator::Missing(Time now) const {
  std::string text;
  for (Role role : {Role::kWorker, Role::kServer}) {
    bool worker = role == Role::kWorker;
    uint32_t expected =
        worker ? worker_count_.value_or(options_.worker_machines) : options_.server_count;
    text += (worker ? "" : ", ") + std::to_string(Count(role, false)) + "/" +
            std::to_string(expected) + " " + WordFor(role) + "s";
  }
  for (Role role : {Role::kWorker, Role::kServer}) {
    bool worker = role == Role::kWorker;
    uint32_t expected =
        worker ? worker_count_.value_or(options_.worker_machines) : options_.server_count;
    std::vector<uint32_t> missing;
    bool numbered = true;
    for (uint32_t i = 0; i < expected; ++i) {
      bool here = std::any_of(members_.begin(), members_.end(), [&](auto& entry) {
        return entry.second.join.role == role && !entry.second.left && entry.second.index == i;
      });
      if (!here) missing.push_back(i);
    }
    for (const auto& [id, member] : members_) {
      if (member.join.role == role && !member.left && member.index == kNoSlot) numbered = false;
    }
    uint32_t count = expected - std::min(expected, Count(role, false));
    if (count == 0) continue;
    text += std::string("; missing ") + (numbered && worker ? "" : std::to_string(count) + " ") +
            WordFor(role) + (count == 1 ? "" : "s");
    if (numbered && worker) text += " " + List(missing);
  }
  return text + "; waited " + Seconds(now - gathering_since_);
}

// Somebody (at first: the person who started it) waits for the job to start.
bool Coordinator::Waits() const {
  if (phase_ != Phase::kGathering) return false;
  return view_.epoch == 0 || Count(Role::kWorker, false) > 0;
}

// When to look at the member's silence next.
Time Coordinator::SilenceDue(const Member& member) const {
  Duration last_part = options_.silence_max / 5;
  if (!member.doubted.has_value()) return member.heard + options_.silence_max - last_part;
  return std::max(member.heard + options_.silence_max, *member.doubted + last_part);
}

std::optional<Time> Coordinator::NextTick() const {
  if (phase_ == Phase::kOver) return std::nullopt;
  std::optional<Time> next;
  if (Waits()) next = std::min(next_report_, gathering_since_ + options_.start_timeout);
  if (view_.epoch == 0 || options_.silence_max == Duration::zero()) return next;
  for (const auto& [id, member] : members_) {
    if (member.left) continue;
    Time due = SilenceDue(member);
    next = next.has_value() ? std::min(*next, due) : due;
  }
  return next;
}

void Coordinator::TickWhileGathering(Time now) {
  if (now >= gathering_since_ + options_.start_timeout) {
    return End({StatusCode::kDeadlineExceeded, "the job did not start: " + Missing(now) +
                                                   "; start what is missing, or raise "
                                                   "BYTEPS_START_TIMEOUT"});
  }
  if (now < next_report_) return;
  next_report_ = now + options_.report_every;
  std::string text = Missing(now);
  driver_.Report("waiting: " + text);
  for (const auto& [id, member] : members_) {
    if (!member.left) driver_.Send(id, wire::Waiting{text});
  }
}

void Coordinator::OnTick(Time now) {
  if (Waits()) TickWhileGathering(now);
  if (phase_ == Phase::kOver || view_.epoch == 0) return;
  if (options_.silence_max == Duration::zero()) return;
  for (auto& [id, member] : members_) {
    if (member.left || SilenceDue(member) > now) continue;
    if (!std::exchange(member.doubted, now).has_value()) continue;
    return End({StatusCode::kPeerLost, NameOf(member) + " was lost: it has been silent for " +
                                           Seconds(now - member.heard)});
  }
}

}  // namespace byteps::protocol
