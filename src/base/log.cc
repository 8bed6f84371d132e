#include "src/base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <mutex>
#include <string>
#include <utility>

namespace byteps {
namespace {

// Lines below "warning" belong to stdout, as users of the original know them.
class SplitSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit SplitSink(std::shared_ptr<LogWriter> writer) : writer_(std::move(writer)) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    bool warns = message.level >= spdlog::level::warn;
    writer_->Write(warns ? LogWriter::Stream::kErr : LogWriter::Stream::kOut,
                   std::string(line.data(), line.size()));
  }
  void flush_() override {}

 private:
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

Log::Log(std::string_view who, std::string_view level, bool hide_time)
    : writer_(std::make_shared<LogWriter>(STDOUT_FILENO, STDERR_FILENO)),
      hide_time_(hide_time),
      logger_(std::make_shared<spdlog::logger>("byteps", std::make_shared<SplitSink>(writer_))) {
  logger_->set_level(LevelOf(level));
  logger_->set_pattern(PatternFor(who, hide_time));
}

void Log::Rename(std::string_view who) { logger_->set_pattern(PatternFor(who, hide_time_)); }

void Log::Write(Level level, fmt::string_view format, fmt::format_args args) {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                   spdlog::level::warn, spdlog::level::err};
  const auto spdlog_level = kLevels[static_cast<size_t>(level)];
  if (logger_->should_log(spdlog_level)) logger_->log(spdlog_level, fmt::vformat(format, args));
}

}  // namespace byteps
