// Log lines of one process: "[2026-01-31 12:00:00.123456: W worker 1] text".
//
// A Log is passed to whoever may log; there is no global one. Thread-safe. Levels as in the
// environment contract: trace, debug, info, warning, error, fatal.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <spdlog/logger.h>

namespace byteps {

class Log {
 public:
  // `who` names this process in every line ("server 0"). `level` is one of the six names, any
  // case; an unknown name counts as "warning". Trace to info go to stdout, the rest to stderr.
  Log(std::string_view who, std::string_view level, bool hide_time);

  // The process learns its rank only when the job starts.
  void Rename(std::string_view who);

  template <typename... Args>
  void Debug(spdlog::format_string_t<Args...> format, Args&&... args) {
    logger_->debug(format, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void Info(spdlog::format_string_t<Args...> format, Args&&... args) {
    logger_->info(format, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void Warning(spdlog::format_string_t<Args...> format, Args&&... args) {
    logger_->warn(format, std::forward<Args>(args)...);
  }
  template <typename... Args>
  void Error(spdlog::format_string_t<Args...> format, Args&&... args) {
    logger_->error(format, std::forward<Args>(args)...);
  }

 private:
  bool hide_time_;
  std::shared_ptr<spdlog::logger> logger_;  // spdlog's own handle type
};

}  // namespace byteps
