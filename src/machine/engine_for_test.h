// Helpers of tests of one rank's threads, beside a carrier that the test plays.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "src/base/count_for_test.h"
#include "src/local/local_for_test.h"
#include "src/local/meeting.h"
#include "src/machine/room/device_group.h"

namespace byteps::machine {

inline constexpr uint32_t kEngineRanks = 2;
// A limit that passes in no test.
inline constexpr Duration kForEver = 2 * kPatience;

// Meets on one thread for each rank, because each rank waits for the other.
inline std::array<std::optional<local::Meeting>, kEngineRanks> MeetForTest(const std::string& job,
                                                                           size_t memory_bytes) {
  std::array<std::optional<local::Meeting>, kEngineRanks> met;
  std::array<std::thread, kEngineRanks> threads;
  for (uint32_t rank = 0; rank < kEngineRanks; ++rank) {
    threads[rank] = std::thread([&met, &job, memory_bytes, rank] {
      local::MeetingOptions options;
      options.job = job + " of process " + std::to_string(getpid());
      options.secret = "secret";
      options.rank = rank;
      options.size = kEngineRanks;
      options.memory_bytes = memory_bytes;
      auto one = local::Meet(options, local::In(local::kLong));
      if (one.ok()) met[rank] = std::move(one).value();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return met;
}

// A group of rank 0, whose membership does not end, and rank 1.
class StuckGroup final : public device::Groups {
 public:
  static constexpr const char* kName = "a group that does not end";
  const std::string& name() const override { return name_; }
  Result<device::GroupId> NewId() override { return device::GroupId(); }
  Result<std::unique_ptr<device::Communicator>> Join(const device::GroupId&, uint32_t,
                                                     uint32_t) override {
    return std::unique_ptr<device::Communicator>(std::make_unique<Member>(*this));
  }
  Count leaves;
  Count aborts;

 private:
  class Member final : public device::Communicator {
   public:
    explicit Member(StuckGroup& group) : group_(group) {}
    Result<bool> Ask() override { return !leaves_; }
    Status Begin(const device::Launch&, device::CopyStream&) override { return Status::Ok(); }
    Status Leave() override {
      leaves_ = true;
      group_.leaves.Add();
      return Status::Ok();
    }
    void Abort() override { group_.aborts.Add(); }

   private:
    StuckGroup& group_;
    bool leaves_ = false;
  };
  const std::string name_ = kName;
};

inline GroupTools ToolsOf(std::shared_ptr<StuckGroup> group) {
  GroupTools tools;
  tools.find = [group = std::move(group)] { return std::shared_ptr<device::Groups>(group); };
  return tools;
}

}  // namespace byteps::machine
