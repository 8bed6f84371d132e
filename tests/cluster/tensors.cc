#include "tests/cluster/tensors.h"

#include <cstring>
#include <random>
#include <utility>

#include "src/kernels/kernels.h"

namespace byteps::cluster {
namespace {

template <typename T>
void Put(const std::vector<double>& values, Bytes& bytes) {
  for (size_t i = 0; i < values.size(); ++i) {
    T value = static_cast<T>(values[i]);
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
}

template <typename T>
std::vector<double> Get(const Bytes& bytes) {
  std::vector<double> values(bytes.size() / sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    values[i] = static_cast<double>(value);
  }
  return values;
}

}  // namespace

Bytes Encode(DataType type, const std::vector<double>& values) {
  Bytes bytes(values.size() * SizeOf(type));
  switch (type) {
    case DataType::kFloat32: Put<float>(values, bytes); break;
    case DataType::kFloat64: Put<double>(values, bytes); break;
    case DataType::kInt8: Put<int8_t>(values, bytes); break;
    case DataType::kInt16: Put<int16_t>(values, bytes); break;
    case DataType::kInt32: Put<int32_t>(values, bytes); break;
    case DataType::kInt64: Put<int64_t>(values, bytes); break;
    case DataType::kUint8:
    case DataType::kBool: Put<uint8_t>(values, bytes); break;
    case DataType::kFloat16:
    case DataType::kBfloat16: {
      Bytes floats = Encode(DataType::kFloat32, values);
      kernels::Convert(DataType::kFloat32, type, floats.data(), bytes.data(), values.size());
      break;
    }
  }
  return bytes;
}

std::vector<double> Decode(DataType type, const Bytes& bytes) {
  switch (type) {
    case DataType::kFloat32: return Get<float>(bytes);
    case DataType::kFloat64: return Get<double>(bytes);
    case DataType::kInt8: return Get<int8_t>(bytes);
    case DataType::kInt16: return Get<int16_t>(bytes);
    case DataType::kInt32: return Get<int32_t>(bytes);
    case DataType::kInt64: return Get<int64_t>(bytes);
    case DataType::kUint8:
    case DataType::kBool: return Get<uint8_t>(bytes);
    case DataType::kFloat16:
    case DataType::kBfloat16: {
      Bytes floats(bytes.size() * 2);
      kernels::Convert(type, DataType::kFloat32, bytes.data(), floats.data(), bytes.size() / 2);
      return Get<float>(floats);
    }
  }
  return {};
}

Bytes RandomFloats(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> mantissa(-1, 1);
  std::vector<double> values(count);
  for (double& value : values) {
    value = mantissa(random) * static_cast<double>(uint64_t{1} << (random() % 30));
  }
  return Encode(DataType::kFloat32, values);
}

Bytes RandomBits(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

protocol::Operation OperationOn(const std::string& name, wire::Op op, DataType type,
                                std::vector<int64_t> shape, const Bytes& in, Bytes& out) {
  protocol::Operation operation;
  operation.name = name;
  operation.spec.op = op;
  operation.spec.dtype = type;
  operation.spec.shape = std::move(shape);
  operation.input = in.data();
  operation.output = out.data();
  return operation;
}

protocol::Operation SumOf(const std::string& name, Bytes& data) {
  auto count = static_cast<int64_t>(data.size() / sizeof(float));
  return OperationOn(name, wire::Op::kSum, DataType::kFloat32, {count}, data, data);
}

protocol::Operation Broadcast(const std::string& name, uint32_t root, const Bytes& in, Bytes& out) {
  auto count = static_cast<int64_t>(in.size());
  protocol::Operation operation =
      OperationOn(name, wire::Op::kBroadcast, DataType::kUint8, {count}, in, out);
  operation.spec.root = root;
  return operation;
}

protocol::Operation Allgather(const std::string& name, uint64_t rows, int64_t row_bytes,
                              const Bytes& in) {
  protocol::Operation operation;
  operation.name = name;
  operation.spec.op = wire::Op::kAllgather;
  operation.spec.dtype = DataType::kUint8;
  operation.spec.shape = {row_bytes};
  operation.rows = rows;
  operation.input = in.data();
  return operation;
}

protocol::Operation Barrier(const std::string& name) {
  protocol::Operation operation;
  operation.name = name;
  operation.spec.op = wire::Op::kBarrier;
  return operation;
}

}  // namespace byteps::cluster
