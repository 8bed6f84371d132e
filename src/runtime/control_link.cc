#include "src/runtime/control_link.h"

#include <algorithm>
#include <utility>

#include "src/base/text.h"

namespace byteps::runtime {
namespace {

constexpr Duration kControlPauseMin = milliseconds(20);
constexpr Duration kControlPauseMax = milliseconds(500);
constexpr Duration kReportEvery = seconds(5);
constexpr Duration kReportSeldom = seconds(60);
constexpr Duration kFirstAttemptLimit = seconds(5);
// The limit after the first connection. It is short because after a cut the system itself would try
// again at longer and longer intervals.
constexpr Duration kAttemptAgainLimit = seconds(2);

}  // namespace

ControlLink::ControlLink(transport::Loop& loop, const ControlLinkOptions& options, Log& log,
                         Events events)
    : loop_(loop), options_(options), log_(log), events_(std::move(events)) {}

void ControlLink::Start() {
  waiting_since_ = loop_.Now();
  give_up_ = waiting_since_ + options_.connect_limit;
  next_report_ = waiting_since_ + ReportEvery();
  pause_ = kControlPauseMin;
  Connect();
}

void ControlLink::Connect() {
  Duration attempt = had_connection_ ? kAttemptAgainLimit : kFirstAttemptLimit;
  Duration limit = std::min(attempt, give_up_ - loop_.Now());
  loop_.Connect(options_.coordinator, std::max<Duration>(limit, milliseconds(1)),
                [this](Result<std::unique_ptr<transport::Connection>> connection) {
                  OnConnected(std::move(connection));
                });
}

void ControlLink::OnConnected(Result<std::unique_ptr<transport::Connection>> connection) {
  if (lost_) return;
  if (!connection.ok()) {
    // A wrong option or an impossible address does not get better by waiting.
    bool hopeless = connection.status().code() == StatusCode::kInvalidArgument;
    return hopeless && !had_connection_ ? Lose(connection.status()) : TryAgain(connection.status());
  }
  wire::Hello hello;
  hello.role = options_.role;
  hello.wanted_role = Role::kCoordinator;
  handshake_ = std::make_unique<HandshakeInitiator>(
      loop_, std::move(connection).value(), options_.identity, hello, kHandshakeLimit,
      [this](Result<std::unique_ptr<transport::Connection>> bound) { OnBound(std::move(bound)); });
}

void ControlLink::OnBound(Result<std::unique_ptr<transport::Connection>> connection) {
  if (!connection.ok()) {
    // Once this process has met the job, another process that answers at the job's address is a
    // passing event.
    bool passing = had_connection_ || connection.status().code() == StatusCode::kUnavailable;
    return passing ? TryAgain(connection.status()) : Lose(connection.status());
  }
  had_connection_ = true;
  heard_ = false;
  doubted_ = false;
  last_heard_ = loop_.Now();
  connection_ = std::move(connection).value();
  connection_->SetLimits({wire::kControlBytesMax});
  connection_->Start(this);
  alive_ = loop_.Every(options_.alive_every, [this] { OnAliveTimer(); });
  events_.on_ready();
}

void ControlLink::OnAliveTimer() {
  bool silent = loop_.Now() - last_heard_ > options_.silence_max;
  if (silent && std::exchange(doubted_, true)) {
    return Reconnect("it has been silent for " + SecondsText(loop_.Now() - last_heard_));
  }
  Send(events_.make_alive == nullptr ? wire::Alive{} : events_.make_alive());
}

// Connects again. The patience is for one absence, even if connections come and break on which the
// coordinator says nothing.
void ControlLink::Reconnect(const std::string& why) {
  if (ends_with_connection_) return Close();
  alive_.reset();
  connection_.reset();
  if (heard_) {
    waiting_since_ = loop_.Now();
    give_up_ = waiting_since_ + options_.patience;
    next_report_ = waiting_since_ + kReportEvery;
    pause_ = kControlPauseMin;
    log_.Warning("the connection to the coordinator (scheduler) at {} broke: {}; trying again",
                 options_.coordinator, why);
  }
  heard_ = false;
  TryAgain({StatusCode::kPeerLost, why});
}

void ControlLink::TryAgain(const Status& why) {
  Time now = loop_.Now();
  Duration waited = now - waiting_since_;
  if (now >= give_up_) return Lose(GiveUp(why.message(), waited));
  if (now >= next_report_) {
    // A process that waits for its start says so after 5, 10, 20 s and so on, later once a minute.
    const bool doubles = !had_connection_ && !log_.RewritesWaiting();
    if (doubles) {
      next_report_ += std::clamp(next_report_ - waiting_since_, kReportEvery, kReportSeldom);
    }
    if (next_report_ <= now) next_report_ = now + ReportEvery();
    std::string text = "cannot reach the scheduler at " + options_.coordinator + " (" +
                       why.message() + "); waited " + SecondsText(waited);
    if (had_connection_) {
      log_.Warning("{}", text);
    } else {
      log_.Waiting(text);
    }
  }
  retry_ = loop_.After(std::min(pause_, std::max<Duration>(give_up_ - now, milliseconds(1))),
                       [this] { Connect(); });
  pause_ = std::min(pause_ * 2, kControlPauseMax);
}

Duration ControlLink::ReportEvery() const {
  return !had_connection_ && log_.RewritesWaiting() ? seconds(1) : kReportEvery;
}

Status ControlLink::GiveUp(const std::string& why, Duration waited) const {
  if (!had_connection_) {
    return {StatusCode::kUnavailable,
            "cannot reach the scheduler at " + options_.coordinator + " (" + why + "); waited " +
                SecondsText(waited) +
                "; is it running, is there a firewall (see bps run --ports), and are "
                "DMLC_PS_ROOT_URI and DMLC_PS_ROOT_PORT right?"};
  }
  return {StatusCode::kPeerLost,
          "the coordinator (scheduler) at " + options_.coordinator +
              " was lost and did not come back within " + SecondsText(waited) + " (" + why +
              "); start it again in time, with the same settings, or start the job again "
              "(BYTEPS_COORDINATOR_PATIENCE is how long the others wait)"};
}

void ControlLink::Send(const wire::Message& message) {
  if (connection_ != nullptr) connection_->Send(ControlFrame(loop_.Buffers(), message));
}

Result<ByteSpan> ControlLink::OnHeader(uint8_t kind, ConstByteSpan, size_t payload_bytes) {
  if (kind != static_cast<uint8_t>(wire::FrameKind::kControl)) {
    return Status(StatusCode::kProtocol, "the coordinator sent frame " + std::to_string(kind));
  }
  incoming_.resize(payload_bytes);
  return ByteSpan(incoming_);
}

void ControlLink::OnFrame() {
  Result<wire::Message> message = wire::DecodeControl(incoming_);
  if (!message.ok()) return Reconnect(message.status().message());
  heard_ = true;
  doubted_ = false;
  last_heard_ = loop_.Now();
  events_.on_message(message.value());
}

void ControlLink::OnClosed(const Status& why) { Reconnect(why.message()); }

void ControlLink::Close() {
  lost_ = true;
  alive_.reset();
  retry_.reset();
  handshake_.reset();
  connection_.reset();
}

void ControlLink::EndWithConnection() {
  ends_with_connection_ = true;
  if (!is_connected()) Close();
}

void ControlLink::Lose(const Status& why) {
  if (lost_) return;
  Close();
  events_.on_lost(why);
}

}  // namespace byteps::runtime
