#include "src/runtime/handshake.h"

#include <utility>

#include "src/runtime/frames.h"
#include "src/wire/frame_kind.h"

namespace byteps::runtime {
namespace {

using wire::FrameKind;

constexpr const char* kAcceptorPurpose = "byteps acceptor";
constexpr const char* kInitiatorPurpose = "byteps initiator";

Status Timeout(const transport::Connection& connection) {
  return {StatusCode::kUnavailable, connection.PeerName() +
                                        " accepted the connection but does not answer; is it a " +
                                        "byteps process?"};
}

ProofBytes AcceptorProof(const JobIdentity& identity, ConstByteSpan hello,
                         const wire::Nonce& nonce) {
  return Proof(identity.secret, kAcceptorPurpose, hello, nonce);
}

ProofBytes InitiatorProof(const JobIdentity& identity, ConstByteSpan hello,
                          const wire::Nonce& nonce) {
  return Proof(identity.secret, kInitiatorPurpose, hello, nonce);
}

Status Unexpected(uint8_t kind) {
  return {StatusCode::kProtocol, "frame " + std::to_string(kind) + " before the handshake's end"};
}

}  // namespace

HandshakeInitiator::HandshakeInitiator(transport::Loop& loop, BufferPool& pool,
                                       std::unique_ptr<transport::Connection> connection,
                                       const JobIdentity& identity, wire::Hello hello,
                                       Duration limit, Done done)
    : connection_(std::move(connection)), identity_(identity), pool_(pool), done_(std::move(done)) {
  hello.job = identity.job;
  hello.incarnation = identity.incarnation;
  RandomBytes(hello.nonce);
  hello_bytes_ = wire::EncodeHello(hello);
  connection_->SetLimits({wire::kHandshakeBytesMax});
  connection_->Start(this);
  connection_->Send(BytesFrame(pool_, FrameKind::kHello, hello_bytes_));
  deadline_ = loop.After(limit, [this] { Finish(Timeout(*connection_)); });
}

Result<ByteSpan> HandshakeInitiator::OnHeader(uint8_t kind, ConstByteSpan, size_t payload_bytes) {
  if (kind != static_cast<uint8_t>(FrameKind::kWelcome)) return Unexpected(kind);
  incoming_.resize(payload_bytes);
  return ByteSpan(incoming_);
}

void HandshakeInitiator::OnFrame() {
  Result<wire::Welcome> welcome = wire::DecodeWelcome(incoming_);
  if (!welcome.ok()) return Finish(welcome.status());
  bool proven = ProofEqual(AcceptorProof(identity_, hello_bytes_, welcome->nonce), welcome->proof);
  if (welcome->code == StatusCode::kEvicted && !proven) {
    return Finish({StatusCode::kRefused, connection_->PeerName() +
                                             " says that this process is not in the job, but does "
                                             "not know the job's secret; it is not believed"});
  }
  if (welcome->code != StatusCode::kOk) {
    return Finish({welcome->code, connection_->PeerName() + " refused: " + welcome->text});
  }
  if (!proven) {
    return Finish({StatusCode::kRefused, connection_->PeerName() +
                                             " does not know this job's secret; check "
                                             "BYTEPS_JOB_ID and BYTEPS_JOB_SECRET"});
  }
  ProofBytes proof = InitiatorProof(identity_, hello_bytes_, welcome->nonce);
  connection_->Send(BytesFrame(pool_, FrameKind::kProof, proof));
  Finish(Status::Ok());
}

void HandshakeInitiator::OnClosed(const Status& why) {
  Finish({StatusCode::kUnavailable, why.message()});
}

void HandshakeInitiator::Finish(Status why) {
  if (done_ == nullptr) return;
  deadline_.reset();
  Done done = std::exchange(done_, nullptr);
  std::unique_ptr<transport::Connection> connection = std::move(connection_);
  if (why.ok()) return done(std::move(connection));
  connection.reset();
  done(why);
}

HandshakeAcceptor::HandshakeAcceptor(transport::Loop& loop, BufferPool& pool,
                                     std::unique_ptr<transport::Connection> connection,
                                     const JobIdentity& identity, Decide decide, Done done)
    : connection_(std::move(connection)),
      identity_(identity),
      pool_(pool),
      peer_(connection_->PeerName()),
      expected_(static_cast<uint8_t>(FrameKind::kHello)),
      decide_(std::move(decide)),
      done_(std::move(done)),
      alive_(std::make_shared<bool>(true)) {
  connection_->SetLimits({wire::kHandshakeBytesMax});
  connection_->Start(this);
  deadline_ = loop.After(kHandshakeLimit, [this] { Finish(Timeout(*connection_)); });
}

HandshakeAcceptor::~HandshakeAcceptor() { *alive_ = false; }

Result<ByteSpan> HandshakeAcceptor::OnHeader(uint8_t kind, ConstByteSpan, size_t payload_bytes) {
  if (kind != expected_) return Unexpected(kind);
  incoming_.resize(payload_bytes);
  return ByteSpan(incoming_);
}

void HandshakeAcceptor::OnFrame() {
  if (expected_ == static_cast<uint8_t>(FrameKind::kHello)) return OnHello();
  OnProof();
}

void HandshakeAcceptor::OnHello() {
  expected_ = 0;  // nothing may come before our welcome
  Result<wire::Hello> hello = wire::DecodeHello(incoming_);
  if (!hello.ok()) return Finish(hello.status());
  hello_ = hello.value();
  if (hello->version != wire::kWireVersion) {
    return Refuse("it speaks version " + std::to_string(wire::kWireVersion) +
                      " of the protocol, you speak " + std::to_string(hello->version),
                  "it speaks another version of the protocol; install the same version everywhere");
  }
  if (hello->job != identity_.job) {
    return Refuse(
        "it belongs to another job; is a process of an earlier job still running on this port?",
        "it belongs to another job; BYTEPS_JOB_ID must be the same everywhere");
  }
  hello_bytes_ = incoming_;
  decide_(hello_, [this, alive = alive_](Status decision) {
    if (*alive) SendWelcome(decision);
  });
}

void HandshakeAcceptor::Refuse(const std::string& to_peer, const std::string& to_us) {
  refusal_ = Status(StatusCode::kRefused, to_us);
  SendWelcome({StatusCode::kRefused, to_peer});
}

void HandshakeAcceptor::SendWelcome(const Status& decision) {
  wire::Welcome welcome;
  welcome.code = decision.code();
  welcome.text = decision.message();
  if (decision.ok() || decision.code() == StatusCode::kEvicted) {
    RandomBytes(nonce_);
    welcome.incarnation = identity_.incarnation;
    welcome.nonce = nonce_;
    welcome.proof = AcceptorProof(identity_, hello_bytes_, nonce_);
  }
  if (decision.ok()) expected_ = static_cast<uint8_t>(FrameKind::kProof);
  connection_->Send(BytesFrame(pool_, FrameKind::kWelcome, wire::EncodeWelcome(welcome)));
  if (decision.ok()) return;
  // A refused peer reads the reason; the connection ends when it closes or at the deadline.
  if (refusal_.ok()) refusal_ = decision;
  connection_->CloseAfterFlush(seconds(1));
}

void HandshakeAcceptor::OnProof() {
  if (!ProofEqual(InitiatorProof(identity_, hello_bytes_, nonce_), incoming_)) {
    return Finish({StatusCode::kRefused, "it does not know this job's secret"});
  }
  Finish(Status::Ok());
}

// Who has another secret does not accept our proof, and goes without a word.
void HandshakeAcceptor::OnClosed(const Status& why) {
  if (!refusal_.ok()) return Finish(refusal_);
  bool turned_away = expected_ == static_cast<uint8_t>(FrameKind::kProof);
  if (!turned_away || why.code() != StatusCode::kPeerLost) {
    return Finish(why.ok() ? Status(StatusCode::kUnavailable, "closed") : why);
  }
  Finish({StatusCode::kRefused,
          "it has another BYTEPS_JOB_SECRET, which must be the same everywhere, or was stopped "
          "while it connected"});
}

void HandshakeAcceptor::Finish(Status why) {
  if (done_ == nullptr) return;
  deadline_.reset();
  Done done = std::exchange(done_, nullptr);
  std::unique_ptr<transport::Connection> connection = std::move(connection_);
  wire::Hello hello = hello_;
  if (why.ok()) return done(std::move(connection), hello);
  connection.reset();
  done(why, hello);
}

}  // namespace byteps::runtime
