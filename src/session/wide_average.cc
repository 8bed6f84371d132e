#include "src/session/wide_average.h"

#include <cstring>
#include <string>

#include "src/operations/row.h"
#include "src/operations/sizes.h"

namespace byteps::session {
namespace {

template <typename Narrow>
void Widen(const std::byte* from, std::vector<int64_t>& to) {
  for (int64_t& wide : to) {
    Narrow value = 0;
    std::memcpy(&value, from, sizeof(value));
    from += sizeof(value);
    wide = value;
  }
}

template <typename Narrow>
void NarrowTo(const std::vector<int64_t>& from, std::byte* to) {
  for (int64_t wide : from) {
    const auto value = static_cast<Narrow>(wide);
    std::memcpy(to, &value, sizeof(value));
    to += sizeof(value);
  }
}

std::string WithType(const std::string& detail, DataType type) {
  const std::string what = std::string("averages of ") + byteps::NameOf(type);
  const std::string text = detail.empty() ? what : detail + ", " + what;
  return text.size() <= wire::kDetailBytesMax ? text : detail;
}

}  // namespace

bool WideAverage::IsNeededFor(const wire::TensorSpec& spec) {
  const bool is_small = spec.dtype == DataType::kInt8 || spec.dtype == DataType::kInt16 ||
                        spec.dtype == DataType::kInt32 || spec.dtype == DataType::kUint8;
  return is_small && operations::CombineOf(spec) == Combine::kAverage;
}

WideAverage::WideAverage(protocol::Operation& operation, uint64_t output_elements)
    : type_(operation.spec.dtype), output_(operation.output) {
  wire::TensorSpec& spec = operation.spec;
  const std::byte* narrow = operation.input;
  input_.resize(operations::InputBytes(spec, operation.rows).value_or(0) / SizeOf(type_));
  result_.resize(output_elements);
  if (type_ == DataType::kInt8) Widen<int8_t>(narrow, input_);
  if (type_ == DataType::kInt16) Widen<int16_t>(narrow, input_);
  if (type_ == DataType::kInt32) Widen<int32_t>(narrow, input_);
  if (type_ == DataType::kUint8) Widen<uint8_t>(narrow, input_);
  spec.detail = WithType(spec.detail, type_);
  spec.dtype = DataType::kInt64;
  operation.input = std::as_bytes(std::span(input_)).data();
  operation.output = std::as_writable_bytes(std::span(result_)).data();
}

void WideAverage::Narrow() const {
  if (type_ == DataType::kInt8) NarrowTo<int8_t>(result_, output_);
  if (type_ == DataType::kInt16) NarrowTo<int16_t>(result_, output_);
  if (type_ == DataType::kInt32) NarrowTo<int32_t>(result_, output_);
  if (type_ == DataType::kUint8) NarrowTo<uint8_t>(result_, output_);
}

}  // namespace byteps::session
