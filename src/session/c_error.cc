#include "src/session/c_error.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "src/base/log.h"
#include "src/base/text.h"
#include "src/session/sized_struct.h"

namespace byteps::session {

byteps_code Say(const Status& status, byteps_error* error) {
  auto code = static_cast<byteps_code>(status.code());
  if (error == nullptr) return code;
  const size_t room =
      std::min(error->struct_size - offsetof(byteps_error, message), sizeof(error->message));
  error->code = code;
  std::string_view text = CutText(status.message(), room - 1);
  std::memcpy(error->message, text.data(), text.size());
  error->message[text.size()] = '\0';
  return code;
}

bool CanHold(const byteps_error* error) {
  if (error == nullptr) return true;
  Status checked = CheckSize(*error);
  if (!checked.ok()) SayOnStderr(checked.message());
  return checked.ok();
}

void SayOnStderr(const std::string& text) {
  Log("libbyteps", "error", /*hide_time=*/false).Error("{}", text);
}

Status OfSystem(const std::system_error& failure) {
  // Compares numbers, because Asio has a category of its own, which std::errc does not know.
  int number = failure.code().value();
  if (number != EMFILE && number != ENFILE) return {StatusCode::kInternal, failure.what()};
  return {StatusCode::kExhausted,
          "no file descriptor is left for this process; raise its limit (ulimit -n)"};
}

}  // namespace byteps::session
