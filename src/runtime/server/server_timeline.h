// A server's part of a timeline: a file of its own beside the files of the ranks. It has a row for
// each piece that the shards of the server own. The row shows how long a round waited for
// contributions, whose contribution came last, and how long the sum took. `bps timeline` gives the
// rows the names of the tensors.
//
// A thread of its own writes, so that nobody waits for the disk. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>

#include "src/base/log.h"
#include "src/base/status.h"
#include "src/base/thread_annotations.h"
#include "src/base/time.h"
#include "src/runtime/seeing/timeline_log.h"

namespace byteps::runtime {

class ServerTimeline {
 public:
  static constexpr Duration kWriteEvery = milliseconds(100);

  // `path`: the file of rank 0; this file lies beside it. Switches `entries` on. REQUIRES:
  // `entries` and `log` outlive this object. If the file cannot be written, the log says it once,
  // and the server goes on without a timeline.
  ServerTimeline(std::string path, TimelineLog& entries, Log& log);
  // Writes the entries that are left.
  ~ServerTimeline();
  ServerTimeline(const ServerTimeline&) = delete;
  ServerTimeline& operator=(const ServerTimeline&) = delete;

  // Begins to write. The thread has the caller's signal mask.
  void Start();
  TimelineLog& entries() { return entries_; }

  // Returns "a/timeline.server3.json" for "a/timeline.json" and server 3.
  static std::string FileOf(const std::string& path, uint32_t server);

  // Says that this process is server number `server`. If the number has changed, another file
  // begins. Files are valid JSON after every write.
  void SetServer(uint32_t server);

 private:
  void Run();
  void Open(uint32_t server);
  void Close();
  void Write();
  std::string TextOf(const TimelineLog::Taken& taken) const;
  void Append(const std::string& text);
  void GiveUp(const std::string& why);

  const std::string path_;
  TimelineLog& entries_;
  Log& log_;
  // The moment from which the file counts times, on both clocks.
  const Time begun_;
  const int64_t epoch_us_;

  // Owned by the thread.
  int file_ = -1;
  std::string name_;
  bool is_empty_ = true;

  Mutex mutex_;
  std::condition_variable changed_;
  std::optional<uint32_t> server_ BYTEPS_GUARDED_BY(mutex_);
  bool stop_ BYTEPS_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace byteps::runtime
