#include "src/runtime/worker/lane_group.h"

#include <new>
#include <utility>

#include "src/runtime/loop_thread.h"

namespace byteps::runtime {

using protocol::FrontMail;
using protocol::LaneMail;

LaneGroup::LaneGroup(WorkerLanesParts parts)
    : loop_(parts.loop),
      events_(std::move(parts.events)),
      on_thread_(std::move(parts.on_lane_thread)),
      inbox_(loop_, [this](auto& all) { TakeNews(all); }) {
  const protocol::WorkerOptions& worker = parts.worker;
  for (uint32_t number = 0; number < worker.lanes; ++number) {
    auto lane = std::make_unique<Lane>();
    if (number > 0) lane->loop = parts.transport.MakeLoop();
    transport::Loop& home = lane->loop == nullptr ? loop_ : *lane->loop;
    lane->runner =
        std::make_unique<LaneRunner>(home, protocol::LaneOptionsOf(worker, number), parts.links,
                                     parts.identity, parts.log, EventsOf(number));
    if (number > 0) {
      auto take = [&runner = *lane->runner](std::vector<std::variant<LaneMail, Command>>& all) {
        for (auto& one : all) {
          if (auto* mail = std::get_if<LaneMail>(&one)) {
            runner.OnMail(std::move(*mail));
          } else {
            std::get<Command>(one)(runner);
          }
        }
      };
      lane->inbox = std::make_unique<Inbox<std::variant<LaneMail, Command>>>(home, take);
    }
    lanes_.push_back(std::move(lane));
  }
}

LaneGroup::~LaneGroup() { End(); }

void LaneGroup::Start() {
  for (uint32_t number = 1; number < lanes_.size(); ++number) {
    lanes_[number]->thread = std::thread([this, number] { Run(number); });
  }
}

// Runs the lane's loop. If a lane stops early, the whole engine stops: open operations cannot end
// without that lane.
void LaneGroup::Run(uint32_t number) noexcept {
  if (on_thread_ != nullptr) on_thread_(number);
  Status how = RunLoop(*lanes_[number]->loop);
  if (ends_) return;
  {
    MutexLock lock(mutex_);
    if (failure_.ok()) failure_ = how;
  }
  loop_.Stop();
}

Status LaneGroup::failure() {
  MutexLock lock(mutex_);
  return failure_;
}

void LaneGroup::End() noexcept {
  ends_ = true;
  for (auto& lane : lanes_) {
    if (lane->loop != nullptr) lane->loop->Stop();
  }
  for (auto& lane : lanes_) {
    if (lane->thread.joinable()) lane->thread.join();
  }
  for (auto& lane : lanes_) lane->runner->End();
}

LaneRunner::Events LaneGroup::EventsOf(uint32_t number) {
  LaneRunner::Events events;
  events.to_front = [this, number](FrontMail mail) {
    if (number == 0) {
      to_front_.push_back(std::move(mail));
    } else {
      inbox_.Put(std::move(mail));
    }
  };
  events.on_links = [this, number](uint64_t epoch, bool all_up) {
    Tell(number, [this, number, epoch, all_up] {
      lanes_[number]->up_epoch = all_up ? epoch : 0;
      events_.on_links();
    });
  };
  if (number == 0) {
    events.on_event = [this] { Deliver(); };
  } else {
    events.on_event = [] {};  // the lane reports results as mail
  }
  events.on_suspect = [this, number](const wire::Suspect& suspect) {
    Tell(number, [this, suspect] { events_.on_suspect(suspect); });
  };
  events.on_evicted = [this, number](const std::string& why) {
    Tell(number, [this, why] { events_.on_evicted(why); });
  };
  return events;
}

void LaneGroup::Tell(uint32_t lane, News work) {
  if (lane == 0) return work();
  inbox_.Put(std::move(work));
}

void LaneGroup::TakeNews(std::vector<std::variant<FrontMail, News>>& all) {
  for (auto& one : all) {
    if (auto* mail = std::get_if<FrontMail>(&one)) {
      events_.to_front(std::move(*mail));
    } else {
      std::get<News>(one)();
    }
  }
  Deliver();
}

void LaneGroup::Do(Lane& lane, Command work) {
  if (lane.inbox == nullptr) return work(*lane.runner);
  lane.inbox->Put(std::move(work));
}

// Queues the mail only. The front may be in the middle of telling all lanes the same, and must not
// get an answer before it has finished.
void LaneGroup::Send(uint32_t lane, LaneMail mail) noexcept {
  try {
    if (lane == 0) {
      to_first_.push_back(std::move(mail));
    } else {
      lanes_[lane]->inbox->Put(std::move(mail));
    }
  } catch (...) {
    lost_mail_ = true;
  }
}

void LaneGroup::Deliver() {
  if (std::exchange(delivering_, true)) return;
  while (!to_first_.empty() || !to_front_.empty()) {
    if (!to_first_.empty()) {
      LaneMail mail = std::move(to_first_.front());
      to_first_.pop_front();
      lanes_[0]->runner->OnMail(std::move(mail));
    } else {
      FrontMail mail = std::move(to_front_.front());
      to_front_.pop_front();
      events_.to_front(std::move(mail));
    }
  }
  delivering_ = false;
  if (lost_mail_) throw std::bad_alloc();
  events_.on_event();
}

bool LaneGroup::AllUp(uint64_t epoch) const {
  for (const auto& lane : lanes_) {
    if (lane->up_epoch != epoch) return false;
  }
  return true;
}

void LaneGroup::OnCoordinatorBack() {
  for (auto& lane : lanes_) {
    Do(*lane, [](LaneRunner& runner) { runner.OnCoordinatorBack(); });
  }
}

void LaneGroup::IgnoreAnswers(std::function<void()> done) {
  // The callbacks of all lanes share this counter. They change it on the owner's thread only.
  auto awaited = std::make_shared<size_t>(lanes_.size());
  for (uint32_t number = 0; number < lanes_.size(); ++number) {
    Do(*lanes_[number], [this, number, awaited, done](LaneRunner& runner) {
      runner.IgnoreAnswers();
      Tell(number, [awaited, done] {
        if (--*awaited == 0) done();
      });
    });
  }
}

void LaneGroup::Close(const Status&) {
  for (auto& lane : lanes_) {
    Do(*lane, [](LaneRunner& runner) { runner.Close(); });
  }
}

}  // namespace byteps::runtime
