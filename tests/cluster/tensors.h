// Tensors for tests: bytes of every type, and operations on them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/types.h"
#include "src/protocol/worker/exchange/operation.h"

namespace byteps::cluster {

using Bytes = std::vector<std::byte>;

// Returns `values` as elements of `type`. REQUIRES: the type can hold each of them exactly.
Bytes Encode(DataType type, const std::vector<double>& values);
std::vector<double> Decode(DataType type, const Bytes& bytes);

// Returns floats that round in every sum, so that the bits of a sum show its order.
Bytes RandomFloats(size_t count, uint64_t seed);
Bytes RandomBits(size_t count, uint64_t seed);

// Returns an operation on `in`, with its result in `out` (may be the same).
protocol::Operation OperationOn(const std::string& name, wire::Op op, DataType type,
                                std::vector<int64_t> shape, const Bytes& in, Bytes& out);

// Returns the sum of a flat float32 tensor, in place.
protocol::Operation SumOf(const std::string& name, Bytes& data);

protocol::Operation Broadcast(const std::string& name, uint32_t root, const Bytes& in, Bytes& out);

// Returns an allgather of rows of `row_bytes` bytes; the shape is the shape of a row.
protocol::Operation Allgather(const std::string& name, uint64_t rows, int64_t row_bytes,
                              const Bytes& in);

protocol::Operation Barrier(const std::string& name);

}  // namespace byteps::cluster
