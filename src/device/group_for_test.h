// A rank of a group, as its owner sees it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "src/base/count_for_test.h"
#include "src/base/thread_annotations.h"
#include "src/device/group_line.h"

namespace byteps::device {

// Keeps what one function of the owner heard. Thread-safe.
class Heard {
 public:
  GroupLine::Done AsDone() {
    return [this](const Status& status) {
      {
        MutexLock lock(mutex_);
        status_ = status;
      }
      count_.Add();
    };
  }
  // Returns whether it was called in time, and then not more often.
  bool Once(std::chrono::milliseconds limit = kPatience) {
    return count_.Reaches(1, limit) && count_.now() == 1;
  }
  int now() { return count_.now(); }
  Status status() {
    MutexLock lock(mutex_);
    return status_;
  }

 private:
  Count count_;
  Mutex mutex_;
  Status status_ BYTEPS_GUARDED_BY(mutex_);
};

struct GroupMember {
  GroupMember(std::shared_ptr<Device> device, std::shared_ptr<Groups> groups, const GroupId& id,
              uint32_t rank, uint32_t size, const GroupLine::Limits& limits = {}) {
    GroupPlace place{
        .id = id, .rank = rank, .size = size, .device = "cuda:" + std::to_string(rank)};
    auto warn = [this](const std::string& text) { warned.AsDone()({StatusCode::kInternal, text}); };
    line = std::make_unique<GroupLine>(std::move(device), std::move(groups), std::move(place),
                                       GroupLine::Owner{.met = met.AsDone(),
                                                        .broken = broken.AsDone(),
                                                        .warn = warn,
                                                        .ended = [this] { ended.Add(); }},
                                       limits);
  }

  Heard met;
  Heard broken;
  Heard warned;
  Count ended;
  std::unique_ptr<GroupLine> line;  // ends before what it tells
};

}  // namespace byteps::device
