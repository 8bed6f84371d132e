// The state of a job as text: for people, for programs (JSON) and for Prometheus. Names of tensors
// and hosts come from the job's members; such a name cannot break a line or a quote.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "src/protocol/control/seeing/job_status.h"

namespace byteps::runtime {

// A sentence that was said to people, with the time of day: a member was lost, a process was
// refused.
struct SaidLine {
  int64_t at_ms = 0;  // since the epoch
  std::string text;
};

struct StatusPage {
  std::string job;
  std::string version;
  double up_s = 0;  // of the process that answers
  int64_t now_ms = 0;
  protocol::JobStatus status;
  std::deque<SaidLine> said;  // the latest last
};

std::string TextOf(const StatusPage& page);
std::string JsonOf(const StatusPage& page);
std::string MetricsOf(const StatusPage& page);
// Returns a page with live plots, in one file.
std::string_view LivePage();

}  // namespace byteps::runtime
