#include "src/runtime/seeing/status_pages.h"

#include <chrono>
#include <utility>

#include "src/runtime/loop_thread.h"

namespace byteps::runtime {
namespace {

constexpr const char* kText = "text/plain; charset=utf-8";

}  // namespace

int64_t MillisecondsSinceEpoch() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<milliseconds>(since).count();
}

StatusPages::StatusPages(transport::Loop& loop, std::function<StatusPage()> look)
    : loop_(&loop), look_(std::move(look)) {}

// Returns false if the loop stands still, or its process ends.
bool StatusPages::Refresh() {
  const Time now = std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now());
  if (taken_ != Time() && now - taken_ < kFresh) return true;
  // Shared with the loop, which may fill it after this call has given up.
  auto page = std::make_shared<StatusPage>();
  Status asked = AskLoop(*loop_, kLoopLimit, [page, look = look_] {
    *page = look();
    return Status::Ok();
  });
  if (!asked.ok()) return false;
  page_ = std::move(*page);
  taken_ = now;
  return true;
}

StatusPort::Content StatusPages::operator()(const std::string& path) {
  using Answer = StatusPort::Answer;
  if (path == "/live") return {Answer::kFound, "text/html; charset=utf-8", std::string(LivePage())};
  const bool known = path == "/" || path == "/status.json" || path == "/metrics";
  if (!known) {
    return {Answer::kNotFound, kText,
            "There is nothing here. Try /, /live, /status.json or /metrics.\n"};
  }
  if (!Refresh()) {
    return {path == "/" ? Answer::kFound : Answer::kNoAnswer, kText,
            "The process does not answer: its loop stands still, or it is about to end.\n"};
  }
  if (path == "/status.json") return {Answer::kFound, "application/json", JsonOf(page_)};
  if (path == "/metrics") {
    return {Answer::kFound, "text/plain; version=0.0.4; charset=utf-8", MetricsOf(page_)};
  }
  return {Answer::kFound, kText, TextOf(page_)};
}

}  // namespace byteps::runtime
