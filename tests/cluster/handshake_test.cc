// Both ends of a handshake, by themselves.
#include "src/runtime/handshake.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "src/transport/inproc/inproc_transport.h"

namespace byteps::cluster {
namespace {

using runtime::HandshakeAcceptor;
using runtime::HandshakeInitiator;
using runtime::JobIdentity;
using runtime::kHandshakeLimit;

// How the initiator's attempt ends when the acceptor knows `secret` and decides so.
Status Shake(const std::string& secret, const Status& decision) {
  auto transport = transport::MakeInprocTransport();
  auto loop = transport->MakeLoop();
  BufferPool pool;
  std::unique_ptr<HandshakeAcceptor> acceptor;
  std::unique_ptr<HandshakeInitiator> initiator;
  std::optional<Status> ended;
  auto listener = loop->Listen("inproc:0", [&](std::unique_ptr<transport::Connection> connection) {
    acceptor = std::make_unique<HandshakeAcceptor>(
        *loop, pool, std::move(connection), JobIdentity{"job", secret, 1},
        [&](const wire::Hello&, const HandshakeAcceptor::Answer& answer) { answer(decision); },
        [](Result<std::unique_ptr<transport::Connection>>, const wire::Hello&) {});
  });
  EXPECT_TRUE(listener.ok());
  loop->Connect(listener.value()->Address(), kHandshakeLimit,
                [&](Result<std::unique_ptr<transport::Connection>> connection) {
                  initiator = std::make_unique<HandshakeInitiator>(
                      *loop, pool, std::move(connection).value(), JobIdentity{"job", "secret", 2},
                      wire::Hello(), kHandshakeLimit,
                      [&](Result<std::unique_ptr<transport::Connection>> bound) {
                        ended = bound.ok() ? Status::Ok() : bound.status();
                        loop->Stop();
                      });
                });
  loop->Run();
  initiator.reset();
  acceptor.reset();
  listener.value().reset();
  return ended.value_or(Status(StatusCode::kInternal, "it has not ended"));
}

TEST(HandshakeTest, BothKnowTheSecret) { EXPECT_TRUE(Shake("secret", Status::Ok()).ok()); }

TEST(HandshakeTest, WhoDoesNotKnowTheSecretIsNotTaken) {
  EXPECT_EQ(Shake("another", Status::Ok()).code(), StatusCode::kRefused);
}

TEST(HandshakeTest, AMemberIsToldThatItIsNoneAnyMore) {
  Status ended = Shake("secret", {StatusCode::kEvicted, "you were silent"});
  EXPECT_EQ(ended.code(), StatusCode::kEvicted);
  EXPECT_NE(ended.message().find("you were silent"), std::string::npos);
}

// Else whoever gets hold of a dead server's port could end the workers.
TEST(HandshakeTest, AStrangerCannotSayThatAMemberIsNoneAnyMore) {
  Status ended = Shake("another", {StatusCode::kEvicted, "a stranger says so"});
  EXPECT_EQ(ended.code(), StatusCode::kRefused);
  EXPECT_EQ(ended.message().find("a stranger says so"), std::string::npos) << ended.message();
}

}  // namespace
}  // namespace byteps::cluster
