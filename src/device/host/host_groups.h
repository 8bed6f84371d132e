// Groups of host devices in one process, for tests: the last rank that comes to a launch does the
// work of all.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>

#include "src/base/thread_annotations.h"
#include "src/device/communicator.h"
#include "src/device/host/host_devices.h"

namespace byteps::device::host {

struct HostGroup;

class HostGroups final : public Groups {
 public:
  HostGroups();
  ~HostGroups() override;

  const std::string& name() const override { return name_; }
  Result<GroupId> NewId() override;
  Result<std::unique_ptr<Communicator>> Join(const GroupId& id, uint32_t rank,
                                             uint32_t size) override;

  // Makes the next question of any rank tell an error.
  void BreakOnce() { breaks_ = true; }
  bool TakeBreak() { return breaks_.exchange(false); }
  // Lets aborts wait until they are let go.
  HostStream& aborts_wait() { return aborts_wait_; }
  // Returns how many memberships have begun and not ended.
  int members() const { return members_; }
  void CountMember(int more) { members_ += more; }
  // Returns how many times a rank has begun a launch.
  int begun() const { return begun_; }
  void CountLaunch() { ++begun_; }

 private:
  const std::string name_ = "groups in host memory";
  std::atomic<bool> breaks_ = false;
  std::atomic<int> members_ = 0;
  std::atomic<int> begun_ = 0;
  HostStream aborts_wait_;
  Mutex mutex_;
  uint64_t made_ BYTEPS_GUARDED_BY(mutex_) = 0;
  // The members share their group.
  std::map<GroupId, std::shared_ptr<HostGroup>> groups_ BYTEPS_GUARDED_BY(mutex_);
};

}  // namespace byteps::device::host
