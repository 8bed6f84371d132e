// The C interface: timelines. Checks arguments, converts, and forwards.
#include <algorithm>
#include <chrono>

#include "byteps/byteps.h"
#include "src/runtime/seeing/timeline_log.h"
#include "src/session/c_error.h"
#include "src/session/c_session.h"
#include "src/session/sized_struct.h"

namespace byteps::session {
namespace {

constexpr size_t kEntriesAtOnce = 4096;
static_assert(std::size(byteps_timeline_entry{}.at_ns) == runtime::TimelineEntry::kMomentsMax);

byteps_timeline_entry EntryFrom(const runtime::TimelineEntry& from) {
  byteps_timeline_entry entry{};
  entry.name = from.name->c_str();
  entry.round = from.ref.round;
  entry.bytes = from.bytes;
  std::ranges::transform(from.at, entry.at_ns,
                         [](Time at) { return Duration(at.time_since_epoch()).count(); });
  entry.kind = static_cast<int32_t>(from.kind);
  entry.op = from.op;
  entry.dtype = static_cast<int32_t>(from.dtype);
  entry.tensor = from.ref.tensor;
  entry.piece = from.ref.piece;
  entry.shard = from.who;
  return entry;
}

}  // namespace
}  // namespace byteps::session

using byteps::Status;
using byteps::runtime::TimelineLog;
using byteps::session::Call;
using byteps::session::Missing;
using byteps::session::Session;

extern "C" {

byteps_code byteps_set_timeline(byteps_session* session, int on, byteps_error* error) {
  return Call(session, error, [&](Session& inner) {
    inner.timeline().SetOn(on != 0);
    return Status::Ok();
  });
}

byteps_code byteps_take_timeline(byteps_session* session, byteps_timeline_entry* entries,
                                 size_t capacity, size_t* count, uint64_t* lost,
                                 byteps_error* error) {
  return Call(session, error, [&](Session& inner) -> Status {
    if (count == nullptr) return Missing("the place for the number of entries");
    *count = 0;
    if (entries == nullptr) return Missing("the place for the entries");
    if (capacity == 0) return Status::Ok();
    Status sized = byteps::session::CheckSize(*entries);
    if (!sized.ok()) return sized;
    const size_t size = entries->struct_size;
    TimelineLog::Taken taken =
        inner.timeline().Take(std::min(capacity, byteps::session::kEntriesAtOnce));
    auto* to = reinterpret_cast<std::byte*>(entries);
    for (const byteps::runtime::TimelineEntry& one : taken.entries) {
      auto* entry = reinterpret_cast<byteps_timeline_entry*>(to);
      entry->struct_size = size;
      byteps::session::WriteSized(byteps::session::EntryFrom(one), entry);
      to += size;
    }
    *count = taken.entries.size();
    if (lost != nullptr) *lost = taken.lost;
    return Status::Ok();
  });
}

}  // extern "C"
