#include "src/protocol/control/views/sum_order.h"

#include <gtest/gtest.h>

namespace byteps::protocol {
namespace {

// Returns a view in which ranks 0 to 2 are one contributor and ranks 3 to 5 another.
wire::View TwoOfThree() {
  wire::View view;
  for (uint32_t rank = 0; rank < 6; ++rank) {
    wire::WorkerInfo worker;
    worker.rank = rank;
    worker.slot = rank / 3;
    view.workers.push_back(worker);
  }
  return view;
}

TEST(SumOrderTest, AViewIsDescribedByItsContributorsAndItsGroup) {
  wire::View view = TwoOfThree();
  EXPECT_EQ(DescribeSums(view).bits, plan::SumBits::kOnPlacement);
  EXPECT_NE(DescribeSums(view).text.find("BYTEPS_SUM_GROUP=3"), std::string::npos);
  view.sum_group = 3;
  EXPECT_EQ(DescribeSums(view).bits, plan::SumBits::kOnMachines);
  view.same_bits = true;
  EXPECT_EQ(DescribeSums(view).bits, plan::SumBits::kOnNothingElse);
}

TEST(SumOrderTest, WhoIsGoneCountsLikeTheOthers) {
  wire::View view = TwoOfThree();
  view.gone.assign(view.workers.begin() + 3, view.workers.end());
  view.workers.resize(3);
  EXPECT_EQ(DescribeSums(view).bits, plan::SumBits::kOnPlacement);
}

TEST(SumOrderTest, OnlyAJobThatAsksForItIsRefused) {
  wire::View view = TwoOfThree();
  EXPECT_TRUE(CheckSums(view).ok());
  view.same_bits = true;
  EXPECT_EQ(CheckSums(view).code(), StatusCode::kRefused);
  EXPECT_NE(CheckSums(view).message().find("ranks 0-2 and 3-5 are no blocks"), std::string::npos);
  view.sum_group = 3;
  EXPECT_TRUE(CheckSums(view).ok());
}

}  // namespace
}  // namespace byteps::protocol
