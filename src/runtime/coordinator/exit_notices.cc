#include "src/runtime/coordinator/exit_notices.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <string_view>
#include <system_error>
#include <utility>

namespace byteps::runtime {
namespace {

constexpr std::string_view kWord = "exited ";
constexpr std::string_view kWorker = " worker ";
constexpr size_t kLineMax = 256;

std::optional<uint32_t> NumberIn(std::string_view text) {
  uint32_t number = 0;
  const char* last = text.data() + text.size();
  auto [end, error] = std::from_chars(text.data(), last, number);
  if (error != std::errc() || end != last) return std::nullopt;
  return number;
}

}  // namespace

Result<std::unique_ptr<ExitNotices>> ExitNotices::Start(int descriptor, OnExit on_exit) {
  const std::string what = "the launcher's notices cannot be read: ";
  int stop = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (stop < 0) {
    return Status(StatusCode::kExhausted, what + std::generic_category().message(errno));
  }
  // tidy-allow(new): the constructor is private.
  std::unique_ptr<ExitNotices> notices(new ExitNotices(descriptor, stop, std::move(on_exit)));
  try {
    notices->thread_ = std::thread([self = notices.get()] { self->Run(); });
  } catch (const std::system_error& error) {
    return Status(StatusCode::kExhausted, what + error.what());
  }
  return notices;
}

ExitNotices::ExitNotices(int descriptor, int stop, OnExit on_exit)
    : descriptor_(descriptor), on_exit_(std::move(on_exit)), stop_(stop) {}

ExitNotices::~ExitNotices() {
  uint64_t one = 1;
  // The write cannot block, because an eventfd that was just made takes a number.
  [[maybe_unused]] ssize_t written = ::write(stop_, &one, sizeof(one));
  if (thread_.joinable()) thread_.join();
  ::close(stop_);
}

void ExitNotices::Run() {
  for (;;) {
    pollfd watched[2] = {{stop_, POLLIN, 0}, {descriptor_, POLLIN, 0}};
    int ready = ::poll(watched, 2, -1);
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0 || watched[0].revents != 0) return;
    if (watched[1].revents != 0 && !Read()) return;
  }
}

// Returns false at the end.
bool ExitNotices::Read() {
  char bytes[512];
  ssize_t count = ::read(descriptor_, bytes, sizeof(bytes));
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  if (count == 0) return false;
  text_.append(bytes, static_cast<size_t>(count));
  for (size_t end = text_.find('\n'); end != std::string::npos; end = text_.find('\n')) {
    TakeLine(text_.substr(0, end));
    text_.erase(0, end + 1);
  }
  if (text_.size() > kLineMax) text_.clear();
  return true;
}

void ExitNotices::TakeLine(const std::string& line) {
  if (!line.starts_with(kWord)) return;
  std::string_view rest = std::string_view(line).substr(kWord.size());
  size_t behind = rest.find(kWorker);
  std::optional<uint32_t> process = NumberIn(rest.substr(0, behind));
  std::optional<uint32_t> rank;
  if (behind != std::string_view::npos) {
    rank = NumberIn(rest.substr(behind + kWorker.size()));
    if (!rank.has_value()) return;
  }
  if (process.has_value()) on_exit_(*process, rank);
}

}  // namespace byteps::runtime
