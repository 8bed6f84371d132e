// Log lines of one process: "[2026-01-31 12:00:00.123456: W worker 1] text".
//
// A Log is passed to whoever may log; there is no global one. Thread-safe. Whoever logs never waits
// for whoever reads the output: lines are written on another thread (log_writer.h). Levels as in
// the environment contract: trace, debug, info, warning, error, fatal.
#pragma once

#include <fmt/core.h>
#include <spdlog/fwd.h>  // the rest of spdlog costs every includer seconds

#include <memory>
#include <string>
#include <string_view>

#include "src/base/log_writer.h"

namespace byteps {

// How a process says that it waits for others before its job begins: by lines now and then, by one
// line that it rewrites, or not at all.
enum class WaitingStyle : unsigned char { kLines, kOneLine, kNothing };

class Log {
 public:
  // `who` names this process in every line ("server 0"). `level` is one of the six names, any
  // case; an unknown name counts as "warning". Trace to info go to stdout, the rest to stderr.
  Log(std::string_view who, std::string_view level, bool hide_time,
      WaitingStyle waiting = WaitingStyle::kLines);

  // The process learns its rank only when the job starts.
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

  // Says for whom or what this process waits, in its style; a warning otherwise.
  void Waiting(const std::string& text);
  // Nothing is waited for any more. Says so if there is a line that would stay.
  void WaitIsOver();
  // Whether to call Waiting each second, because it rewrites its line.
  bool RewritesWaiting() const { return waiting_ == WaitingStyle::kOneLine; }

 private:
  enum class Level { kDebug, kInfo, kWarning, kError };

  // Formats only what the level lets through.
  void Write(Level level, fmt::string_view format, fmt::format_args args);

  const std::shared_ptr<LogWriter> writer_;  // shared with spdlog's sink
  bool hide_time_;
  const WaitingStyle waiting_;
  std::shared_ptr<spdlog::logger> logger_;  // spdlog's own handle type
};

}  // namespace byteps
