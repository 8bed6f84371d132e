// Log lines of one process: "[2026-01-31 12:00:00.123456: W worker 1] text".
//
// A Log is passed to whoever may log; there is no global one. Thread-safe. Whoever logs never waits
// for whoever reads the output: lines are written on another thread (log_writer.h). Levels as in
// the environment contract: trace, debug, info, warning, error, fatal.
#pragma once

#include <fmt/core.h>
#include <spdlog/fwd.h>  // the rest of spdlog costs every includer seconds

#include <memory>
#include <string_view>

#include "src/base/log_writer.h"

namespace byteps {

class Log {
 public:
  // `who` names this process in every line ("server 0"). `level` is one of the six names, any
  // case; an unknown name counts as "warning". Trace to info go to stdout, the rest to stderr.
  Log(std::string_view who, std::string_view level, bool hide_time);

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

 private:
  enum class Level { kDebug, kInfo, kWarning, kError };

  // Formats only what the level lets through.
  void Write(Level level, fmt::string_view format, fmt::format_args args);

  const std::shared_ptr<LogWriter> writer_;  // shared with spdlog's sink
  bool hide_time_;
  std::shared_ptr<spdlog::logger> logger_;  // spdlog's own handle type
};

}  // namespace byteps
