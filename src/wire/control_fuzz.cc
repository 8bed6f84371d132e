// Fuzz target: any bytes as a control message. An accepted message means the same after it is
// written again.
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

// Random bytes hardly ever are a FlatBuffer, so the mutator starts from one message of each kind.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t size_max);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t size_max,
                                          unsigned int seed) {
  namespace wire = byteps::wire;
  if (seed % 64 != 0) return LLVMFuzzerMutate(data, size, size_max);
  wire::View view;
  view.workers = {{0, 0, 7, "a", 1, 0, 1}, {1, 1, 8, "b", 2, 0, 1}};
  view.gone = {{2, 2, 9, "b", 3, 0, 1}};
  view.servers = {{0, 9, "c", "c:1", 3, 0, {5, 5}, true, 5}};
  const wire::DeclareFailed failed{
      "w", {3, 1, 5}, {77}, byteps::StatusCode::kMismatch, "differs", {{"v", {0, 1, 2}}}};
  const wire::TensorSpec spec{wire::Op::kSum, byteps::DataType::kInt8, 0, {3, 4}};
  const wire::Message examples[] = {
      wire::Join{.host = "a", .address = "b", .version = "1", .node = "n"},
      wire::Refused{byteps::StatusCode::kRefused, "full"},
      wire::Waiting{"1/2"},
      wire::Propose{2, view, view},
      wire::Promise{2, 6},
      wire::Commit{2, view},
      wire::Query{3},
      wire::Report{wire::Join{.host = "a"}, 2, view, 1, view},
      wire::Known{{{{"w", 3, 1, 77, {1, 2, 3}}, spec}}, {failed}},
      wire::StillKnown{1, 9, {3, 4}},
      wire::LetGo{{3, 4}},
      wire::Forgotten{{3, 4}, {{"w", 3, 9}}},
      wire::Sync{2, 4},
      wire::GoOn{2, 4},
      wire::Declare{"w", 1, spec, 5},
      wire::Declared{"w", 3, 1, 77, {1, 2, 3}},
      wire::Overdue{{{"w", {3, 1, 5}, 77, {{0, 1, 2}}, true}}, {{3, {0, 1}}}},
      wire::Unbegun{{"w", {3, 1, 5}}, {{"v", {0, 1, 2}}}},
      failed,
      wire::Leave{},
      wire::Alive{wire::Account{5,
                                1,
                                80,
                                2,
                                0,
                                {{{"w", {3, 1, 5}}, 77, wire::UseStage::kExchanges, 1200, 9}},
                                {{3, {0, 1}}},
                                {{77, 4, 900}},
                                7},
                  {{"v", {0, 1, 2}}},
                  {{{"w", {3, 1, 5}}, "rank 1 sleeps", 700}},
                  wire::ServerAccount{5, 6, 7, {{"rdma a", 3, {0, 2}}}}},
      wire::Suspect{byteps::Role::kServer, 1, 9, wire::Suspicion::kClosed, "closed"},
      wire::JobOver{byteps::StatusCode::kPeerLost, "lost"},
      wire::Rates{6, {{1, 4096, 900, 1000}}, 8192, 2000},
  };
  auto bytes = wire::EncodeControl(examples[seed / 64 % std::size(examples)]);
  if (bytes.size() > size_max) return LLVMFuzzerMutate(data, size, size_max);
  std::copy_n(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), data);
  return bytes.size();
}
