// A worker that has started, with a driver that records what the worker asks for, and shards that
// answer as the test says.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "src/protocol/kernel_arithmetic.h"
#include "src/protocol/worker/worker_for_test.h"

namespace byteps::protocol {

class StartedWorker : public testing::Test {
 protected:
  Worker& Start(uint32_t workers = 2, uint32_t shards = 1, uint64_t credit = 1 << 20,
                uint32_t piece_bytes_max = 4096, Slot slot = 0) {
    WorkerOptions options;
    options.credit.fixed_bytes = credit;
    worker.emplace(options, pool, *arithmetic, driver);
    view = ViewFor(workers, shards, piece_bytes_max);
    worker->OnView(view, slot);
    for (ShardId shard = 0; shard < shards; ++shard) worker->OnShardUp(shard);
    answered.assign(shards, 0);
    return *worker;
  }

  static Operation Make(OperationId id, const std::string& name, wire::Op op, int64_t elements) {
    Operation operation;
    operation.id = id;
    operation.name = name;
    operation.spec = {op, DataType::kUint8, 0, {elements}};
    return operation;
  }

  Operation InPlace(OperationId id, const std::string& name, std::string& bytes,
                    wire::Op op = wire::Op::kSum) {
    Operation operation = Make(id, name, op, static_cast<int64_t>(bytes.size()));
    operation.input = operation.output = reinterpret_cast<std::byte*>(bytes.data());
    return operation;
  }

  void Declared(const std::string& name, TensorId tensor, uint32_t attempt = 0) {
    std::vector<uint64_t> placement(answered.size(), 0);
    placement.push_back(answered.size());
    worker->OnDeclared({name, 0, attempt, tensor, placement});
  }

  // Answers a push of this test's worker. Returns false if the worker refuses the answer.
  bool Answer(const SentPush& push, const std::string& bytes, StatusCode status = StatusCode::kOk) {
    std::vector<std::byte> row = ErrorBytes(push, {status, bytes});
    ConstByteSpan source = row.empty() ? std::as_bytes(std::span(bytes)) : row;
    Result<ByteSpan> place = AnswerHeader(push, source.size(), status);
    if (!place.ok()) return false;
    std::copy(source.begin(), source.end(), place.value().begin());
    worker->OnAnswer(push.to, kStart);
    return true;
  }

  Result<ByteSpan> AnswerHeader(const SentPush& push, size_t bytes,
                                StatusCode status = StatusCode::kOk) {
    wire::DataHeader header = push.header;
    header.count = ++answered[push.to];
    header.status = status;
    header.offset = header.want_offset;
    if (status != StatusCode::kOk) {
      header.offset = header.want_offset = 0;
      header.piece_bytes = header.want_bytes = static_cast<uint32_t>(bytes);
    }
    return worker->OnAnswerHeader(push.to, header, bytes);
  }

  KernelArithmetic kernels;
  NoArithmetic nothing;
  Arithmetic* arithmetic = &kernels;
  BufferPool pool;
  RecordingWorkerDriver driver;
  std::optional<Worker> worker;
  wire::View view;
  std::vector<uint64_t> answered;
};

}  // namespace byteps::protocol
