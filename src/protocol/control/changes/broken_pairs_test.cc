#include "src/protocol/control/changes/broken_pairs.h"

#include <gtest/gtest.h>

#include "src/protocol/control/parts_for_test.h"

namespace byteps::protocol {
namespace {

using Goes = BrokenPairs::Goes;

TEST(BrokenPairsTest, TheFirstServerThatAWorkerMissesGoesThenTheWorker) {
  wire::View view = JobView(1, 2, 3);
  Departures departures;
  BrokenPairs broken;
  EXPECT_EQ(broken.Add(1, 101, view, departures, false, Time{}), Goes::kServer);
  departures.Lose(101, "unreachable");
  EXPECT_EQ(broken.Add(1, 102, view, departures, false, Time{seconds(1)}), Goes::kWorker)
      << "two of three in a second: its own network";
  EXPECT_EQ(broken.Add(1, 102, view, departures, true, Time{seconds(1)}), Goes::kServer)
      << "but the job needs this worker, and another server is left";
  EXPECT_EQ(broken.Add(2, 103, view, departures, false, Time{seconds(1)}), Goes::kServer)
      << "each worker by itself";
}

TEST(BrokenPairsTest, TheLastServerStaysAndOldTroubleIsForgotten) {
  BrokenPairs one;
  EXPECT_EQ(one.Add(1, 101, JobView(1, 2, 1), {}, true, Time{}), Goes::kWorker);
  BrokenPairs broken;
  wire::View view = JobView(1, 2, 2);
  EXPECT_EQ(broken.Add(1, 101, view, {}, false, Time{}), Goes::kServer);
  EXPECT_EQ(broken.Add(1, 102, view, {}, false, Time{seconds(9)}), Goes::kServer);
  broken.Clear();
  EXPECT_EQ(broken.Add(1, 101, view, {}, false, Time{seconds(9)}), Goes::kServer);
}

}  // namespace
}  // namespace byteps::protocol
