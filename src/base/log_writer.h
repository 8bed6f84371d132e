// Writes lines to two descriptors on a thread of its own: who logs never waits for whoever reads
// the output. When nobody does, lines are dropped at a limit, and counted.
//
// Thread-safe. The thread is started with the first line, and takes no signals.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "src/base/time.h"

namespace byteps {

class LogWriter {
 public:
  enum class Stream : unsigned char { kOut, kErr };

  // What may wait for the reader.
  static constexpr size_t kQueuedBytesMax = size_t{1} << 20;
  // How long the end waits for what is queued.
  static constexpr Duration kLastWordsLimit = seconds(1);

  // The descriptors stay the caller's, and open.
  LogWriter(int out, int err);
  // Flushes. If that takes too long the thread is left behind where it writes; it touches nothing
  // but the descriptors any more.
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // Never blocks. Lines of one stream keep their order.
  void Write(Stream stream, std::string line);

  // Blocks until everything that was queued before is written; false if that takes longer.
  bool Flush(Duration limit);

 private:
  struct State;

  const std::shared_ptr<State> state_;  // shared with the thread, which may be left behind
};

}  // namespace byteps
