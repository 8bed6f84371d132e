// Helpers of the tests of shard and worker: views, and an arithmetic that touches no memory.
#pragma once

#include <span>
#include <string>

#include "src/base/time.h"
#include "src/protocol/arithmetic.h"
#include "src/wire/data.h"
#include "src/wire/view.h"

namespace byteps::protocol {

inline constexpr Time kStart{};

// Serves tensors that have an address and no memory.
class NoArithmetic final : public Arithmetic {
 public:
  void Combine(byteps::Combine, DataType, std::byte*, std::span<const std::byte* const>,
               const kernels::SumTree&, size_t) override {}
  void Average(DataType, std::byte*, std::span<const std::byte* const>, const kernels::SumTree&,
               size_t, uint32_t) override {}
  void Copy(std::byte*, const std::byte*, size_t) override {}
};

// An answer or a verdict that a driver was given.
struct SentAnswer {
  Slot to = 0;
  wire::DataHeader header;
  std::string bytes;
};

// Makes a view of `workers` workers and one server with `shards` equal shards.
inline wire::View ViewFor(uint32_t workers, uint32_t shards, uint32_t piece_bytes_max = 4096) {
  wire::View view;
  view.epoch = 1;
  view.generation = 1;
  view.began = 1;
  view.piece_bytes_max = piece_bytes_max;
  for (uint32_t i = 0; i < workers; ++i) view.workers.push_back({i, i, 100 + i, "h", i, 0, 1});
  wire::ServerInfo server;
  server.shard_weights.assign(shards, 1);
  if (shards > 0) view.servers.push_back(server);
  return view;
}

}  // namespace byteps::protocol
