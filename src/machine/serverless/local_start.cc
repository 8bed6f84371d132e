#include <chrono>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "src/machine/room/heap_memory.h"
#include "src/machine/serverless/local_engine.h"

namespace byteps::machine {
namespace {

// Says on what all ranks must agree. The values that nobody has set are left out.
std::string TermsOf(const LocalEngineOptions& options) {
  std::string terms = "BytePS " + options.version;
  if (options.same_bits) terms += ", BYTEPS_SAME_BITS=1";
  if (options.sum_group != 1) terms += ", BYTEPS_SUM_GROUP=" + std::to_string(options.sum_group);
  if (!options.groups_wish.empty()) terms += ", BYTEPS_DEVICE_SUMS=" + options.groups_wish;
  return terms;
}

}  // namespace

Result<runtime::StartedEngine> StartLocalEngine(const LocalEngineOptions& options, Log& log) {
  local::MeetingOptions meeting;
  meeting.job = options.job;
  meeting.secret = options.secret;
  // Jobs side by side may have the same job id, but not the same root address.
  meeting.group = "workers of one machine at " + options.root;
  meeting.rank = options.rank;
  meeting.size = options.size;
  meeting.memory_bytes = SharedRoom::BytesFor(SharedRoom::ShapeFor(options.size));
  meeting.terms = TermsOf(options);
  meeting.go_on = options.go_on;
  meeting.on_waiting = [&log](const std::string& who) { log.Waiting(who); };
  meeting.on_refused = [&log](const std::string& whom) { log.Warning("{}", whom); };
  if (log.RewritesWaiting()) meeting.tell_every = seconds(1);
  Result<local::Meeting> met =
      local::Meet(meeting, std::chrono::steady_clock::now() + options.start_limit);
  if (!met.ok()) return met.status();
  log.WaitIsOver();
  try {
    auto memory = std::make_shared<HeapMemory>(met->heap);
    auto engine = std::make_unique<LocalEngine>(options, std::move(met).value(), log);
    Status started = engine->Start();
    if (!started.ok()) return started;
    runtime::StartedEngine result;
    result.waits = engine->waits();
    result.prepare_device = engine->PinsWindowOfMachine();
    result.engine = std::move(engine);
    result.memory = std::move(memory);
    result.standing = {options.rank, options.size, {}};
    for (uint32_t rank = 0; rank < options.size; ++rank) result.standing.ranks.push_back(rank);
    return result;
  } catch (const std::system_error& thrown) {
    return Status(StatusCode::kExhausted,
                  std::string("this system has no thread left for a worker (") + thrown.what() +
                      "); raise its limit (ulimit -u)");
  }
}

}  // namespace byteps::machine
