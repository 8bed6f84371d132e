// The contents of a status port, by path. Asks a loop for the state at most once within a moment,
// however many guests ask, so that nobody keeps the loop busy.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "src/base/time.h"
#include "src/runtime/seeing/status_page.h"
#include "src/runtime/seeing/status_port.h"
#include "src/transport/transport.h"

namespace byteps::runtime {

// Must be used on one thread, which is not the loop's. REQUIRES: the loop outlives this object.
class StatusPages {
 public:
  // The maximum age of the state that a page shows.
  static constexpr Duration kFresh = milliseconds(50);
  // The time that the loop may take to answer.
  static constexpr Duration kLoopLimit = milliseconds(500);

  // Calls `look` on the loop's thread.
  StatusPages(transport::Loop& loop, std::function<StatusPage()> look);

  StatusPort::Content operator()(const std::string& path);

 private:
  bool Refresh();

  transport::Loop* loop_;
  std::function<StatusPage()> look_;
  StatusPage page_;
  Time taken_{};
};

// Returns the time by the clock on the wall.
int64_t MillisecondsSinceEpoch();

}  // namespace byteps::runtime
