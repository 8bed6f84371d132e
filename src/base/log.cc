#include "src/base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <mutex>
#include <string>
#include <utility>

namespace byteps {
namespace {

constexpr const char* kClearLine = "\r\x1b[K";
constexpr size_t kColumnsDefault = 80;

// Writes lines below "warning" to stdout, where users of the original expect them.
class SplitSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit SplitSink(std::shared_ptr<LogWriter> writer)
      : is_terminal_(isatty(STDERR_FILENO) == 1), writer_(std::move(writer)) {}

  // Writes a line that the next one replaces. `bps run` does that for processes behind pipes.
  void Rewrite(const std::string& text) {
    std::lock_guard<std::mutex> lock(mutex_);
    is_open_ = true;
    writer_->Write(LogWriter::Stream::kErr,
                   is_terminal_ ? kClearLine + text.substr(0, Columns() - 1) : "\r" + text + "\r");
  }

  bool IsOpen() {
    std::lock_guard<std::mutex> lock(mutex_);
    return is_open_;
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    bool warns = message.level >= spdlog::level::warn;
    std::string before = is_open_ && is_terminal_ ? kClearLine : "";
    is_open_ = false;
    writer_->Write(warns ? LogWriter::Stream::kErr : LogWriter::Stream::kOut,
                   before + std::string(line.data(), line.size()));
  }
  void flush_() override {}

 private:
  static size_t Columns() {
    winsize size{};
    bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
    return known ? size.ws_col : kColumnsDefault;
  }

  const bool is_terminal_;
  bool is_open_ = false;  // the last line of the terminal has no end; under the sink's mutex_
  const std::shared_ptr<LogWriter> writer_;
};

spdlog::level::level_enum LevelOf(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (lower == "trace") return spdlog::level::trace;
  if (lower == "debug") return spdlog::level::debug;
  if (lower == "info") return spdlog::level::info;
  if (lower == "error") return spdlog::level::err;
  if (lower == "fatal") return spdlog::level::critical;
  return spdlog::level::warn;
}

std::string PatternFor(std::string_view who, bool hide_time) {
  std::string name;
  for (char c : who) {
    name += c;
    if (c == '%') name += c;
  }
  return (hide_time ? "[%L " : "[%Y-%m-%d %H:%M:%S.%f: %L ") + name + "] %v";
}

}  // namespace

Log::Log(std::string_view who, std::string_view level, bool hide_time, WaitingStyle waiting)
    : writer_(std::make_shared<LogWriter>(STDOUT_FILENO, STDERR_FILENO)),
      hide_time_(hide_time),
      waiting_(waiting),
      logger_(std::make_shared<spdlog::logger>("byteps", std::make_shared<SplitSink>(writer_))) {
  logger_->set_level(LevelOf(level));
  logger_->set_pattern(PatternFor(who, hide_time));
}

void Log::Rename(std::string_view who) { logger_->set_pattern(PatternFor(who, hide_time_)); }

void Log::Waiting(const std::string& text) {
  if (waiting_ == WaitingStyle::kLines) return Warning("waiting: {}", text);
  if (waiting_ == WaitingStyle::kNothing || !logger_->should_log(spdlog::level::warn)) return;
  static_cast<SplitSink&>(*logger_->sinks().front()).Rewrite("waiting: " + text);
}

void Log::WaitIsOver() {
  if (static_cast<SplitSink&>(*logger_->sinks().front()).IsOpen()) {
    Warning("all processes are here; the job begins");
  }
}

void Log::Write(Level level, fmt::string_view format, fmt::format_args args) {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                   spdlog::level::warn, spdlog::level::err};
  const auto spdlog_level = kLevels[static_cast<size_t>(level)];
  if (logger_->should_log(spdlog_level)) logger_->log(spdlog_level, fmt::vformat(format, args));
}

}  // namespace byteps
