#include "src/transport/inproc/inproc_transport.h"

#include <gtest/gtest.h>

#include "src/transport/transport_conformance.h"

namespace byteps::transport {
namespace {

INSTANTIATE_TEST_SUITE_P(Inproc, TransportConformance,
                         ::testing::Values(Backend{"inproc", MakeInprocTransport, "inproc:0",
                                                   "inproc:65535"}));

}  // namespace
}  // namespace byteps::transport
