#include "src/runtime/shard_links.h"

#include <algorithm>
#include <utility>

#include "src/runtime/frames.h"

namespace byteps::runtime {
namespace {

constexpr Duration kPauseMin = milliseconds(20);
constexpr Duration kPauseMax = milliseconds(500);
constexpr Duration kAttemptLimit = seconds(2);
constexpr size_t kAnswerBytesMax = size_t{64} << 20;

}  // namespace

// The connection to a shard, while it is made and after.
struct ShardLinks::Link final : transport::FrameReceiver {
  Link(ShardLinks& owner, ShardId number) : links(owner), shard(number) {}

  Result<ByteSpan> OnHeader(uint8_t kind, ConstByteSpan bytes, size_t payload_bytes) override {
    incoming = static_cast<wire::FrameKind>(kind);
    if (incoming == wire::FrameKind::kAnswer) {
      Result<wire::DataHeader> header = wire::DecodeDataHeader(incoming, bytes, payload_bytes);
      if (!header.ok()) return header.status();
      if (links.ignores_answers_) {
        ignored.resize(payload_bytes);
        return ByteSpan(ignored);
      }
      return links.machine_.OnAnswerHeader(shard, header.value(), payload_bytes);
    }
    if (incoming == wire::FrameKind::kStable && payload_bytes == 0) {
      Result<wire::Progress> stable = wire::DecodeProgress(bytes);
      if (!stable.ok()) return stable.status();
      links.machine_.OnStable(shard, stable.value());
      return ByteSpan();
    }
    if (incoming == wire::FrameKind::kWant) {
      want.resize(payload_bytes);
      return ByteSpan(want);
    }
    return Status(StatusCode::kProtocol, "frame " + std::to_string(kind) + " for a worker");
  }

  void OnFrame() override {
    if (incoming == wire::FrameKind::kAnswer) {
      if (!links.ignores_answers_) links.machine_.OnAnswer(shard, links.loop_.EventTime());
    } else if (incoming == wire::FrameKind::kWant && wire::DecodePieceRefs(want, refs).ok()) {
      links.machine_.OnWant(shard, refs);
    }
    links.events_.on_event();
  }

  void OnClosed(const Status& why) override { links.OnClosed(*this, why); }

  ShardLinks& links;
  const ShardId shard;
  // Whom it leads to; incarnation 0: nobody, the shard is dead.
  uint32_t server = 0;
  uint64_t incarnation = 0;
  std::string address;

  uint64_t attempt = 0;  // the latest one
  std::unique_ptr<HandshakeInitiator> handshake;
  std::unique_ptr<transport::Connection> connection;
  Duration pause = kPauseMin;
  std::unique_ptr<transport::Loop::Timer> retry;
  std::unique_ptr<transport::Loop::Timer> overdue;
  bool was_up = false;
  // What the coordinator was told, while it is down.
  std::optional<wire::Suspect> closed;
  std::optional<wire::Suspect> unreachable;
  std::string trouble;  // of the last attempt

  wire::FrameKind incoming = wire::FrameKind::kAnswer;
  std::vector<std::byte> want;
  std::vector<std::byte> ignored;
  std::vector<wire::PieceRef> refs;
};

ShardLinks::ShardLinks(transport::Loop& loop, const ShardLinkOptions& options,
                       const JobIdentity& identity, BufferPool& pool, protocol::Worker& machine,
                       Log& log, Events events)
    : loop_(loop),
      options_(options),
      identity_(identity),
      pool_(pool),
      machine_(machine),
      log_(log),
      events_(std::move(events)) {}

ShardLinks::~ShardLinks() = default;

void ShardLinks::CloseOne(Link& link) {
  bool was_up = link.connection != nullptr;
  link.attempt = 0;
  link.retry.reset();
  link.overdue.reset();
  link.handshake.reset();
  link.connection.reset();
  link.closed.reset();
  link.unreachable.reset();
  link.was_up = false;
  link.incarnation = 0;
  if (was_up) machine_.OnShardDown(link.shard);
}

void ShardLinks::CloseStale(const wire::View& view) {
  std::vector<uint64_t> wanted;
  for (const wire::ServerInfo& server : view.servers) {
    wanted.insert(wanted.end(), server.shard_weights.size(), server.alive ? server.incarnation : 0);
  }
  bool begins = view.generation != generation_;
  for (auto& link : links_) {
    bool stays = !begins && link->shard < wanted.size() && wanted[link->shard] == link->incarnation;
    if (!stays) CloseOne(*link);
  }
  if (begins) links_.clear();
}

void ShardLinks::Connect(const wire::View& view, Slot slot) {
  generation_ = view.generation;
  slot_ = slot;
  ShardId shard = 0;
  for (const wire::ServerInfo& server : view.servers) {
    for (size_t i = 0; i < server.shard_weights.size(); ++i, ++shard) {
      if (shard == links_.size()) links_.push_back(std::make_unique<Link>(*this, shard));
      Link& link = *links_[shard];
      if (!server.alive || link.incarnation == server.incarnation) continue;
      link.server = server.index;
      link.incarnation = server.incarnation;
      link.address = server.address;
      link.pause = kPauseMin;
      link.overdue =
          loop_.After(options_.first_unreachable_after, [this, &link] { OnOverdue(link); });
      Begin(link);
    }
  }
}

void ShardLinks::Begin(Link& link) {
  link.attempt = next_attempt_++;
  loop_.Connect(link.address, kAttemptLimit,
                [this, shard = link.shard, attempt = link.attempt](
                    Result<std::unique_ptr<transport::Connection>> connection) {
                  OnConnected(shard, attempt, std::move(connection));
                });
}

void ShardLinks::OnConnected(ShardId shard, uint64_t attempt,
                             Result<std::unique_ptr<transport::Connection>> connection) {
  if (shard >= links_.size() || links_[shard]->attempt != attempt) return;
  Link& link = *links_[shard];
  if (!connection.ok()) return TryAgain(link, connection.status());
  wire::Hello hello;
  hello.role = Role::kWorker;
  hello.wanted_role = Role::kServer;
  hello.index = slot_;
  hello.wanted_index = shard;
  hello.wanted_incarnation = link.incarnation;
  hello.generation = generation_;
  link.handshake = std::make_unique<HandshakeInitiator>(
      loop_, pool_, std::move(connection).value(), identity_, hello, kHandshakeLimit,
      [this, shard](Result<std::unique_ptr<transport::Connection>> bound) {
        OnBound(shard, std::move(bound));
      });
}

void ShardLinks::OnBound(ShardId shard, Result<std::unique_ptr<transport::Connection>> connection) {
  Link& link = *links_[shard];
  if (!connection.ok()) {
    if (connection.status().code() != StatusCode::kEvicted) {
      return TryAgain(link, connection.status());
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
  machine_.OnShardUp(shard);
  events_.on_up();
}

// The coordinator hears of it at once: it knows whether others saw the same. Where nothing came
// through any more, it hears when the server cannot be reached again either.
void ShardLinks::OnClosed(Link& link, const Status& why) {
  link.connection.reset();
  machine_.OnShardDown(link.shard);
  bool nonsense = why.code() == StatusCode::kProtocol;
  bool cut = why.code() == StatusCode::kUnavailable;
  wire::Suspect suspect{
      Role::kServer,    link.server,
      link.incarnation, nonsense ? wire::Suspicion::kNonsense : wire::Suspicion::kClosed,
      why.message(),    generation_};
  if (!cut) link.closed = suspect;
  log_.Warning("the connection to {} broke: {}", NameOf(link), why.message());
  link.overdue = loop_.After(options_.unreachable_after, [this, &link] { OnOverdue(link); });
  TryAgain(link, why);
  if (!cut) events_.on_suspect(suspect);
  events_.on_event();
}

void ShardLinks::TryAgain(Link& link, const Status& why) {
  link.handshake.reset();
  link.trouble = why.message();
  link.retry = loop_.After(link.pause, [this, &link] { Begin(link); });
  link.pause = std::min(link.pause * 2, kPauseMax);
}

void ShardLinks::OnOverdue(Link& link) {
  bool known = link.unreachable.has_value();
  link.unreachable = wire::Suspect{Role::kServer,
                                   link.server,
                                   link.incarnation,
                                   wire::Suspicion::kUnreachable,
                                   link.trouble.empty() ? "it does not answer" : link.trouble,
                                   generation_};
  if (!known) log_.Warning("{} cannot be reached: {}", NameOf(link), link.unreachable->text);
  // Again and again: while the coordinator cannot reach it either, this does not count.
  link.overdue = loop_.After(options_.unreachable_after, [this, &link] { OnOverdue(link); });
  events_.on_suspect(*link.unreachable);
}

bool ShardLinks::AllUp() const {
  return std::all_of(links_.begin(), links_.end(), [](const auto& link) {
    return link->incarnation == 0 || link->connection != nullptr;
  });
}

transport::Connection* ShardLinks::To(ShardId shard) {
  return shard < links_.size() ? links_[shard]->connection.get() : nullptr;
}

void ShardLinks::Detach(ConstByteSpan memory) {
  for (auto& link : links_) {
    if (link->connection != nullptr) link->connection->Detach(memory, pool_);
  }
}

std::vector<wire::Suspect> ShardLinks::Suspects() const {
  std::vector<wire::Suspect> suspects;
  for (const auto& link : links_) {
    if (link->closed.has_value()) suspects.push_back(*link->closed);
    if (link->unreachable.has_value()) suspects.push_back(*link->unreachable);
  }
  return suspects;
}

// What this process could not reach while the coordinator could not reach it says nothing of the
// servers.
void ShardLinks::TryAllAgain() {
  for (auto& link : links_) {
    if (link->incarnation == 0 || link->connection != nullptr) continue;
    link->unreachable.reset();
    link->retry.reset();
    link->pause = kPauseMin;
    Duration patience =
        link->was_up ? options_.unreachable_after : options_.first_unreachable_after;
    link->overdue = loop_.After(patience, [this, one = link.get()] { OnOverdue(*one); });
    if (link->handshake == nullptr) Begin(*link);
  }
}

void ShardLinks::Close() { links_.clear(); }

std::string ShardLinks::NameOf(const Link& link) const {
  return "server " + std::to_string(link.server) + " at " + link.address;
}

}  // namespace byteps::runtime
