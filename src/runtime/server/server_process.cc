#include "src/runtime/server/server_process.h"

#include <algorithm>
#include <utility>

#include "src/runtime/server/server_timeline.h"
#include "src/runtime/server/shard_thread.h"
#include "src/runtime/shared_address.h"
#include "src/transport/address.h"

namespace byteps::runtime {
namespace {

// Returns the error of the server whose shard has failed. Must be called when the shards' memory is
// free again.
Status OfFailedShard(const Status& why) {
  if (why.code() != StatusCode::kExhausted) {
    return {why.code(), "a shard of this server has failed: " + why.message()};
  }
  return {StatusCode::kExhausted,
          "this server has no memory for what the workers push: give it more (a limit of the "
          "container, or ulimit -v), start more servers, or lower BYTEPS_CREDIT_BYTES"};
}

std::vector<wire::Way> AsTold(ShardThread::Ways& ways) {
  std::vector<wire::Way> told;
  for (auto& [over, slots] : ways) {
    if (told.size() == wire::kWaysMax) break;
    wire::Way& way = told.emplace_back();
    way.over = over;
    way.connections = static_cast<uint32_t>(slots.size());
    std::ranges::sort(slots);
    slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
    way.slots = std::move(slots);
  }
  return told;
}

}  // namespace

ServerProcess::ServerProcess(transport::Transport& transport, const ServerProcessOptions& options,
                             Log& log)
    : transport_(transport),
      options_(options),
      log_(log),
      loop_(transport.MakeLoop()),
      control_(*loop_, options.control, log,
               {[this] { OnReady(); }, [this](const wire::Message& message) { OnMessage(message); },
                [this](const Status& why) { End(why); }, [this] { return Tell(); }}),
      handshakes_(
          *loop_, options.control.identity, UnprovenMax(),
          [this](const wire::Hello& hello, HandshakeAcceptor::Answer answer) {
            Decide(hello, std::move(answer));
          },
          [this](Result<std::unique_ptr<transport::Connection>> bound, const wire::Hello& hello,
                 const std::string& peer) { OnBound(std::move(bound), hello, peer); }) {
  MakeShards(options.join.shards);
}

ServerProcess::~ServerProcess() = default;

// Makes `count` shards.
void ServerProcess::MakeShards(uint32_t count) {
  auto broken = [this](uint64_t worker, const Status& why) {
    loop_->Post([this, worker, why] { OnBroken(worker, why); });
  };
  protocol::ShardOptions shard;
  shard.codecs = options_.codecs;
  for (; shards_made_ < count; ++shards_made_) {
    if (options_.timeline != nullptr) shard.watch = options_.timeline->entries().NewRoundWatch();
    shards_.push_back(std::make_unique<ShardThread>(
        transport_, shard, log_, broken, [this](const Status& why) { OnShardFailed(why); },
        [this, i = shards_made_] {
          if (options_.on_shard_thread != nullptr) options_.on_shard_thread(i);
        }));
  }
}

Result<std::string> ServerProcess::Listen(const std::string& address) {
  Result<std::unique_ptr<transport::Listener>> listener =
      loop_->Listen(address, [this](std::unique_ptr<transport::Connection> connection) {
        handshakes_.Accept(std::move(connection));
      });
  if (!listener.ok()) return listener.status();
  listeners_.push_back(std::move(listener).value());
  return listeners_.back()->Address();
}

Status ServerProcess::Run() {
  control_.Start();
  loop_->Run();
  control_.Close();  // the coordinator waits for the end of the connection
  handshakes_.Clear();
  shards_.clear();
  MutexLock lock(mutex_);
  if (outcome_.has_value()) return *outcome_;
  return shard_failed_.ok() ? Status::Ok() : OfFailedShard(shard_failed_);
}

void ServerProcess::Stop(const Status& why) {
  loop_->Post([this, why] { End(why); });
}

void ServerProcess::OnShardFailed(const Status& why) {
  {
    MutexLock lock(mutex_);
    shard_failed_ = why;
  }
  loop_->Stop();
}

void ServerProcess::End(const Status& why) {
  if (!outcome_.has_value()) outcome_ = why;
  loop_->Stop();
}

// Returns what this server tells of itself.
wire::Alive ServerProcess::Tell() const {
  wire::ServerAccount account;
  for (const auto& shard : shards_) {
    account.received += shard->received_bytes();
    account.sent += shard->sent_bytes();
  }
  if (options_.cpu_time != nullptr) {
    account.cpu_us = static_cast<uint64_t>(
        std::chrono::duration_cast<microseconds>(options_.cpu_time()).count());
  }
  ShardThread::Ways ways;
  for (const auto& shard : shards_) shard->AddWays(ways);
  account.ways = AsTold(ways);
  wire::Alive alive;
  alive.server = std::move(account);
  return alive;
}

// Joins at the first connection. At a later one the coordinator lost the connection or its memory,
// and gets a report.
void ServerProcess::OnReady() {
  if (!membership_.has_value()) {
    wire::Join join = options_.join;
    join.shards = ShardCount();
    MakeShards(join.shards);
    for (auto& shard : shards_) shard->Start();
    if (Status announced = Announce(join); !announced.ok()) return End(announced);
    if (options_.shared_links) ListenShared();
    log_.Info("announcing {}", announced_);
    membership_.emplace(join);
  }
  control_.Send(membership_->Greeting());
  for (const auto& [worker, suspect] : broken_) control_.Send(suspect);
}

// Chooses the number of shards. The server does not know its workers yet, so it judges by the path
// to the coordinator.
uint32_t ServerProcess::ShardCount() {
  const Duration round_trip = control_.RoundTrip();
  if (round_trip < options_.long_path || options_.far_shards <= options_.join.shards) {
    return options_.join.shards;
  }
  log_.Info(
      "shards: {}, not {}, because the path to the scheduler is long ({:.1f} ms there and back)",
      options_.far_shards, options_.join.shards, 1e3 * ToSeconds(round_trip));
  return options_.far_shards;
}

// Listens at each address that the server announces to workers.
Status ServerProcess::Announce(wire::Join& join) {
  std::vector<std::string> hosts = options_.announced_hosts;
  std::string why = "the options wish it";
  if (hosts.empty()) {
    transport::Announcement chosen =
        transport::ChooseAnnouncement(options_.control.coordinator, control_.LocalAddress());
    hosts.push_back(std::move(chosen.address));
    why = std::move(chosen.why);
  }
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (i == listeners_.size()) {
      std::string host = transport::ListenHost(hosts[i]);
      Result<std::string> bound = Listen(transport::FormatHostPort(host, options_.port));
      if (!bound.ok()) return bound.status();
    }
    std::string address = transport::FormatHostPort(hosts[i], listeners_[i]->Port());
    announced_ += (i == 0 ? "" : " and ") + address;
    if (i == 0) {
      join.address = std::move(address);
    } else {
      join.more_addresses.push_back(std::move(address));
    }
  }
  announced_ += " (" + why + ")";
  return Status::Ok();
}

// Must run before the server announces itself: a worker that finds no listener uses TCP for good.
void ServerProcess::ListenShared() {
  const JobIdentity& identity = options_.control.identity;
  Result<std::unique_ptr<transport::Listener>> listener =
      loop_->Listen(SharedAddress(identity, identity.incarnation),
                    [this](std::unique_ptr<transport::Connection> connection) {
                      handshakes_.Accept(std::move(connection));
                    });
  if (listener.ok()) {
    shared_listener_ = std::move(listener).value();
  } else {
    log_.Warning(
        "workers on this host reach this server through TCP, not through shared memory: {}",
        listener.status().message());
  }
}

void ServerProcess::OnMessage(const wire::Message& message) {
  protocol::Membership::Step step = membership_->OnMessage(message);
  if (step.view.has_value()) OnView(*step.view);
  if (step.answer.has_value()) control_.Send(*step.answer);
  if (const auto* waiting = std::get_if<wire::Waiting>(&message)) {
    log_.Waiting(waiting->text + "; this server is at " + announced_);
  }
  if (const auto* refused = std::get_if<wire::Refused>(&message)) {
    return End({refused->code, refused->text});
  }
  if (const auto* over = std::get_if<wire::JobOver>(&message)) {
    return End({over->code, over->text});
  }
  if (const auto* failed = std::get_if<wire::DeclareFailed>(&message)) {
    for (auto& shard : shards_) shard->PostRetire(failed->tensors, failed->use.round);
  }
  if (const auto* forgotten = std::get_if<wire::Forgotten>(&message)) {
    for (auto& shard : shards_) shard->PostForgotten(forgotten->tensors);
  }
  if (const auto* known = std::get_if<wire::StillKnown>(&message)) {
    for (auto& shard : shards_) shard->PostStillKnown(*known);
  }
}

void ServerProcess::OnView(const wire::View& view) {
  if (membership_->IsEvicted()) {
    return End({StatusCode::kEvicted,
                "this server was declared lost and the others went on without it (view " +
                    std::to_string(view.epoch) +
                    "): it was silent for too long, because it stood still, was frozen or was cut "
                    "off from the network, or another process took its place"});
  }
  if (view.generation != view_.generation) broken_.clear();  // they are of the old generation
  view_ = view;
  for (const wire::ServerInfo& server : view.servers) {
    if (server.incarnation != options_.control.identity.incarnation) continue;
    first_shard_ = server.first_shard;
    log_.Rename("server " + std::to_string(server.index));
    if (options_.timeline != nullptr) options_.timeline->SetServer(server.index);
    log_.WaitIsOver();
  }
  std::erase_if(broken_, [this](const auto& entry) { return FindWorker(entry.first) == nullptr; });
  for (size_t i = 0; i < shards_.size(); ++i) {
    shards_[i]->PostView(view, first_shard_ + static_cast<ShardId>(i));
  }
  admission_.OnView(view);
}

std::string ServerProcess::Unreached() const {
  for (const wire::WorkerInfo& worker : view_.workers) {
    if (worker.left || reached_by_.contains(worker.slot)) continue;
    return "worker " + std::to_string(worker.rank);
  }
  return "";
}

const wire::WorkerInfo* ServerProcess::FindWorker(uint64_t incarnation) const {
  for (const wire::WorkerInfo& worker : view_.workers) {
    if (worker.incarnation == incarnation) return &worker;
  }
  return nullptr;
}

// Reports each worker once, because all shards see the same.
void ServerProcess::OnBroken(uint64_t worker, const Status& why) {
  const wire::WorkerInfo* info = FindWorker(worker);
  bool nonsense = why.code() == StatusCode::kProtocol;
  if (info == nullptr || info->left || (broken_.contains(worker) && !nonsense)) return;
  // The connection was cut because it carried nothing. The worker may live, and reports itself if
  // it cannot reach this server.
  if (why.code() == StatusCode::kUnavailable) return;
  wire::Suspect suspect;
  suspect.role = Role::kWorker;
  suspect.index = info->slot;
  suspect.incarnation = worker;
  suspect.why = nonsense ? wire::Suspicion::kNonsense : wire::Suspicion::kClosed;
  suspect.text = nonsense ? "it sent nonsense: " + why.message() : why.message();
  suspect.generation = view_.generation;
  broken_[worker] = suspect;
  control_.Send(suspect);
}

// Admits or refuses a worker. A worker of a generation that this server has not heard of yet waits
// until the server has.
void ServerProcess::Decide(const wire::Hello& hello, HandshakeAcceptor::Answer answer) {
  if (hello.wanted_role != Role::kServer || hello.role != Role::kWorker) {
    return answer({StatusCode::kRefused, "this is a server; only workers may connect"});
  }
  if (hello.wanted_incarnation != options_.control.identity.incarnation) {
    return answer({StatusCode::kRefused, "another process took this port over"});
  }
  admission_.Ask({hello.index, hello.incarnation, hello.generation,
                  [this, hello, answer = std::move(answer)](const Status& status) {
                    answer(status.ok() ? CheckShard(hello) : status);
                  }});
}

Status ServerProcess::CheckShard(const wire::Hello& hello) const {
  if (hello.wanted_index < first_shard_ || hello.wanted_index - first_shard_ >= shards_.size()) {
    return {StatusCode::kRefused, "shard " + std::to_string(hello.wanted_index) + " is not here"};
  }
  return Status::Ok();
}

void ServerProcess::OnBound(Result<std::unique_ptr<transport::Connection>> connection,
                            const wire::Hello& hello, const std::string& peer) {
  Status checked = connection.status();
  if (checked.ok()) checked = admission_.Check(hello.index, hello.incarnation, hello.generation);
  if (checked.ok()) checked = CheckShard(hello);
  if (!checked.ok()) {
    bool refused = checked.code() == StatusCode::kRefused;
    log_.Info("a connection was not let in: {}{}", refused ? peer + ": " : "", checked.message());
    return;
  }
  broken_.erase(hello.incarnation);
  reached_by_.insert(hello.index);
  ShardThread& shard = *shards_[hello.wanted_index - first_shard_];
  connection.value()->MoveTo(
      shard.loop(), [&shard, hello](std::unique_ptr<transport::Connection> moved) {
        shard.Adopt(hello.index, hello.incarnation, hello.generation, std::move(moved));
      });
}

}  // namespace byteps::runtime
