// What a launcher tells the coordinator: which of the processes it started have ended. It writes
// lines "exited PID", of a worker "exited PID worker RANK", to a pipe whose reading end the
// coordinator inherits.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "src/base/status.h"

namespace byteps::runtime {

class ExitNotices {
 public:
  using OnExit = std::function<void(uint32_t process, std::optional<uint32_t> rank)>;

  // Reads `descriptor`, which stays the caller's, on a thread of its own, until it ends. `on_exit`
  // is called on that thread. Lines that say something else are ignored.
  // kExhausted: there is no descriptor or no thread left for it.
  static Result<std::unique_ptr<ExitNotices>> Start(int descriptor, OnExit on_exit);
  // Stops reading.
  ~ExitNotices();
  ExitNotices(const ExitNotices&) = delete;
  ExitNotices& operator=(const ExitNotices&) = delete;

 private:
  ExitNotices(int descriptor, int stop, OnExit on_exit);
  void Run();
  bool Read();
  void TakeLine(const std::string& line);

  const int descriptor_;
  const OnExit on_exit_;
  const int stop_;  // an eventfd
  std::string text_;
  std::thread thread_;
};

}  // namespace byteps::runtime
