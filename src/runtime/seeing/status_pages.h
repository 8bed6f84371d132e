// What a status port shows at which path. The state is asked of a loop, for all who ask within a
// moment once, so that nobody keeps the loop busy.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "src/base/time.h"
#include "src/runtime/seeing/status_page.h"
#include "src/runtime/seeing/status_port.h"
#include "src/transport/transport.h"

namespace byteps::runtime {

// To be called on one thread, which is not the loop's; the loop outlives it.
class StatusPages {
 public:
  // The state is as old at most.
  static constexpr Duration kFresh = milliseconds(50);
  // How long the loop may take to answer.
  static constexpr Duration kLoopLimit = milliseconds(500);

  // `look` is called on the loop's thread.
  StatusPages(transport::Loop& loop, std::function<StatusPage()> look);

  StatusPort::Content operator()(const std::string& path);

 private:
  bool Refresh();

  transport::Loop* loop_;
  std::function<StatusPage()> look_;
  StatusPage page_;
  Time taken_{};
};

// By the clock on the wall.
int64_t MillisecondsSinceEpoch();

}  // namespace byteps::runtime
