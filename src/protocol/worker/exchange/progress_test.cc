#include "src/protocol/worker/exchange/progress.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

namespace byteps::protocol {
namespace {

to_front::PartDone PartWith(uint32_t lane, uint32_t pieces, const std::vector<Slot>& slots) {
  to_front::PartDone part;
  part.lane = lane;
  part.pieces = pieces;
  auto receipt = std::make_shared<SlotSet>();
  for (Slot slot : slots) receipt->Insert(slot);
  if (!slots.empty()) part.receipt = receipt;
  return part;
}

TEST(ExchangeProgressTest, EveryLaneMustSpeakAlsoOneWithoutPieces) {
  for (uint32_t lanes : {1U, 2U, kLanesMax}) {
    ExchangeProgress progress;
    progress.Begin(lanes);
    for (uint32_t lane = 0; lane < lanes; ++lane) {
      EXPECT_FALSE(progress.IsComplete(4)) << lane;
      progress.Add(PartWith(lane, lane == 0 ? 4 : 0, {}));
    }
    EXPECT_TRUE(progress.IsComplete(4));
  }
}

// A lane reports again when it has taken over pieces.
TEST(ExchangeProgressTest, AllPiecesMustBeAccountedFor) {
  ExchangeProgress progress;
  progress.Begin(2);
  progress.Add(PartWith(0, 1, {0}));
  progress.Add(PartWith(1, 2, {0}));
  EXPECT_FALSE(progress.IsComplete(4));
  progress.Add(PartWith(1, 1, {0}));
  EXPECT_TRUE(progress.IsComplete(4));
  progress.Begin(2);
  EXPECT_FALSE(progress.IsComplete(0)) << "another attempt";
}

// The error is the same on every rank, in whatever order the lanes report.
RC_GTEST_PROP(ExchangeProgressTest, TheFirstPiecesErrorCounts, ()) {
  auto pieces = *rc::gen::unique<std::vector<uint32_t>>(rc::gen::inRange(0U, 1000U));
  RC_PRE(!pieces.empty() && pieces.size() < kLanesMax);
  ExchangeProgress progress;
  progress.Begin(static_cast<uint32_t>(pieces.size()) + 1);
  progress.Add(PartWith(static_cast<uint32_t>(pieces.size()), 1, {0}));
  for (uint32_t lane = 0; lane < pieces.size(); ++lane) {
    to_front::PartDone part = PartWith(lane, 1, {});
    part.failed_piece = pieces[lane];
    part.status = Status(StatusCode::kPeerLost, std::to_string(pieces[lane]));
    progress.Add(part);
  }
  uint32_t first = *std::min_element(pieces.begin(), pieces.end());
  RC_ASSERT(progress.status().message() == std::to_string(first));
}

TEST(ExchangeProgressTest, WhoIsInAllPiecesAndWhetherSomeHaveMore) {
  ExchangeProgress progress;
  progress.Begin(3);
  progress.Add(PartWith(0, 1, {0, 1}));
  progress.Add(PartWith(1, 0, {}));
  EXPECT_FALSE(progress.mixed());
  progress.Add(PartWith(2, 1, {1, 2}));
  EXPECT_TRUE(progress.mixed());
  EXPECT_EQ(progress.receipt()->List(), (std::vector<Slot>{1}));
  progress.Begin(1);
  to_front::PartDone mixed = PartWith(0, 2, {0});
  mixed.mixed = true;
  progress.Add(mixed);
  EXPECT_TRUE(progress.mixed()) << "within one lane";
}

}  // namespace
}  // namespace byteps::protocol
