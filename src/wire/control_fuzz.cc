// Fuzz target: any bytes as a control message. What is accepted means the same when it is written
// again.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "src/wire/control.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using byteps::wire::DecodeControl;
  using byteps::wire::EncodeControl;
  auto message = DecodeControl(std::as_bytes(std::span(data, size)));
  if (!message.ok()) return 0;
  auto again = DecodeControl(EncodeControl(message.value()));
  if (!again.ok() || again.value() != message.value()) std::abort();
  return 0;
}

// Random bytes hardly ever are a FlatBuffer: start from one of each kind.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t size_max);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t size_max,
                                          unsigned int seed) {
  namespace wire = byteps::wire;
  if (seed % 64 != 0) return LLVMFuzzerMutate(data, size, size_max);
  wire::View view;
  view.workers = {{0, 0, 7, "a", 1, 0, 1}, {1, 1, 8, "b", 2, 0, 1}};
  view.servers = {{0, 9, "c", "c:1", 3, 0, {5, 5}, 5}};
  const wire::Message examples[] = {
      wire::Join{.host = "a", .address = "b", .version = "1", .node = "n"},
      wire::Refused{byteps::StatusCode::kRefused, "full"},
      wire::Waiting{"1/2"},
      view,
      wire::Declare{"w", 1, {wire::Op::kSum, byteps::DataType::kInt8, 0, {3, 4}}, 5},
      wire::Declared{"w", 1, 77, {1, 2, 3}},
      wire::DeclareFailed{"w", 1, 77, byteps::StatusCode::kMismatch, "differs", 5},
      wire::Leave{},
      wire::Left{1, "left"},
      wire::Suspect{byteps::Role::kServer, 1, "closed"},
      wire::JobOver{byteps::StatusCode::kPeerLost, "lost"},
  };
  auto bytes = wire::EncodeControl(examples[seed / 64 % std::size(examples)]);
  if (bytes.size() > size_max) return LLVMFuzzerMutate(data, size, size_max);
  std::copy_n(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), data);
  return bytes.size();
}
