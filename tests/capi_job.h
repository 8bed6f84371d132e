// Whole jobs behind the C interface, in one process. The coordinator and a server, if the job has
// servers, run on threads of their own, and the test holds one session for each rank.
//
// A test that has such a job blocks SIGTERM and SIGINT in its threads, because byteps_serve
// requires it.
#pragma once

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "byteps/byteps.h"

namespace byteps::testing {

// Returns the error of a session that cannot be opened.
std::string WhyNot(const std::vector<std::string>& settings);

// Opens a session. Lets the test fail if that is refused.
byteps_session* Opened(const std::vector<std::string>& settings);

// Begins to sum `data` in place. Lets the test fail if that is refused.
byteps_handle BeginSum(byteps_session* session, std::vector<float>& data);
// Waits until an operation is complete. Lets the test fail if the operation does not end in order.
void EndWell(byteps_session* session, byteps_handle handle);

// A port of the loopback address for a process of a test. As long as this lives, the kernel gives
// the port to no connection and to no other test. The listeners of the library share it, because
// they let addresses be used again, and this socket does not listen.
class KeptPort {
 public:
  KeptPort();
  ~KeptPort();
  KeptPort(const KeptPort&) = delete;
  KeptPort& operator=(const KeptPort&) = delete;

  int number() const { return number_; }

 private:
  const int socket_;
  int number_ = 0;
};

class CApiJob {
 public:
  // The shape of a job: so many machines, each with so many ranks, which share memory if there are
  // more than one.
  struct Shape {
    int machines = 1;
    int local_size = 1;
    bool has_server = true;
    int ranks() const { return machines * local_size; }
  };

  // `more`: settings of all processes of the job.
  explicit CApiJob(int workers, std::vector<std::string> more = {})
      : CApiJob(Shape{workers}, std::move(more)) {}
  CApiJob(const Shape& shape, std::vector<std::string> more);
  // Closes the sessions that are left, and waits until the job is over.
  ~CApiJob();

  // Blocks until all ranks have joined. Returns false, and lets the test fail, if a rank does not
  // join.
  bool Open();
  // The parts of Open, for a test that opens sessions itself.
  void StartServices();
  bool OpenSessions();
  std::vector<std::string> WorkerSettings(int rank) const;

  byteps_session* session(int rank) { return sessions_[static_cast<size_t>(rank)]; }
  // Calls byteps_close on all sessions at once.
  void Close();

 private:
  std::vector<std::string> SettingsOf(const std::string& role) const;

  const Shape shape_;
  const std::vector<std::string> more_;
  const KeptPort port_;
  std::vector<byteps_session*> sessions_;
  std::vector<std::thread> services_;
};

}  // namespace byteps::testing
