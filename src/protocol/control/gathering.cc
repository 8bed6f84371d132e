// Joining, ranks, and the first view of a generation.
#include <algorithm>
#include <set>
#include <utility>

#include "src/plan/placement.h"
#include "src/protocol/control/coordinator.h"

namespace byteps::protocol {
namespace {

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

// What must be equal for all.
std::optional<std::string> Coordinator::ReasonInNumbers(const wire::Join& join) const {
  if (join.role == Role::kCoordinator) return "it has a coordinator";
  if (join.incarnation == 0) return "it has no incarnation; this is a fault of the program";
  if (join.version != options_.version) {
    return "this job runs version " + options_.version + ", you run " + join.version +
           "; install the same version everywhere";
  }
  if (join.server_count != options_.server_count) {
    return "you were told of " + std::to_string(join.server_count) +
           " servers, the coordinator of " + std::to_string(options_.server_count) +
           "; DMLC_NUM_SERVER must be the same everywhere";
  }
  if (join.role == Role::kServer) {
    if (join.shards > 0 && join.shards <= kShardsMax) return std::nullopt;
    return "it has " + std::to_string(join.shards) + " shards; a server has 1 to " +
           std::to_string(kShardsMax);
  }
  return ReasonInWorkerNumbers(join);
}

std::optional<std::string> Coordinator::ReasonInWorkerNumbers(const wire::Join& join) const {
  if (join.worker_count > kWorkersMax) {
    return "you were told of " + std::to_string(join.worker_count) + " workers; a job has up to " +
           std::to_string(kWorkersMax);
  }
  if (join.worker_count == 0 || join.worker_count % options_.worker_machines != 0) {
    return "you were told of " + std::to_string(join.worker_count) +
           " workers, the coordinator of " + std::to_string(options_.worker_machines) +
           " worker machines; DMLC_NUM_WORKER must be the same everywhere";
  }
  if (join.worker_count != worker_count_.value_or(join.worker_count)) {
    return "you were told of " + std::to_string(join.worker_count) + " workers, the others of " +
           std::to_string(*worker_count_) +
           "; DMLC_NUM_WORKER and BYTEPS_LOCAL_SIZE must be the same everywhere";
  }
  if (join.piece_bytes_max == 0 || join.piece_bytes_max > wire::kPieceBytesMax) {
    return "its partition is " + std::to_string(join.piece_bytes_max) + " bytes";
  }
  std::optional<uint32_t> others = PieceBytesMax();
  if (join.piece_bytes_max != others.value_or(join.piece_bytes_max)) {
    return "your partition is " + std::to_string(join.piece_bytes_max) +
           " bytes, the other workers' " + std::to_string(*others) +
           "; BYTEPS_PARTITION_BYTES must be the same for all workers";
  }
  return std::nullopt;
}

// Workers cut tensors into pieces, so it is their word that counts: the first one's.
std::optional<uint32_t> Coordinator::PieceBytesMax() const {
  for (const auto& [id, member] : roster_.all()) {
    bool counts = member.role() == Role::kWorker && member.standing != Standing::kLeft;
    if (counts) return member.join.piece_bytes_max;
  }
  return std::nullopt;
}

std::optional<std::string> Coordinator::ReasonInPlaces(const wire::Join& join) const {
  bool worker = join.role == Role::kWorker;
  if (!worker && view_.epoch > 0) return ReasonInServerPlaces(join);
  uint32_t expected = worker ? join.worker_count : options_.server_count;
  if (join.rank >= static_cast<int64_t>(expected)) {
    return std::string(WordFor(join.role)) + " " + std::to_string(join.rank) +
           " does not exist: there are " + std::to_string(expected);
  }
  for (const auto& [id, member] : roster_.all()) {
    if (member.role() != join.role || member.standing == Standing::kLeft || join.rank < 0) continue;
    bool going = lost_.contains(member.incarnation()) || leaving_.contains(member.incarnation());
    bool same = member.standing == Standing::kIn
                    ? !going && member.index == static_cast<uint32_t>(join.rank)
                    : member.join.rank == join.rank;
    if (same) return "it is taken by " + NameOf(member);
  }
  // A job that goes on with fewer may grow again, and is told of them at the next sync point.
  if (worker && Elastic() && phase_ == Phase::kRunning) return std::nullopt;
  if (roster_.Count(join.role, false) >= expected) return "all its places are taken";
  return std::nullopt;
}

// The place of the view that a server may take: one whose server is dead, or has gone away.
const wire::ServerInfo* Coordinator::PlaceFor(const wire::Join& join) const {
  const wire::ServerInfo* best = nullptr;
  int best_rank = 0;
  for (const wire::ServerInfo& place : view_.servers) {
    if (join.rank >= 0 && place.index != static_cast<uint32_t>(join.rank)) continue;
    bool claimed = std::any_of(roster_.all().begin(), roster_.all().end(), [&](auto& entry) {
      const Member& member = entry.second;
      return member.role() == Role::kServer && member.standing == Standing::kWaiting &&
             member.index == place.index;
    });
    if (claimed || place.shard_weights.size() != join.shards) continue;
    int rank = 0;
    if (!place.alive || lost_.contains(place.incarnation)) {
      rank = 3;
    } else if (IsSuccessor(join, place)) {
      rank = 2;
    } else if (suspicions_.IsAway(place.incarnation)) {
      rank = 1;
    }
    if (rank > best_rank) {
      best = &place;
      best_rank = rank;
    }
  }
  return best;
}

// Only a process that has ended gives its address away.
bool Coordinator::IsSuccessor(const wire::Join& join, const wire::ServerInfo& place) {
  return !join.address.empty() && join.address == place.address && join.host == place.host;
}

std::optional<std::string> Coordinator::ReasonInServerPlaces(const wire::Join& join) const {
  if (PlaceFor(join) != nullptr) return std::nullopt;
  if (join.rank < 0) {
    return "all its servers' places are taken, or their servers had another number of shards; "
           "BYTEPS_SERVER_SHARDS must stay the same";
  }
  for (const wire::ServerInfo& place : view_.servers) {
    if (place.index != static_cast<uint32_t>(join.rank)) continue;
    if (place.shard_weights.size() != join.shards) {
      return "server " + std::to_string(place.index) + " had " +
             std::to_string(place.shard_weights.size()) + " shards, you have " +
             std::to_string(join.shards) + "; BYTEPS_SERVER_SHARDS must stay the same";
    }
    return "it is taken by server " + std::to_string(place.index) + " (process " +
           std::to_string(place.process) + ")";
  }
  return "server " + std::to_string(join.rank) + " does not exist: there are " +
         std::to_string(view_.servers.size());
}

void Coordinator::Refuse(ConnectionId id, const std::string& text) {
  driver_.Send(id, wire::Refused{StatusCode::kRefused, "the job refused this process: " + text});
  driver_.Disconnect(id);
}

void Coordinator::NoteRefusal(const Refusal& refusal) {
  if (refusals_.Note(refusal)) driver_.Report(Describe(refusal));
}

void Coordinator::OnJoin(ConnectionId from, const wire::Join& join) {
  Member* here = roster_.At(from);
  if (here != nullptr && here->standing != Standing::kLeft) {
    return Refuse(from, "it has joined already");
  }
  // Its earlier connection is not closed yet.
  const Member* earlier = roster_.Find(join.incarnation);
  if (earlier != nullptr) {
    ConnectionId old = earlier->connection;
    roster_.Remove(old);
    if (old != from) driver_.Disconnect(old);
  }
  roster_.Remove(from);
  if (recovery_.has_value()) {  // judged when it is known what there is to join
    roster_.Add(from, join);
    return driver_.Send(from, wire::Query{term_});
  }
  if (IsVoter(view_, join.incarnation)) {  // it was let in and never heard of it
    Member& member = roster_.Add(from, join);
    suspicions_.Back(join.incarnation, now_);
    Settle(member);
    return TakeKnown(join.incarnation);  // nothing
  }
  std::optional<std::string> reason = ReasonInNumbers(join);
  if (!reason.has_value()) reason = ReasonInPlaces(join);
  if (!reason.has_value()) return Accept(from, join);
  std::string who = WordFor(join.role);
  if (join.rank >= 0) who += " " + std::to_string(join.rank);
  std::string process = " (process " + std::to_string(join.process) + " on " + join.node + ")";
  NoteRefusal({who + process, who + " on " + join.node, *reason, true});
  Refuse(from, *reason);
}

void Coordinator::Accept(ConnectionId from, const wire::Join& join) {
  if (join.role == Role::kWorker) {
    if (phase_ == Phase::kGathering && view_.epoch > 0 && !Waits()) {
      gathering_since_ = now_;  // the next generation begins to gather
      late_ = false;
      next_report_ = now_ + options_.report_every;
    }
    worker_count_ = join.worker_count;
  }
  std::optional<uint32_t> index;
  if (join.role == Role::kServer && view_.epoch > 0) {
    const wire::ServerInfo place = *PlaceFor(join);
    index = place.index;
    bool dead = IsSuccessor(join, place);
    if (place.alive) Lose(place.incarnation, "another process has taken its place", dead);
  }
  Member& member = roster_.Add(from, join);
  if (index.has_value()) member.index = *index;
  Watch();
  if (join.role == Role::kWorker && phase_ == Phase::kRunning && Elastic()) {
    driver_.Send(from, wire::Waiting{"the job runs without this worker; it is let in when all "
                                     "others call shutdown and init, or suspend and resume"});
  }
}

bool Coordinator::AllHere() const {
  if (!worker_count_.has_value()) return false;
  uint32_t here = roster_.Count(Role::kWorker, false);
  bool no_more_come = late_ || here + RanksEnded() >= *worker_count_;
  bool goes_without = Elastic() && here >= options_.min_workers && no_more_come;
  if (here != *worker_count_ && !goes_without) return false;
  if (view_.epoch == 0) return roster_.Count(Role::kServer, false) == options_.server_count;
  // Later generations begin with what is left.
  wire::View next = view_;
  PlaceServers(next);
  return std::any_of(next.servers.begin(), next.servers.end(),
                     [](const wire::ServerInfo& place) { return place.alive; });
}

// Ranks that nobody need wait for: the launcher has seen their processes end.
uint32_t Coordinator::RanksEnded() const {
  std::set<uint32_t> ended = ended_ranks_;
  for (const auto& [id, member] : roster_.all()) {
    bool here = member.role() == Role::kWorker && member.standing != Standing::kLeft;
    if (here && member.join.rank >= 0) ended.erase(static_cast<uint32_t>(member.join.rank));
  }
  auto exists = [this](uint32_t rank) { return rank < *worker_count_; };
  return static_cast<uint32_t>(std::count_if(ended.begin(), ended.end(), exists));
}

// Those who wait need not wait for the whole time when it is known that too few come.
void Coordinator::EndIfTooFewCome() {
  if (!worker_count_.has_value() || roster_.Count(Role::kWorker, false) == 0) return;
  uint32_t ended = RanksEnded();
  uint32_t needed = Elastic() ? options_.min_workers : *worker_count_;
  if (ended == 0 || *worker_count_ - std::min(ended, *worker_count_) >= needed) return;
  std::vector<uint32_t> ranks(ended_ranks_.begin(), ended_ranks_.end());
  End({StatusCode::kPeerLost,
       "the job cannot start: " + std::string(ranks.size() == 1 ? "worker " : "workers ") +
           List(ranks) + " ended before joining it, and it needs " + std::to_string(needed) +
           (needed == 1 ? " worker" : " workers") + refusals_.Describe()});
}

// Members that did not ask for a number get the lowest free ones, in order of arrival.
void Coordinator::GiveIndices() {
  for (Role role : {Role::kWorker, Role::kServer}) {
    std::set<uint32_t> taken;
    auto counts = [&](const Member& member) {
      return member.role() == role && member.standing != Standing::kLeft;
    };
    for (auto& [id, member] : roster_.all()) {
      if (counts(member)) taken.insert(member.index);
    }
    uint32_t next = 0;
    for (auto& [id, member] : roster_.all()) {
      if (!counts(member) || member.index != kNoSlot) continue;
      while (taken.contains(next)) ++next;
      member.index = next++;
    }
  }
}

wire::WorkerInfo Coordinator::InfoOf(const Member& member, Slot slot, uint32_t rank) {
  const wire::Join& join = member.join;
  return {slot, rank, join.incarnation, join.host, join.process, join.local_rank, join.local_size};
}

// The view with which all who wait begin.
wire::View Coordinator::NextGeneration() const {
  wire::View next = view_;
  ++next.epoch;
  ++next.generation;
  next.began = next.epoch;
  next.piece_bytes_max = PieceBytesMax().value_or(view_.piece_bytes_max);
  next.workers.clear();
  next.gone.clear();
  for (const auto& [id, member] : roster_.all()) {
    if (member.standing != Standing::kWaiting) continue;
    const wire::Join& join = member.join;
    if (member.role() == Role::kWorker) {
      next.workers.push_back(InfoOf(member, member.index, member.index));
    } else if (view_.epoch == 0) {
      next.servers.push_back({member.index, join.incarnation, join.host, join.address, join.process,
                              0, std::vector<uint32_t>(join.shards), true, next.epoch});
    }
  }
  if (view_.epoch > 0) PlaceServers(next);
  AddMissing(next);
  std::sort(next.workers.begin(), next.workers.end(),
            [](const auto& a, const auto& b) { return a.slot < b.slot; });
  std::sort(next.servers.begin(), next.servers.end(),
            [](const auto& a, const auto& b) { return a.index < b.index; });
  return next;
}

// Ranks that a job begins without are laid out like those that it loses later.
void Coordinator::AddMissing(wire::View& next) const {
  std::set<uint32_t> here;
  for (const wire::WorkerInfo& worker : next.workers) here.insert(worker.slot);
  for (uint32_t rank = 0; rank < *worker_count_; ++rank) {
    if (here.contains(rank)) continue;
    wire::WorkerInfo missing;
    missing.slot = rank;
    missing.rank = rank;
    next.gone.push_back(missing);
  }
}

// Shares by host: members with one host identity share a link.
Status Coordinator::Weigh(wire::View& view) const {
  std::map<std::string, uint32_t> host_of;
  std::vector<plan::Host> hosts;
  auto host_index = [&](const std::string& name) {
    auto [found, fresh] = host_of.try_emplace(name, static_cast<uint32_t>(hosts.size()));
    if (fresh) hosts.emplace_back();
    return found->second;
  };
  auto link_of = [&](uint32_t host, uint64_t incarnation) {
    const Member* member = roster_.Find(incarnation);
    if (member != nullptr && member->join.link_mbit > 0) hosts[host].link = member->join.link_mbit;
  };
  for (const wire::WorkerInfo& worker : view.workers) {
    uint32_t host = host_index(worker.host);
    ++hosts[host].workers;
    link_of(host, worker.incarnation);
  }
  std::vector<plan::ServerSite> sites;
  ShardId next_shard = 0;
  for (wire::ServerInfo& server : view.servers) {
    uint32_t host = host_index(server.host);
    ++hosts[host].servers;
    link_of(host, server.incarnation);
    auto shards = static_cast<uint32_t>(server.shard_weights.size());
    sites.push_back({host, shards});
    server.first_shard = next_shard;
    next_shard += shards;
  }
  Result<plan::Shares> shares = plan::ComputeShares(hosts);
  if (!shares.ok()) return shares.status();
  Result<std::vector<uint32_t>> weights = plan::ShardWeights(shares.value(), sites);
  if (!weights.ok()) return weights.status();
  for (wire::ServerInfo& server : view.servers) {
    for (size_t i = 0; i < server.shard_weights.size(); ++i) {
      server.shard_weights[i] = weights.value()[server.first_shard + i];
    }
  }
  return Status::Ok();
}

// A first view could stand beside one of which members know that have not reported yet.
std::optional<Time> Coordinator::ListensUntil() const {
  Time until = started_ + options_.recovery_patience;
  if (!options_.restarted || view_.epoch > 0 || now_ >= until) return std::nullopt;
  return until;
}

void Coordinator::Gather() {
  if (ListensUntil().has_value()) return;
  EndIfTooFewCome();
  if (phase_ == Phase::kOver || !AllHere()) return;
  GiveIndices();
  wire::View next = NextGeneration();
  Status weighed = Weigh(next);
  if (!weighed.ok()) return End(weighed);
  Propose(std::move(next), false);
}

// Somebody (at first: the person who started it) waits for the job to start.
bool Coordinator::Waits() const {
  if (phase_ != Phase::kGathering) return false;
  return view_.epoch == 0 || roster_.Count(Role::kWorker, false) > 0;
}

std::string Coordinator::MissingMembers() const {
  std::string text;
  auto expected_of = [&](Role role) {
    return role == Role::kWorker ? worker_count_.value_or(options_.worker_machines)
                                 : options_.server_count;
  };
  for (Role role : {Role::kWorker, Role::kServer}) {
    text += (role == Role::kWorker ? "" : ", ") + std::to_string(roster_.Count(role, false)) + "/" +
            std::to_string(expected_of(role)) + " " + WordFor(role) + "s";
  }
  for (Role role : {Role::kWorker, Role::kServer}) {
    bool worker = role == Role::kWorker;
    uint32_t expected = expected_of(role);
    std::set<uint32_t> here;
    for (const auto& [id, member] : roster_.all()) {
      if (member.role() == role && member.standing != Standing::kLeft) here.insert(member.index);
    }
    bool numbered = !here.contains(kNoSlot);
    std::vector<uint32_t> missing;
    for (uint32_t i = 0; i < expected; ++i) {
      if (!here.contains(i)) missing.push_back(i);
    }
    uint32_t count = expected - std::min(expected, roster_.Count(role, false));
    if (count == 0) continue;
    text += std::string("; missing ") + (numbered && worker ? "" : std::to_string(count) + " ") +
            WordFor(role) + (count == 1 ? "" : "s");
    if (numbered && worker) text += " " + List(missing);
  }
  return text + "; waited " + Seconds(now_ - gathering_since_) + refusals_.Describe();
}

void Coordinator::TickWhileGathering() {
  if (now_ >= gathering_since_ + options_.start_timeout) {
    bool first = !std::exchange(late_, true);
    if (AllHere() && first) {
      driver_.Report("starting with those who are here: " + MissingMembers());
    }
    if (!AllHere()) return EndLate();
  }
  if (now_ < next_report_) return;
  next_report_ = now_ + options_.report_every;
  std::string text = MissingMembers();
  driver_.Report("waiting: " + text);
  for (const auto& [id, member] : roster_.all()) {
    if (member.standing != Standing::kLeft) driver_.Send(id, wire::Waiting{text});
  }
}

void Coordinator::EndLate() {
  End({StatusCode::kDeadlineExceeded,
       "the job did not start: " + MissingMembers() +
           "; start what is missing, or raise BYTEPS_START_TIMEOUT"});
}

}  // namespace byteps::protocol
