// The notices of a launcher to the coordinator: which of the launcher's processes have ended. The
// launcher writes lines "exited PID", or "exited PID worker RANK" for a worker, to a pipe. The
// coordinator inherits the reading end of the pipe.
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

  // Reads `descriptor` on a thread of its own until the descriptor ends. The descriptor stays the
  // caller's. Calls `on_exit` on that thread. Ignores all other lines.
  // kExhausted: there is no descriptor or no thread left for the reader.
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
