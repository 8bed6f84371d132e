#include "src/local/life_watch.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace byteps::local {

Result<std::unique_ptr<LifeWatch>> LifeWatch::Start(std::vector<UniqueFd> life_fds, OnEnd on_end) {
  UniqueFd stop(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop) {
    return Status(StatusCode::kExhausted, std::string("no eventfd: ") + std::strerror(errno));
  }
  return std::make_unique<LifeWatch>(std::move(life_fds), std::move(stop), std::move(on_end));
}

LifeWatch::LifeWatch(std::vector<UniqueFd> life_fds, UniqueFd stop, OnEnd on_end)
    : life_fds_(std::move(life_fds)),
      stop_(std::move(stop)),
      on_end_(std::move(on_end)),
      thread_([this] { Watch(); }) {}

LifeWatch::~LifeWatch() {
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void LifeWatch::Watch() {
  std::vector<pollfd> polled;
  for (const UniqueFd& fd : life_fds_) polled.push_back({fd.get(), POLLIN, 0});
  polled.push_back({stop_.get(), POLLIN, 0});
  while (true) {
    if (poll(polled.data(), polled.size(), -1) < 0) continue;
    if (polled.back().revents != 0) return;
    for (uint32_t i = 0; i < life_fds_.size(); ++i) {
      if (polled[i].fd < 0 || polled[i].revents == 0) continue;
      polled[i].fd = -1;  // poll passes over it
      on_end_(i);
    }
  }
}

}  // namespace byteps::local
