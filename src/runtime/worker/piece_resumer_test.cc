#include "src/runtime/worker/piece_resumer.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "src/runtime/fake_loop_for_test.h"

namespace byteps::runtime {
namespace {

using protocol::StageVerdict;

class PieceResumerTest : public testing::Test {
 protected:
  FakeLoop loop;
  std::vector<uint64_t> taken;
  std::optional<PieceResumer> resumer{std::in_place, loop,
                                      [this](const std::vector<PieceResumer::Ended>& all) {
                                        for (const PieceResumer::Ended& one : all)
                                          taken.push_back(one.ticket.entry);
                                      }};
  protocol::ResumePiece resume = resumer->resume();
};

TEST_F(PieceResumerTest, WhatEndsOnAnotherThreadIsTakenOnTheLoop) {
  std::thread other([this] {
    for (uint64_t entry : {1, 2}) resume({7, 0, 256, entry}, StageVerdict::kDone, {});
  });
  other.join();
  EXPECT_TRUE(taken.empty());
  EXPECT_EQ(loop.posted.size(), 1U) << "one word is enough";
  loop.RunPosted();
  EXPECT_EQ(taken, (std::vector<uint64_t>{1, 2}));
}

TEST_F(PieceResumerTest, WhenTheLaneIsGoneNothingHappens) {
  resumer.reset();
  resume({7, 0, 256, 1}, StageVerdict::kDone, {});
  EXPECT_TRUE(loop.posted.empty());
}

TEST_F(PieceResumerTest, WithoutMemoryTheLoopStops) {
  loop.has_no_memory = true;
  resume({7, 0, 256, 1}, StageVerdict::kDone, {});
  EXPECT_EQ(loop.stops, 1);
}

}  // namespace
}  // namespace byteps::runtime
