#include "src/runtime/seeing/status_page.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "src/base/text.h"
#include "src/runtime/seeing/status_text.h"

namespace byteps::runtime {
namespace {

using protocol::JobStatus;
using protocol::MemberState;
using protocol::MemberStatus;

// A mean below this value is noise of the machine.
constexpr double kLateShownMs = 5;

std::string TimeOfDay(int64_t ms) {
  const std::time_t at = static_cast<std::time_t>(ms / 1000);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::gmtime(at));
}

size_t CountOf(const JobStatus& status, Role role) {
  return static_cast<size_t>(
      std::count_if(status.members.begin(), status.members.end(), [role](const MemberStatus& one) {
        return one.role == role && one.state != MemberState::kLeft &&
               one.state != MemberState::kWaits;
      }));
}

std::string NameOf(const JobStatus& status, TensorId tensor) {
  auto found = status.names.find(tensor);
  return found == status.names.end() ? "" : found->second;
}

const MemberStatus* MostLate(const JobStatus& status) {
  const MemberStatus* most = nullptr;
  for (const MemberStatus& one : status.members) {
    if (!one.late.has_value() || one.late->mean_ms < kLateShownMs) continue;
    if (most == nullptr || one.late->mean_ms > most->late->mean_ms) most = &one;
  }
  return most;
}

std::string StateText(const JobStatus& status) {
  if (status.asks_members) return "the scheduler was started again and asks what was decided";
  if (status.epoch == 0) return "has not begun";
  return status.gathers.empty() ? "runs" : "waits for its next workers";
}

// Returns a line that says how the connections of a server travel; empty: it has none.
std::string WaysText(const MemberStatus& one) {
  std::string text;
  for (const MemberStatus::Way& way : one.ways) {
    text += fmt::format("{}{} over {}", text.empty() ? "" : "; ", way.connections, Plain(way.over));
    if (!way.ranks.empty()) text += " (rank " + ListText(way.ranks) + ")";
  }
  return text.empty() ? "" : "               connections: " + text + "\n";
}

std::string Line(const MemberStatus& one) {
  const bool known = one.index != kNoSlot;
  std::string line =
      fmt::format("{:<7} {:>5}  {:<7} {:>8}  {:<16}", protocol::WordFor(one.role),
                  known ? std::to_string(one.index) : "-", TextFor(one.state),
                  one.process == 0 ? "" : std::to_string(one.process), Plain(one.node));
  if (one.account.has_value()) {
    line += fmt::format(" {:>8.1f} {:>9.2f} {:>6} {:>7.1f}", one.operations_per_s,
                        one.bytes_per_s / 1e6, one.account->open, 100 * one.waited_share);
    if (one.late.has_value()) line += fmt::format(" {:>9.1f}", one.late->mean_ms);
  } else {
    line += " " + Plain(one.address);
  }
  if (one.server.has_value()) {
    line +=
        fmt::format("  in {:.2f}, out {:.2f} MB/s, CPU {:.0f} %", one.server->received_per_s / 1e6,
                    one.server->sent_per_s / 1e6, 100 * one.server->cpu_share);
  }
  if (one.state == MemberState::kSilent || one.state == MemberState::kAway) {
    line += fmt::format("  {:.1f} s", ToSeconds(one.silent));
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n" + WaysText(one);
}

std::string WaitText(const protocol::Accounts::Wait& wait) {
  std::string text = fmt::format("  {:.0f} s  '{}': ", ToSeconds(wait.age), Plain(wait.use.name));
  text += fmt::format("rank {} {}", ListText(wait.waiting), wire::TextFor(wait.stage));
  if (!wait.missing.empty()) text += "; not begun by rank " + ListText(wait.missing);
  if (!wait.silent.empty()) text += "; no answer from rank " + ListText(wait.silent);
  return text + "\n";
}

}  // namespace

std::string TextOf(const StatusPage& page) {
  const JobStatus& status = page.status;
  std::string text = fmt::format(
      "BytePS {}, job {}: {}\n{} UTC, this process runs for {:.0f} s\n"
      "view {}, generation {}: {} of {} workers, {} of {} servers\n",
      page.version, Plain(page.job), StateText(status), TimeOfDay(page.now_ms), page.up_s,
      status.epoch, status.generation, CountOf(status, Role::kWorker), status.workers_expected,
      CountOf(status, Role::kServer), status.servers_expected);
  if (!status.gathers.empty()) text += "waiting: " + Plain(status.gathers) + "\n";
  if (!status.sums.empty()) text += Plain(status.sums) + "\n";
  text +=
      fmt::format("\n{:<7} {:>5}  {:<7} {:>8}  {:<16} {:>8} {:>9} {:>6} {:>7} {:>9}\n", "member",
                  "no", "state", "process", "host", "op/s", "MB/s", "open", "wait %", "late ms");
  for (const MemberStatus& one : status.members) text += Line(one);
  if (const MemberStatus* late = MostLate(status)) {
    text +=
        fmt::format("\nlate: rank {} by {:.0f} ms on average", late->index, late->late->mean_ms);
    const std::string name = NameOf(status, late->late->tensor);
    if (!name.empty()) {
      text += fmt::format(", by {:.0f} ms for '{}'", late->late->tensor_ms, Plain(name));
    }
    text += "\n";
  }
  if (!status.waits.empty()) {
    text += "\nopen for long:\n";
    for (const auto& wait : status.waits) text += WaitText(wait);
  }
  if (!page.said.empty()) {
    text += "\nnews:\n";
    for (const SaidLine& one : page.said) {
      text += fmt::format("  {}  {}\n", TimeOfDay(one.at_ms), Plain(one.text));
    }
  }
  return text + "\nlive plots: /live   JSON: /status.json   Prometheus: /metrics\n";
}

namespace {

std::string JsonOf(const MemberStatus& one, const JobStatus& status) {
  std::string json =
      fmt::format(R"({{"role":"{}","index":{},"state":"{}","process":{},"host":{},)"
                  R"("address":{},"silent_ms":{:.0f})",
                  protocol::WordFor(one.role),
                  one.index == kNoSlot ? -1 : static_cast<int64_t>(one.index), TextFor(one.state),
                  one.process, Quoted(one.node), Quoted(one.address), ToSeconds(one.silent) * 1e3);
  if (one.account.has_value()) {
    json += fmt::format(R"(,"ended":{},"failed":{},"bytes":{},"open":{},"idle_ms":{},)"
                        R"("operations_per_s":{:.3f},"bytes_per_s":{:.0f},"waited_us":{},)"
                        R"("waited_share":{:.4f})",
                        one.account->ended, one.account->failed, one.account->bytes,
                        one.account->open, one.account->idle_ms, one.operations_per_s,
                        one.bytes_per_s, one.account->waited_us, one.waited_share);
  }
  if (one.server.has_value()) {
    json += fmt::format(R"(,"received":{},"sent":{},"cpu_us":{},"received_per_s":{:.0f},)"
                        R"("sent_per_s":{:.0f},"cpu_share":{:.4f})",
                        one.server->account.received, one.server->account.sent,
                        one.server->account.cpu_us, one.server->received_per_s,
                        one.server->sent_per_s, one.server->cpu_share);
    std::vector<std::string> ways;
    for (const MemberStatus::Way& way : one.ways) {
      ways.push_back(fmt::format(R"({{"over":{},"connections":{},"ranks":[{}]}})", Quoted(way.over),
                                 way.connections, fmt::join(way.ranks, ",")));
    }
    json += fmt::format(R"(,"connections":[{}])", fmt::join(ways, ","));
  }
  if (one.late.has_value()) {
    json += fmt::format(R"(,"late":{{"mean_ms":{:.3f},"last_ms":{:.3f},"rounds":{},)"
                        R"("tensor":{},"tensor_ms":{:.3f}}})",
                        one.late->mean_ms, one.late->last_ms, one.late->rounds,
                        Quoted(NameOf(status, one.late->tensor)), one.late->tensor_ms);
  }
  return json + "}";
}

}  // namespace

std::string JsonOf(const StatusPage& page) {
  const JobStatus& status = page.status;
  auto joined = [](const std::vector<std::string>& parts) {
    return fmt::format("[{}]", fmt::join(parts, ","));
  };
  std::vector<std::string> members, waits, said;
  for (const MemberStatus& one : status.members) members.push_back(JsonOf(one, status));
  for (const auto& one : status.waits) {
    waits.push_back(fmt::format(R"({{"tensor":{},"age_ms":{:.0f},"stage":"{}","waiting":[{}],)"
                                R"("missing":[{}],"silent":[{}]}})",
                                Quoted(one.use.name), ToSeconds(one.age) * 1e3,
                                wire::TextFor(one.stage), fmt::join(one.waiting, ","),
                                fmt::join(one.missing, ","), fmt::join(one.silent, ",")));
  }
  for (const SaidLine& one : page.said) {
    said.push_back(fmt::format(R"({{"at_ms":{},"text":{}}})", one.at_ms, Quoted(one.text)));
  }
  const MemberStatus* late = MostLate(status);
  return fmt::format(
      R"({{"version":{},"job":{},"now_ms":{},"up_s":{:.3f},"state":{},"epoch":{},"generation":{},)"
      R"("workers_expected":{},"servers_expected":{},"waiting_for":{},"sums":{},"late_rank":{},)"
      R"("members":{},"waits":{},"said":{}}})"
      "\n",
      Quoted(page.version), Quoted(page.job), page.now_ms, page.up_s, Quoted(StateText(status)),
      status.epoch, status.generation, status.workers_expected, status.servers_expected,
      Quoted(status.gathers), Quoted(status.sums),
      late == nullptr ? -1 : static_cast<int64_t>(late->index), joined(members), joined(waits),
      joined(said));
}

}  // namespace byteps::runtime
