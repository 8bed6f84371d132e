// The communicators of the stand-in, and what tests have set.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <cuda.h>

#include "src/device/nccl/library_api.h"
#include "tests/nccl_standin/collective.h"
#include "tests/nccl_standin/standin.h"

namespace byteps::standin {

// A collective that waits to get into its stream.
struct Waiting {
  CollectiveCall call;
  CUdeviceptr from = 0;
  CUdeviceptr to = 0;
};

// Work of a communicator that streams have and have not ended.
struct UnderWay {
  std::mutex mutex;
  std::condition_variable changed;
  int running = 0;
};

}  // namespace byteps::standin

struct ncclComm {
  enum class Phase { kMeeting, kReady, kEnding, kEnded };
  byteps::standin::GroupName name{};
  // Shared with the work in streams.
  std::shared_ptr<byteps::standin::GroupRank> rank;
  std::shared_ptr<byteps::standin::UnderWay> under_way =
      std::make_shared<byteps::standin::UnderWay>();
  Phase phase = Phase::kMeeting;
  bool was_asked = false;  // since the last call: the first answer is "in progress"
  int error = 0;
  std::string error_text;
  int device = 0;
  CUstream stream = nullptr;  // the only one
  std::vector<byteps::standin::Waiting> waiting;
  std::atomic<const char*> call = nullptr;  // under way; null: none
};

namespace byteps::standin {

struct NcclWorld {
  std::mutex mutex;
  std::condition_variable changed;
  std::set<ncclComm*> all;
  // The files of unique ids of this process, by nonce, until all ranks have them.
  std::map<uint64_t, int> ids;
  std::map<std::string, std::pair<int, int>> failures;  // calls until it, code; by function
  std::set<std::string> held;
  std::map<std::string, int> standing;  // threads in held calls
  int version = 22803;
  bool shares_gpus = false;
  int broken = 0;
  uint64_t begun = 0;
  uint64_t collectives = 0;
  uint64_t bytes = 0;
};

NcclWorld& TheNcclWorld();

// Ends the process, because the caller has broken a rule.
[[noreturn]] void Forbid(const std::string& what);

// A call of a function, of a communicator if there is one. Waits while a test holds the function.
class NcclCall {
 public:
  NcclCall(const char* function, ncclComm* comm);
  ~NcclCall();
  NcclCall(const NcclCall&) = delete;
  NcclCall& operator=(const NcclCall&) = delete;
  // Returns the error that the call must return, if any.
  int error() const { return error_; }
  // Notes that the call ends the communicator.
  void Forget() { comm_ = nullptr; }

 private:
  ncclComm* comm_;
  int error_ = 0;
};

// Return NCCL's code. REQUIRES: a call of the communicator is under way.
int Fail(ncclComm& comm, int code, const std::string& text);
// Looks how meeting, collectives or the end have gone on.
int Progress(ncclComm& comm);
// Ends the communicator.
void AwaitAborts(ncclComm& comm);
void Remove(ncclComm* comm);

}  // namespace byteps::standin
