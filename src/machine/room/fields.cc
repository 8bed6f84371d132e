#include "src/machine/room/fields.h"

#include <algorithm>
#include <span>

namespace byteps::machine {

void FieldWriter::Text(const std::string& text) {
  Number(static_cast<uint32_t>(text.size()));
  ConstByteSpan bytes = std::as_bytes(std::span(text));
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

void FieldWriter::Numbers(const std::vector<uint32_t>& numbers) {
  List(numbers, sizeof(uint32_t), [this](uint32_t number) { Number(number); });
}

void FieldWriter::How(const Status& status) {
  Choice(status.code(), 0);
  Text(status.message());
}

void FieldWriter::Message(const wire::Message& message) {
  std::vector<std::byte> bytes = wire::EncodeControl(message);
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

void FieldReader::Signed(int32_t& value) {
  uint32_t number = 0;
  Number(number);
  value = static_cast<int32_t>(number);
}

void FieldReader::Flag(bool& value) {
  uint8_t number = 0;
  Number(number);
  value = number != 0;
}

void FieldReader::Text(std::string& text) {
  uint32_t bytes = 0;
  Number(bytes);
  if (bytes > rest_.size()) return Fail();
  text.assign(reinterpret_cast<const char*>(rest_.data()), bytes);
  rest_ = rest_.subspan(bytes);
}

void FieldReader::Ranks(RankSet& ranks) {
  Number(ranks);
  if ((ranks & ~FirstRanks(limits_.ranks)) == 0) return;
  ranks = 0;
  Fail();
}

void FieldReader::Numbers(std::vector<uint32_t>& numbers) {
  List(numbers, sizeof(uint32_t), [this](uint32_t& number) { Number(number); });
}

void FieldReader::JobNumbers(std::vector<uint32_t>& numbers) {
  Numbers(numbers);
  const bool sane =
      std::ranges::all_of(numbers, [](uint32_t number) { return number < kJobNumbersMax; });
  if (sane) return;
  numbers.clear();
  Fail();
}

void FieldReader::How(Status& status) {
  auto code = StatusCode::kOk;
  Choice(code, static_cast<int>(kLastStatusCode) + 1);
  std::string text;
  Text(text);
  status = code == StatusCode::kOk ? Status::Ok() : Status(code, std::move(text));
}

void FieldReader::Error(Status& status) {
  How(status);
  if (status.ok()) Fail();
}

void FieldReader::Message(wire::Message& message) {
  Result<wire::Message> read = wire::DecodeControl(std::exchange(rest_, {}));
  if (read.ok()) {
    message = std::move(read).value();
  } else if (status_.ok()) {
    status_ = read.status();
  }
}

void FieldReader::Fail() {
  rest_ = {};
  if (!status_.ok()) return;
  status_ = {StatusCode::kProtocol,
             "a process of this machine said what no process of this version says: restart the "
             "job, with one version of BytePS for all its processes"};
}

Status FieldReader::End() const {
  if (!status_.ok() || rest_.empty()) return status_;
  FieldReader too_long = *this;
  too_long.Fail();
  return too_long.status_;
}

}  // namespace byteps::machine
