#include "src/runtime/control_link.h"

#include <algorithm>
#include <utility>

namespace byteps::runtime {
namespace {

constexpr Duration kPauseMax = milliseconds(500);
constexpr Duration kReportEvery = seconds(5);
constexpr Duration kAttemptLimit = seconds(5);

std::string WholeSeconds(Duration duration) {
  return std::to_string(std::chrono::duration_cast<seconds>(duration).count()) + " s";
}

}  // namespace

ControlLink::ControlLink(transport::Loop& loop, const ControlLinkOptions& options, Log& log,
                         Events events)
    : loop_(loop), options_(options), log_(log), events_(std::move(events)) {}

void ControlLink::Start() {
  give_up_ = loop_.Now() + options_.connect_limit;
  next_report_ = loop_.Now() + kReportEvery;
  Connect();
}

void ControlLink::Connect() {
  Duration limit = std::min(kAttemptLimit, give_up_ - loop_.Now());
  loop_.Connect(options_.coordinator, std::max<Duration>(limit, milliseconds(1)),
                [this](Result<std::unique_ptr<transport::Connection>> connection) {
                  OnConnected(std::move(connection));
                });
}

void ControlLink::OnConnected(Result<std::unique_ptr<transport::Connection>> connection) {
  if (lost_) return;
  if (!connection.ok()) return TryAgain(connection.status());
  wire::Hello hello;
  hello.role = options_.role;
  hello.wanted_role = Role::kCoordinator;
  handshake_ = std::make_unique<HandshakeInitiator>(
      loop_, pool_, std::move(connection).value(), options_.identity, hello, kHandshakeLimit,
      [this](Result<std::unique_ptr<transport::Connection>> bound) { OnBound(std::move(bound)); });
}

void ControlLink::OnBound(Result<std::unique_ptr<transport::Connection>> connection) {
  if (!connection.ok()) {
    if (connection.status().code() == StatusCode::kUnavailable) {
      return TryAgain(connection.status());
    }
    return Lose(connection.status());
  }
  connection_ = std::move(connection).value();
  connection_->SetLimits({wire::kControlBytesMax});
  connection_->Start(this);
  if (options_.alive_every > Duration::zero()) {
    alive_ = loop_.Every(options_.alive_every, [this] { Send(wire::Alive{}); });
  }
  events_.on_ready();
}

void ControlLink::TryAgain(const Status& why) {
  Time now = loop_.Now();
  Duration waited = options_.connect_limit - (give_up_ - now);
  std::string text = "cannot reach the scheduler at " + options_.coordinator + " (" +
                     why.message() + "); waited " + WholeSeconds(waited);
  if (now >= give_up_) {
    return Lose({StatusCode::kUnavailable,
                 text + "; is it running, and are DMLC_PS_ROOT_URI and DMLC_PS_ROOT_PORT right?"});
  }
  if (now >= next_report_) {
    next_report_ = now + kReportEvery;
    log_.Warning("{}", text);
  }
  retry_ = loop_.After(std::min(pause_, std::max<Duration>(give_up_ - now, milliseconds(1))),
                       [this] { Connect(); });
  pause_ = std::min(pause_ * 2, kPauseMax);
}

void ControlLink::Send(const wire::Message& message) {
  if (connection_ != nullptr) connection_->Send(ControlFrame(pool_, message));
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
  if (!message.ok()) return Lose(message.status());
  events_.on_message(message.value());
}

void ControlLink::OnClosed(const Status& why) {
  Lose({StatusCode::kPeerLost,
        "the coordinator (scheduler) at " + options_.coordinator + " was lost: " + why.message()});
}

void ControlLink::Close() {
  lost_ = true;
  alive_.reset();
  retry_.reset();
  handshake_.reset();
  connection_.reset();
}

void ControlLink::Lose(const Status& why) {
  if (lost_) return;
  Close();
  events_.on_lost(why);
}

}  // namespace byteps::runtime
