#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "src/runtime/seeing/status_page.h"
#include "src/runtime/seeing/status_text.h"

namespace byteps::runtime {
namespace {

using protocol::MemberState;
using protocol::MemberStatus;

// The text format of Prometheus. Each sample names the job: one Prometheus may watch many.
class Metrics {
 public:
  explicit Metrics(std::string_view job) : job_(Quoted(job)) {}

  void Begin(const char* name, const char* type, const char* help) {
    name_ = name;
    text_ += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
  }
  // Adds a sample to the family that has begun. `labels`: empty, or each with a comma behind it.
  template <typename Value>
  void Add(const std::string& labels, Value value) {
    text_ += fmt::format("{}{{{}byteps_job={}}} {}\n", name_, labels, job_, value);
  }
  void One(const char* name, const char* type, const char* help, double value) {
    Begin(name, type, help);
    Add("", value);
  }
  const std::string& text() const { return text_; }

 private:
  const std::string job_;
  const char* name_ = "";
  std::string text_;
};

void AddMembers(const protocol::JobStatus& status, Metrics& metrics) {
  metrics.Begin("byteps_members", "gauge", "Members by role and state.");
  for (Role role : {Role::kWorker, Role::kServer}) {
    for (auto state : {MemberState::kWaits, MemberState::kIn, MemberState::kSilent,
                       MemberState::kAway, MemberState::kLeft}) {
      auto count = std::count_if(
          status.members.begin(), status.members.end(),
          [&](const MemberStatus& one) { return one.role == role && one.state == state; });
      metrics.Add(fmt::format("role=\"{}\",state=\"{}\",", protocol::WordFor(role), TextFor(state)),
                  count);
    }
  }
}

void AddWorkers(const protocol::JobStatus& status, Metrics& metrics) {
  auto family = [&](const char* name, const char* type, const char* help, auto value) {
    metrics.Begin(name, type, help);
    for (const MemberStatus& one : status.members) {
      if (!one.account.has_value()) continue;
      metrics.Add(fmt::format("rank=\"{}\",host={},", one.index, Quoted(one.node)), value(one));
    }
  };
  family("byteps_operations_total", "counter", "Operations that have ended.",
         [](const MemberStatus& one) { return one.account->ended; });
  family("byteps_operations_failed_total", "counter", "Operations that ended in an error.",
         [](const MemberStatus& one) { return one.account->failed; });
  family("byteps_bytes_total", "counter", "Bytes that the rank gave to operations.",
         [](const MemberStatus& one) { return one.account->bytes; });
  family("byteps_operations_open", "gauge", "Operations that are open.",
         [](const MemberStatus& one) { return one.account->open; });
  family("byteps_waited_seconds_total", "counter",
         "Time in which the rank has waited for operations.",
         [](const MemberStatus& one) { return static_cast<double>(one.account->waited_us) / 1e6; });
  family(
      "byteps_late_seconds", "gauge", "How late the rank comes, mean of latest rounds.",
      [](const MemberStatus& one) { return one.late.has_value() ? one.late->mean_ms / 1e3 : 0; });
}

void AddServers(const protocol::JobStatus& status, Metrics& metrics) {
  auto family = [&](const char* name, const char* help, auto value) {
    metrics.Begin(name, "counter", help);
    for (const MemberStatus& one : status.members) {
      if (!one.server.has_value()) continue;
      metrics.Add(fmt::format("server=\"{}\",host={},", one.index, Quoted(one.node)),
                  value(one.server->account));
    }
  };
  family("byteps_server_received_bytes_total", "Bytes of contributions that the server took in.",
         [](const wire::ServerAccount& one) { return one.received; });
  family("byteps_server_sent_bytes_total", "Bytes of sums that the server sent.",
         [](const wire::ServerAccount& one) { return one.sent; });
  family("byteps_server_cpu_seconds_total", "Processor time of the server's process.",
         [](const wire::ServerAccount& one) { return static_cast<double>(one.cpu_us) / 1e6; });
  metrics.Begin("byteps_server_connections", "gauge", "Connections for data, by how they travel.");
  for (const MemberStatus& one : status.members) {
    for (const MemberStatus::Way& way : one.ways) {
      metrics.Add(fmt::format("server=\"{}\",host={},over={},", one.index, Quoted(one.node),
                              Quoted(way.over)),
                  way.connections);
    }
  }
}

}  // namespace

std::string MetricsOf(const StatusPage& page) {
  const protocol::JobStatus& status = page.status;
  Metrics metrics(page.job);
  metrics.Begin("byteps_build_info", "gauge", "The version that runs; always 1.");
  metrics.Add(fmt::format("version={},", Quoted(page.version)), 1);
  metrics.One("byteps_up_seconds", "gauge", "How long the answering process runs.", page.up_s);
  metrics.One("byteps_view_epoch", "gauge", "Number of the view in force; 0: none yet.",
              static_cast<double>(status.epoch));
  metrics.One("byteps_workers_expected", "gauge", "Workers of the job.", status.workers_expected);
  metrics.One("byteps_servers_expected", "gauge", "Servers of the job.", status.servers_expected);
  AddMembers(status, metrics);
  double longest = 0;
  for (const auto& wait : status.waits) longest = std::max(longest, ToSeconds(wait.age));
  metrics.One("byteps_open_for_long", "gauge", "Operations that are open for more than a second.",
              static_cast<double>(status.waits.size()));
  metrics.One("byteps_longest_wait_seconds", "gauge", "Age of the oldest of these.", longest);
  AddWorkers(status, metrics);
  AddServers(status, metrics);
  metrics.Begin("byteps_silent_seconds", "gauge", "Since the member was heard last.");
  for (const MemberStatus& one : status.members) {
    if (one.index == kNoSlot || one.state == MemberState::kLeft) continue;
    metrics.Add(fmt::format("role=\"{}\",index=\"{}\",", protocol::WordFor(one.role), one.index),
                fmt::format("{:.3f}", ToSeconds(one.silent)));
  }
  return metrics.text();
}

}  // namespace byteps::runtime
