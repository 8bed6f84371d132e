// Binds a fresh connection to (job, role, index, incarnation): hello, challenge, proof, welcome,
// bound. Both ends prove that they hold the job's secret before they read any other frame.
// Strangers can reach the acceptor, so the initiator must prove first; before that the acceptor
// decides nothing and proves nothing. In a job of one user both ends also check the user of the
// other process. The proof covers the whole welcome: nobody in between can change it, and only a
// member can end a process by saying that the process is not a member any more (kEvicted). Under
// TLS a proof holds for its own connection only.
//
// Each object lives on the connection's loop, owns the connection until it calls `done`, and calls
// `done` at most once. Destroying the object, also from inside `done`, ends the attempt silently.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/proof.h"
#include "src/base/status.h"
#include "src/transport/transport.h"
#include "src/wire/frame_kind.h"
#include "src/wire/handshake.h"

namespace byteps::runtime {

// The facts that both ends of a job know.
struct JobIdentity {
  std::string job;
  std::string secret;
  uint64_t incarnation = 0;  // of this process
  // True: only processes of this machine and of this process' user can be members.
  bool of_one_user = false;
};

// kHandshakeLimit: the limit for a handshake; the initiator counts from the connection on, the
// acceptor from the proof on. kProofLimit: the time that the acceptor waits for a proof.
inline constexpr Duration kHandshakeLimit = seconds(10);
inline constexpr Duration kProofLimit = seconds(5);

// The side that connected.
class HandshakeInitiator final : public transport::FrameReceiver {
 public:
  using Done = std::function<void(Result<std::unique_ptr<transport::Connection>>)>;

  // `hello` names this process and the wanted process; the constructor fills in job, nonce and
  // incarnation.
  HandshakeInitiator(transport::Loop& loop, std::unique_ptr<transport::Connection> connection,
                     const JobIdentity& identity, wire::Hello hello, Duration limit, Done done);

  Result<ByteSpan> OnHeader(uint8_t kind, ConstByteSpan header, size_t payload_bytes) override;
  void OnFrame() override;
  void OnClosed(const Status& why) override;

 private:
  void OnChallenge();
  Status Judge(const wire::Welcome& welcome) const;
  void Finish(Status why);

  transport::Loop& loop_;
  std::unique_ptr<transport::Connection> connection_;
  const JobIdentity identity_;
  uint8_t incoming_kind_ = 0;
  std::optional<wire::Nonce> challenge_;  // set when the challenge has come
  std::vector<std::byte> hello_bytes_;
  std::vector<std::byte> incoming_;
  std::unique_ptr<transport::Loop::Timer> deadline_;
  Done done_;
};

// The side that accepted.
class HandshakeAcceptor final : public transport::FrameReceiver {
 public:
  // `decide` judges a proven hello: kOk, or the reason to refuse. It may keep `answer` and call it
  // later (a member that is ahead of this process waits). Called at most once.
  //
  // `done` gets kRefused if the peer sent a hello that does not fit, has not proved that it knows
  // the secret, or cannot even be spoken to (then the hello has version 0). The text says of the
  // peer what is wrong. If the peer sent no hello, `done` gets another code.
  using Answer = std::function<void(Status)>;
  using Decide = std::function<void(const wire::Hello&, Answer answer)>;
  using Done =
      std::function<void(Result<std::unique_ptr<transport::Connection>>, const wire::Hello&)>;

  HandshakeAcceptor(transport::Loop& loop, std::unique_ptr<transport::Connection> connection,
                    const JobIdentity& identity, Decide decide, Done done);
  ~HandshakeAcceptor() override;

  // Returns the peer's address, as in "10.0.0.3:4711".
  const std::string& peer() const { return peer_; }
  // Returns whether the peer has proved that it knows the secret.
  bool proven() const { return proven_; }

  Result<ByteSpan> OnHeader(uint8_t kind, ConstByteSpan header, size_t payload_bytes) override;
  void OnFrame() override;
  void OnClosed(const Status& why) override;

 private:
  void OnHello();
  void OnProof();
  void OnDecided(const Status& decision);
  void Refuse(const std::string& to_peer, const std::string& to_us);
  void SendRefusal(const Status& why);
  void SendWelcome(const Status& decision);
  void Finish(Status why);

  transport::Loop& loop_;
  std::unique_ptr<transport::Connection> connection_;
  const JobIdentity identity_;
  const std::string peer_;
  // The only kind of frame that may come now. None: no frame may come before this end has answered.
  std::optional<wire::FrameKind> expected_ = wire::FrameKind::kHello;
  bool proven_ = false;
  Status refusal_;  // set while the peer has still to read it
  wire::Hello hello_;
  wire::Nonce challenge_{};
  std::vector<std::byte> hello_bytes_;
  std::vector<std::byte> incoming_;
  std::unique_ptr<transport::Loop::Timer> deadline_;
  Decide decide_;
  Done done_;
  // Tells a late answer that the acceptor is gone. shared_ptr: the answer may outlive the acceptor.
  std::shared_ptr<bool> alive_;
};

}  // namespace byteps::runtime
