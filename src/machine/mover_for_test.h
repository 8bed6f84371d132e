// Copies from and to devices in tests: each begins and ends when the test says so.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "src/local/window.h"
#include "src/machine/room/mover.h"

namespace byteps::machine {

// The device memory of these tests is the process' own.
class MoverForTest final : public Mover {
 public:
  // `begins`: asked when a copy is called off, whether it has begun.
  explicit MoverForTest(local::Window& window, std::function<bool()> begins = nullptr)
      : window_(window), begins_(std::move(begins)) {}

  void Begin(uint32_t block, const protocol::DeviceMemory& device, const Copy& copy) override {
    EXPECT_FALSE(copies_.contains(block) && !copies_[block].how.has_value());
    copies_[block] = {device.owner, copy, std::nullopt, false};
  }
  std::optional<Status> EndOf(uint32_t block) override {
    Moved& moved = copies_.at(block);
    moved.is_seen = moved.how.has_value();
    return moved.how;
  }
  void CallOff(uint32_t block) override {
    Moved& moved = copies_.at(block);
    if (moved.how.has_value() || begins_ == nullptr || begins_()) return;
    End(moved, {StatusCode::kUnavailable, "called off"});
  }

  // Return the blocks whose copies have not ended, and whether the rank has still to see one end.
  std::vector<uint32_t> UnderWay() const {
    std::vector<uint32_t> blocks;
    for (const auto& [block, moved] : copies_) {
      if (!moved.how.has_value()) blocks.push_back(block);
    }
    return blocks;
  }
  bool IsBusy() const {
    return std::ranges::any_of(copies_, [](const auto& one) { return !one.second.is_seen; });
  }
  const Copy& CopyIn(uint32_t block) const { return copies_.at(block).copy; }
  uint64_t OwnerOf(uint32_t block) const { return copies_.at(block).owner; }
  // Ends the copy in this block.
  void End(uint32_t block, const Status& how = Status::Ok()) {
    Moved& moved = copies_.at(block);
    if (how.ok()) std::memcpy(moved.copy.to, moved.copy.from, moved.copy.bytes);
    End(moved, how);
  }

 private:
  struct Moved {
    uint64_t owner = 0;
    Copy copy;
    std::optional<Status> how;
    bool is_seen = false;
  };
  void End(Moved& moved, const Status& how) {
    moved.how = how;
    window_.Notify(local::Bit(window_.rank()));
  }

  local::Window& window_;
  const std::function<bool()> begins_;
  std::map<uint32_t, Moved> copies_;  // the last of each block
};

}  // namespace byteps::machine
