#include "src/runtime/exit_notices.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <string_view>
#include <utility>

namespace byteps::runtime {
namespace {

constexpr std::string_view kWord = "exited ";
constexpr size_t kLineMax = 256;

}  // namespace

ExitNotices::ExitNotices(int descriptor, OnExit on_exit)
    : descriptor_(descriptor),
      on_exit_(std::move(on_exit)),
      stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this] { Run(); }) {}

ExitNotices::~ExitNotices() {
  uint64_t one = 1;
  // An eventfd that was just made takes a number.
  [[maybe_unused]] ssize_t written = ::write(stop_, &one, sizeof(one));
  thread_.join();
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

// False at the end.
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
  uint32_t process = 0;
  const char* last = line.data() + line.size();
  auto [end, error] = std::from_chars(line.data() + kWord.size(), last, process);
  if (error == std::errc() && end == last) on_exit_(process);
}

}  // namespace byteps::runtime
