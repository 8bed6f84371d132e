#include "src/runtime/server/server_timeline.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace byteps::runtime {
namespace {

using Moment = protocol::RoundMoment;

int64_t MicrosecondsBetween(Time from, Time to) {
  return std::chrono::duration_cast<microseconds>(to - from).count();
}

int64_t SinceEpoch() {
  auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<microseconds>(now).count();
}

Time At(const TimelineEntry& entry, Moment moment) { return entry.at[static_cast<size_t>(moment)]; }

}  // namespace

ServerTimeline::ServerTimeline(std::string path, TimelineLog& entries, Log& log)
    : path_(std::move(path)),
      entries_(entries),
      log_(log),
      begun_(entries.Now()),
      epoch_us_(SinceEpoch()) {
  entries_.SetOn(true);
}

void ServerTimeline::Start() {
  thread_ = std::thread([this] { Run(); });
}

ServerTimeline::~ServerTimeline() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void ServerTimeline::SetServer(uint32_t server) {
  MutexLock lock(mutex_);
  server_ = server;
}

void ServerTimeline::Run() {
  std::optional<uint32_t> open;
  for (bool stop = false; !stop;) {
    std::optional<uint32_t> server;
    {
      MutexLock lock(mutex_);
      if (!stop_) lock.WaitUntil(changed_, std::chrono::steady_clock::now() + kWriteEvery);
      stop = stop_;
      server = server_;
    }
    if (server != open) Open(*server);
    open = server;
    Write();
  }
  Close();
}

std::string ServerTimeline::FileOf(const std::string& path, uint32_t server) {
  size_t name = path.rfind('/');
  name = name == std::string::npos ? 0 : name + 1;
  size_t dot = path.rfind('.');
  if (dot == std::string::npos || dot <= name) dot = path.size();
  return path.substr(0, dot) + ".server" + std::to_string(server) + path.substr(dot);
}

void ServerTimeline::Close() {
  if (file_ >= 0) ::close(std::exchange(file_, -1));
}

void ServerTimeline::Open(uint32_t server) {
  Close();
  name_ = FileOf(path_, server);
  file_ = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file_ < 0) return GiveUp(std::strerror(errno));
  is_empty_ = true;
  Append(fmt::format(R"({{"name":"process_name","ph":"M","pid":0,"args":{{)"
                     R"("start_time_since_epoch_in_micros":{},"server":{}}}}})",
                     epoch_us_, server));
}

// Gives up the timeline only: a full disk is no reason for a server to end.
void ServerTimeline::GiveUp(const std::string& why) {
  entries_.SetOn(false);
  Close();
  log_.Warning(
      "this server records no timeline: {} cannot be written ({}). Let BYTEPS_TIMELINE name a file "
      "in a folder of this machine that has room",
      name_, why);
}

// Appends `text`, and writes the closing bracket again behind it.
void ServerTimeline::Append(const std::string& text) {
  const std::string whole = (is_empty_ ? "[\n" : ",\n") + text + "\n]";
  if (!is_empty_) ::lseek(file_, -2, SEEK_END);
  is_empty_ = false;
  const ssize_t written = ::write(file_, whole.data(), whole.size());
  if (written < 0) return GiveUp(std::strerror(errno));
  if (static_cast<size_t>(written) != whole.size()) GiveUp("the disk is full");
}

void ServerTimeline::Write() {
  for (TimelineLog::Taken taken = entries_.Take(); !taken.entries.empty() || taken.lost > 0;
       taken = entries_.Take()) {
    if (file_ >= 0) Append(TextOf(taken));
  }
}

std::string ServerTimeline::TextOf(const TimelineLog::Taken& taken) const {
  std::string text;
  auto add = [&](const TimelineEntry& entry, const char* name, Moment from, Moment to,
                 const std::string& more) {
    text +=
        fmt::format(R"({}{{"name":"{}","cat":"PIECE","ph":"X","pid":{},"tid":{},"ts":{},"dur":{},)"
                    R"("args":{{"tensor":{},"piece":{},"round":{}{}}}}})",
                    text.empty() ? "" : ",\n", name, entry.ref.tensor + 1, entry.ref.piece,
                    MicrosecondsBetween(begun_, At(entry, from)),
                    MicrosecondsBetween(At(entry, from), At(entry, to)), entry.ref.tensor,
                    entry.ref.piece, entry.ref.round, more);
  };
  for (const TimelineEntry& entry : taken.entries) {
    add(entry, "WAIT", Moment::kBegun, Moment::kComplete,
        fmt::format(R"(,"last":{},"bytes":{})", entry.who, entry.bytes));
    add(entry, "SUM", Moment::kComplete, Moment::kSummed, "");
    add(entry, "ANSWER", Moment::kSummed, Moment::kAnswered, "");
  }
  if (taken.lost > 0) {
    text += fmt::format(R"({}{{"name":"{} rounds are not in it","ph":"i","s":"g","pid":0,)"
                        R"("tid":0,"ts":{}}})",
                        text.empty() ? "" : ",\n", taken.lost,
                        MicrosecondsBetween(begun_, entries_.Now()));
  }
  return text;
}

}  // namespace byteps::runtime
