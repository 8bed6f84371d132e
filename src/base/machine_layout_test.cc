#include "src/base/machine_layout.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace byteps {
namespace {

TEST(MachineLayoutTest, RanksFollowOneAnotherThroughTheMachines) {
  std::minstd_rand dice(7);
  for (int play = 0; play < 200; ++play) {
    std::vector<uint32_t> sizes(1 + dice() % 6);
    for (uint32_t& size : sizes) size = 1 + dice() % 4;
    const MachineLayout layout(sizes);
    ASSERT_EQ(layout.machines(), sizes.size());
    uint64_t rank = 0;
    uint32_t largest = 0;
    for (uint64_t machine = 0; machine < sizes.size(); ++machine) {
      EXPECT_EQ(layout.FirstRank(machine), rank);
      EXPECT_EQ(layout.SizeOf(machine), sizes[machine]);
      rank += sizes[machine];
      largest = std::max(largest, sizes[machine]);
    }
    EXPECT_EQ(layout.workers(), rank);
    EXPECT_EQ(layout.largest(), largest);
  }
}

TEST(MachineLayoutTest, EqualMachinesAreOneLayoutHoweverTheyWereTold) {
  const MachineLayout listed({2, 2, 2});
  EXPECT_EQ(listed, MachineLayout::Equal(3, 2));
  EXPECT_TRUE(listed.IsEqual());
  EXPECT_EQ(listed.sizes(), std::vector<uint32_t>{2});
  EXPECT_EQ(listed.workers(), 6u);
  EXPECT_NE(listed, MachineLayout::Equal(2, 2));
  EXPECT_EQ(MachineLayout({1}), MachineLayout());
  const MachineLayout unequal({2, 2, 1});
  EXPECT_FALSE(unequal.IsEqual());
  EXPECT_EQ(unequal.sizes(), (std::vector<uint32_t>{2, 2, 1}));
  EXPECT_NE(unequal, MachineLayout({2, 1, 2}));
}

TEST(MachineLayoutTest, TheLargestLayoutsFit) {
  const MachineLayout layout = MachineLayout::Equal(65536, 1024);
  EXPECT_EQ(layout.workers(), uint64_t{65536} * 1024);
  std::vector<uint32_t> sizes(65536, 1024);
  sizes.back() = 1;
  EXPECT_EQ(MachineLayout(sizes).workers(), uint64_t{65535} * 1024 + 1);
}

TEST(MachineLayoutTest, PeopleReadIt) {
  EXPECT_EQ(MachineLayout().Text(), "1 machine with 1 worker");
  EXPECT_EQ(MachineLayout::Equal(2, 4).Text(), "2 machines with 4 workers each");
  EXPECT_EQ(MachineLayout({2, 1}).Text(), "machines with 2,1 workers");
  std::vector<uint32_t> sizes(300, 1);
  sizes.front() = 2;
  EXPECT_EQ(MachineLayout(sizes).Text(),
            "machines with 2,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,... workers (300 machines)");
}

}  // namespace
}  // namespace byteps
