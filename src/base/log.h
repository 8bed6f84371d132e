// Log lines of one process: "[2026-01-31 12:00:00.123456: W worker 1] text".
//
// Each object that logs gets its Log from its owner; there is no global one. Thread-safe. A thread
// that logs never waits for the reader of the output: another thread writes the lines
// (log_writer.h). The levels are those of the environment contract: trace, debug, info, warning,
// error, fatal.
#pragma once

#include <fmt/core.h>
#include <spdlog/fwd.h>  // the rest of spdlog costs every includer seconds

#include <memory>
#include <string>
#include <string_view>

#include "src/base/log_writer.h"

namespace byteps {

// A process tells that it waits for others before its job begins by lines now and then, by one line
// that it rewrites, or not at all.
enum class WaitingStyle : unsigned char { kLines, kOneLine, kNothing };

class Log {
 public:
  // `who` names this process in every line ("server 0"). `level` is one of the six names, any
  // case; an unknown name counts as "warning". Trace to info go to stdout, the rest to stderr.
  Log(std::string_view who, std::string_view level, bool hide_time,
      WaitingStyle waiting = WaitingStyle::kLines);

  // Changes `who`, because the process learns its rank only when the job starts.
  void Rename(std::string_view who);

  template <typename... Args>
  void Debug(fmt::format_string<Args...> format, Args&&... args) {
    Write(Level::kDebug, format, fmt::make_format_args(args...));
  }
  template <typename... Args>
  void Info(fmt::format_string<Args...> format, Args&&... args) {
    Write(Level::kInfo, format, fmt::make_format_args(args...));
  }
  template <typename... Args>
  void Warning(fmt::format_string<Args...> format, Args&&... args) {
    Write(Level::kWarning, format, fmt::make_format_args(args...));
  }
  template <typename... Args>
  void Error(fmt::format_string<Args...> format, Args&&... args) {
    Write(Level::kError, format, fmt::make_format_args(args...));
  }

  // Writes in the style of this log what the process waits for. In the style kLines this is a
  // warning.
  void Waiting(const std::string& text);
  // Ends the wait. If there is a line that is rewritten, writes a last one.
  void WaitIsOver();
  // Returns whether the caller should call Waiting each second, because Waiting rewrites its line.
  bool RewritesWaiting() const { return waiting_ == WaitingStyle::kOneLine; }

 private:
  enum class Level { kDebug, kInfo, kWarning, kError };

  // Formats only lines that the level lets through.
  void Write(Level level, fmt::string_view format, fmt::format_args args);

  const std::shared_ptr<LogWriter> writer_;  // shared with spdlog's sink
  bool hide_time_;
  const WaitingStyle waiting_;
  std::shared_ptr<spdlog::logger> logger_;  // spdlog's own handle type
};

}  // namespace byteps
