#include "src/runtime/worker/shard_links.h"

#include <algorithm>
#include <utility>

#include "src/runtime/frames.h"
#include "src/runtime/shared_address.h"

namespace byteps::runtime {
namespace {

constexpr Duration kPauseMin = milliseconds(20);
constexpr Duration kPauseMax = milliseconds(500);
constexpr Duration kAttemptLimit = seconds(2);
// The limit where another path exists. A network that is down must not look like a server that is
// gone (ShardLinkOptions::unreachable_after).
constexpr Duration kAttemptOfManyLimit = milliseconds(400);
// The interval at which a lane reads the round-trip times of its connections.
constexpr Duration kLookAtPathsEvery = seconds(1);
// The interval at which a link that waits for RDMA looks whether it is there.
constexpr Duration kLookAtMediumEvery = milliseconds(5);
constexpr size_t kAnswerBytesMax = size_t{64} << 20;

std::vector<OwnAddress> InterfaceOf(uint32_t lane, const ShardLinkOptions& options) {
  if (options.interfaces.empty()) return {};
  return options.interfaces[lane % options.interfaces.size()];
}

// Asks for a firewall before an address that nobody here has ever reached.
std::string AskForAFirewall(const std::string& address) {
  const std::string port = address.substr(address.rfind(':') + 1);
  return "; is there a firewall? 'bps doctor --hosts A,B --port " + port + "' tries the way";
}

}  // namespace

// The connection to a shard, from the first attempt on.
struct ShardLinks::Link final : transport::FrameReceiver {
  Link(ShardLinks& owner, ShardId number) : links(owner), shard(number) {}

  Result<ByteSpan> OnHeader(uint8_t kind, ConstByteSpan bytes, size_t payload_bytes) override {
    incoming = static_cast<wire::FrameKind>(kind);
    if (incoming != wire::FrameKind::kAnswer) return others.Begin(incoming, bytes, payload_bytes);
    Result<wire::DataHeader> header = wire::DecodeDataHeader(incoming, bytes, payload_bytes);
    if (!header.ok()) return header.status();
    if (links.ignores_answers_) {
      ignored.resize(payload_bytes);
      return ByteSpan(ignored);
    }
    return links.lane_.OnAnswerHeader(shard, header.value(), payload_bytes);
  }

  void OnFrame() override {
    if (incoming == wire::FrameKind::kAnswer) {
      if (!links.ignores_answers_) links.lane_.OnAnswer(shard, links.loop_.EventTime());
    } else {
      // The lengths were checked, and nothing else of these frames can be wrong.
      Result<wire::Frame> frame = others.End();
      if (frame.ok()) links.lane_.OnFrame(shard, frame.value());
    }
    links.events_.on_event();
  }

  void OnClosed(const Status& why) override { links.OnClosed(*this, why); }

  ShardLinks& links;
  const ShardId shard;
  // The server that the link leads to.
  uint32_t server = 0;
  uint64_t incarnation = 0;
  std::vector<ShardPath> paths;  // best first
  size_t path = 0;               // the path of the latest attempt
  bool shared = false;           // the link uses, or tries to use, shared memory

  uint64_t attempt = 0;  // the latest one
  std::unique_ptr<HandshakeInitiator> handshake;
  std::unique_ptr<transport::Connection> connection;
  Duration pause = kPauseMin;
  std::unique_ptr<transport::Loop::Timer> retry;
  std::unique_ptr<transport::Loop::Timer> overdue;
  size_t attempts_due = 0;  // the attempts on other paths that come before the link is overdue
  bool was_up = false;
  bool may_begin = true;  // the job need not wait for RDMA of this link
  std::unique_ptr<transport::Loop::Timer> medium;
  // The reports that the coordinator got while the link is down.
  std::optional<wire::Suspect> closed;
  std::optional<wire::Suspect> unreachable;
  std::string trouble;  // the error of the last attempt

  wire::FrameKind incoming = wire::FrameKind::kAnswer;
  FrameIntake others{wire::Reader::kWorker};
  std::vector<std::byte> ignored;
};

ShardLinks::ShardLinks(transport::Loop& loop, const ShardLinkOptions& options,
                       const JobIdentity& identity, uint32_t lane_number, uint32_t lanes,
                       protocol::Lane& lane, Log& log, Events events)
    : loop_(loop),
      options_(options),
      identity_(identity),
      own_(InterfaceOf(lane_number, options)),
      lane_(lane),
      log_(log),
      events_(std::move(events)),
      targets_(lane_number, lanes) {}

ShardLinks::~ShardLinks() = default;

void ShardLinks::CloseStale(const wire::View& view) {
  for (ShardId shard : targets_.End(view)) {
    const Link* link = Find(shard);
    if (link == nullptr) continue;
    bool was_up = link->connection != nullptr;
    links_[shard].reset();
    if (was_up) lane_.OnShardDown(shard);
  }
  links_.resize(targets_.all().size());
}

void ShardLinks::Connect(Slot slot) {
  slot_ = slot;
  if (looking_ == nullptr) looking_ = loop_.Every(kLookAtPathsEvery, [this] { LookAtPaths(); });
  for (ShardId shard : targets_.TakeNew()) {
    links_[shard] = std::make_unique<Link>(*this, shard);
    Link& link = *links_[shard];
    link.server = targets_.all()[shard].server;
    link.incarnation = targets_.all()[shard].incarnation;
    link.paths =
        PathsTo(targets_.all()[shard].addresses, shard - targets_.all()[shard].first_shard, own_);
    link.shared =
        !options_.shared_host.empty() && targets_.all()[shard].host == options_.shared_host;
    link.may_begin = !options_.awaits_rdma || link.shared;
    Await(link);
    Begin(link);
  }
}

void ShardLinks::Begin(Link& link) {
  link.attempt = next_attempt_++;
  const ShardPath path = link.shared ? ShardPath{SharedAddress(identity_, link.incarnation), ""}
                                     : link.paths[link.path];
  loop_.ConnectFrom(path.from, path.to, link.paths.size() > 1 ? kAttemptOfManyLimit : kAttemptLimit,
                    [this, shard = link.shard, attempt = link.attempt](
                        Result<std::unique_ptr<transport::Connection>> connection) {
                      OnConnected(shard, attempt, std::move(connection));
                    });
}

void ShardLinks::OnConnected(ShardId shard, uint64_t attempt,
                             Result<std::unique_ptr<transport::Connection>> connection) {
  Link* awaited = Find(shard);
  if (awaited == nullptr || awaited->attempt != attempt) return;
  Link& link = *awaited;
  if (!connection.ok()) {
    if (link.shared) return TryTcp(link, connection.status());
    if (link.attempts_due > 0) --link.attempts_due;
    TakeNextPath(link);
    return TryAgain(link, connection.status());
  }
  wire::Hello hello;
  hello.role = Role::kWorker;
  hello.wanted_role = Role::kServer;
  hello.index = slot_;
  hello.wanted_index = shard;
  hello.wanted_incarnation = link.incarnation;
  hello.generation = targets_.generation();
  link.handshake = std::make_unique<HandshakeInitiator>(
      loop_, std::move(connection).value(), identity_, hello, kHandshakeLimit,
      [this, shard](Result<std::unique_ptr<transport::Connection>> bound) {
        OnBound(shard, std::move(bound));
      });
}

void ShardLinks::OnBound(ShardId shard, Result<std::unique_ptr<transport::Connection>> connection) {
  Link& link = *links_[shard];
  if (!connection.ok()) {
    if (connection.status().code() != StatusCode::kEvicted) {
      return link.shared ? TryTcp(link, connection.status()) : TryAgain(link, connection.status());
    }
    return events_.on_evicted(connection.status().message());
  }
  bool again = link.was_up;
  link.overdue.reset();
  link.closed.reset();
  link.unreachable.reset();
  link.was_up = true;
  link.pause = kPauseMin;
  link.connection = std::move(connection).value();
  link.connection->SetLimits({kAnswerBytesMax});
  link.connection->Start(&link);
  if (again) log_.Info("connected to {} again", NameOf(link));
  lane_.OnShardUp(shard);
  if (!link.may_begin) AwaitRdma(link);
  if (AllUp()) TellShared();
  LookAtPaths();
  events_.on_links();
}

// Goes on with TCP. The link stays on TCP until a view names another process for the shard.
void ShardLinks::TryTcp(Link& link, const Status& why) {
  link.shared = false;
  link.handshake.reset();
  log_.Warning(
      "{} is on this host, but this worker reaches it through TCP, not through shared memory: {}",
      NameOf(link), why.message());
  Begin(link);
}

// Tries the next path: one network of the host may be down while another network still leads to the
// server.
void ShardLinks::TakeNextPath(Link& link) {
  if (link.paths.size() < 2) return;
  link.path = (link.path + 1) % link.paths.size();
  const ShardPath& next = link.paths[link.path];
  log_.Info("trying {}{}{}", NameOf(link), next.from.empty() ? "" : " from ", next.from);
}

void ShardLinks::TellShared() {
  std::string servers;
  std::vector<uint64_t> processes;
  ForEach([&](const Link& link) {
    if (!link.shared || (!processes.empty() && processes.back() == link.incarnation)) return;
    servers += (processes.empty() ? "" : ", ") + std::to_string(link.server);
    processes.push_back(link.incarnation);
  });
  if (processes == std::exchange(told_shared_, processes) || processes.empty()) return;
  log_.Info("reached through shared memory: server {}", servers);
}

// Reports the loss to the coordinator at once, because the coordinator knows whether others saw the
// same. If the connection was cut because it carried nothing, reports only if the server then
// cannot be reached.
void ShardLinks::OnClosed(Link& link, const Status& why) {
  link.connection.reset();
  lane_.OnShardDown(link.shard);
  bool nonsense = why.code() == StatusCode::kProtocol;
  bool cut = why.code() == StatusCode::kUnavailable;
  wire::Suspect suspect{
      Role::kServer,    link.server,
      link.incarnation, nonsense ? wire::Suspicion::kNonsense : wire::Suspicion::kClosed,
      why.message(),    targets_.generation()};
  if (!cut) link.closed = suspect;
  log_.Warning("the connection to {} broke: {}", NameOf(link), why.message());
  if (cut) {
    TakeNextPath(link);
  } else {
    link.path = 0;
  }
  Await(link);
  TryAgain(link, why);
  if (!cut) events_.on_suspect(suspect);
  events_.on_links();
  events_.on_event();
}

void ShardLinks::TryAgain(Link& link, const Status& why) {
  link.handshake.reset();
  link.trouble = why.message();
  link.retry = loop_.After(link.pause, [this, &link] { Begin(link); });
  link.pause = std::min(link.pause * 2, kPauseMax);
}

// Begins the time after which the link is overdue. If the link has several paths, an attempt on
// each of them must fail, too, or take a time of its own: on a busy machine the time may pass while
// the first attempts come to nothing.
void ShardLinks::Await(Link& link) {
  link.attempts_due = link.paths.size() > 1 ? link.paths.size() : 0;
  const Duration patience =
      link.was_up ? options_.unreachable_after : options_.first_unreachable_after;
  link.overdue = loop_.After(patience, [this, &link] { OnOverdue(link); });
}

void ShardLinks::OnOverdue(Link& link) {
  if (link.attempts_due > 0) {
    --link.attempts_due;
    link.overdue = loop_.After(options_.unreachable_after, [this, &link] { OnOverdue(link); });
    return;
  }
  bool known = link.unreachable.has_value();
  link.unreachable = wire::Suspect{Role::kServer,
                                   link.server,
                                   link.incarnation,
                                   wire::Suspicion::kUnreachable,
                                   link.trouble.empty() ? "it does not answer" : link.trouble,
                                   targets_.generation()};
  if (!known) {
    log_.Warning("{} cannot be reached: {}{}", NameOf(link), link.unreachable->text,
                 link.was_up ? "" : AskForAFirewall(link.paths[link.path].to));
  }
  // Reports again and again, because the coordinator ignores reports while it cannot reach the
  // server, either.
  link.overdue = loop_.After(options_.unreachable_after, [this, &link] { OnOverdue(link); });
  events_.on_suspect(*link.unreachable);
}

// Tells the lane its longest round-trip time, because the credit follows the longest path.
void ShardLinks::LookAtPaths() {
  Duration longest{};
  ForEach([&](const Link& link) {
    if (link.connection != nullptr) longest = std::max(longest, link.connection->RoundTrip());
  });
  lane_.OnRoundTrip(longest);
}

bool ShardLinks::AllUp() const {
  bool all = true;
  ForEach([&](const Link& link) { all = all && link.connection != nullptr && link.may_begin; });
  return all;
}

void ShardLinks::AwaitRdma(Link& link) {
  const Time deadline = loop_.Now() + options_.rdma_limit;
  link.medium =
      loop_.Every(kLookAtMediumEvery, [this, &link, deadline] { LookAtMedium(link, deadline); });
}

void ShardLinks::LookAtMedium(Link& link, Time deadline) {
  if (link.connection == nullptr) return link.medium.reset();  // it waits for the next one
  if (link.connection->Medium().starts_with("rdma")) {
    link.may_begin = true;
    link.medium.reset();
    return events_.on_links();
  }
  if (loop_.Now() < deadline) return;
  link.medium.reset();
  options_.on_no_rdma(NameOf(link) + " offered no RDMA within " +
                      std::to_string(ToSeconds(options_.rdma_limit)) +
                      " s; set BYTEPS_TRANSPORT to the same value everywhere, and look at the log "
                      "of that server");
}

transport::Connection* ShardLinks::To(ShardId shard) {
  Link* link = Find(shard);
  return link == nullptr ? nullptr : link->connection.get();
}

ShardLinks::Link* ShardLinks::Find(ShardId shard) const {
  return shard < links_.size() ? links_[shard].get() : nullptr;
}

void ShardLinks::Detach(ConstByteSpan memory) {
  ForEach([&](Link& link) {
    if (link.connection != nullptr) link.connection->Detach(memory, loop_.Buffers());
  });
}

std::vector<wire::Suspect> ShardLinks::Suspects() const {
  std::vector<wire::Suspect> suspects;
  ForEach([&](const Link& link) {
    if (link.closed.has_value()) suspects.push_back(*link.closed);
    if (link.unreachable.has_value()) suspects.push_back(*link.unreachable);
  });
  return suspects;
}

// Forgets which servers were unreachable. While the coordinator was unreachable, too, this said
// nothing about the servers.
void ShardLinks::TryAllAgain() {
  ForEach([&](Link& link) {
    if (link.connection != nullptr) return;
    link.unreachable.reset();
    link.retry.reset();
    link.pause = kPauseMin;
    Await(link);
    if (link.handshake == nullptr) Begin(link);
  });
}

void ShardLinks::Close() { links_.clear(); }

std::string ShardLinks::NameOf(const Link& link) const {
  return "server " + std::to_string(link.server) + " at " + link.paths[link.path].to;
}

}  // namespace byteps::runtime
