// The connections to one port that have not finished their handshakes. Strangers may open as many
// as they like, so only a few unproven connections stay at a time: a new one pushes out the oldest.
//
// Lives on its loop's thread. Destroying it, or `Clear`, ends all attempts silently.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "src/runtime/handshake.h"

namespace byteps::runtime {

// Returns the number of unproven connections that a process can afford: a part of the descriptors
// that it may open.
size_t UnprovenMax();

class Handshakes {
 public:
  // Like HandshakeAcceptor::Done, with the name of the peer.
  using Done = std::function<void(Result<std::unique_ptr<transport::Connection>>,
                                  const wire::Hello&, const std::string& peer)>;

  Handshakes(transport::Loop& loop, const JobIdentity& identity, size_t unproven_max,
             HandshakeAcceptor::Decide decide, Done done);

  void Accept(std::unique_ptr<transport::Connection> connection);
  void Clear() { all_.clear(); }

 private:
  void MakeRoom();
  void OnDone(uint64_t attempt, Result<std::unique_ptr<transport::Connection>> connection,
              const wire::Hello& hello);

  transport::Loop& loop_;
  const JobIdentity identity_;
  const size_t unproven_max_;
  const HandshakeAcceptor::Decide decide_;
  const Done done_;
  uint64_t next_attempt_ = 1;
  std::map<uint64_t, std::unique_ptr<HandshakeAcceptor>> all_;  // the oldest first
};

}  // namespace byteps::runtime
