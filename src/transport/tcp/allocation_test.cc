// The steady state of the TCP transport allocates nothing. An executable of its own, because its
// operator new counts.
#include <gtest/gtest.h>

#include "src/transport/tcp/steady_state_for_test.h"
#include "src/transport/tcp/tcp_transport.h"

namespace byteps::transport {
namespace {

TEST(TcpAllocationTest, TheSteadyStateAllocatesNothing) {
  ExpectTheSteadyStateAllocatesNothing(*MakeTcpTransport({}), "tcp");
}

// OpenSSL takes its memory by other functions, so this tests only the transport's part.
TEST(TcpAllocationTest, TheSteadyStateUnderTlsAllocatesNothing) {
  auto transport = MakeTlsTransport({}, {"a job", {std::byte{7}}});
  ASSERT_TRUE(transport.ok());
  ExpectTheSteadyStateAllocatesNothing(*transport.value(), "tcp");
}

}  // namespace
}  // namespace byteps::transport
