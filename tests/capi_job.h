// Whole jobs behind the C interface, in one process: the coordinator and a server run on threads of
// their own, and the test holds one session for each rank.
//
// SIGTERM and SIGINT are blocked in the threads of a test that has one, as byteps_serve wants it.
#pragma once

#include <string>
#include <thread>
#include <vector>

#include "byteps/byteps.h"

namespace byteps::testing {

class CApiJob {
 public:
  // `more`: settings of all its processes.
  explicit CApiJob(int workers, std::vector<std::string> more = {});
  // Closes what is left of the sessions and waits until the job is over.
  ~CApiJob();

  // Blocks until all ranks have joined: false, and a failure of the test, if one does not.
  bool Open();
  // The parts of it, for a test that opens sessions itself.
  void StartServices();
  bool OpenSessions();
  std::vector<std::string> WorkerSettings(int rank) const;

  byteps_session* session(int rank) { return sessions_[static_cast<size_t>(rank)]; }
  // byteps_close of all, at once.
  void Close();

 private:
  std::vector<std::string> SettingsOf(const std::string& role) const;

  const int workers_;
  const std::vector<std::string> more_;
  const int port_;
  std::vector<byteps_session*> sessions_;
  std::vector<std::thread> services_;
};

}  // namespace byteps::testing
