#include "src/machine/room/device_group.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "src/base/count_for_test.h"
#include "src/device/device_lines.h"
#include "src/device/host/host_groups.h"
#include "src/machine/machine_for_test.h"
#include "src/machine/room/word_loop.h"

namespace byteps::machine {
namespace {

using device::host::HostDevice;
using device::host::HostGroups;
using Kind = device::Launch::Kind;

constexpr size_t kUnitOfTest = 4 * sizeof(float);

// Two ranks of one machine, in threads of their groups only.
class DeviceGroupTest : public testing::Test {
 protected:
  struct Rank {
    Rank(uint32_t number, local::Window& window, const GroupTools& tools)
        : device(static_cast<int>(number)),
          memory(reinterpret_cast<float*>(device.NewMemory(kUnitOfTest))),
          lines({std::shared_ptr<device::Device>(), &device}, static_cast<int>(number),
                size_t{1} << 30, [](const std::string&) {}),
          group(std::make_unique<DeviceGroup>(window, tools, kUnitOfTest,
                                              [](const std::string&) {})) {}
    HostDevice device;
    float* const memory;
    device::DeviceLines lines;
    std::unique_ptr<DeviceGroup> group;
  };

  DeviceGroupTest() {
    tools_.find = [this]() -> Result<std::shared_ptr<device::Groups>> {
      if (!why_none_.ok()) return why_none_;
      return std::shared_ptr<device::Groups>(groups_);
    };
    tools_.plan = [](const std::vector<HasDevice>& devices) {
      EXPECT_EQ(devices.size(), 2u);
      return PlannedSums{{{{0, 1}, {0.5, 0.5}}}, {}, "", "by groups"};
    };
    for (uint32_t rank : {0u, 1u}) {
      ranks_.push_back(std::make_unique<Rank>(rank, window_.of(rank), tools_));
    }
  }
  static local::WindowShape Shape() { return {.ranks = 2, .blocks = 3, .block_bytes = 1024}; }
  DeviceGroup& group(uint32_t rank) { return *ranks_[rank]->group; }
  protocol::DeviceMemory Memory(uint32_t rank) { return {&ranks_[rank]->lines, 7}; }

  // Waits for a value as the thread of the window does.
  template <typename Take>
  auto Await(uint32_t rank, Take take) {
    local::Window& window = window_.of(rank);
    const Time deadline = std::chrono::steady_clock::now() + kPatience;
    for (;;) {
      const uint32_t events = window.Events();
      auto value = take(group(rank));
      if (value.has_value() || std::chrono::steady_clock::now() >= deadline) return value;
      window.Sleep(events, deadline);
    }
  }
  PlannedSums Planned() {
    group(0).Plan({{"gpu 0"}, {"gpu 1"}}, loop_, [](const std::string&) {});
    const auto plan = Await(0, [](DeviceGroup& one) { return one.TakePlan(); });
    EXPECT_TRUE(plan.has_value());
    return plan.value_or(PlannedSums());
  }
  void BeginToMeet(const std::string& library = "") {
    const PlannedSums plan = Planned();
    ASSERT_EQ(plan.ids.size(), 1u) << plan.text;
    for (uint32_t rank : {0u, 1u}) {
      std::optional<HasDevice> first;
      EXPECT_TRUE(group(rank).Takes(Memory(rank), first));
      EXPECT_TRUE(first.has_value());
      const std::string id(reinterpret_cast<const char*>(plan.ids[0].data()), plan.ids[0].size());
      group(rank).Meet({library.empty() || rank == 0 ? plan.library : library, id, rank, 0b11});
    }
  }
  Status MetOf(uint32_t rank) {
    const auto met = Await(rank, [](DeviceGroup& one) { return one.TakeMet(); });
    EXPECT_TRUE(met.has_value());
    return met.has_value() ? met->how : Status(StatusCode::kDeadlineExceeded, "");
  }
  void Meet() {
    BeginToMeet();
    for (uint32_t rank : {0u, 1u}) EXPECT_TRUE(MetOf(rank).ok());
  }
  static device::Launch Reduce(float* memory) {
    auto* const bytes = reinterpret_cast<std::byte*>(memory);
    return {Kind::kReduce,      bytes,        bytes, {{0, 0, 8}, {1, 8, 8}}, 0,
            DataType::kFloat32, Combine::kSum};
  }
  Status EndOf(uint32_t rank) {
    const auto how = Await(rank, [](DeviceGroup& one) { return one.TakeEnd(); });
    return how.value_or(Status(StatusCode::kDeadlineExceeded, "the launch has no end"));
  }

  Status why_none_;
  const std::shared_ptr<HostGroups> groups_ = std::make_shared<HostGroups>();
  GroupTools tools_;
  WindowForTest window_{Shape()};
  WordLoop loop_{window_.of(0), {[] { return false; }, nullptr}};
  std::vector<std::unique_ptr<Rank>> ranks_;
};

TEST_F(DeviceGroupTest, HomesGetTheSumsOfTheirRuns) {
  Meet();
  for (uint32_t rank : {0u, 1u}) {
    float* const memory = ranks_[rank]->memory;
    for (int i = 0; i < 4; ++i)
      memory[i] = static_cast<float>(10 * rank + 1) + static_cast<float>(i);
    const protocol::DeviceMemory owner = Memory(rank);
    group(rank).Launch(Reduce(memory), &owner);
  }
  for (uint32_t rank : {0u, 1u}) EXPECT_TRUE(EndOf(rank).ok());
  EXPECT_EQ(ranks_[0]->memory[1], 2 + 12);
  EXPECT_EQ(ranks_[1]->memory[3], 4 + 14);
  for (uint32_t rank : {0u, 1u}) group(rank).End(Status::Ok());
}

// The other rank of the launch does not wait, whatever it gets.
TEST_F(DeviceGroupTest, ARankWithoutMemoryTakesAScratchUnit) {
  Meet();
  const protocol::DeviceMemory owner = Memory(0);
  group(0).Launch(Reduce(ranks_[0]->memory), &owner);
  group(1).Launch(Reduce(nullptr), nullptr);
  for (uint32_t rank : {0u, 1u}) EXPECT_TRUE(EndOf(rank).ok());
  for (uint32_t rank : {0u, 1u}) group(rank).End(Status::Ok());
}

TEST_F(DeviceGroupTest, RanksWithOtherLibrariesDoNotMeet) {
  BeginToMeet("NCCL 2.19.3");
  const Status how = MetOf(1);
  EXPECT_EQ(how.code(), StatusCode::kUnavailable);
  EXPECT_NE(how.message().find("NCCL 2.19.3"), std::string::npos) << how.message();
  group(0).End(how);
  EXPECT_FALSE(MetOf(0).ok());
}

TEST_F(DeviceGroupTest, WithoutALibraryThereIsNoPlan) {
  why_none_ = {StatusCode::kUnavailable, "NCCL cannot be loaded"};
  const PlannedSums plan = Planned();
  EXPECT_TRUE(plan.groups.empty());
  EXPECT_NE(plan.text.find("NCCL cannot be loaded"), std::string::npos) << plan.text;
}

TEST_F(DeviceGroupTest, TheLimitOfGroupsIsToldInWords) {
  tools_.ready = Duration();
  DeviceGroup group(window_.of(0), tools_, kUnitOfTest, [](const std::string&) {});
  std::string told;
  group.Plan({{"gpu 0"}, {"gpu 1"}}, loop_, [&](const std::string& limit) {
    told = limit;
    loop_.Stop();
  });
  loop_.Run();
  EXPECT_EQ(told, "0 s");
}

TEST_F(DeviceGroupTest, ADeviceIsTheFirstOneOnly) {
  std::optional<HasDevice> first;
  EXPECT_TRUE(group(0).Takes(Memory(0), first));
  EXPECT_TRUE(first.has_value());
  first.reset();
  EXPECT_TRUE(group(0).Takes(Memory(0), first));
  EXPECT_FALSE(group(0).Takes(Memory(1), first));
  EXPECT_FALSE(first.has_value());
}

// The memory of a launch is borrowed until its end, also behind the end of the engine.
TEST_F(DeviceGroupTest, AnAbortEndsLaunchesAndGivesTheirMemoryBack) {
  Meet();
  const protocol::DeviceMemory owner = Memory(0);
  group(0).Launch(Reduce(ranks_[0]->memory), &owner);
  Count over;
  ranks_[0]->lines.launches.WhenOver(owner.owner, [&over] { over.Add(); });
  EXPECT_EQ(over.now(), 0);
  for (uint32_t rank : {0u, 1u}) {
    group(rank).End({StatusCode::kPeerLost, "worker 5 was lost"});
    ranks_[rank]->group.reset();
  }
  EXPECT_TRUE(over.Reaches(1));
}

TEST_F(DeviceGroupTest, AGroupThatBreaksTellsItsRank) {
  Meet();
  const protocol::DeviceMemory owner = Memory(0);
  groups_->BreakOnce();
  group(0).Launch(Reduce(ranks_[0]->memory), &owner);
  const auto broken = Await(0, [](DeviceGroup& one) { return one.TakeBroken(); });
  ASSERT_TRUE(broken.has_value());
  EXPECT_FALSE(broken->why.ok());
  group(1).End(broken->why);
  EXPECT_FALSE(EndOf(0).ok());
}

TEST_F(DeviceGroupTest, AGroupLeavesUntilAllRanksHaveLeft) {
  Meet();
  EXPECT_FALSE(group(0).IsLeaving());
  group(0).End(Status::Ok());
  EXPECT_TRUE(group(0).IsLeaving());
  group(1).End(Status::Ok());
  const auto has_left = [](DeviceGroup& one) {
    return one.IsLeaving() ? std::nullopt : std::optional<bool>(true);
  };
  EXPECT_TRUE(Await(0, has_left).has_value()) << "the end is an event";
}

TEST_F(DeviceGroupTest, AGroupThatIsAbortedLeavesNoMore) {
  Meet();
  group(0).End(Status::Ok());
  EXPECT_TRUE(group(0).IsLeaving());
  for (uint32_t rank : {0u, 1u}) group(rank).End({StatusCode::kPeerLost, "worker 5 was lost"});
  EXPECT_FALSE(group(0).IsLeaving());
}

}  // namespace
}  // namespace byteps::machine
