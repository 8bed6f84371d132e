#include "src/runtime/handshake.h"

#include <algorithm>
#include <utility>

#include "src/runtime/frames.h"
#include "src/wire/frame_kind.h"

namespace byteps::runtime {
namespace {

using wire::FrameKind;

constexpr const char* kAcceptorPurpose = "byteps acceptor";
constexpr const char* kInitiatorPurpose = "byteps initiator";

// No honest peer sends more in a handshake; a stranger that was refused may send without end.
constexpr size_t kDroppedBytesMax = size_t{64} * 1024;

Status Timeout(const transport::Connection& connection) {
  return {StatusCode::kUnavailable, connection.PeerName() +
                                        " accepted the connection but does not answer; is it a " +
                                        "byteps process?"};
}

// Returns the bytes that a proof covers besides the hello: the challenge, and the binding of the
// connection that it came on.
std::vector<std::byte> Said(const wire::Nonce& challenge, const transport::Connection& connection) {
  std::vector<std::byte> said(challenge.begin(), challenge.end());
  ConstByteSpan binding = connection.ChannelBinding();
  said.insert(said.end(), binding.begin(), binding.end());
  return said;
}

ProofBytes InitiatorProof(const JobIdentity& identity, ConstByteSpan hello, ConstByteSpan said) {
  return Proof(identity.secret, kInitiatorPurpose, hello, said);
}

ProofBytes AcceptorProof(const JobIdentity& identity, ConstByteSpan hello,
                         std::vector<std::byte> said, wire::Welcome welcome) {
  welcome.proof = {};
  std::vector<std::byte> bytes = wire::EncodeWelcome(welcome);
  said.insert(said.end(), bytes.begin(), bytes.end());
  return Proof(identity.secret, kAcceptorPurpose, hello, said);
}

bool Is(uint8_t kind, FrameKind wanted) { return kind == static_cast<uint8_t>(wanted); }

// Checks whether the user of the other process may be a member, whatever the process says.
Status CheckOwner(const JobIdentity& identity, const transport::Connection& connection) {
  return identity.of_one_user ? connection.CheckSameUser() : Status::Ok();
}

constexpr const char* kOfOneUser =
    ". A job without a secret whose scheduler is on a loopback address has only processes of one "
    "user on one machine; set the same BYTEPS_JOB_SECRET for all processes of the job";

Status Unexpected(uint8_t kind) {
  return {StatusCode::kProtocol, "frame " + std::to_string(kind) + " before the handshake's end"};
}

}  // namespace

HandshakeInitiator::HandshakeInitiator(transport::Loop& loop,
                                       std::unique_ptr<transport::Connection> connection,
                                       const JobIdentity& identity, wire::Hello hello,
                                       Duration limit, Done done)
    : loop_(loop), connection_(std::move(connection)), identity_(identity), done_(std::move(done)) {
  hello.job = identity.job;
  hello.incarnation = identity.incarnation;
  RandomBytes(hello.nonce);
  hello_bytes_ = wire::EncodeHello(hello);
  connection_->SetLimits({wire::kHandshakeBytesMax});
  connection_->Start(this);
  connection_->Send(BytesFrame(loop_.Buffers(), FrameKind::kHello, hello_bytes_));
  deadline_ = loop.After(limit, [this] { Finish(Timeout(*connection_)); });
}

Result<ByteSpan> HandshakeInitiator::OnHeader(uint8_t kind, ConstByteSpan, size_t payload_bytes) {
  bool first_challenge = Is(kind, FrameKind::kChallenge) && !challenge_.has_value();
  if (!first_challenge && !Is(kind, FrameKind::kWelcome)) return Unexpected(kind);
  incoming_kind_ = kind;
  incoming_.resize(payload_bytes);
  return ByteSpan(incoming_);
}

void HandshakeInitiator::OnFrame() {
  if (Is(incoming_kind_, FrameKind::kChallenge)) return OnChallenge();
  if (!Is(incoming_kind_, FrameKind::kWelcome)) return Finish(Unexpected(incoming_kind_));
  Result<wire::Welcome> welcome = wire::DecodeWelcome(incoming_);
  Status how = welcome.ok() ? Judge(welcome.value()) : welcome.status();
  if (how.ok()) connection_->Send(BytesFrame(loop_.Buffers(), FrameKind::kBound, {}));
  Finish(how);
}

void HandshakeInitiator::OnChallenge() {
  wire::Nonce challenge;
  if (incoming_.size() != challenge.size()) {
    return Finish({StatusCode::kProtocol, "malformed challenge"});
  }
  std::copy(incoming_.begin(), incoming_.end(), challenge.begin());
  if (Status owner = CheckOwner(identity_, *connection_); !owner.ok()) {
    return Finish({StatusCode::kRefused, connection_->PeerName() + " is no process of this job: " +
                                             owner.message() + kOfOneUser});
  }
  challenge_ = challenge;
  connection_->Send(
      BytesFrame(loop_.Buffers(), FrameKind::kProof,
                 InitiatorProof(identity_, hello_bytes_, Said(challenge, *connection_))));
}

// Returns the end of this attempt. An unproven refusal ends this attempt only, never the process.
Status HandshakeInitiator::Judge(const wire::Welcome& welcome) const {
  bool proven =
      challenge_.has_value() &&
      ProofEqual(AcceptorProof(identity_, hello_bytes_, Said(*challenge_, *connection_), welcome),
                 welcome.proof);
  const std::string peer = connection_->PeerName();
  if (welcome.code == StatusCode::kOk) {
    if (proven) return Status::Ok();
    return {StatusCode::kRefused, peer + " does not know this job's secret; check BYTEPS_JOB_ID " +
                                      "and BYTEPS_JOB_SECRET"};
  }
  if (proven || welcome.code == StatusCode::kRefused) {
    return {welcome.code, peer + " refused: " + welcome.text};
  }
  return {StatusCode::kRefused, peer + " says that this process is not in the job, but does not " +
                                    "know the job's secret; it is not believed"};
}

void HandshakeInitiator::OnClosed(const Status& why) {
  if (why.code() == StatusCode::kRefused) {
    return Finish({StatusCode::kRefused, connection_->PeerName() + ": " + why.message()});
  }
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

HandshakeAcceptor::HandshakeAcceptor(transport::Loop& loop,
                                     std::unique_ptr<transport::Connection> connection,
                                     const JobIdentity& identity, Decide decide, Done done)
    : loop_(loop),
      connection_(std::move(connection)),
      identity_(identity),
      peer_(connection_->PeerName()),
      decide_(std::move(decide)),
      done_(std::move(done)),
      alive_(std::make_shared<bool>(true)) {
  hello_.version = 0;  // no hello has come yet
  connection_->SetLimits({wire::kHandshakeBytesMax, kDroppedBytesMax});
  connection_->Start(this);
  deadline_ = loop.After(kProofLimit, [this] { Finish(Timeout(*connection_)); });
}

HandshakeAcceptor::~HandshakeAcceptor() { *alive_ = false; }

Result<ByteSpan> HandshakeAcceptor::OnHeader(uint8_t kind, ConstByteSpan, size_t payload_bytes) {
  if (!expected_.has_value() || !Is(kind, *expected_)) return Unexpected(kind);
  incoming_.resize(payload_bytes);
  return ByteSpan(incoming_);
}

void HandshakeAcceptor::OnFrame() {
  // The kind of the frame whose header OnHeader has accepted.
  const std::optional<FrameKind> kind = std::exchange(expected_, std::nullopt);
  if (kind == FrameKind::kHello) return OnHello();
  if (kind == FrameKind::kProof) return OnProof();
  if (kind == FrameKind::kBound) return Finish(Status::Ok());
  Finish({StatusCode::kProtocol, "a frame before the answer to the one before it"});
}

void HandshakeAcceptor::OnHello() {
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
  if (Status owner = CheckOwner(identity_, *connection_); !owner.ok()) {
    return Refuse("you are no process of the job's user on its machine" + std::string(kOfOneUser),
                  owner.message() + kOfOneUser);
  }
  hello_bytes_ = incoming_;
  RandomBytes(challenge_);
  expected_ = FrameKind::kProof;
  connection_->Send(BytesFrame(loop_.Buffers(), FrameKind::kChallenge, challenge_));
}

void HandshakeAcceptor::OnProof() {
  if (!ProofEqual(InitiatorProof(identity_, hello_bytes_, Said(challenge_, *connection_)),
                  incoming_)) {
    return Refuse(
        "it does not know the secret that you have; check BYTEPS_JOB_SECRET, which must be the "
        "same everywhere",
        "it has another BYTEPS_JOB_SECRET, which must be the same everywhere");
  }
  proven_ = true;
  deadline_ = loop_.After(kHandshakeLimit, [this] { Finish(Timeout(*connection_)); });
  decide_(hello_, [this, alive = alive_](Status decision) {
    if (*alive) OnDecided(decision);
  });
}

void HandshakeAcceptor::OnDecided(const Status& decision) {
  if (!decision.ok()) {
    refusal_ = decision;
    return SendRefusal(decision);
  }
  expected_ = FrameKind::kBound;
  SendWelcome(decision);
}

// Refuses a stranger: tells it why, and gives it no proof.
void HandshakeAcceptor::Refuse(const std::string& to_peer, const std::string& to_us) {
  refusal_ = Status(StatusCode::kRefused, to_us);
  SendRefusal({StatusCode::kRefused, to_peer});
}

// Sends the reason for the peer to read. The connection ends when the peer closes it or at the
// deadline.
void HandshakeAcceptor::SendRefusal(const Status& why) {
  SendWelcome(why);
  connection_->CloseAfterFlush(seconds(1));
}

void HandshakeAcceptor::SendWelcome(const Status& decision) {
  wire::Welcome welcome;
  welcome.code = decision.code();
  welcome.text = decision.message();
  if (proven_) {
    welcome.incarnation = identity_.incarnation;
    welcome.proof = AcceptorProof(identity_, hello_bytes_, Said(challenge_, *connection_), welcome);
  }
  connection_->Send(BytesFrame(loop_.Buffers(), FrameKind::kWelcome, wire::EncodeWelcome(welcome)));
}

void HandshakeAcceptor::OnClosed(const Status& why) {
  if (!refusal_.ok()) return Finish(refusal_);
  Finish(why.ok() ? Status(StatusCode::kUnavailable, "closed") : why);
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
