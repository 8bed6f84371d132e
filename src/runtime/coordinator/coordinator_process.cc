#include "src/runtime/coordinator/coordinator_process.h"

#include <algorithm>
#include <span>
#include <utility>

#include "src/base/proof.h"
#include "src/runtime/frames.h"
#include "src/runtime/seeing/status_pages.h"

namespace byteps::runtime {
namespace {

// The time that the last messages may take to leave.
constexpr Duration kFarewellLimit = seconds(2);

constexpr size_t kSaidMax = 32;

protocol::CoordinatorOptions WithNonce(protocol::CoordinatorOptions options) {
  while (options.nonce == 0) {
    RandomBytes(std::as_writable_bytes(std::span(&options.nonce, 1)));
  }
  return options;
}

}  // namespace

// One member's connection after its handshake.
struct CoordinatorProcess::Member final : transport::FrameReceiver {
  Member(CoordinatorProcess& owner, uint64_t number, std::unique_ptr<transport::Connection> bound)
      : process(owner), id(number), connection(std::move(bound)) {}

  Result<ByteSpan> OnHeader(uint8_t kind, ConstByteSpan, size_t payload_bytes) override {
    if (kind != static_cast<uint8_t>(wire::FrameKind::kControl)) {
      return Status(StatusCode::kProtocol, "frame " + std::to_string(kind) + " for a coordinator");
    }
    incoming.resize(payload_bytes);
    return ByteSpan(incoming);
  }
  void OnFrame() override { process.OnFrame(id, incoming); }
  void OnClosed(const Status& why) override { process.OnClosed(id, why); }

  CoordinatorProcess& process;
  uint64_t id;
  std::unique_ptr<transport::Connection> connection;
  std::vector<std::byte> incoming;
};

CoordinatorProcess::CoordinatorProcess(transport::Transport& transport,
                                       const CoordinatorProcessOptions& options, Log& log)
    : options_(options),
      log_(log),
      loop_(transport.MakeLoop()),
      machine_(WithNonce(options.protocol), *this, loop_->Now()),
      ticker_(
          *loop_, [this] { return machine_.NextTick(); },
          [this](Time now) { machine_.OnTick(now); }),
      handshakes_(
          *loop_, options.identity, UnprovenMax(),
          [](const wire::Hello& hello, const HandshakeAcceptor::Answer& answer) {
            answer(hello.wanted_role == Role::kCoordinator
                       ? Status::Ok()
                       : Status(StatusCode::kRefused,
                                "this is the coordinator (scheduler), not a server"));
          },
          [this](Result<std::unique_ptr<transport::Connection>> bound, const wire::Hello& hello,
                 const std::string& peer) { OnBound(std::move(bound), hello, peer); }),
      begun_(loop_->Now()) {}

CoordinatorProcess::~CoordinatorProcess() = default;

Result<std::string> CoordinatorProcess::Listen() {
  Result<std::unique_ptr<transport::Listener>> listener =
      loop_->Listen(options_.address, [this](std::unique_ptr<transport::Connection> connection) {
        handshakes_.Accept(std::move(connection));
      });
  if (!listener.ok()) return listener.status();
  listener_ = std::move(listener).value();
  log_.Info("listening on {}", listener_->Address());
  return listener_->Address();
}

Status CoordinatorProcess::Run() {
  if (listener_ == nullptr) {
    Result<std::string> address = Listen();
    if (!address.ok()) return address.status();
  }
  if (options_.exit_notices >= 0) {
    Result<std::unique_ptr<ExitNotices>> notices = ExitNotices::Start(
        options_.exit_notices, [this](uint32_t process, std::optional<uint32_t> rank) {
          loop_->Post([this, process, rank] { OnExit(process, rank); });
        });
    if (!notices.ok()) return notices.status();
    exit_notices_ = std::move(notices).value();
  }
  if (Status shown = ShowStatus(); !shown.ok()) return shown;
  ticker_.Arm();
  loop_->Run();
  status_port_.reset();
  exit_notices_.reset();
  return outcome_.value_or(Status::Ok());
}

Status CoordinatorProcess::ShowStatus() {
  Result<std::unique_ptr<StatusPort>> port =
      StatusPort::Start(options_.status, StatusPages(*loop_, [this] { return Page(); }));
  if (!port.ok()) return port.status();
  status_port_ = std::move(port).value();
  if (status_port_ != nullptr) log_.Info("{}", status_port_->Where());
  return Status::Ok();
}

StatusPage CoordinatorProcess::Page() {
  StatusPage page;
  page.job = options_.identity.job;
  page.version = options_.protocol.version;
  page.up_s = ToSeconds(loop_->Now() - begun_);
  page.now_ms = MillisecondsSinceEpoch();
  page.status = machine_.Describe(loop_->Now());
  page.said = said_;
  return page;
}

void CoordinatorProcess::Stop(const Status& why) {
  loop_->Post([this, why] { machine_.End(why); });
}

void CoordinatorProcess::OnBound(Result<std::unique_ptr<transport::Connection>> connection,
                                 const wire::Hello& hello, const std::string& peer) {
  if (connection.status().code() == StatusCode::kRefused) {
    std::optional<Role> role;  // unknown if the peer has another version
    if (hello.version == wire::kWireVersion) role = hello.role;
    machine_.OnRefused(peer, role, connection.status().message(), loop_->Now());
    ticker_.Arm();
    return;
  }
  if (!connection.ok()) {
    log_.Info("a connection was not let in: {}", connection.status().message());
    return;
  }
  uint64_t id = next_id_++;
  auto member = std::make_unique<Member>(*this, id, std::move(connection).value());
  member->connection->SetLimits({wire::kControlBytesMax});
  member->connection->Start(member.get());
  members_[id] = std::move(member);
}

void CoordinatorProcess::OnFrame(uint64_t id, ConstByteSpan bytes) {
  Result<wire::Message> message = wire::DecodeControl(bytes);
  if (!message.ok()) {
    log_.Warning("{} sent nonsense: {}", members_[id]->connection->PeerName(),
                 message.status().message());
    members_[id]->connection->Close();
    return;
  }
  machine_.OnMessage(id, message.value(), loop_->Now());
  ticker_.Arm();
}

void CoordinatorProcess::OnClosed(uint64_t id, const Status& why) {
  auto gone = members_.extract(id);
  if (why.code() == StatusCode::kUnavailable) {
    machine_.OnCutOff(id, why.message(), loop_->Now());
  } else {
    machine_.OnLost(id, why.ok() ? "the connection was closed" : why.message(), loop_->Now());
  }
  ticker_.Arm();
  StopIfAllKnow();
}

// Tells the state machine that one of the launcher's processes has ended.
void CoordinatorProcess::OnExit(uint32_t process, std::optional<uint32_t> rank) {
  machine_.OnProcessEnded({options_.host, process, rank}, loop_->Now());
  ticker_.Arm();
  StopIfAllKnow();
}

void CoordinatorProcess::Send(protocol::ConnectionId to, const wire::Message& message) {
  auto found = members_.find(to);
  if (found != members_.end()) {
    found->second->connection->Send(ControlFrame(loop_->Buffers(), message));
  }
}

void CoordinatorProcess::Disconnect(protocol::ConnectionId id) {
  auto found = members_.find(id);
  if (found != members_.end()) found->second->connection->CloseAfterFlush(kFarewellLimit);
}

void CoordinatorProcess::Report(const std::string& text) {
  log_.Warning("{}", text);
  said_.push_back({MillisecondsSinceEpoch(), text});
  if (said_.size() > kSaidMax) said_.pop_front();
}

// All connected members have been told. The loop ends when the news is sent, and when members that
// come back for the news have had the time.
void CoordinatorProcess::Finish(const Status& how) {
  outcome_ = how;
  if (!how.ok()) log_.Error("the job is over: {}", how.message());
  for (auto& [id, member] : members_) member->connection->CloseAfterFlush(kFarewellLimit);
  farewell_ = loop_->After(kFarewellLimit, [this] { loop_->Stop(); });
  loop_->Post([this] { StopIfAllKnow(); });
}

void CoordinatorProcess::StopIfAllKnow() {
  if (outcome_.has_value() && members_.empty() && !machine_.HasToTellAnyone()) loop_->Stop();
}

}  // namespace byteps::runtime
