// The conformance suite over RDMA, with the stand-in for libibverbs.
#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "src/transport/rdma/over_standin_for_test.h"
#include "src/transport/transport_conformance.h"

namespace byteps::transport {
namespace {

Backend Of(const std::string& name, std::function<RdmaOptions()> options,
           OverStandin::Prepare prepare = nullptr) {
  std::string own = standin::RealAddress();
  if (own.empty()) own = "127.0.0.1";
  Backend backend{name, nullptr, own + ":0", own + ":1"};
  backend.moves = !options().offers_at_once;
  backend.make = [options = std::move(options), prepare = std::move(prepare)] {
    return std::make_unique<OverStandin>(options(), prepare);
  };
  return backend;
}

RdmaOptions AtOnce() {
  RdmaOptions options;
  options.offers_at_once = true;
  return options;
}

RdmaOptions FewSmallSlots() {
  RdmaOptions options = AtOnce();
  options.slots = kSlotsMin;
  options.slot_bytes = kSlotBytesMin;
  return options;
}

// Each direction changes at a frame of its own.
RdmaOptions AtAnyFrame(uint64_t seed) {
  RdmaOptions options = AtOnce();
  options.holds_switch = [state = std::make_shared<std::atomic<uint64_t>>(seed)] {
    uint64_t drawn = state->fetch_add(0x9e3779b97f4a7c15) * 0xff51afd7ed558ccd;
    return (drawn >> 32) % 8 != 0;
  };
  return options;
}

RdmaOptions SoonGivenUp() {
  RdmaOptions options = AtOnce();
  options.proof_limit = milliseconds(5);
  return options;
}

INSTANTIATE_TEST_SUITE_P(
    Rdma, TransportConformance,
    ::testing::Values(Of("when_moved", [] { return RdmaOptions(); }), Of("at_once", AtOnce),
                      Of("few_small_slots", FewSmallSlots),
                      Of(
                          "at_any_frame", [] { return AtAnyFrame(1); },
                          [](standin::Control& control) { control.Delay(2, 50); }),
                      Of("declined", AtOnce,
                         [](standin::Control& control) { control.LimitQueuePairs(1); }),
                      Of("never_answered", SoonGivenUp,
                         [](standin::Control& control) { control.Silence(true); })),
    [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace byteps::transport
