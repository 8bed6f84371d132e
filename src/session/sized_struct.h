// Structs of the C interface that begin with their size. If the program is older or newer than this
// library, the library reads and writes them only as far as both sides know them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>

#include "byteps/byteps.h"
#include "byteps/device.h"
#include "byteps/sums.h"
#include "src/base/status.h"

namespace byteps::session {

// The size of a struct when it was first published. No program has a smaller one, and it never
// changes. A new field goes to the end, and never to the place of an older struct's padding, where
// programs may have any bytes.
template <typename Struct>
struct SizedStruct;
template <>
struct SizedStruct<byteps_request> {
  static constexpr const char* kName = "byteps_request";
  static constexpr size_t kBytesMin = offsetof(byteps_request, combine);
};
template <>
struct SizedStruct<byteps_result> {
  static constexpr const char* kName = "byteps_result";
  static constexpr size_t kBytesMin = offsetof(byteps_result, received_splits);
};
template <>
struct SizedStruct<byteps_speed> {
  static constexpr const char* kName = "byteps_speed";
  static constexpr size_t kBytesMin = sizeof(byteps_speed);
};
template <>
struct SizedStruct<byteps_job_info> {
  static constexpr const char* kName = "byteps_job_info";
  static constexpr size_t kBytesMin = sizeof(byteps_job_info);
};
template <>
struct SizedStruct<byteps_sums> {
  static constexpr const char* kName = "byteps_sums";
  static constexpr size_t kBytesMin = sizeof(byteps_sums);
};
template <>
struct SizedStruct<byteps_shared_memory> {
  static constexpr const char* kName = "byteps_shared_memory";
  static constexpr size_t kBytesMin = sizeof(byteps_shared_memory);
};
template <>
struct SizedStruct<byteps_timeline_entry> {
  static constexpr const char* kName = "byteps_timeline_entry";
  static constexpr size_t kBytesMin = sizeof(byteps_timeline_entry);
};
template <>
struct SizedStruct<byteps_device_info> {
  static constexpr const char* kName = "byteps_device_info";
  static constexpr size_t kBytesMin = sizeof(byteps_device_info);
};
template <>
struct SizedStruct<byteps_nccl_info> {
  static constexpr const char* kName = "byteps_nccl_info";
  static constexpr size_t kBytesMin = sizeof(byteps_nccl_info);
};
template <>
struct SizedStruct<byteps_device_sums> {
  static constexpr const char* kName = "byteps_device_sums";
  static constexpr size_t kBytesMin = sizeof(byteps_device_sums);
};
template <>
struct SizedStruct<byteps_error> {
  static constexpr const char* kName = "byteps_error";
  static constexpr size_t kBytesMin = 64;
};
static_assert(std::has_unique_object_representations_v<byteps_request> &&
                  std::has_unique_object_representations_v<byteps_result>,
              "padding cannot be told from a field of a later header");

// The limit is more than any struct will have; a size that is not initialized is likely to be
// larger.
inline constexpr size_t kStructBytesMax = 65536;

// Checks that a struct can have the size that it names. REQUIRES: `from` may be read as far as its
// size field.
template <typename Struct>
Status CheckSize(const Struct& from) {
  using Sized = SizedStruct<Struct>;
  const size_t size = from.struct_size;
  if (size >= Sized::kBytesMin && size <= kStructBytesMax && size % alignof(Struct) == 0) {
    return Status::Ok();
  }
  const std::string name = Sized::kName;
  return {StatusCode::kInvalidArgument,
          "struct_size of the " + name + " is " + std::to_string(size) +
              ", and no such struct has that size; set it to sizeof(" + name +
              "), as BYTEPS_INIT(" + name + ") in C and {} in C++ do"};
}

// Returns `from` as a struct of this library: fields that its program does not know are zero.
// kInvalidArgument: it sets a field that this library does not know.
template <typename Struct>
Result<Struct> ReadSized(const Struct& from) {
  Status checked = CheckSize(from);
  if (!checked.ok()) return checked;
  Struct own{};
  const size_t common = std::min(from.struct_size, sizeof(Struct));
  const auto* bytes = reinterpret_cast<const std::byte*>(&from);
  std::memcpy(static_cast<void*>(&own), bytes, common);
  auto* of_own = reinterpret_cast<std::byte*>(&own);
  std::fill(of_own + common, of_own + sizeof(Struct), std::byte{0});
  const bool known = std::all_of(bytes + common, bytes + from.struct_size,
                                 [](std::byte byte) { return byte == std::byte{0}; });
  if (known) return own;
  return Status(StatusCode::kInvalidArgument,
                std::string("the program sets a field of ") + SizedStruct<Struct>::kName +
                    " that this library, which is older, does not have; install a newer libbyteps, "
                    "or leave that field zero");
}

// Writes `own` to `*to` as far as `*to` reaches, and zero to fields that this library does not
// know. The size in `*to` stays. REQUIRES: CheckSize(*to).ok().
template <typename Struct>
void WriteSized(const Struct& own, Struct* to) {
  const size_t size = to->struct_size;
  auto* bytes = reinterpret_cast<std::byte*>(to);
  const size_t common = std::min(size, sizeof(Struct));
  std::memcpy(bytes, &own, common);
  std::fill(bytes + common, bytes + size, std::byte{0});
  to->struct_size = size;
}

}  // namespace byteps::session
