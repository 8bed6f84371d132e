// Writes lines to two descriptors on a thread of its own, so that a thread that logs never waits
// for the reader of the output. If nobody reads, the writer drops lines beyond a limit and counts
// them.
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

  // The most bytes that may wait for the reader.
  static constexpr size_t kQueuedBytesMax = size_t{1} << 20;
  // The longest time that the destructor waits for queued lines.
  static constexpr Duration kLastWordsLimit = seconds(1);

  // The caller keeps the descriptors and leaves them open.
  LogWriter(int out, int err);
  // Flushes. If that takes longer than kLastWordsLimit, leaves the thread behind in its write; the
  // thread then touches nothing but the descriptors.
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // Never blocks. Lines of one stream keep their order.
  void Write(Stream stream, std::string line);

  // Blocks until all lines that were queued before are written. Returns false if that takes longer
  // than `limit`.
  bool Flush(Duration limit);

 private:
  struct State;

  const std::shared_ptr<State> state_;  // shared with the thread, which may be left behind
};

}  // namespace byteps
