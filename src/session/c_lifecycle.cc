// The C interface: opening and closing sessions, members, and functions without a session. Checks
// arguments, converts, and forwards.
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "byteps/byteps.h"
#include "byteps/device.h"
#include "byteps/sums.h"
#include "src/base/text.h"
#include "src/config/options.h"
#include "src/session/c_error.h"
#include "src/session/c_request.h"
#include "src/session/c_session.h"
#include "src/session/fork_count.h"
#include "src/session/sized_struct.h"
#include "src/session/version.h"
#include "src/session/wiring.h"

namespace byteps::session {
namespace {

constexpr size_t kReasonBytesMax = 1024;

Result<config::Options> Load(const char* const* settings, size_t count) {
  if (settings == nullptr && count > 0) return Missing("the list of settings");
  std::vector<std::string> texts;
  for (size_t i = 0; i < count; ++i) {
    if (settings[i] == nullptr) return Missing("a setting");
    texts.emplace_back(settings[i]);
  }
  return config::LoadOptions(config::Environment::OfProcess(), texts);
}

// `find` is called when the struct may be written.
Status WriteSums(const std::function<plan::SumReport()>& find, byteps_sums* sums) {
  if (sums == nullptr) return Missing("the place for what is known of sums");
  Status sized = CheckSize(*sums);
  if (!sized.ok()) return sized;
  const plan::SumReport report = find();
  byteps_sums own{};
  own.bits = static_cast<byteps_sum_bits>(report.bits);
  const std::string_view text = CutText(report.text, sizeof(own.text) - 1);
  text.copy(own.text, text.size());
  WriteSized(own, sums);
  return Status::Ok();
}

Result<std::vector<uint32_t>> RanksFrom(const int32_t* ranks, size_t count, int32_t number) {
  auto invalid = [&](int32_t what, const char* why) {
    return Invalid("process set " + std::to_string(number) + ": " + std::to_string(what) + " is " +
                   why);
  };
  if (number <= 0) return invalid(number, "no number for one; they count from 1");
  std::vector<uint32_t> list;
  for (size_t i = 0; i < count; ++i) {
    if (ranks[i] < 0) return invalid(ranks[i], "no rank");
    list.push_back(static_cast<uint32_t>(ranks[i]));
  }
  return list;
}

template <size_t size>
void WriteText(const std::string& text, char (&place)[size]) {
  const std::string_view cut = CutText(text, size - 1);
  std::copy(cut.begin(), cut.end(), place);
  place[cut.size()] = '\0';
}

Status WriteDeviceInfo(device::Devices& devices, int32_t number, byteps_device_info* info) {
  Result<device::DeviceFacts> facts = devices.FactsOf(number);
  if (!facts.ok()) return facts.status();
  byteps_device_info own{};
  own.count = devices.count();
  WriteText(facts->name, own.name);
  WriteText(facts->uuid, own.uuid);
  WriteText(facts->address, own.address);
  WriteText(devices.version(), own.driver);
  WriteSized(own, info);
  return Status::Ok();
}

}  // namespace
}  // namespace byteps::session

using byteps::CutText;
using byteps::Result;
using byteps::Status;
using byteps::StatusCode;
using byteps::session::Call;
using byteps::session::CheckMayBlock;
using byteps::session::Guard;
using byteps::session::Missing;
using byteps::session::Session;

extern "C" {

byteps_code byteps_open(const char* const* settings, size_t count, byteps_session** session,
                        byteps_error* error) {
  return byteps_open_while(settings, count, nullptr, nullptr, session, error);
}

byteps_code byteps_open_while(const char* const* settings, size_t count,
                              int (*go_on)(void* context), void* context, byteps_session** session,
                              byteps_error* error) {
  return Guard(error, [&]() -> Status {
    if (session == nullptr) return Missing("the place for the session");
    *session = nullptr;
    Status may_block = CheckMayBlock("byteps_open");
    if (!may_block.ok()) return may_block;
    Result<byteps::config::Options> options = byteps::session::Load(settings, count);
    if (!options.ok()) return options.status();
    Status counts = byteps::session::CountForks();
    if (!counts.ok()) return counts;
    std::function<bool()> asks;
    if (go_on != nullptr) asks = [go_on, context] { return go_on(context) != 0; };
    Result<std::unique_ptr<Session>> opened = Session::Open(options.value(), std::move(asks));
    if (!opened.ok()) return opened.status();
    *session = std::make_unique<byteps_session>(std::move(opened).value()).release();
    return Status::Ok();
  });
}

byteps_code byteps_shutdown(byteps_session* session, byteps_error* error) {
  return Call(session, error, [](Session& inner) -> Status {
    Status may_block = CheckMayBlock("byteps_shutdown");
    if (!may_block.ok()) return may_block;
    if (inner.Shutdown()) return Status::Ok();
    return {StatusCode::kDeadlineExceeded,
            "this process's network thread stands still: operations that byteps_poll calls open "
            "still borrow their memory; call byteps_shutdown again, or byteps_close, which waits"};
  });
}

byteps_code byteps_give_up(byteps_session* session, const char* why, byteps_error* error) {
  return Call(session, error, [&](Session& inner) -> Status {
    if (why == nullptr) return Missing("the reason");
    inner.GiveUp(std::string(CutText(why, byteps::session::kReasonBytesMax)));
    return Status::Ok();
  });
}

void byteps_close(byteps_session* session) {
  // A copy made by fork has no threads, and shares its sockets with the parent: closing them in
  // order would end the parent's connections.
  if (session == nullptr || !session->IsOfThisProcess()) return;
  Status may_block = CheckMayBlock("byteps_close");
  if (!may_block.ok()) return byteps::session::SayOnStderr(may_block.message());
  session->Close();
}

int32_t byteps_rank(const byteps_session* session) {
  return session == nullptr ? -1 : session->place().rank;
}
int32_t byteps_size(const byteps_session* session) {
  return session == nullptr ? -1 : session->place().size;
}
int32_t byteps_local_rank(const byteps_session* session) {
  return session == nullptr ? -1 : session->place().local_rank;
}
int32_t byteps_local_size(const byteps_session* session) {
  return session == nullptr ? -1 : session->place().local_size;
}
int32_t byteps_machine(const byteps_session* session) {
  return session == nullptr ? -1 : session->place().machine;
}
int32_t byteps_machine_size(const byteps_session* session, int32_t machine) {
  if (session == nullptr || machine < 0) return -1;
  const byteps::MachineLayout& layout = session->place().layout;
  const auto number = static_cast<uint64_t>(machine);
  return number < layout.machines() ? static_cast<int32_t>(layout.SizeOf(number)) : -1;
}

byteps_code byteps_members(byteps_session* session, int32_t* ranks, size_t capacity, size_t* count,
                           byteps_error* error) {
  return Call(session, error, [&](Session& inner) {
    return byteps::session::WriteRanks(inner.Members(), ranks, capacity, count);
  });
}

byteps_code byteps_get_job_info(byteps_session* session, byteps_job_info* info,
                                byteps_error* error) {
  return Call(session, error, [&](Session& inner) -> Status {
    if (info == nullptr) return Missing("the place for what is known of the job");
    Status sized = byteps::session::CheckSize(*info);
    if (!sized.ok()) return sized;
    byteps_job_info own{};
    own.proof = static_cast<byteps_proof>(inner.proof());
    own.takes_objects = inner.takes_objects() ? 1 : 0;
    own.operation_limit_ms = inner.operation_limit() / byteps::milliseconds(1);
    byteps::session::WriteSized(own, info);
    return Status::Ok();
  });
}

byteps_code byteps_get_sums(byteps_session* session, byteps_sums* sums, byteps_error* error) {
  return Call(session, error, [&](Session& inner) {
    return byteps::session::WriteSums([&] { return inner.Sums(); }, sums);
  });
}

byteps_code byteps_foresee_sums(const char* const* settings, size_t count, byteps_sums* sums,
                                byteps_error* error) {
  return Guard(error, [&]() -> Status {
    Result<byteps::config::Options> options = byteps::session::Load(settings, count);
    if (!options.ok()) return options.status();
    return byteps::session::WriteSums([&] { return byteps::session::ForeseeSums(options.value()); },
                                      sums);
  });
}

byteps_code byteps_add_process_set(byteps_session* session, const int32_t* ranks, size_t count,
                                   int32_t number, byteps_error* error) {
  return Call(session, error, [&](Session& inner) -> Status {
    if (ranks == nullptr && count > 0) return Missing("the list of ranks");
    Status may_block = CheckMayBlock("byteps_add_process_set");
    if (!may_block.ok()) return may_block;
    Result<std::vector<uint32_t>> list = byteps::session::RanksFrom(ranks, count, number);
    if (!list.ok()) return list.status();
    return inner.AddProcessSet(static_cast<uint32_t>(number), list.value());
  });
}

byteps_code byteps_remove_process_set(byteps_session* session, int32_t number,
                                      byteps_error* error) {
  return Call(session, error, [&](Session& inner) -> Status {
    Status may_block = CheckMayBlock("byteps_remove_process_set");
    if (!may_block.ok()) return may_block;
    Result<std::vector<uint32_t>> checked = byteps::session::RanksFrom(nullptr, 0, number);
    if (!checked.ok()) return checked.status();
    return inner.RemoveProcessSet(static_cast<uint32_t>(number));
  });
}

byteps_code byteps_get_speed(byteps_session* session, byteps_speed* speed) {
  return Call(session, nullptr, [&](Session& inner) -> Status {
    if (speed == nullptr) return Missing("the speed");
    Status sized = byteps::session::CheckSize(*speed);
    if (!sized.ok()) return sized;
    byteps::session::SpeedMeter::Sample sample = inner.Speed();
    byteps_speed own{};
    own.window_ms = sample.interval_ms;
    own.megabytes_per_second = sample.megabytes_per_second;
    own.end_ms_since_epoch = sample.end_ms_since_epoch;
    byteps::session::WriteSized(own, speed);
    return Status::Ok();
  });
}

byteps_code byteps_serve(const char* const* settings, size_t count, byteps_error* error) {
  return Guard(error, [&]() -> Status {
    Status may_block = CheckMayBlock("byteps_serve");
    if (!may_block.ok()) return may_block;
    Result<byteps::config::Options> options = byteps::session::Load(settings, count);
    if (!options.ok()) return options.status();
    return byteps::session::Serve(options.value());
  });
}

byteps_code byteps_get_device_info(const char* const* settings, size_t count, int32_t device,
                                   byteps_device_info* info, byteps_error* error) {
  return Guard(error, [&]() -> Status {
    if (info == nullptr) return Missing("the place for what is known of the device");
    Status sized = byteps::session::CheckSize(*info);
    if (!sized.ok()) return sized;
    byteps::session::WriteSized(byteps_device_info{}, info);
    Result<byteps::config::Options> options = byteps::session::Load(settings, count);
    if (!options.ok()) return options.status();
    auto devices = byteps::session::DeviceFinderOf(options.value(), nullptr)();
    if (!devices.ok()) return devices.status();
    return byteps::session::WriteDeviceInfo(*devices.value(), device, info);
  });
}

byteps_code byteps_get_nccl_info(const char* const* settings, size_t count, byteps_nccl_info* info,
                                 byteps_error* error) {
  return Guard(error, [&]() -> Status {
    if (info == nullptr) return Missing("the place for what is known of NCCL");
    Status sized = byteps::session::CheckSize(*info);
    if (!sized.ok()) return sized;
    byteps_nccl_info own{};
    byteps::session::WriteSized(own, info);
    Result<byteps::config::Options> options = byteps::session::Load(settings, count);
    if (!options.ok()) return options.status();
    auto found = byteps::session::LookForNccl(options.value());
    if (!found.ok()) return found.status();
    own.version = found->version_code;
    byteps::session::WriteText(found->version, own.text);
    byteps::session::WriteText(found->file, own.file);
    byteps::session::WriteSized(own, info);
    return Status::Ok();
  });
}

byteps_code byteps_foresee_device_sums(const char* const* settings, size_t count,
                                       byteps_device_sums* sums, byteps_error* error) {
  return Guard(error, [&]() -> Status {
    if (sums == nullptr) return Missing("the place for the way of sums");
    Status sized = byteps::session::CheckSize(*sums);
    if (!sized.ok()) return sized;
    byteps::session::WriteSized(byteps_device_sums{}, sums);
    Result<byteps::config::Options> options = byteps::session::Load(settings, count);
    if (!options.ok()) return options.status();
    Result<std::string> text = byteps::session::DescribeDeviceSums(options.value());
    if (!text.ok()) return text.status();
    byteps_device_sums own{};
    byteps::session::WriteText(text.value(), own.text);
    byteps::session::WriteSized(own, sums);
    return Status::Ok();
  });
}

const char* byteps_version(void) { return byteps::session::kVersion; }

int32_t byteps_interface(void) { return BYTEPS_INTERFACE; }

}  // extern "C"
