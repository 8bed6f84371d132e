// The connections to one port that are not let in yet. Strangers may open as many as they like: of
// those that have proved nothing there are few at a time, and the oldest goes first.
//
// Lives on its loop's thread. Destroying it, or `Clear`, ends all attempts silently.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "src/runtime/handshake.h"

namespace byteps::runtime {

// How many unproven connections a process can afford: a part of the descriptors that it may open.
size_t UnprovenMax();

class Handshakes {
 public:
  // As HandshakeAcceptor's, with the name of the peer.
  using Done = std::function<void(Result<std::unique_ptr<transport::Connection>>,
                                  const wire::Hello&, const std::string& peer)>;

  // `pool` outlives the connections.
  Handshakes(transport::Loop& loop, BufferPool& pool, const JobIdentity& identity,
             size_t unproven_max, HandshakeAcceptor::Decide decide, Done done);

  void Accept(std::unique_ptr<transport::Connection> connection);
  void Clear() { all_.clear(); }

 private:
  void MakeRoom();
  void OnDone(uint64_t attempt, Result<std::unique_ptr<transport::Connection>> connection,
              const wire::Hello& hello);

  transport::Loop& loop_;
  BufferPool& pool_;
  const JobIdentity identity_;
  const size_t unproven_max_;
  const HandshakeAcceptor::Decide decide_;
  const Done done_;
  uint64_t next_attempt_ = 1;
  std::map<uint64_t, std::unique_ptr<HandshakeAcceptor>> all_;  // the oldest first
};

}  // namespace byteps::runtime
