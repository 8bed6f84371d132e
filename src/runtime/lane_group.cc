#include "src/runtime/lane_group.h"

namespace byteps::runtime {

LaneGroup::LaneGroup(transport::Transport& transport, transport::Loop& loop,
                     const protocol::WorkerOptions& worker, const ShardLinkOptions& links,
                     const JobIdentity& identity, Log& log, Events events)
    : loop_(loop), events_(std::move(events)) {
  for (uint32_t lane = 0; lane < worker.lanes; ++lane) {
    auto made = std::make_unique<Thread>();
    if (lane > 0) made->loop = transport.MakeLoop();
    made->runner = std::make_unique<LaneRunner>(made->loop == nullptr ? loop_ : *made->loop,
                                                protocol::LaneOptionsOf(worker, lane), links,
                                                identity, log, EventsOf(lane));
    lanes_.push_back(std::move(made));
  }
  for (auto& lane : lanes_) {
    if (lane->loop != nullptr) lane->thread = std::thread([&loop = *lane->loop] { loop.Run(); });
  }
}

LaneGroup::~LaneGroup() {
  for (auto& lane : lanes_) {
    if (lane->loop != nullptr) lane->loop->Stop();
  }
  for (auto& lane : lanes_) {
    if (lane->thread.joinable()) lane->thread.join();
  }
}

LaneRunner::Events LaneGroup::EventsOf(uint32_t lane) {
  LaneRunner::Events events;
  events.to_front = [this, lane](protocol::FrontMail mail) {
    if (lane == 0) {
      to_front_.push_back(std::move(mail));
    } else {
      Tell(lane, [this, mail = std::move(mail)] { events_.to_front(mail); });
    }
  };
  events.on_links = [this, lane](uint64_t epoch, bool all_up) {
    Tell(lane, [this, lane, epoch, all_up] {
      lanes_[lane]->up_epoch = all_up ? epoch : 0;
      events_.on_links();
    });
  };
  if (lane == 0) {
    events.on_event = [this] { Deliver(); };
  } else {
    events.on_event = [] {};  // what came of it is mail
  }
  events.on_suspect = [this, lane](const wire::Suspect& suspect) {
    Tell(lane, [this, suspect] { events_.on_suspect(suspect); });
  };
  events.on_evicted = [this, lane](const std::string& why) {
    Tell(lane, [this, why] { events_.on_evicted(why); });
  };
  return events;
}

void LaneGroup::Tell(uint32_t lane, std::function<void()> work) {
  if (lane == 0) return work();
  loop_.Post([this, work = std::move(work)] {
    work();
    Deliver();
  });
}

void LaneGroup::Do(Thread& lane, std::function<void(LaneRunner&)> work) {
  if (lane.loop == nullptr) return work(*lane.runner);
  lane.loop->Post([&runner = *lane.runner, work = std::move(work)] { work(runner); });
}

void LaneGroup::Send(uint32_t lane, protocol::LaneMail mail) {
  if (lane == 0) {
    to_first_.push_back(std::move(mail));
  } else {
    Do(*lanes_[lane], [mail = std::move(mail)](LaneRunner& runner) { runner.OnMail(mail); });
  }
}

void LaneGroup::Deliver() {
  if (std::exchange(delivering_, true)) return;
  while (!to_first_.empty() || !to_front_.empty()) {
    if (!to_first_.empty()) {
      protocol::LaneMail mail = std::move(to_first_.front());
      to_first_.pop_front();
      lanes_[0]->runner->OnMail(std::move(mail));
    } else {
      protocol::FrontMail mail = std::move(to_front_.front());
      to_front_.pop_front();
      events_.to_front(std::move(mail));
    }
  }
  delivering_ = false;
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
  auto awaited = std::make_shared<size_t>(lanes_.size());
  for (uint32_t lane = 0; lane < lanes_.size(); ++lane) {
    Do(*lanes_[lane], [this, lane, awaited, done](LaneRunner& runner) {
      runner.IgnoreAnswers();
      Tell(lane, [awaited, done] {
        if (--*awaited == 0) done();
      });
    });
  }
}

void LaneGroup::Close() {
  for (auto& lane : lanes_) {
    Do(*lane, [](LaneRunner& runner) { runner.Close(); });
  }
}

}  // namespace byteps::runtime
